/* Tests when adaptors/pool.c orders one stream behind another: when a block changes streams, and never otherwise. */
#include <tidemark/tidemark.h>

#include "gate.h"
#include "tap.h"
#include "upstream.h"

#define MIB ((size_t)1 << 20)

static struct tide_resource *
over(struct tide_resource *upstream, const struct tide_pool_options *options)
{
    struct tide_resource *pool;

    if (tide_pool_create(upstream, options, &pool) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return pool;
}

static void *
take(struct tide_resource *pool, size_t bytes, tide_stream stream)
{
    void *pointer = NULL;

    return tide_allocate(pool, bytes, 256, stream, &pointer) == TIDE_OK ? pointer : NULL;
}

static enum tide_status
give(struct tide_resource *pool, void *pointer, size_t bytes, tide_stream stream)
{
    return tide_deallocate(pool, pointer, bytes, 256, stream);
}

#define TAKEOVER_TESTS 9

static void
check_takeover(size_t bytes)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 2 * bytes, .maximum_bytes = 2 * bytes,
                                         .cache_bytes = TIDE_NONE };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *a = take(pool, bytes, 1), *b = take(pool, bytes, 1);
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    give(pool, a, bytes, 1);
    ok(all_of(take(pool, bytes, 1) == a, upstream->order_calls == 0),
       "%zu B: a block is reused on its stream without an order", bytes);
    give(pool, a, bytes, 2);
    ok(upstream->order_calls == 0, "%zu B: a free makes no order", bytes);
    ok(all_of(take(pool, bytes, 2) == a, upstream->order_calls == 0),
       "%zu B: a block belongs to the stream on which it was freed", bytes);
    give(pool, a, bytes, 2);
    ok(all_of(take(pool, bytes, 3) == a, upstream->order_calls == 1, upstream->last_earlier == 2,
              upstream->last_later == 3),
       "%zu B: another stream that takes the block is ordered behind that one", bytes);
    give(pool, b, bytes, 4);
    give(pool, a, bytes, 2);
    ok(all_of(take(pool, 2 * bytes, 3) == (a < b ? a : b), upstream->order_calls == 3),
       "%zu B: a stream that takes two blocks of two streams as one is ordered behind both", bytes);
    give(pool, a < b ? a : b, 2 * bytes, 3);
    a = take(pool, bytes, 5);
    ok(upstream->order_calls == 4,
       "%zu B: a stream that takes a part of a block is ordered behind the stream that freed it", bytes);
    figures.orders = 0;
    tide_pool_read(pool, &figures);
    ok(all_of(figures.orders == 4, figures.taken_over == 3),
       "%zu B: the figures count the orders and the blocks that changed their stream", bytes);
    give(pool, a, bytes, 5);
    tide_resource_release(pool);
    ok(upstream->order_calls == 5, "%zu B: destroying the pool makes one order", bytes);
    ok(all_of(upstream->order_all_calls == 1, upstream->live_count == 0),
       "%zu B: that order is behind all streams, and all memory goes back", bytes);
    tide_resource_release(&upstream->base);
}

#define WAITED_TESTS 4

/* A stream waits for another only once for the same free. */
static void
check_waited(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 32 * MIB };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *others = take(pool, 24 * MIB, 1), *between = take(pool, 4 * MIB, 2), *own = take(pool, 4 * MIB, 2), *more;

    upstream->order_calls = 0;
    give(pool, own, 4 * MIB, 2);
    give(pool, others, 24 * MIB, 1);
    ok(all_of(take(pool, 8 * MIB, 2) == others, upstream->order_calls == 1),
       "a stream that takes a part of another's block is ordered once");
    more = take(pool, 8 * MIB, 2);
    ok(all_of(more != NULL, upstream->order_calls == 1),
       "a stream that takes the next part of the block needs no further order");
    give(pool, more, 8 * MIB, 1);
    ok(all_of(take(pool, 8 * MIB, 2) == more, upstream->order_calls == 2),
       "a stream that takes a part which was in use meanwhile is ordered again");
    ok(all_of(take(pool, 4 * MIB, 2) == own, between != NULL, upstream->order_calls == 2),
       "a stream that takes its own memory needs no order");
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define PREFER_TESTS 3

