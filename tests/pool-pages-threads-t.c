/*
 * Tests pools and arenas over a base whose chunks may be joined with several threads: blocks of whole units of 64 KiB,
 * each of which is marked in a table while it is in use. The stacks have room for what the threads hold, and little
 * more, so chunks are mapped elsewhere all the time.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "point.h"
#include "tap.h"

#define THREADS 4
#define STEPS   4000
#define OWN     12
#define UNIT    UINT64_C(65536)
#define UNITS   (UINT64_C(1) << 22) /* 256 GiB of addresses */

struct block {
    char *pointer; /* NULL: none */
    uint64_t units;
};

struct worker {
    pthread_t thread;
    uint64_t seed;
    struct block own[OWN];
};

static struct tide_resource *stack;
static char *first; /* address of the first block */
static _Atomic unsigned char marks[UNITS];
static _Atomic uint64_t overlaps, refusals, wrong, outside;

/* Mark the units of a block as in use, or as free. */
static void
block_mark(const struct block *block, unsigned char mark)
{
    uint64_t unit = (uint64_t)(block->pointer - first) / UNIT + UNITS / 2;

    for (uint64_t i = unit; i < unit + block->units; i++) {
        if (i >= UNITS)
            atomic_fetch_add(&outside, 1);
        else if (atomic_exchange(&marks[i], mark) == mark)
            atomic_fetch_add(&overlaps, 1);
    }
}

static void
block_new(struct worker *worker, struct block *block)
{
    void *pointer;

    block->units = 1 + contract_random(&worker->seed) % (UINT64_C(1) << contract_random(&worker->seed) % 8);
    if (tide_allocate(stack, block->units * UNIT, UNIT, contract_random(&worker->seed) % 3, &pointer) != TIDE_OK) {
        atomic_fetch_add(&refusals, 1);
        return;
    }
    block->pointer = pointer;
    block_mark(block, 1);
}

static void
block_end(struct worker *worker, struct block *block)
{
    block_mark(block, 0);
    if (tide_deallocate(stack, block->pointer, block->units * UNIT, UNIT, contract_random(&worker->seed) % 3) !=
        TIDE_OK)
        atomic_fetch_add(&wrong, 1);
    block->pointer = NULL;
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < STEPS; i++) {
        struct block *block = &worker->own[contract_random(&worker->seed) % OWN];
        uint64_t what = contract_random(&worker->seed) % 1000;

        if (what == 0)
            atomic_fetch_add(&wrong, tide_trim(stack, 16 << 20) != TIDE_OK);
        else if (what == 1)
            atomic_fetch_add(&wrong, tide_order(stack, TIDE_STREAM_ALL, 0) != TIDE_OK);
        else if (block->pointer == NULL)
            block_new(worker, block);
        else
            block_end(worker, block);
    }
    return NULL;
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value = UINT64_MAX;

    tide_query(resource, what, &value);
    return value;
}

static void
check_stack(const char *text, uint64_t seed, bool may_refuse)
{
    static struct worker workers[THREADS];
    struct tide_resource *base;
    void *pointer;

    overlaps = refusals = wrong = outside = 0;
    if (tide_stack_parse(text, &stack) != TIDE_OK || tide_allocate(stack, 1, 256, 0, &pointer) != TIDE_OK)
        abort();
    first = (char *)((uintptr_t)pointer & ~(UNIT - 1));
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].seed = seed + i + 1;
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (size_t i = 0; i < THREADS * OWN; i++) {
        if (workers[i / OWN].own[i % OWN].pointer != NULL)
            block_end(&workers[i / OWN], &workers[i / OWN].own[i % OWN]);
    }
    ok(all_of(overlaps == 0, wrong == 0, outside == 0), "%s: no unit of memory is with two threads", text);
    ok(may_refuse || refusals == 0, "%s: no request is refused but by a bound or a fault", text);
    diag("%d refusals", (int)refusals);
    tide_deallocate(stack, pointer, 1, 256, 0);
    tide_trim(stack, 0);
    for (base = stack; base->upstream != NULL; base = base->upstream)
        ;
    ok(all_of(figure(stack, TIDE_QUERY_BYTES_USED) == 0, figure(base, TIDE_QUERY_BYTES_RESERVED) == 0),
       "%s: after all frees the base has every page back", text);
    tide_resource_release(stack);
}

