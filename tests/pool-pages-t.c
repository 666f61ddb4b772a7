/*
 * Tests pools over a base whose chunks may be joined, `sim(model=vmm)`: they grow in place, and have free chunks mapped
 * elsewhere before they hold more than ever.
 */
#include <stdio.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"
#include "upstream.h"

#define MIB (UINT64_C(1) << 20)

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

static struct tide_pool_figures
pool_figures(struct tide_resource *pool)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    tide_pool_read(pool, &figures);
    return figures;
}

static void *
get(struct tide_resource *pool, uint64_t bytes, tide_stream stream)
{
    void *pointer;

    return tide_allocate(pool, bytes, 256, stream, &pointer) == TIDE_OK ? pointer : NULL;
}

/* Free memory at the end of one chunk and the beginning of the next one serve one request. */
static void
check_joined(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)"), *plain = stack_of("pool | sim");
    uint64_t page;
    void *a = get(pool, 2 * MIB, 0), *b = get(pool, 2 * MIB, 0), *c;

    ok((char *)b == (char *)a + 2 * MIB, "the second chunk lies behind the first one");
    tide_deallocate(pool, a, 2 * MIB, 256, 0);
    tide_deallocate(pool, b, 2 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), 4 * MIB, "free chunks that touch are one free block");
    c = get(pool, 4 * MIB, 0);
    ok(c == a, "a request spans two chunks");
    is_u64(pool_figures(pool).grown, 2, "a request that free chunks serve together asks upstream for nothing");
    ok(tide_query(pool, TIDE_QUERY_PAGE, &page) == TIDE_EUNSUPPORTED, "a pool does not pass the page of its base on");
    tide_deallocate(pool, c, 4 * MIB, 256, 0);
    tide_trim(pool, 0);
    ok(all_of(figure(pool, TIDE_QUERY_BYTES_RESERVED) == 0, pool_figures(pool).chunks == 0),
       "a trim returns chunks that were used as one");
    tide_resource_release(pool);
    a = get(plain, 2 * MIB, 0);
    b = get(plain, 2 * MIB, 0);
    tide_deallocate(plain, a, 2 * MIB, 256, 0);
    tide_deallocate(plain, b, 2 * MIB, 256, 0);
    is_u64(figure(plain, TIDE_QUERY_LARGEST_FREE), 2 * MIB, "over a base without pages free chunks stay apart");
    tide_resource_release(plain);
}

/* Only what is missing behind the free memory at the end is asked for. */
static void
check_missing(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)");
    void *a = get(pool, 6 * MIB, 0), *b = get(pool, 6 * MIB, 0), *c;

    tide_deallocate(pool, b, 6 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 12 * MIB, "two requests of 6 MiB reserve 12 MiB");
    c = get(pool, 10 * MIB, 0);
    ok(c == b, "a request that is larger than the free memory at the end begins there");
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 16 * MIB, "only the missing 4 MiB are asked for");
    tide_deallocate(pool, a, 6 * MIB, 256, 0);
    tide_deallocate(pool, c, 10 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), 16 * MIB, "after all frees there is one free block");
    tide_resource_release(pool);
}

/* Before it holds more than ever, the pool has the chunks of a hole mapped where they are needed. */
static void
check_remapped(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)");
    struct tide_pool_figures figures;
    void *a = get(pool, 8 * MIB, 0), *b = get(pool, 8 * MIB, 0), *c = get(pool, 8 * MIB, 0), *d, *e;

    tide_deallocate(pool, a, 8 * MIB, 256, 0);
    tide_deallocate(pool, c, 8 * MIB, 256, 0);
    d = get(pool, 14 * MIB, 0);
    figures = pool_figures(pool);
    ok(d == c, "a request that fits in no hole begins at the free memory at the end");
    is_u64(figures.reserved_peak_bytes, 24 * MIB,
           "what it misses comes out of the hole: the pool holds no more than before");
    is_u64(figures.remapped, 3, "each chunk that was mapped elsewhere is counted");
    is_u64(figures.returned, 3, "a chunk that was mapped elsewhere went back to upstream first");
    tide_deallocate(pool, d, 14 * MIB, 256, 0);
    e = get(pool, 8 * MIB, 0);
    ok(e == d, "a request takes mapped memory before it has any gap filled");
    d = get(pool, 6 * MIB, 0);
    ok(d == (char *)e + 8 * MIB, "free memory at the end serves the next request");
    c = get(pool, 8 * MIB, 0);
    ok(c == a, "a hole whose gap must be filled in part is stitched rather than the range extended by more");
    is_u64(figure(pool, TIDE_QUERY_BYTES_RESERVED), 30 * MIB, "only the gap in the hole is filled");
    tide_deallocate(pool, b, 8 * MIB, 256, 0);
    tide_deallocate(pool, c, 8 * MIB, 256, 0);
    tide_deallocate(pool, d, 6 * MIB, 256, 0);
    tide_deallocate(pool, e, 8 * MIB, 256, 0);
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), 30 * MIB, "a stitched hole merges with its neighbours");
    tide_resource_release(pool);
}

