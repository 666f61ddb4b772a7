/*
 * Tests pools over a base that keeps what comes back, in units, `sim(model=driver)`: they ask for whole units, and have
 * it give memory back before it would reserve more than they ever held.
 */
#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"
#include "upstream.h"

#define MIB  (UINT64_C(1) << 20)
#define UNIT (32 * MIB)

static uint64_t
figure(struct tide_resource *resource, enum tide_query what)
{
    uint64_t value = UINT64_MAX;

    tide_query(resource, what, &value);
    return value;
}

static struct tide_resource *
stack_of(const char *text)
{
    struct tide_resource *stack;

    if (tide_stack_parse(text, &stack) != TIDE_OK) {
        diag("%s: %s", text, tide_error_text());
        abort();
    }
    return stack;
}

static void *
get(struct tide_resource *pool, uint64_t bytes)
{
    void *pointer;

    return tide_allocate(pool, bytes, 256, 0, &pointer) == TIDE_OK ? pointer : NULL;
}

static void
put(struct tide_resource *pool, void *pointer, uint64_t bytes)
{
    tide_deallocate(pool, pointer, bytes, 256, 0);
}

static const char *const passing[] = { "limit(1TiB)", "statistics", "track | retry" };

static const char *const keeping[] = {
    "aligned(4096)",   "arena", "binning(1MiB={statistics})", "fixed(2MiB)",
    "monotonic(2MiB)", "pool",  "fallback({limit(1GiB)})",
};

#define PASSING (sizeof(passing) / sizeof(passing[0]))
#define KEEPING (sizeof(keeping) / sizeof(keeping[0]))

static void
check_query(const char *layers, bool passes)
{
    char text[128];
    struct tide_resource *stack;
    uint64_t unit = 0;

    snprintf(text, sizeof(text), "%s | sim(model=driver)", layers);
    stack = stack_of(text);
    if (passes)
        ok(tide_query(stack, TIDE_QUERY_UNIT, &unit) == TIDE_OK && unit == UNIT, "%s passes the unit on", layers);
    else
        ok(tide_query(stack, TIDE_QUERY_UNIT, &unit) == TIDE_EUNSUPPORTED && strstr(tide_error_text(), "unit") != NULL,
           "%s does not pass the unit on", layers);
    tide_resource_release(stack);
}

static void
check_models(void)
{
    struct tide_resource *stack;
    uint64_t unit;

    stack = stack_of("sim(model=cuda)");
    ok(tide_query(stack, TIDE_QUERY_UNIT, &unit) == TIDE_EUNSUPPORTED, "model=cuda keeps nothing, so it has no unit");
    tide_resource_release(stack);
    stack = stack_of("sim(model=vmm)");
    ok(tide_query(stack, TIDE_QUERY_UNIT, &unit) == TIDE_EUNSUPPORTED, "model=vmm has pages, and no unit");
    tide_resource_release(stack);
    for (size_t i = 0; i < PASSING; i++)
        check_query(passing[i], true);
    for (size_t i = 0; i < KEEPING; i++)
        check_query(keeping[i], false);
}

/* Chunks are whole units, and larger ones once there are several. */
static void
check_sizes(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=driver)");
    void *a = get(pool, 3 * MIB), *b, *c[8], *large;

    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), UNIT, "the first chunk is one unit");
    b = get(pool, 40 * MIB);
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 5 * UNIT / 2, "a chunk for a larger request is halves of units");
    large = get(pool, 17 * UNIT - UNIT / 2 - MIB);
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 39 * UNIT / 2, "one for a very large request is whole units");
    put(pool, large, 17 * UNIT - UNIT / 2 - MIB);
    for (size_t i = 0; i < 8; i++)
        c[i] = get(pool, UNIT);
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED) % (UNIT / 2), 0, "all chunks are halves of units");
    ok(figure(pool, TIDE_QUERY_BYTES_RESERVED) > 10 * UNIT, "from some units on the least chunk is two");
    put(pool, a, 3 * MIB);
    put(pool, b, 40 * MIB);
    for (size_t i = 0; i < 8; i++)
        put(pool, c[i], UNIT);
    tide_resource_release(pool);
    pool = stack_of("pool(growth=40MiB) | sim(model=driver)");
    a = get(pool, MIB);
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 2 * UNIT, "a growth that is given is rounded up to whole units");
    put(pool, a, MIB);
    tide_resource_release(pool);
    pool = stack_of("pool(maximum=40MiB) | sim(model=driver)");
    a = get(pool, 20 * MIB);
    b = get(pool, 20 * MIB);
    ok(all_of(a != NULL, b != NULL), "below a maximum of few units all of it can be had, as chunks are smaller then");
    put(pool, a, 20 * MIB);
    put(pool, b, 20 * MIB);
    tide_resource_release(pool);
}

