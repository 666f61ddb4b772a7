/*
 * Tests adaptors/pool.c: allocation, release and bad input. Threads are in pool-threads-t.c, streams in
 * pool-streams-t.c.
 */
#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "pool.h"
#include "tap.h"
#include "upstream.h"

static struct tide_resource *
create_over_upstream(void *context)
{
    return over(&upstream_create()->base, context);
}

static struct tide_resource *
create_over_base(void *context)
{
    return over(((const struct base_maker *)context)->create(0), NULL);
}

#define CONTRACT_CALLS (2 + BASE_COUNT)

static void
check_contract(void)
{
    struct tide_pool_options small = { TIDE_OPTIONS(small), .initial_bytes = 16 * MIB, .growth_bytes = 65536,
                                       .release_threshold_bytes = TIDE_NONE, .cache_bytes = TIDE_NONE };
    struct contract contract = {
        .name = "pool", .create = create_over_upstream, .largest_bytes = 3 * MIB, .knows_pointers = true
    };

    contract_check(&contract);
    contract.context = &small;
    contract_check(&contract);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        contract.create = create_over_base;
        contract.context = (void *)&bases[i];
        contract_check(&contract);
    }
}

#define MERGE_TESTS 7

static void
check_merging(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 64 * MIB, .cache_bytes = TIDE_NONE };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *blocks[8];

    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(pool, 8 * MIB);
    ok(all_of(upstream->allocate_calls == 1, upstream->last_bytes == 64 * MIB),
       "blocks are cut from one chunk of a step");
    is_u64(query(pool, TIDE_QUERY_LARGEST_FREE), 0, "blocks of a chunk's size fill the chunk");
    for (size_t i = 0; i < 8; i++)
        give(pool, blocks[(i * 5) % 8], 8 * MIB);
    ok(all_of(query(pool, TIDE_QUERY_LARGEST_FREE) == 64 * MIB, query(pool, TIDE_QUERY_FREE_BLOCKS) == 1),
       "blocks freed in any order merge into one");
    blocks[0] = take(pool, 64 * MIB);
    ok(all_of(blocks[0] != NULL, upstream->allocate_calls == 1),
       "the merged block serves a request of the whole chunk");
    give(pool, blocks[0], 64 * MIB);
    blocks[0] = take(pool, 5 * MIB + 1);
    is_u64(query(pool, TIDE_QUERY_BYTES_USED), 5 * MIB + 1, "the bytes used are those that were requested");
    is_u64(figures_of(pool).free_bytes, 59 * MIB - 256, "a block is rounded up to 256 B");
    give(pool, blocks[0], 5 * MIB + 1);
    tide_resource_release(pool);
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0),
       "destroying the pool gives the chunk back with its size and alignment");
    tide_resource_release(&upstream->base);
}

#define SMALL_TESTS 4

/* Small blocks share regions, which are given back when they are empty. */
static void
check_small(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .cache_bytes = TIDE_NONE };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    static void *blocks[40000];
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    bool fine = true;

    for (size_t i = 0; i < 40000; i++)
        fine = (blocks[i] = take(pool, 1 + i % 5000)) != NULL && fine;
    ok(fine, "forty thousand small blocks are allocated");
    figures = figures_of(pool);
    ok(figures.reserved_bytes < figures.used_bytes + figures.used_bytes / 8 + 32 * MIB,
       "small blocks reserve at most an eighth more than requested, and a region");
    for (size_t i = 0; i < 40000; i++)
        give(pool, blocks[i * 7 % 40000], 1 + i * 7 % 40000 % 5000);
    figures = figures_of(pool);
    ok(all_of(figures.free_blocks == figures.chunks, figures.free_bytes == figures.reserved_bytes),
       "after the frees of the small blocks only the last region is left, and each chunk is whole");
    tide_trim(pool, 0);
    is_u64(upstream->live_count, 0, "a trim gives the last region back");
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define GROWTH_TESTS 8