/* A base that places chunks where it likes, and each answer that it may give. */
static void
check_elsewhere(void)
{
    struct upstream *upstream = upstream_create();
    void *const chosen[] = {
        (void *)(uintptr_t)(UINT64_C(1) << 40), (void *)(uintptr_t)(UINT64_C(2) << 40),
        (void *)(uintptr_t)(UINT64_C(3) << 40), (void *)(uintptr_t)(UINT64_C(4) << 40),
        (void *)(uintptr_t)(UINT64_C(5) << 40), (void *)(uintptr_t)((UINT64_C(5) << 40) + 2 * MIB)
    };
    void *const odd = (void *)(uintptr_t)((UINT64_C(7) << 40) + 4096);
    struct tide_resource *pool;
    void *a, *b;

    upstream->page_bytes = 2 * MIB;
    tide_pool_create(&upstream->base, NULL, &pool);
    upstream->chosen = chosen;
    upstream->chosen_count = 6;
    a = get(pool, 2 * MIB, 0);
    b = get(pool, 4 * MIB, 0);
    ok(all_of(a == chosen[0], b == chosen[4]), "where chunks do not lie as wished, a request gets one of its own");
    is_u64(upstream->live_bytes, 6 * MIB, "a chunk that came to lie elsewhere goes back before more is held than ever");
    ok(get(pool, 2 * MIB, 0) == NULL && strstr(tide_error_text(), "which it gave before") != NULL,
       "a chunk that overlaps memory in use is refused");
    upstream->chosen_count = 1;
    upstream->chosen = &odd;
    ok(get(pool, 8 * MIB, 0) == NULL && strstr(tide_error_text(), "no multiple of") != NULL,
       "a chunk that is not aligned to a page is refused");
    upstream->chosen_count = 0;
    tide_deallocate(pool, a, 2 * MIB, 256, 0);
    tide_deallocate(pool, b, 4 * MIB, 256, 0);
    tide_resource_release(pool);
    ok(all_of(upstream->live_bytes == 2 * MIB, upstream->wrong_frees == 0),
       "all chunks go back as they were got, but one that overlaps another");
    tide_resource_release(&upstream->base);
}

/* Two pools in turn over one base: where the one wishes a chunk, the other has one. */
static void
check_two_pools(void)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .model = TIDE_SIM_VMM };
    struct tide_resource *sim, *pools[2];
    uint64_t begin[16], overlaps = 0;

    tide_sim_create(&options, &sim);
    tide_pool_create(sim, NULL, &pools[0]);
    tide_pool_create(sim, NULL, &pools[1]);
    for (size_t i = 0; i < 16; i++) {
        begin[i] = (uintptr_t)get(pools[i % 2], 6 * MIB, 0);
        for (size_t j = 0; j < i; j++)
            overlaps += begin[i] == 0 || (begin[i] < begin[j] + 6 * MIB && begin[j] < begin[i] + 6 * MIB);
    }
    is_u64(overlaps, 0, "two pools over one base get chunks that do not overlap");
    for (size_t i = 0; i < 16; i++)
        tide_deallocate(pools[i % 2], (void *)(uintptr_t)begin[i], 6 * MIB, 256, 0);
    tide_resource_release(pools[0]);
    tide_resource_release(pools[1]);
    is_u64(figure(sim, TIDE_QUERY_BYTES_RESERVED), 0, "two pools over one base give all chunks back");
    tide_resource_release(sim);
}