#define BLOCKS   40
#define REQUESTS 8000

/* Blocks of random sizes come and go while the sizes drift. */
static void
run_drift(struct tide_resource *pool, uint64_t state)
{
    uint64_t bytes[BLOCKS] = { 0 };
    void *blocks[BLOCKS] = { NULL };

    for (uint64_t i = 0; i < REQUESTS; i++) {
        size_t k = contract_random(&state) % BLOCKS;

        if (blocks[k] != NULL)
            put(pool, blocks[k], bytes[k]);
        bytes[k] = MIB + contract_random(&state) % ((8 + 40 * i / REQUESTS) * MIB);
        blocks[k] = get(pool, bytes[k]);
    }
    for (size_t k = 0; k < BLOCKS; k++)
        put(pool, blocks[k], bytes[k]);
}

static void
check_drift(const char *layers)
{
    uint64_t seed = contract_seed(20261127), worst = 0, failures = 0;

    for (uint64_t i = 0; i < 10; i++) {
        char text[128];
        struct tide_resource *stack, *base;
        uint64_t high, own;

        snprintf(text, sizeof(text), "%s | statistics | sim(model=driver)", layers);
        stack = stack_of(text);
        run_drift(stack, seed + i);
        for (base = stack; base->upstream != NULL; base = base->upstream)
            ;
        high = figure(base, TIDE_QUERY_BYTES_RESERVED_HIGH);
        own = figure(stack, TIDE_QUERY_BYTES_RESERVED_HIGH);
        failures += figure(stack, TIDE_QUERY_BYTES_USED) != 0;
        if (worst < high * 1000 / own)
            worst = high * 1000 / own;
        tide_resource_release(stack);
    }
    diag("%s: the base reserves %d/1000 of what the chunks took at most", layers, (int)worst);
    ok(all_of(failures == 0, worst <= 1020),
       "%s: the base reserves no more than 2%% above what the chunks took at most", layers);
}

/* What others have of the base does not count, and stays. */
static void
check_others(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_DRIVER };
    struct tide_resource *sim, *pools[2];
    void *other;

    tide_sim_create(&options, &sim);
    tide_pool_create(sim, NULL, &pools[0]);
    tide_pool_create(sim, NULL, &pools[1]);
    other = get(pools[1], 400 * MIB);
    run_drift(pools[0], contract_seed(20261128));
    ok(figure(sim, TIDE_QUERY_BYTES_RESERVED_HIGH) <=
           (figure(pools[0], TIDE_QUERY_BYTES_RESERVED_HIGH) + figure(pools[1], TIDE_QUERY_BYTES_RESERVED_HIGH)) / 50 *
                   51 +
               2 * UNIT,
       "two pools over one base together have it reserve no more than 2%% and two units above what their chunks took "
       "at "
       "most");
    put(pools[1], other, 400 * MIB);
    tide_resource_release(pools[0]);
    tide_resource_release(pools[1]);
    is_u64(figure(sim, TIDE_QUERY_BYTES_USED), 0, "two pools over one base give all chunks back");
    tide_resource_release(sim);
}

/* What upstream is asked: to keep what is in use, and no more than leaves room for the chunk. */
static void
check_trim(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool;
    void *a, *b, *c, *other;

    upstream->unit_bytes = UNIT;
    tide_pool_create(&upstream->base, NULL, &pool);
    a = get(pool, UNIT);
    is_u64(upstream->trim_calls, 0, "a base that keeps nothing free is not asked to give any back");
    upstream->kept_bytes = 4 * UNIT;
    b = get(pool, UNIT);
    is_u64(upstream->trim_calls, 1, "a base that keeps too much is asked to give it back before the next chunk");
    is_u64(upstream->last_keep_bytes, UNIT + 2 * UNIT / 128,
           "it may keep what is in use, and a little more than the chunks would be");
    tide_allocate(&upstream->base, 8 * UNIT, 256, 0, &other);
    c = get(pool, UNIT);
    is_u64(upstream->last_keep_bytes, 10 * UNIT + 3 * UNIT / 128, "it may keep what others have of it on top");
    tide_deallocate(&upstream->base, other, 8 * UNIT, 256, 0);
    put(pool, c, UNIT);
    upstream->trim_status = TIDE_EDRIVER;
    tide_error_set(TIDE_EINVAL, "words of before");
    put(pool, b, UNIT);
    b = get(pool, 2 * UNIT);
    ok(all_of(b != NULL, strcmp(tide_error_text(), "words of before") == 0),
       "where giving back fails the request is served, and the error of before stays");
    put(pool, a, UNIT);
    put(pool, b, 2 * UNIT);
    tide_resource_release(pool);
    ok(all_of(upstream->live_bytes == 0, upstream->wrong_frees == 0), "all chunks go back as they were got");
    tide_resource_release(&upstream->base);
}