static void
check_growth(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 64 * MIB };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *first, *second, *third;

    upstream->capacity_bytes = 70 * MIB;
    first = take(pool, 40 * MIB);
    second = take(pool, 30 * MIB);
    ok(all_of(first != NULL, second == NULL),
       "a chunk that upstream refuses is halved, down to the size of the request");
    has_words(tide_error_text(), "capacity", "a refusal for want of memory is upstream's");
    second = take(pool, 24 * MIB);
    third = take(pool, 3 * MIB);
    ok(all_of(second != NULL, third != NULL, upstream->live_bytes == 68 * MIB),
       "free memory of the pool serves requests that fit");
    ok(take(pool, 4 * MIB) == NULL, "free memory of the pool does not serve a request that does not fit");
    give(pool, third, 3 * MIB);
    third = take(pool, 6 * MIB);
    ok(all_of(third != NULL, upstream->live_bytes == 70 * MIB),
       "free chunks go back to upstream before a request fails");
    give(pool, first, 40 * MIB);
    give(pool, second, 24 * MIB);
    give(pool, third, 6 * MIB);
    first = take(pool, 70 * MIB);
    ok(all_of(first != NULL, upstream->live_bytes == 70 * MIB),
       "all free chunks go back to upstream if a request needs it");
    ok(all_of(take(pool, 1) == NULL, give(pool, first, 70 * MIB) == TIDE_OK),
       "with upstream full even 1 byte is refused");
    ok(take(pool, 1) != NULL, "after a free 1 byte is allocated");
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define CUT_TESTS 4

/* A request for 2 MiB while only one chunk of `chunk_bytes` is free: how many chunks upstream is asked for then. */
static uint64_t
asked_beside(uint64_t growth_bytes, uint64_t chunk_bytes)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = growth_bytes,
                                         .release_threshold_bytes = 1024 * MIB, .cache_bytes = TIDE_NONE };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    uint64_t calls;

    give(pool, take(pool, chunk_bytes), chunk_bytes);
    calls = upstream->allocate_calls;
    take(pool, 2 * MIB);
    calls = upstream->allocate_calls - calls;
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
    return calls;
}

static void
check_cutting(void)
{
    is_u64(asked_beside(0, 8 * MIB), 0, "a free chunk of 8 MiB is cut up, though chunks of 2 MiB are asked for");
    is_u64(asked_beside(0, 10 * MIB), 1, "one of 10 MiB is not: another of 2 MiB is asked for");
    is_u64(asked_beside(16 * MIB, 16 * MIB), 0, "with a growth of 16 MiB one of 16 MiB is cut up");
    is_u64(asked_beside(16 * MIB, 18 * MIB), 1, "and one of 18 MiB is not");
}

#define KEEP_TESTS 12

static void
check_keeping(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .initial_bytes = 8 * MIB };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *first, *second;

    is_u64(upstream->live_bytes, 8 * MIB, "the initial chunk is allocated with the pool");
    first = take(pool, 10 * MIB);
    second = take(pool, 20 * MIB);
    give(pool, first, 10 * MIB);
    give(pool, second, 20 * MIB);
    is_u64(upstream->live_bytes, 38 * MIB, "free chunks stay with the pool below its threshold");
    first = take(pool, 30 * MIB);
    ok(all_of(first != NULL, upstream->live_bytes == 38 * MIB),
       "free chunks below the threshold go back if a request needs their room");
    give(pool, first, 30 * MIB);
    is_u64(query(pool, TIDE_QUERY_BYTES_RESERVED_HIGH), 38 * MIB, "the highest reserved bytes are those of before");
    ok(all_of(tide_trim(pool, 31 * MIB) == TIDE_OK, upstream->live_bytes == 38 * MIB, upstream->trim_calls == 1),
       "a trim keeps the bytes that it is told to keep, and is passed to upstream");
    ok(all_of(tide_trim(pool, 20 * MIB) == TIDE_OK, upstream->live_bytes == 30 * MIB),
       "a trim gives back chunks beyond the bytes to keep");
    ok(all_of(tide_trim(pool, 30 * MIB) == TIDE_OK, upstream->live_bytes == 30 * MIB),
       "a trim to exactly the reserved bytes gives nothing back");
    ok(all_of(tide_trim(pool, 1) == TIDE_OK, upstream->live_bytes == 30 * MIB), "a trim to 1 byte keeps a chunk");
    first = take(pool, 10 * MIB);
    second = take(pool, 2 * MIB);
    give(pool, first, 10 * MIB);
    give(pool, second, 2 * MIB);
    ok(all_of(tide_trim(pool, MIB) == TIDE_OK, upstream->live_bytes >= MIB, upstream->live_bytes <= 30 * MIB),
       "a trim of several chunks keeps at least the bytes to keep");
    tide_pool_trim(pool, 0);
    ok(all_of(upstream->live_bytes == 0, upstream->trim_calls == 5),
       "a trim to 0 of the pool alone gives everything back, and does not reach upstream");
    tide_resource_release(pool);

    options = (struct tide_pool_options){ TIDE_OPTIONS(options), .release_threshold_bytes = 20 * MIB };
    pool = over(tide_resource_retain(&upstream->base), &options);
    first = take(pool, 16 * MIB);
    second = take(pool, 10 * MIB);
    give(pool, second, 10 * MIB);
    is_u64(upstream->live_bytes, 16 * MIB, "over the threshold a chunk goes as soon as it is free");
    give(pool, first, 16 * MIB);
    is_u64(upstream->live_bytes, 16 * MIB, "a chunk that is free below the threshold stays");
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define FREE_TESTS 9