/* Whether the blocks of a stack may be used as one where they touch: not behind layers that hand out other blocks. */
static void
check_page(const char *layers, bool passes)
{
    char text[128];
    struct tide_resource *stack;
    uint64_t page = 0;

    snprintf(text, sizeof(text), "%s | sim(model=vmm)", layers);
    stack = stack_of(text);
    if (passes)
        ok(tide_query(stack, TIDE_QUERY_PAGE, &page) == TIDE_OK && page == 2 * MIB, "%s passes the page on", layers);
    else
        ok(tide_query(stack, TIDE_QUERY_PAGE, &page) == TIDE_EUNSUPPORTED, "%s does not pass the page on", layers);
    tide_resource_release(stack);
}

static const char *const passing[] = {
    "limit(1TiB)", "statistics", "track", "retry", "fault(nth=9)", "limit(1TiB) | statistics | retry",
};

static const char *const keeping[] = {
    "aligned(4096)",   "arena", "binning(1MiB={statistics})", "fixed(2MiB)",
    "monotonic(2MiB)", "pool",  "fallback({limit(1GiB)})",
};

#define PASSING (sizeof(passing) / sizeof(passing[0]))
#define KEEPING (sizeof(keeping) / sizeof(keeping[0]))

static void
check_pages_passed(void)
{
    for (size_t i = 0; i < PASSING; i++)
        check_page(passing[i], true);
    for (size_t i = 0; i < KEEPING; i++)
        check_page(keeping[i], false);
}

/* A chunk goes back on the stream on which it was used last, behind the others on which parts of it were freed. */
static void
check_streams(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool;
    void *a, *b, *c;

    upstream->page_bytes = 2 * MIB;
    tide_pool_create(&upstream->base, NULL, &pool);
    a = get(pool, 4 * MIB, 1);
    b = get(pool, 2 * MIB, 1);
    c = get(pool, 4 * MIB, 1);
    tide_deallocate(pool, a, 4 * MIB, 256, 7);
    get(pool, 8 * MIB, 5);
    is_u64(upstream->order_calls, 0, "a chunk that was freed on one stream goes back without a wait");
    is_u64(pool_figures(pool).remapped, 2, "the free chunks were mapped elsewhere");
    ok(upstream->deallocate_calls == 2, "each of them went back once");
    tide_deallocate(pool, c, 4 * MIB, 256, 7);
    tide_deallocate(pool, b, 2 * MIB, 256, 7);
    tide_trim(pool, 0);
    is_u64(upstream->last_stream, 0, "a trim returns chunks on stream 0, behind all streams");
    upstream->gone = 7;
    tide_order(pool, TIDE_STREAM_ALL, 0);
    get(pool, 16 * MIB, 5);
    tide_trim(pool, 0);
    is_u64(upstream->gone_named, 0, "no call names a stream that was destroyed behind an order for all streams");
    tide_resource_release(pool);
    ok(all_of(upstream->live_bytes == 0, upstream->wrong_frees == 0), "all chunks go back to upstream");
    tide_resource_release(&upstream->base);
}

/* At the maximum, and where upstream has no more, free chunks of holes serve before a request is refused. */
static void
check_bounds(const char *text)
{
    struct tide_resource *pool = stack_of(text);
    void *a = get(pool, 8 * MIB, 0), *b = get(pool, 8 * MIB, 0), *c = get(pool, 8 * MIB, 0), *d;

    tide_deallocate(pool, a, 8 * MIB, 256, 0);
    tide_deallocate(pool, c, 8 * MIB, 256, 0);
    d = get(pool, 16 * MIB, 0);
    ok(d != NULL, "%s: a request of all free memory is served though it lies in two holes", text);
    ok(get(pool, 2 * MIB, 0) == NULL, "%s: with all memory in use a request is refused", text);
    tide_deallocate(pool, d, 16 * MIB, 256, 0);
    tide_deallocate(pool, b, 8 * MIB, 256, 0);
    d = get(pool, 24 * MIB, 0);
    ok(d != NULL, "%s: after all frees one request gets all memory", text);
    tide_deallocate(pool, d, 24 * MIB, 256, 0);
    ok(get(pool, 26 * MIB, 0) == NULL, "%s: a request of more than there is is refused", text);
    ok(figure(pool, TIDE_QUERY_BYTES_USED) == 0, "%s: a refused request leaves nothing in use", text);
    tide_resource_release(pool);
}

