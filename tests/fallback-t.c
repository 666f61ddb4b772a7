/* Tests adaptors/fallback.c. */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "tap.h"
#include "upstream.h"

#define KIB     ((size_t)1 << 10)
#define THREADS 4
#define STEPS   4000
#define LIVE    16

/* A fallback over two resources. Takes over the references. */
static struct tide_resource *
over(struct tide_resource *first, struct tide_resource *second, bool any)
{
    struct tide_fallback_options options = { TIDE_OPTIONS(options), .any = any };
    struct tide_resource *fallback;

    if (tide_fallback_create(first, second, &options, &fallback) != TIDE_OK)
        abort();
    tide_resource_release(first);
    tide_resource_release(second);
    return fallback;
}

static enum tide_status
take(struct tide_resource *resource, size_t bytes, void **out)
{
    return tide_allocate(resource, bytes, TIDE_DEFAULT_ALIGNMENT, 0, out);
}

static enum tide_status
give(struct tide_resource *resource, void *pointer, size_t bytes)
{
    return tide_deallocate(resource, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

/* Two upstreams whose addresses differ. */
static void
make_two(struct upstream **first, struct upstream **second)
{
    *first = upstream_create();
    *second = upstream_create();
    (*second)->next_address *= 2;
}

static uint64_t
served(struct tide_resource *fallback)
{
    struct tide_fallback_figures figures = { TIDE_FIGURES(figures) };

    return tide_fallback_read(fallback, &figures) == TIDE_OK ? figures.served : UINT64_MAX;
}

#define WAY_TESTS 17

static void
check_ways(void)
{
    struct upstream *first, *second;
    struct tide_resource *fallback;
    void *a, *b, *c = &c, *zero = &zero;

    make_two(&first, &second);
    fallback = over(&first->base, &second->base, false);
    first->capacity_bytes = 1000;
    second->capacity_bytes = 1000;
    ok(all_of(take(fallback, 600, &a) == TIDE_OK, first->live_bytes == 600, second->allocate_calls == 0),
       "the first resource serves a request that it has room for");
    ok(all_of(take(fallback, 600, &b) == TIDE_OK, first->live_bytes == 600, second->live_bytes == 600),
       "the second resource serves a request that the first has no room for");
    is_u64(served(fallback), 1, "a request that the second resource served is counted");
    ok(all_of(take(fallback, 600, &c) == TIDE_ECAPACITY, c == NULL),
       "a request that neither resource has room for fails, with NULL");
    is_string(tide_error_text(),
              "fallback: upstream: 600 bytes exceed its capacity; then upstream: 600 bytes exceed its capacity",
              "the error has the texts of both resources");
    ok(all_of(give(fallback, b, 600) == TIDE_OK, second->live_bytes == 0, first->live_bytes == 600),
       "a free goes to the second resource if the block is its own");
    ok(all_of(give(fallback, a, 600) == TIDE_OK, first->live_bytes == 0),
       "a free goes to the first resource if the block is its own");
    ok(all_of(take(fallback, 600, &a) == TIDE_OK, first->live_bytes == 600),
       "the first resource serves again after a free");
    ok(all_of(give(fallback, b, 600) == TIDE_EPOINTER, first->wrong_frees == 1, second->wrong_frees == 0),
       "a second free of a block is refused by the first resource");
    give(fallback, a, 600);
    first->wrong_frees = 0;

    first->fail_allocate = 1;
    first->fail_status = TIDE_ELIMIT;
    ok(all_of(take(fallback, 0, &zero) == TIDE_OK, zero == NULL, second->deallocate_calls == 1),
       "a failure at a limit is passed to the second resource");
    ok(all_of(give(fallback, zero, 0) == TIDE_OK, second->deallocate_calls == 2),
       "0 bytes are freed where they were allocated");
    first->fail_allocate = 1;
    first->fail_status = TIDE_EDRIVER;
    ok(all_of(take(fallback, 1, &a) == TIDE_EDRIVER, second->live_count == 0),
       "a failure for another reason than memory is not passed to the second resource");

    first->fail_allocate = 1;
    first->fail_status = TIDE_ECAPACITY;
    take(fallback, 10, &a);
    second->fail_deallocate = 1;
    ok(all_of(give(fallback, a, 10) == TIDE_EDRIVER, give(fallback, a, 10) == TIDE_OK, second->live_count == 0),
       "a block whose free the second resource has refused can be freed again");
    ok(all_of(first->wrong_frees == 0, second->wrong_frees == 0, first->live_count == 0),
       "after failed frees no block is lost");
    ok(all_of(give(fallback, a, 10) == TIDE_EPOINTER, first->wrong_frees == 1),
       "a second free of the same pointer is refused");
    tide_resource_release(fallback);

    make_two(&first, &second);
    fallback = over(&first->base, &second->base, true);
    first->fail_allocate = 1;
    first->fail_status = TIDE_EINVAL;
    ok(all_of(take(fallback, 1, &a) == TIDE_OK, give(fallback, a, 1) == TIDE_OK, second->allocate_calls == 1),
       "with any=true every failure is passed to the second resource");
    ok(first->live_count + second->live_count == 0, "with any=true no block is lost");
    tide_resource_release(fallback);
}

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t seen;

    return tide_query(resource, what, &seen) == TIDE_OK ? seen : UINT64_MAX;
}

/* The largest request of a fallback over blocks of two sizes. */
static uint64_t
largest_request(size_t first_bytes, size_t second_bytes)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = first_bytes };
    struct tide_resource *sim = base_sim(0), *first, *second, *fallback;
    uint64_t largest;

    if (tide_fixed_create(sim, &options, &first) != TIDE_OK)
        abort();
    options.block_bytes = second_bytes;
    if (tide_fixed_create(sim, &options, &second) != TIDE_OK)
        abort();
    tide_resource_release(sim);
    fallback = over(first, second, false);
    largest = figure(fallback, TIDE_QUERY_LARGEST_REQUEST);
    tide_resource_release(fallback);
    return largest;
}