static void
check_preference(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 64 * MIB };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *blocks[8], *kept[8];
    uint64_t wrong = 0;

    for (size_t i = 0; i < 8; i++) {
        blocks[i] = take(pool, 3 * MIB, i + 1);
        kept[i] = take(pool, 2 * MIB, i + 1);
    }
    upstream->order_calls = 0;
    for (size_t i = 0; i < 8; i++)
        give(pool, blocks[i], 3 * MIB, i + 1);
    for (size_t i = 0; i < 8; i++)
        wrong += take(pool, 3 * MIB, 8 - i) != blocks[7 - i];
    ok(all_of(wrong == 0, upstream->order_calls == 0), "of blocks that fit equally each stream gets its own");
    for (size_t i = 0; i < 8; i++)
        give(pool, blocks[i], 3 * MIB, i + 1);
    ok(all_of(take(pool, 3 * MIB, 99) != NULL, upstream->order_calls == 1),
       "a stream without a block of its own is ordered behind another");
    blocks[0] = take(pool, 4096, 1);
    give(pool, blocks[0], 4096, 1);
    give(pool, take(pool, 4096, 2), 4096, 2);
    ok(all_of(take(pool, 4096, 1) == blocks[0], kept[0] != NULL), "a thread's cache is kept by stream");
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define REFUSED_TESTS 6

static void
check_refused_order(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(tide_resource_retain(&upstream->base));
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 4 * MIB };
    struct tide_resource *pool = over(&gate->base, &options);
    void *a = take(pool, 2 * MIB, 1), *b = take(pool, 2 * MIB, 1);

    give(pool, a, 2 * MIB, 1);
    gate->order_status = TIDE_EDRIVER;
    upstream->capacity_bytes = 8 * MIB;
    ok(all_of(take(pool, 3 * MIB, 2) != NULL, take(pool, 2 * MIB, 2) == NULL, b != NULL),
       "a stream that cannot be ordered gets other memory, or is refused");
    is_u64(upstream->live_bytes, 8 * MIB, "the other memory comes from a new chunk of upstream");
    upstream->capacity_bytes = 0;
    /* The best fit is the block that the stream cannot have. */
    ok(take(pool, 2 * MIB, 2) != NULL, "a stream that cannot be ordered gets other memory of the same size");
    ok(take(pool, 64 * 1024, 2) != NULL, "a stream that cannot be ordered gets other memory for small blocks");
    is_u64(upstream->live_bytes, 16 * MIB, "the other memory for large and small blocks comes from a chunk each");
    ok(take(pool, 2 * MIB, 1) == a, "after a failed order the block still belongs to its stream");
    gate->order_status = TIDE_OK;
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define LATER_TESTS 3

/*
 * Later chunks are larger: the best fit is an earlier one, which the stream cannot have, and which cannot be returned,
 * as two streams have freed it.
 */