#define LAYERS 24

/*
 * A step of a training loop: each layer keeps a block, after a temporary one, and the blocks go in the opposite order,
 * each after a gradient came. The gradients stay with the caller.
 */
static void
run_step(struct tide_resource *pool, uint64_t state, bool varying, void *gradients[LAYERS])
{
    uint64_t kept_bytes[LAYERS];
    void *kept[LAYERS];

    for (size_t i = 0; i < LAYERS; i++) {
        uint64_t bytes = varying ? (1 + contract_random(&state) % 60) * MIB : 48 * MIB;
        void *temporary = get(pool, bytes, 0);

        kept_bytes[i] = varying ? (1 + contract_random(&state) % 30) * MIB : 13 * MIB + 512 * (i % 4);
        kept[i] = get(pool, kept_bytes[i], 0);
        tide_deallocate(pool, temporary, bytes, 256, 0);
    }
    for (size_t i = LAYERS; i-- > 0;) {
        if (gradients[i] == NULL)
            gradients[i] = get(pool, 3 * MIB, 0);
        tide_deallocate(pool, kept[i], kept_bytes[i], 256, 0);
    }
}

static uint64_t
upstream_calls(struct tide_resource *stack)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct tide_resource *statistics;

    tide_stack_find(stack, "statistics", &statistics);
    tide_statistics_read(statistics, &figures);
    return (uint64_t)figures.count.total;
}

/* Run steps; `calls` gets the calls of upstream in each of them. */
static void
run_steps(uint64_t seed, bool varying, uint64_t *calls, size_t steps)
{
    struct tide_resource *pool = stack_of("pool | statistics | sim(model=vmm)");
    void *gradients[LAYERS] = { NULL };
    uint64_t before = 0;

    for (size_t i = 0; i < steps; i++) {
        run_step(pool, seed, varying, gradients);
        calls[i] += upstream_calls(pool) - before;
        before = upstream_calls(pool);
    }
    tide_resource_release(pool);
}

static void
check_steps(void)
{
    uint64_t seed = contract_seed(20261124), calls[40] = { 0 }, later = 0;

    run_steps(seed, false, calls, 10);
    for (size_t i = 3; i < 10; i++)
        later += calls[i];
    is_u64(later, 0, "from the fourth of equal steps on upstream is asked for nothing");
    memset(calls, 0, sizeof(calls));
    for (uint64_t i = 1; i <= 20; i++)
        run_steps(seed + i, true, calls, 40);
    diag("20 loops of layers of random sizes: %d calls in the first step, %d in the second, %d in the third, %d in the "
         "tenth, %d in the fortieth",
         (int)calls[0], (int)calls[1], (int)calls[2], (int)calls[9], (int)calls[39]);
    ok(calls[39] < calls[0] / 50, "with layers of random sizes, too, equal steps come to ask upstream for little");
}

#define SMALL_HOLES 64

/* Holes that are small beside what is reserved can be moved, too. */
static void
check_small_holes(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)");
    void *large[SMALL_HOLES], *small[SMALL_HOLES], *one;
    uint64_t reserved;

    for (size_t i = 0; i < SMALL_HOLES; i++) {
        large[i] = get(pool, 10 * MIB, 0);
        small[i] = get(pool, 6 * MIB, 0);
    }
    reserved = figure(pool, TIDE_QUERY_BYTES_RESERVED);
    for (size_t i = 0; i < SMALL_HOLES; i += 2)
        tide_deallocate(pool, small[i], 6 * MIB, 256, 0);
    one = get(pool, 128 * MIB, 0);
    ok(one != NULL && figure(pool, TIDE_QUERY_BYTES_RESERVED) <= reserved + reserved / 128,
       "with 1 GiB reserved, one block takes the memory of 32 holes of 6 MiB");
    tide_deallocate(pool, one, 128 * MIB, 256, 0);
    for (size_t i = 0; i < SMALL_HOLES; i++) {
        tide_deallocate(pool, large[i], 10 * MIB, 256, 0);
        if (i % 2 == 1)
            tide_deallocate(pool, small[i], 6 * MIB, 256, 0);
    }
    tide_resource_release(pool);
}