#define SHAPE_TESTS 18

static void
check_shape(void)
{
    struct upstream *first, *second;
    struct tide_resource *fallback, *host = base_host(5000), *sim = base_sim(7000), *limit;
    struct tide_limit_options options = { TIDE_OPTIONS(options), .limit_bytes = 500, .alignment = 1 };
    struct tide_upstream edge;
    bool gone[2] = { 0 };
    void *a, *b;

    make_two(&first, &second);
    first->destroyed = &gone[0];
    second->destroyed = &gone[1];
    fallback = over(&first->base, &second->base, false);
    ok(all_of(fallback->ops->upstream_at(fallback, 0, &edge) == TIDE_OK, edge.resource == &second->base),
       "the first listed upstream is the second resource");
    ok(all_of(fallback->ops->upstream_at(fallback, 1, &edge) == TIDE_OK, edge.resource == &first->base,
              edge.limit_bytes == UINT64_MAX, fallback->ops->upstream_at(fallback, 2, &edge) == TIDE_EINVAL),
       "the second listed upstream is the first resource, and there is no third");
    first->fail_allocate = 2;
    take(fallback, 100, &a);
    take(fallback, 10, &b);
    ok(figure(fallback, TIDE_QUERY_BYTES_USED) == 110, "the bytes used are those of both resources");
    ok(figure(fallback, TIDE_QUERY_DEVICE) == UINT64_MAX, "a figure that one resource does not know is unknown");
    first->order_all_status = TIDE_EDRIVER;
    ok(all_of(tide_order(fallback, 3, 4) == TIDE_OK, first->last_later == 4, second->last_later == 4),
       "streams are ordered in both resources");
    ok(all_of(tide_order(fallback, TIDE_STREAM_ALL, 4) == TIDE_EDRIVER, second->order_all_calls == 1),
       "an order reaches both resources although one fails, and the failure is returned");
    ok(all_of(tide_trim(fallback, 5) == TIDE_OK, first->last_keep_bytes == 5, second->last_keep_bytes == 5),
       "a trim reaches both resources");
    tide_resource_release(fallback);
    ok(all_of(gone[0], gone[1]), "both resources are destroyed with the layer");

    fallback = over(host, sim, false);
    is_u64(figure(fallback, TIDE_QUERY_CAPACITY), 12000, "the capacity is the sum of both");
    is_u64(figure(fallback, TIDE_QUERY_HOST_ACCESS), 0, "the host has access only if it has access to both");
    ok(all_of(take(fallback, 4999, &a) == TIDE_OK, take(fallback, 100, &b) == TIDE_OK,
              figure(fallback, TIDE_QUERY_BYTES_USED) == 5099,
              figure(fallback, TIDE_QUERY_BYTES_USED_HIGH) == UINT64_MAX),
       "the highest bytes used are unknown");
    ok(all_of(give(fallback, a, 4999) == TIDE_OK, give(fallback, b, 100) == TIDE_OK,
              figure(fallback, TIDE_QUERY_BYTES_USED) == 0),
       "after all frees nothing is left in use");
    tide_resource_release(fallback);

    is_u64(largest_request(256, KIB), KIB, "the largest request is that of the second resource if it is larger");
    is_u64(largest_request(KIB, 256), KIB, "the largest request is that of the first resource if it is larger");

    second = upstream_create();
    if (tide_limit_create(&second->base, &options, &limit) != TIDE_OK)
        abort();
    fallback = over(limit, &second->base, false);
    ok(all_of(take(fallback, 400, &a) == TIDE_OK, take(fallback, 400, &b) == TIDE_OK, served(fallback) == 1),
       "a request served by a second resource that the first also falls back to is counted once");
    is_u64(figure(fallback, TIDE_QUERY_BYTES_USED), 800, "the bytes used of a shared second resource count once");
    ok(all_of(tide_order(fallback, 3, 4) == TIDE_OK, second->order_calls == 1),
       "the streams of a shared second resource are ordered once");
    ok(all_of(give(fallback, b, 400) == TIDE_OK, give(fallback, a, 400) == TIDE_OK, second->wrong_frees == 0,
              second->live_count == 0),
       "blocks of a shared second resource go back to it");
    tide_resource_release(fallback);
}