static void
check_wrong_frees(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);
    struct tide_resource *other = over(&upstream->base, NULL);
    char *small = take(pool, 1000), *large = take(pool, 3 * MIB), *beside = take(pool, 3 * MIB);
    int mine;

    ok(give(pool, small, 1001) == TIDE_EMISMATCH, "a free with another size is refused");
    has_words(tide_error_text(), "1001 B", "the refusal names the size given back");
    has_words(tide_error_text(), "1000 B", "the refusal names the allocated size");
    ok(tide_deallocate(pool, large, 3 * MIB, 512, 0) == TIDE_EMISMATCH, "a free with another alignment is refused");
    ok(all_of(give(pool, large + 256, 3 * MIB) == TIDE_EPOINTER, give(pool, &mine, 3 * MIB) == TIDE_EPOINTER,
              give(other, large, 3 * MIB) == TIDE_EPOINTER, give(pool, NULL, 8) == TIDE_EPOINTER),
       "a free inside of a block, elsewhere, at NULL or of another pool's block is refused");
    give(pool, large + 256, 3 * MIB);
    has_words(tide_error_text(), "within the block", "the refusal of a pointer inside of a block says so");
    ok(all_of(give(pool, large, 3 * MIB) == TIDE_OK, give(pool, large, 3 * MIB) == TIDE_EPOINTER),
       "a second free of a block is refused");
    has_words(tide_error_text(), "given back before",
              "the refusal of a second free says that the block was given back before");
    ok(all_of(give(pool, beside, 3 * MIB) == TIDE_OK, give(pool, small, 1000) == TIDE_OK,
              query(pool, TIDE_QUERY_BYTES_USED) == 0),
       "after refused frees the other blocks are freed");
    tide_resource_release(other);
    tide_resource_release(pool);
}

#define UPSTREAM_TESTS 8

/* An upstream that gives out wrong addresses. */
static void
check_bad_upstream(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);
    void *first = take(pool, 2 * MIB), *chosen[1], *pointer;

    chosen[0] = (char *)first + MIB;
    upstream->chosen = chosen;
    upstream->chosen_count = 1;
    ok(all_of(tide_allocate(pool, 2 * MIB, 256, 0, &pointer) == TIDE_EUPSTREAM, pointer == NULL),
       "an address that upstream gives twice is refused");
    has_words(tide_error_text(), "upstream gave", "the error for an address given twice names upstream");
    chosen[0] = (void *)0x12345680;
    upstream->chosen = chosen;
    upstream->chosen_count = 1;
    ok(tide_allocate(pool, 2 * MIB, 256, 0, &pointer) == TIDE_EUPSTREAM,
       "a misaligned address from upstream is refused");
    has_words(tide_error_text(), "no multiple of 256", "the error for a misaligned address names the alignment");
    chosen[0] = NULL;
    upstream->chosen = chosen;
    upstream->chosen_count = 1;
    ok(tide_allocate(pool, 2 * MIB, 256, 0, &pointer) == TIDE_EUPSTREAM, "NULL from upstream is refused");
    ok(all_of(give(pool, first, 2 * MIB) == TIDE_OK, take(pool, 2 * MIB) == first),
       "after refused addresses the blocks are allocated and freed");
    is_u64(query(pool, TIDE_QUERY_BYTES_RESERVED), 2 * MIB, "refused addresses are not reserved");
    upstream->fail_allocate = 1;
    upstream->fail_allocate_count = 100;
    upstream->fail_status = TIDE_EDRIVER;
    ok(tide_allocate(pool, 3 * MIB, 256, 0, &pointer) == TIDE_EDRIVER, "a failure of upstream is passed on");
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

static bool
refused(const struct tide_pool_options *options, const char *words)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = &upstream->base;
    bool fine = tide_pool_create(&upstream->base, options, &pool) == TIDE_EINVAL && pool == NULL &&
                strstr(tide_error_text(), words) != NULL && upstream->allocate_calls == 0;

    if (!fine)
        diag("%s", tide_error_text());
    tide_resource_release(&upstream->base);
    return fine;
}

#define CREATE_TESTS 5