/* The largest hole is the most likely to serve the next request as it is. */
static void
check_smallest_first(void)
{
    struct tide_resource *pool = stack_of("pool | sim(model=vmm)");
    void *a = get(pool, 8 * MIB, 0), *b = get(pool, 2 * MIB, 0), *c = get(pool, 32 * MIB, 0),
         *d = get(pool, 2 * MIB, 0);
    void *e;

    tide_deallocate(pool, a, 8 * MIB, 256, 0);
    tide_deallocate(pool, c, 32 * MIB, 256, 0);
    e = get(pool, 34 * MIB, 0);
    ok(all_of(e != NULL, figure(pool, TIDE_QUERY_BYTES_RESERVED) <= 46 * MIB, pool_figures(pool).remapped > 0),
       "a request that fits in no hole has the memory of holes mapped elsewhere");
    is_u64(figure(pool, TIDE_QUERY_LARGEST_FREE), figure(pool, TIDE_QUERY_BYTES_RESERVED) - 38 * MIB,
           "the smaller hole is moved first: what is left is in one piece");
    tide_deallocate(pool, b, 2 * MIB, 256, 0);
    tide_deallocate(pool, d, 2 * MIB, 256, 0);
    tide_deallocate(pool, e, 34 * MIB, 256, 0);
    tide_resource_release(pool);
}

#define CHURN_BLOCKS   40
#define CHURN_REQUESTS 20000

/* Large blocks of random sizes that replace each other at random: the calls of upstream. */
static uint64_t
run_churn(uint64_t state)
{
    struct tide_resource *pool = stack_of("pool | statistics | sim(model=vmm)");
    uint64_t bytes[CHURN_BLOCKS] = { 0 }, calls;
    void *blocks[CHURN_BLOCKS] = { NULL };

    for (int i = 0; i < CHURN_REQUESTS; i++) {
        size_t k = contract_random(&state) % CHURN_BLOCKS;

        if (blocks[k] != NULL)
            tide_deallocate(pool, blocks[k], bytes[k], 256, 0);
        bytes[k] = MIB + contract_random(&state) % (24 * MIB);
        blocks[k] = get(pool, bytes[k], 0);
    }
    calls = upstream_calls(pool);
    for (size_t k = 0; k < CHURN_BLOCKS; k++)
        tide_deallocate(pool, blocks[k], bytes[k], 256, 0);
    tide_resource_release(pool);
    return calls;
}

/* Where memory would be moved for ever, it is moved in larger parts. */
static void
check_churn(void)
{
    uint64_t seed = contract_seed(20261126), calls = 0;

    for (uint64_t i = 0; i < 10; i++)
        calls += run_churn(seed + i) / 10;
    diag("%d blocks that replace each other: %d calls of upstream", CHURN_REQUESTS, (int)calls);
    ok(calls < CHURN_REQUESTS / 11, "large blocks that replace each other at random take few calls of upstream");
}

#define LIVE_MOST 60

struct live {
    uint64_t address; /* 0: none */
    uint64_t bytes;
    size_t alignment;
};

static bool
overlaps_any(const struct live live[LIVE_MOST], uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < LIVE_MOST; i++) {
        if (live[i].address != 0 && live[i].address < address + bytes && address < live[i].address + live[i].bytes)
            return true;
    }
    return false;
}

/* What holds for the figures at any moment: nothing is held that the base does not count, and the peaks agree. */
static bool
figures_are_odd(struct tide_resource *pool, struct tide_resource *base, uint64_t used)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    if (figure(pool, TIDE_QUERY_BYTES_USED) != used ||
        figure(pool, TIDE_QUERY_BYTES_RESERVED) != figure(base, TIDE_QUERY_BYTES_RESERVED) ||
        figure(pool, TIDE_QUERY_BYTES_RESERVED_HIGH) < figure(base, TIDE_QUERY_BYTES_RESERVED_HIGH))
        return true;
    if (tide_pool_read(pool, &figures) != TIDE_OK)
        return false; /* an arena */
    return figures.remapped > figures.returned || figures.used_bytes + figures.free_bytes > figures.reserved_bytes;
}