static struct tide_resource *between;
static void *between_pointer;

static void
take_between(void *context)
{
    ((struct upstream *)context)->fail_allocate = 1;
    take(between, 10, &between_pointer);
}

#define REUSE_TESTS 2

/* The second resource gives an address out again before its free has returned. */
static void
check_reuse(void)
{
    struct upstream *first, *second;
    struct gate *gate;
    void *pointer;

    make_two(&first, &second);
    gate = gate_create(&second->base);
    second->reuse = true;
    between = over(&first->base, &gate->base, false);
    first->fail_allocate = 1;
    take(between, 10, &pointer);
    gate->after_deallocate = take_between;
    gate->context = first;
    ok(all_of(give(between, pointer, 10) == TIDE_OK, between_pointer == pointer),
       "an address that the second resource gives out again during its free is allocated");
    ok(all_of(give(between, between_pointer, 10) == TIDE_OK, second->live_count == 0, first->wrong_frees == 0),
       "an address that was given out again during its free is freed where it belongs");
    tide_resource_release(between);
}

static void *
run(void *context)
{
    uint64_t state = (uintptr_t)&state, wrong = 0;
    void *live[LIVE] = { 0 };
    size_t sizes[LIVE];

    for (int i = 0; i < STEPS; i++) {
        size_t place = contract_random(&state) % LIVE;

        if (live[place] != NULL) {
            wrong += give(context, live[place], sizes[place]) != TIDE_OK;
            live[place] = NULL;
        } else {
            sizes[place] = 1 + contract_random(&state) % 100;
            wrong += take(context, sizes[place], &live[place]) != TIDE_OK;
        }
    }
    for (size_t i = 0; i < LIVE; i++)
        wrong += live[i] != NULL && give(context, live[i], sizes[i]) != TIDE_OK;
    return (void *)(uintptr_t)wrong;
}

#define THREAD_TESTS 3

static void
check_threads(void)
{
    struct upstream *first, *second;
    struct tide_resource *fallback;
    pthread_t threads[THREADS];
    uint64_t wrong = 0;

    make_two(&first, &second);
    fallback = over(&first->base, &second->base, false);
    first->capacity_bytes = 200;
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, fallback);
    for (size_t i = 0; i < THREADS; i++) {
        void *seen;

        pthread_join(threads[i], &seen);
        wrong += (uintptr_t)seen;
    }
    is_u64(wrong, 0, "threads are served by both resources");
    ok(all_of(first->live_count == 0, second->live_count == 0, first->wrong_frees + second->wrong_frees == 0),
       "all blocks of the threads go back to their resources");
    ok(all_of(served(fallback) == second->deallocate_calls, served(fallback) > 0),
       "the count of requests served by the second resource is exact");
    tide_resource_release(fallback);
}

#define BAD_TESTS 3