static void
check_larger_chunk(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(tide_resource_retain(&upstream->base));
    struct tide_pool_options options = { TIDE_OPTIONS(options), .release_threshold_bytes = 1024 * MIB };
    struct tide_resource *pool;
    void *first, *second;

    upstream->unit_bytes = 32 * MIB;
    pool = over(&gate->base, &options);
    first = take(pool, 10 * MIB, 1);
    second = take(pool, 10 * MIB, 3);
    for (int i = 0; i < 7; i++)
        take(pool, 32 * MIB, 1);
    give(pool, first, 10 * MIB, 1);
    give(pool, second, 10 * MIB, 3);
    gate->order_status = TIDE_EDRIVER;
    upstream->allocate_calls = 0;
    upstream->fail_allocate = 8; /* so that a pool that asks without end does end */
    upstream->fail_allocate_count = UINT64_MAX;
    ok(all_of(take(pool, 20 * MIB, 2) != NULL, take(pool, 2 * MIB, 2) != NULL),
       "a stream that cannot be ordered gets a part of its own new chunk, larger than the one that fits best");
    is_u64(upstream->allocate_calls, 1, "upstream is asked for that chunk once");
    is_u64(upstream->deallocate_calls, 0, "upstream gets no chunk back for it");
    gate->order_status = TIDE_OK;
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define GONE_TESTS 6

/* The application tells the pool that streams will be destroyed. */
static void
check_gone(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);
    void *small = take(pool, 4096, 1), *large = take(pool, 4 * MIB, 1), *out = take(pool, 4 * MIB, 1);

    give(pool, small, 4096, 1);
    give(pool, large, 4 * MIB, 1);
    ok(all_of(tide_order(pool, TIDE_STREAM_ALL, 3) == TIDE_OK, upstream->last_later == 3),
       "an order behind all streams is passed to upstream");
    ok(all_of(tide_order(pool, TIDE_STREAM_ALL, 0) == TIDE_OK, upstream->last_later == 0),
       "an order of stream 0 behind all streams is passed to upstream");
    upstream->gone = 1;
    upstream->order_calls = 0;
    ok(all_of(take(pool, 4 * MIB, 2) == large, upstream->order_calls == 1, upstream->last_earlier == 0),
       "after it a block that was freed before belongs to stream 0");
    ok(all_of(take(pool, 4096, 2) != NULL, upstream->last_earlier == 0),
       "after it a block in a thread's cache belongs to stream 0");
    give(pool, large, 4 * MIB, 2);
    give(pool, out, 4 * MIB, 2);
    tide_trim(pool, 0);
    is_u64(upstream->live_count, 1, "after it a trim gives back the chunk that is free");
    tide_resource_release(pool);
    is_u64(upstream->gone_named, 0, "no call has named the destroyed stream");
    tide_resource_release(&upstream->base);
}

#define REUSED_TESTS 2

/*
 * A stream may be destroyed without telling the pool if nothing is freed on it any more, and its handle may be reused.
 */
static void
check_reused_handle(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 16 * MIB, .maximum_bytes = 16 * MIB };
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    void *first = take(pool, 16 * MIB, 1), *second;

    give(pool, first, 16 * MIB, 1);
    second = take(pool, 4 * MIB, 2);
    is_u64(upstream->order_calls, 1, "a stream is ordered behind another one");
    /* The stream was destroyed and its handle is reused: the new stream has waited for none. */
    first = take(pool, 4 * MIB, 2);
    is_u64(upstream->order_calls, 2, "a new stream of the same handle is ordered again");
    give(pool, first, 4 * MIB, 2);
    give(pool, second, 4 * MIB, 2);
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

static char warning[256];

static void
sink(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    if (severity == TIDE_WARNING)
        snprintf(warning, sizeof(warning), "%s", text);
}

#define END_TESTS 2

static void
check_no_end(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);

    take(pool, 2 * MIB, 1);
    upstream->order_all_status = TIDE_EDRIVER;
    tide_message_sink_set(sink, NULL);
    tide_resource_release(pool);
    tide_message_sink_set(NULL, NULL);
    is_u64(upstream->deallocate_calls, 0, "if streams cannot be ordered, no chunk goes back");
    is_string(warning, "pool: 2 MiB in 1 chunks stay with upstream, not ordered behind their use",
              "the warning names the chunks that stay with upstream");
    tide_resource_release(&upstream->base);
}

int
main(void)
{
    plan(2 * TAKEOVER_TESTS + WAITED_TESTS + PREFER_TESTS + REFUSED_TESTS + LATER_TESTS + GONE_TESTS + REUSED_TESTS +
         END_TESTS);
    check_takeover(4 * MIB);
    check_takeover(512 * 1024);
    check_waited();
    check_preference();
    check_refused_order();
    check_larger_chunk();
    check_gone();
    check_reused_handle();
    check_no_end();
    return done();
}
