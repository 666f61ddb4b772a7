/* Checks the promises of include/tidemark/resource.h for any resource, through the public interface alone. */
#include "contract.h"

#include <pthread.h>

#include "tap.h"

#define LIVE_MOST    64
#define THREAD_COUNT 4
#define THREAD_STEPS 4000

struct block {
    void *pointer;
    size_t bytes;
    size_t alignment;
};

/* The live blocks of all threads, to see whether any two overlap. */
struct ledger {
    pthread_mutex_t lock;
    struct block live[THREAD_COUNT * LIVE_MOST];
    size_t count;
    uint64_t overlaps;
    uint64_t misaligned;
    uint64_t failures;
};

struct worker {
    pthread_t thread;
    struct tide_resource *resource;
    struct ledger *ledger;
    size_t largest_bytes;
    uint64_t seed;
};

uint64_t
contract_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t
contract_seed(uint64_t otherwise)
{
    const char *text = getenv("TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 0;

    seed = seed != 0 ? seed : otherwise;
    diag("TEST_SEED=%" PRIu64, seed);
    return seed;
}

static uint64_t
used_bytes(struct tide_resource *resource)
{
    uint64_t bytes;

    return tide_query(resource, TIDE_QUERY_BYTES_USED, &bytes) == TIDE_OK ? bytes : 0;
}

static bool
overlaps(const struct block *a, const struct block *b)
{
    uintptr_t a_first = (uintptr_t)a->pointer;
    uintptr_t b_first = (uintptr_t)b->pointer;

    return a_first < b_first + b->bytes && b_first < a_first + a->bytes;
}

static void
ledger_add(struct ledger *ledger, const struct block *block)
{
    pthread_mutex_lock(&ledger->lock);
    if ((uintptr_t)block->pointer % block->alignment != 0)
        ledger->misaligned++;
    for (size_t i = 0; i < ledger->count; i++)
        ledger->overlaps += overlaps(&ledger->live[i], block);
    ledger->live[ledger->count++] = *block;
    pthread_mutex_unlock(&ledger->lock);
}

static void
ledger_remove(struct ledger *ledger, const struct block *block)
{
    pthread_mutex_lock(&ledger->lock);
    for (size_t i = 0; i < ledger->count; i++) {
        if (ledger->live[i].pointer == block->pointer) {
            ledger->live[i] = ledger->live[--ledger->count];
            break;
        }
    }
    pthread_mutex_unlock(&ledger->lock);
}

static void
ledger_fail(struct ledger *ledger)
{
    pthread_mutex_lock(&ledger->lock);
    ledger->failures++;
    pthread_mutex_unlock(&ledger->lock);
}

/* Free a block. The ledger removes it first: another thread may be given its address at once. */
static void
worker_free(struct worker *worker, struct block *block, tide_stream stream)
{
    ledger_remove(worker->ledger, block);
    if (tide_deallocate(worker->resource, block->pointer, block->bytes, block->alignment, stream) != TIDE_OK)
        ledger_fail(worker->ledger);
    block->pointer = NULL;
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct block blocks[LIVE_MOST] = { 0 };

    for (int i = 0; i < THREAD_STEPS; i++) {
        struct block *block = &blocks[contract_random(&worker->seed) % LIVE_MOST];
        tide_stream stream = contract_random(&worker->seed) % 3;

        if (block->pointer != NULL) {
            worker_free(worker, block, stream);
            continue;
        }
        block->bytes = 1 + contract_random(&worker->seed) % worker->largest_bytes;
        block->alignment = (size_t)1 << contract_random(&worker->seed) % 9;
        if (tide_allocate(worker->resource, block->bytes, block->alignment, stream, &block->pointer) != TIDE_OK)
            ledger_fail(worker->ledger);
        else
            ledger_add(worker->ledger, block);
    }
    for (size_t i = 0; i < LIVE_MOST; i++) {
        if (blocks[i].pointer != NULL)
            worker_free(worker, &blocks[i], 0);
    }
    return NULL;
}

static void
check_traffic(const struct contract *contract, struct tide_resource *resource, size_t thread_count, uint64_t seed)
{
    struct ledger ledger = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct worker workers[THREAD_COUNT];
    uint64_t used = used_bytes(resource);

    for (size_t i = 0; i < thread_count; i++) {
        workers[i] = (struct worker){
            .resource = resource, .ledger = &ledger, .largest_bytes = contract->largest_bytes, .seed = seed + 1000 * i
        };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (size_t i = 0; i < thread_count; i++)
        pthread_join(workers[i].thread, NULL);
    if (contract->counts_kept)
        tide_trim(resource, 0);
    ok(ledger.failures == 0, "%s: every request and every free of %zu threads succeeds", contract->name, thread_count);
    ok(ledger.overlaps == 0, "%s: live blocks of %zu threads never overlap", contract->name, thread_count);
    ok(ledger.misaligned == 0, "%s: each address given to %zu threads has the requested alignment", contract->name,
       thread_count);
    ok(used_bytes(resource) == used, "%s: nothing is left in use after %zu threads", contract->name, thread_count);
}

static void
check_zero_bytes(const struct contract *contract, struct tide_resource *resource)
{
    void *pointer = &pointer;

    ok(all_of(tide_allocate(resource, 0, TIDE_DEFAULT_ALIGNMENT, 0, &pointer) == TIDE_OK, pointer == NULL),
       "%s: 0 bytes succeed with NULL", contract->name);
    ok(tide_deallocate(resource, NULL, 0, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK, "%s: 0 bytes at NULL can be freed",
       contract->name);
}

/* Whether a request is refused, as a layer above sees it: tide_allocate would clear the pointer itself. */
static bool
is_refused(struct tide_resource *resource, size_t bytes, size_t alignment)
{
    void *pointer = &pointer;

    return resource->ops->allocate(resource, bytes, alignment, 0, &pointer) != TIDE_OK && pointer == NULL;
}

/* A block stays allocated meanwhile, so that a layer with chunks has one. */
static void
check_refusals(const struct contract *contract, struct tide_resource *resource)
{
    void *pointer = &pointer, *block = NULL;
    uint64_t used;

    tide_allocate(resource, 1, 1, 0, &block);
    used = used_bytes(resource);
    ok(all_of(tide_allocate(resource, 1, 3, 0, &pointer) == TIDE_EINVAL, pointer == NULL),
       "%s: an alignment that is no power of two is refused", contract->name);
    ok(all_of(tide_allocate(resource, 1, 0, 0, &pointer) == TIDE_EINVAL,
              tide_allocate(resource, 1, 1, 0, NULL) == TIDE_EINVAL),
       "%s: alignment 0 and NULL are refused", contract->name);
    ok(all_of(is_refused(resource, SIZE_MAX, 1), is_refused(resource, SIZE_MAX, 256)), "%s: SIZE_MAX bytes are refused",
       contract->name);
    ok(all_of(tide_error_text()[0] != '\0', strchr(tide_error_text(), '\n') == NULL),
       "%s: the refusal has a line of text", contract->name);
    ok(all_of(is_refused(resource, SIZE_MAX - 256 * 1024, 1), is_refused(resource, SIZE_MAX - 256 * 1024, 256)),
       "%s: SIZE_MAX - 256 KiB bytes are refused", contract->name);
    ok(used_bytes(resource) == used, "%s: refused requests change no figure", contract->name);
    tide_deallocate(resource, block, 1, 1, 0);
}

static void
check_queries(const struct contract *contract, struct tide_resource *resource)
{
    uint64_t figure = 5;

    ok(all_of(tide_query(resource, (enum tide_query)1000, &figure) == TIDE_EUNSUPPORTED, figure == 0),
       "%s: an unknown figure is unsupported and 0", contract->name);
    ok(tide_order(resource, 0, 0) == TIDE_OK, "%s: a stream can be ordered after itself", contract->name);
}

static void
check_shape(const struct contract *contract, struct tide_resource *resource)
{
    struct tide_upstream edge;
    char whole[512] = "";
    char cut[4] = "";
    struct tide_text whole_text = { .data = whole, .capacity = sizeof(whole) };
    struct tide_text cut_text = { .data = cut, .capacity = sizeof(cut) };
    size_t edges = 0;

    while (resource->ops->upstream_at(resource, edges, &edge) == TIDE_OK && edge.resource != NULL)
        edges++;
    ok((edges == 0) == (resource->upstream == NULL), "%s: its list of upstreams is right", contract->name);
    resource->ops->describe(resource, &whole_text);
    resource->ops->describe(resource, &cut_text);
    ok(all_of(whole_text.length == cut_text.length, strncmp(whole, cut, sizeof(cut) - 1) == 0),
       "%s: it describes itself the same into a short buffer", contract->name);
    ok(strcmp(tide_resource_name(resource), contract->name) == 0, "%s: it reports its own name", contract->name);
}

static void
check_trim(const struct contract *contract, struct tide_resource *resource)
{
    void *pointer, *other;

    ok(tide_trim(resource, 0) == TIDE_OK && tide_allocate(resource, 1, 1, 0, &pointer) == TIDE_OK &&
           tide_trim(resource, 0) == TIDE_OK && tide_trim(resource, UINT64_MAX) == TIDE_OK &&
           tide_allocate(resource, 1, 1, 0, &other) == TIDE_OK && other != pointer &&
           tide_deallocate(resource, pointer, 1, 1, 0) == TIDE_OK &&
           tide_deallocate(resource, other, 1, 1, 0) == TIDE_OK && tide_trim(resource, 0) == TIDE_OK,
       "%s: a trim leaves blocks in use alone", contract->name);
}

static void
check_wrong_frees(const struct contract *contract, struct tide_resource *resource)
{
    size_t bytes = contract->largest_bytes;
    void *pointer;

    if (!contract->knows_pointers) {
        skip(1, "it does not know its pointers");
        return;
    }
    ok(all_of(tide_allocate(resource, bytes, 256, 0, &pointer) == TIDE_OK,
              tide_deallocate(resource, &pointer, bytes, 256, 0) != TIDE_OK,
              tide_deallocate(resource, pointer, bytes, 256, 0) == TIDE_OK,
              tide_deallocate(resource, pointer, bytes, 256, 0) != TIDE_OK),
       "%s: an unknown pointer and a second free are refused", contract->name);
}

void
contract_check(const struct contract *contract)
{
    uint64_t seed = contract_seed(20250301);
    struct tide_resource *resource = contract->create(contract->context);

    check_zero_bytes(contract, resource);
    check_refusals(contract, resource);
    check_queries(contract, resource);
    check_shape(contract, resource);
    check_trim(contract, resource);
    check_wrong_frees(contract, resource);
    check_traffic(contract, resource, 1, seed);
    tide_resource_release(resource);

    resource = contract->create(contract->context);
    tide_resource_release(tide_resource_retain(resource));
    check_traffic(contract, resource, THREAD_COUNT, seed);
    tide_resource_release(resource);
}