/* A base of pages that has addresses for one block of a page: where it comes back, the next request gets it. */
struct one {
    struct tide_resource base;
    _Atomic bool live;
    _Atomic unsigned refused;
};

#define ONE_ADDRESS ((void *)(UINT64_C(1) << 40))
#define ONE_PAGE    (UINT64_C(2) << 20)

static enum tide_status
one_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct one *one = (struct one *)self;

    (void)alignment;
    (void)stream;
    *out = NULL;
    if (bytes != ONE_PAGE || atomic_exchange(&one->live, true))
        return tide_error_set(TIDE_ECAPACITY, "one: no other block");
    *out = ONE_ADDRESS;
    return TIDE_OK;
}

static enum tide_status
one_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct one *one = (struct one *)self;

    (void)alignment;
    (void)stream;
    if (pointer != ONE_ADDRESS || bytes != ONE_PAGE || !atomic_exchange(&one->live, false))
        atomic_fetch_add(&one->refused, 1);
    return TIDE_OK;
}

static enum tide_status
one_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    *out = ONE_PAGE;
    return what == TIDE_QUERY_PAGE || what == TIDE_QUERY_ALIGNMENT ? TIDE_OK : tide_base_query(self, what, out);
}

static void
one_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
}

static const struct tide_resource_ops one_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "one",
    .allocate = one_allocate,
    .deallocate = one_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = one_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = one_destroy,
};

#define RETURNING_TESTS 2

static _Atomic bool returning_done;

static void *
returning_trim(void *context)
{
    (void)context;
    atomic_fetch_add(&wrong, tide_trim(stack, 0) != TIDE_OK);
    return NULL;
}

static void *
returning_allocate(void *context)
{
    if (tide_allocate(stack, UNIT, 256, 0, context) != TIDE_OK) {
        diag("%s", tide_error_text());
        atomic_fetch_add(&refusals, 1);
    }
    atomic_store(&returning_done, true);
    return NULL;
}

/* One thread has given a chunk back and is yet to note it; another one gets the same addresses from the base. */
static void
check_returning(void)
{
    pthread_t trims, allocates;
    void *pointer = NULL, *again = NULL;
    struct one one = { .live = false };
    struct tide_pool_options options = { TIDE_OPTIONS(options) };

    refusals = wrong = 0;
    if (tide_resource_init(&one.base, &one_ops, NULL) != TIDE_OK ||
        tide_pool_create(&one.base, &options, &stack) != TIDE_OK ||
        tide_allocate(stack, UNIT, 256, 0, &pointer) != TIDE_OK ||
        tide_deallocate(stack, pointer, UNIT, 256, 0) != TIDE_OK)
        abort();
    point_arm("chunk-heap.returned", NULL);
    pthread_create(&trims, NULL, returning_trim, NULL);
    point_wait();
    point_count("chunk-heap.awaits-returned");
    pthread_create(&allocates, NULL, returning_allocate, &again);
    while (!atomic_load(&returning_done) && point_count("chunk-heap.awaits-returned") == 0)
        sched_yield();
    point_release();
    pthread_join(trims, NULL);
    pthread_join(allocates, NULL);
    ok(all_of(refusals == 0, wrong == 0, again == pointer),
       "a pool waits for the note of a thread whose returned chunk it was given");
    tide_deallocate(stack, again, UNIT, 256, 0);
    tide_trim(stack, 0);
    ok(all_of(!one.live, one.refused == 0), "and gives the chunk back in the end");
    tide_resource_release(stack);
    tide_resource_release(&one.base);
}

int
main(void)
{
    uint64_t seed = contract_seed(20261126);

    plan(3 * 7 + RETURNING_TESTS);
    check_returning();
    check_stack("pool | sim(model=vmm)", seed, false);
    check_stack("pool(maximum=48MiB) | sim(model=vmm, page=256KiB)", seed + 100, true);
    check_stack("pool(release_threshold=0) | sim(model=vmm, page=64KiB)", seed + 200, false);
    check_stack("pool | fault(probability=20%) | sim(model=vmm, capacity=64MiB)", seed + 300, true);
    check_stack("arena | fault(every=7) | sim(model=vmm)", seed + 400, true);
    check_stack("pool(decay=8) | sim(model=vmm)", seed + 500, false);
    check_stack("pool(decay=8) | sim(model=driver)", seed + 600, false);
    return done();
}