static void
check_bad_input(void)
{
    struct tide_fallback_options options = { 0 };
    struct upstream *first, *second;
    struct tide_resource *fallback = (struct tide_resource *)&options;

    make_two(&first, &second);
    ok(all_of(tide_fallback_create(NULL, &second->base, NULL, &fallback) == TIDE_EINVAL, fallback == NULL,
              tide_fallback_create(&first->base, NULL, NULL, &fallback) == TIDE_EINVAL,
              tide_fallback_create(&first->base, &second->base, NULL, NULL) == TIDE_EINVAL),
       "NULL in place of a resource or of the result is refused");
    ok(all_of(tide_fallback_create(&first->base, &first->base, NULL, &fallback) == TIDE_EINVAL,
              tide_fallback_create(&first->base, &second->base, &options, &fallback) == TIDE_EINVAL),
       "a single resource as both, and options without a size, are refused");
    ok(all_of(served(NULL) == UINT64_MAX, served(&first->base) == UINT64_MAX),
       "the count of served requests is unknown for NULL and for another kind of layer");
    tide_resource_release(&first->base);
    tide_resource_release(&second->base);
}

static const struct {
    const char *text, *wanted;
} texts[] = {
    { "fallback({limit(1GiB)}) | sim", NULL },
    { "fallback(first={limit(1GiB) | host}, any) | sim", "fallback({limit(1GiB) | host}, any=true) | sim" },
    { "fallback({fallback({host}) | host}) | sim", NULL },
    { "fallback({binning(1KiB={fixed(1KiB)}) | host}) | sim", NULL },
    { "binning(1KiB={fallback({fixed(1KiB)})}) | sim", NULL },
    { "binning(1KiB={fallback({host})}) | sim", NULL },
    { "fallback({binning(1KiB={host})}) | sim",
      "stack text, column 25: host: a base in braces, expected layers over what is below the bins" },
    { "fallback({host | limit(1)}) | sim", "stack text, column 11: host: a base in the middle, expected it as the last "
                                           "layer" },
    { "fallback | sim",
      "stack text, column 1: fallback: argument 'first' is missing, expected layers in braces such as {limit(4GiB)}" },
    { "fallback({host}, {host}) | sim",
      "stack text, column 18: fallback: argument 'first' is given twice, expected it once" },
    { "fallback({host}, first={host}) | sim",
      "stack text, column 18: fallback: argument 'first' is given twice, expected it once" },
    { "fallback(first=5) | sim", "stack text, column 16: fallback: argument 'first': '5' stands where no value can, "
                                 "expected layers in braces such as {limit(4GiB)}" },
    { "fallback(5) | sim",
      "stack text, column 10: fallback: '5' without a key, expected layers in braces such as {limit(4GiB)} or any" },
    { "fallback(first) | sim",
      "stack text, column 10: fallback: argument 'first' has no value, expected '=' and layers "
      "in braces such as {limit(4GiB)}" },
    { "fallback({}) | sim", "stack text, column 11: found '}', expected the name of a layer" },
    { "fallback({host) | sim", "stack text, column 15: host: found ')', expected '|' or '}'" },
    { "fallback(4KiB={host}) | sim", "stack text, column 10: fallback: argument '4KiB' is unknown, expected layers in "
                                     "braces such as {limit(4GiB)} or any" },
};

#define TEXT_TESTS ((int)(sizeof(texts) / sizeof(texts[0])))

static void
check_text(void)
{
    for (int i = 0; i < TEXT_TESTS; i++) {
        struct tide_resource *stack;
        char described[256];

        if (tide_stack_parse(texts[i].text, &stack) == TIDE_OK)
            tide_describe(stack, described, sizeof(described), NULL);
        else
            snprintf(described, sizeof(described), "%s", tide_error_text());
        tide_resource_release(stack);
        is_string(described, texts[i].wanted != NULL ? texts[i].wanted : texts[i].text, texts[i].text);
    }
}

static struct tide_resource *
create(void *context)
{
    struct upstream *first, *second;

    make_two(&first, &second);
    first->capacity_bytes = context != NULL ? 200 * KIB : 0;
    return over(&first->base, &second->base, false);
}

int
main(void)
{
    bool small = true;

    plan(2 * CONTRACT_TESTS + WAY_TESTS + SHAPE_TESTS + REUSE_TESTS + THREAD_TESTS + BAD_TESTS + TEXT_TESTS);
    for (int i = 0; i < 2; i++) {
        const struct contract contract = { .name = "fallback",
                                           .create = create,
                                           .context = i == 0 ? NULL : &small,
                                           .largest_bytes = 64 * KIB,
                                           .knows_pointers = true };

        contract_check(&contract);
    }
    check_ways();
    check_shape();
    check_reuse();
    check_threads();
    check_bad_input();
    check_text();
    return done();
}