static void
check_create(void)
{
    struct tide_resource *pool;
    struct upstream *upstream = upstream_create();
    const struct tide_pool_options bad[] = {
        { .struct_size = sizeof(bad[0]), .initial_bytes = 4 * MIB, .maximum_bytes = 2 * MIB },
        { .struct_size = sizeof(bad[0]), .initial_bytes = UINT64_MAX - 255 },
        { .struct_size = sizeof(bad[0]), .growth_bytes = UINT64_MAX },
        { .struct_size = sizeof(bad[0]), .growth_bytes = 4 * MIB, .maximum_bytes = 2 * MIB },
        { .struct_size = sizeof(bad[0]), .alignment = 768 },
        { .struct_size = sizeof(bad[0]), .alignment = 8 },
        { .struct_size = sizeof(bad[0]), .alignment = UINT64_C(1) << 63 },
        { .struct_size = sizeof(bad[0]), .initial_bytes = MIB + 1 },
        { .initial_bytes = MIB },
    };
    static const char *const words[] = { "exceeds the maximum",
                                         "growth of 2 MiB, the largest",
                                         "largest",
                                         "exceeds the maximum",
                                         "power of two",
                                         "power of two",
                                         "power of two",
                                         "no multiple",
                                         "struct_size" };
    bool fine = true;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        fine = refused(&bad[i], words[i]) && fine;
    ok(fine, "sizes that overflow, contradict each other or are not aligned are refused, with the reason");
    ok(all_of(tide_pool_create(NULL, NULL, &pool) == TIDE_EINVAL, pool == NULL,
              tide_pool_create(&upstream->base, NULL, NULL) == TIDE_EINVAL),
       "a pool without upstream, or without a place for the result, is refused");
    upstream->fail_allocate = 1;
    ok(tide_pool_create(&upstream->base,
                        &(struct tide_pool_options){ .struct_size = sizeof(bad[0]), .initial_bytes = MIB },
                        &pool) == TIDE_ECAPACITY &&
           pool == NULL,
       "an initial chunk that upstream refuses fails the pool");
    pool = over(&upstream->base, NULL);
    ok(all_of(tide_allocate(pool, SIZE_MAX, 256, 0, (void *[]){ NULL }) == TIDE_EINVAL,
              tide_allocate(pool, 1, SIZE_MAX / 2 + 1, 0, (void *[]){ NULL }) == TIDE_EINVAL),
       "an initial chunk of a size that overflows fails the pool");
    ok(all_of(tide_pool_trim(NULL, 0) == TIDE_EINVAL, tide_pool_read(pool, NULL) == TIDE_EINVAL),
       "a trim or a read without a pool is refused");
    tide_resource_release(pool);
}

#define DESCRIPTION_TESTS 1

static void
check_description(void)
{
    const char *given = "pool(release_threshold=0, cache=0) | sim";
    struct tide_resource *pool;
    char text[128] = "";

    if (tide_stack_parse(given, &pool) == TIDE_OK)
        tide_describe(pool, text, sizeof(text), NULL);
    is_string(text, given, "a pool's options of 0 are described as 0");
    tide_resource_release(pool);
}

#define ALIGNMENT_TESTS 3

static void
check_alignment(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .alignment = 4096 };
    struct tide_resource *pool = over(base_sim(0), &options);
    uint64_t wrong = 0, misses = 0;
    void *pointers[40];

    for (unsigned i = 0; i < 40; i++) {
        misses += tide_allocate(pool, 100 + 999 * i, (size_t)1 << i % 24, 0, &pointers[i]) != TIDE_OK;
        wrong += (uintptr_t)pointers[i] % ((size_t)1 << i % 24) != 0 || (uintptr_t)pointers[i] % 4096 != 0;
    }
    ok(all_of(misses == 0, wrong == 0), "every address has the requested alignment, and that of the pool");
    is_u64(query(pool, TIDE_QUERY_ALIGNMENT), 4096, "the pool's alignment is that of its blocks");
    for (unsigned i = 0; i < 40; i++)
        misses += tide_deallocate(pool, pointers[i], 100 + 999 * i, (size_t)1 << i % 24, 0) != TIDE_OK;
    tide_trim(pool, 0);
    ok(all_of(misses == 0, query(pool, TIDE_QUERY_BYTES_RESERVED) == 0), "all aligned blocks go back");
    tide_resource_release(pool);
}

int
main(void)
{
    plan(CONTRACT_CALLS * CONTRACT_TESTS + MERGE_TESTS + SMALL_TESTS + GROWTH_TESTS + CUT_TESTS + KEEP_TESTS +
         FREE_TESTS + UPSTREAM_TESTS + CREATE_TESTS + DESCRIPTION_TESTS + ALIGNMENT_TESTS);
    check_contract();
    check_merging();
    check_small();
    check_growth();
    check_cutting();
    check_keeping();
    check_wrong_frees();
    check_bad_upstream();
    check_create();
    check_description();
    check_alignment();
    return done();
}