/* Random traffic on three streams; refusals of the base anywhere, where the stack has them. */
static void
check_random(const char *text, uint64_t seed, bool may_fail)
{
    struct tide_resource *pool = stack_of(text), *base;
    struct live live[LIVE_MOST] = { { 0 } };
    uint64_t used = 0, overlaps = 0, failures = 0, wrong = 0, odd = 0;

    for (base = pool; base->upstream != NULL; base = base->upstream)
        ;
    for (int i = 0; i < 20000; i++) {
        struct live *block = &live[contract_random(&seed) % LIVE_MOST];
        uint64_t what = contract_random(&seed) % 2000;
        void *pointer = (void *)(uintptr_t)block->address;

        if (what == 0)
            wrong += tide_trim(pool, contract_random(&seed) % (64 * MIB)) != TIDE_OK;
        if (what == 1)
            wrong += tide_order(pool, TIDE_STREAM_ALL, 0) != TIDE_OK;
        if (i % 64 == 0)
            odd += figures_are_odd(pool, base, used);
        if (pointer != NULL) {
            wrong += tide_deallocate(pool, pointer, block->bytes, block->alignment, 1 + what % 3) != TIDE_OK;
            used -= block->bytes;
            block->address = 0;
            continue;
        }
        block->bytes = 1 + contract_random(&seed) % (UINT64_C(1) << contract_random(&seed) % 25);
        block->alignment = (size_t)256 << (what % 8 == 0 ? contract_random(&seed) % 14 : 0);
        if (tide_allocate(pool, block->bytes, block->alignment, 1 + what % 3, &pointer) != TIDE_OK) {
            failures++;
            continue;
        }
        overlaps += overlaps_any(live, (uintptr_t)pointer, block->bytes);
        wrong += (uintptr_t)pointer % block->alignment != 0;
        block->address = (uintptr_t)pointer;
        used += block->bytes;
    }
    ok(all_of(overlaps == 0, wrong == 0, odd == 0, may_fail || failures == 0),
       "%s: in random traffic no blocks overlap, no free fails, and the figures are those of the base", text);
    for (size_t i = 0; i < LIVE_MOST; i++) {
        if (live[i].address != 0)
            tide_deallocate(pool, (void *)(uintptr_t)live[i].address, live[i].bytes, live[i].alignment, 0);
    }
    tide_trim(pool, 0);
    ok(all_of(figure(pool, TIDE_QUERY_BYTES_USED) == 0, figure(pool, TIDE_QUERY_FREE_BLOCKS) == 0,
              figure(base, TIDE_QUERY_BYTES_USED) == 0),
       "%s: after all frees the base has every page back", text);
    tide_resource_release(pool);
}

static const struct {
    const char *text;
    bool may_fail;
} randoms[] = {
    { "pool | sim(model=vmm)", false },
    { "pool(cache=0) | sim(model=vmm, page=64KiB)", false },
    { "pool(cache=0, alignment=1MiB) | sim(model=vmm, page=4KiB)", false },
    { "pool(release_threshold=0, cache=0) | sim(model=vmm)", false },
    { "pool(initial=10MiB, growth=32MiB, cache=64KiB) | sim(model=vmm)", false },
    { "pool(maximum=128MiB) | sim(model=vmm)", true },
    { "pool | sim(model=vmm, capacity=100MiB)", true },
    { "pool(cache=0) | fault(probability=30%) | sim(model=vmm)", true },
    { "pool | fault(every=2) | sim(model=vmm, capacity=200MiB)", true },
    { "arena | sim(model=vmm)", false },
    { "arena(size=128MiB) | fault(every=5) | sim(model=vmm)", true },
};

#define RANDOMS (sizeof(randoms) / sizeof(randoms[0]))

static void
check_randoms(void)
{
    uint64_t seed = contract_seed(20261125);

    for (size_t i = 0; i < RANDOMS; i++)
        check_random(randoms[i].text, seed + i, randoms[i].may_fail);
}

int
main(void)
{
    plan(7 + 4 + 9 + 5 + 2 + PASSING + KEEPING + 6 + 2 * 5 + 2 + 4 + 2 * RANDOMS);
    check_joined();
    check_missing();
    check_remapped();
    check_elsewhere();
    check_two_pools();
    check_pages_passed();
    check_streams();
    check_bounds("pool(maximum=24MiB) | sim(model=vmm)");
    check_bounds("pool | sim(model=vmm, capacity=24MiB)");
    check_steps();
    check_small_holes();
    check_smallest_first();
    check_churn();
    check_randoms();
    return done();
}