/* A base that was told to keep memory is not trimmed below that. */
static void
check_told(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool;
    void *a, *b;

    upstream->unit_bytes = UNIT;
    upstream->told_bytes = 3 * UNIT;
    tide_pool_create(&upstream->base, NULL, &pool);
    upstream->kept_bytes = 3 * UNIT;
    a = get(pool, UNIT);
    is_u64(upstream->trim_calls, 0, "a base that has no more than it was told to keep is not asked to give any back");
    upstream->kept_bytes = 4 * UNIT;
    b = get(pool, UNIT);
    ok(all_of(upstream->trim_calls == 1, upstream->last_keep_bytes == 3 * UNIT),
       "a base that has more may keep what it was told to keep");
    put(pool, a, UNIT);
    put(pool, b, UNIT);
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

/* How many chunks a pool asks for where a block of 8 units is freed and one of 3 is wanted. */
static uint64_t
asked_after(uint64_t kept_bytes)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool;
    uint64_t calls;
    void *block;

    upstream->unit_bytes = UNIT;
    upstream->kept_bytes = kept_bytes;
    tide_pool_create(&upstream->base, NULL, &pool);
    put(pool, get(pool, 8 * UNIT), 8 * UNIT);
    calls = upstream->allocate_calls;
    block = get(pool, 3 * UNIT);
    calls = upstream->allocate_calls - calls;
    put(pool, block, 3 * UNIT);
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
    return calls;
}

static void
check_in_flight(void)
{
    is_u64(asked_after(0), 1, "a chunk much larger than the request is exchanged");
    is_u64(asked_after(4 * UNIT), 0,
           "where a trim gives nothing back, as streams still use it, chunks are cut up instead");
}

/* A few blocks of random sizes that replace each other: chunks are exchanged, but not without end. */
static void
check_few(const char *base)
{
    uint64_t seed = contract_seed(20261202), bytes[8] = { 0 };
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *pool, *statistics;
    void *blocks[8] = { NULL };
    char text[128];

    snprintf(text, sizeof(text), "pool | statistics | %s", base);
    pool = stack_of(text);
    for (int i = 0; i < 8000; i++) {
        size_t k = contract_random(&seed) % 8;

        put(pool, blocks[k], bytes[k]);
        bytes[k] = 1 + contract_random(&seed) % (64 * MIB);
        blocks[k] = get(pool, bytes[k]);
    }
    tide_stack_find(pool, "statistics", &statistics);
    tide_statistics_read(statistics, &figures);
    diag("%s: %d chunks for 8000 requests", base, (int)figures.count.total);
    ok(figures.count.total <= 1000, "%s: few blocks of random sizes exchange a chunk every 8 requests at most", base);
    for (size_t k = 0; k < 8; k++)
        put(pool, blocks[k], bytes[k]);
    tide_resource_release(pool);
}

/* Chunks go back one by one, and their work is done. */
static void
check_passed(void)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *pool = stack_of("pool(release_threshold=0) | sim(model=driver)");
    void *kept = get(pool, 48 * MIB);

    for (uint64_t bytes = 48 * MIB; bytes < 256 * MIB; bytes += 16 * MIB)
        put(pool, get(pool, bytes), bytes);
    put(pool, kept, 48 * MIB);
    ok(figure(pool, TIDE_QUERY_BYTES_RESERVED) == 0, "a pool that keeps nothing gives all chunks back");
    tide_pool_read(pool, &figures);
    is_u64(figures.waits, 0, "a request for which all work has passed counts no wait");
    tide_resource_release(pool);
}

int
main(void)
{
    plan(2 + (int)(PASSING + KEEPING) + 7 + 3 + 2 + 6 + 2 + 2 + 2 + 2);
    check_models();
    check_sizes();
    check_drift("pool");
    check_drift("arena");
    check_drift("pool(growth=128MiB)");
    check_others();
    check_trim();
    check_told();
    check_in_flight();
    check_passed();
    check_few("sim");
    check_few("sim(model=cuda)");
    return done();
}
