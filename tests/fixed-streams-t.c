/* Tests adaptors/fixed.c when the streams that its blocks were freed on no longer exist. */
#include <tidemark/tidemark.h>

#include "gate.h"
#include "tap.h"
#include "upstream.h"

#define BLOCK ((size_t)1024)

/* Blocks of BLOCK bytes over `upstream`, whose reference it takes over. */
static struct tide_resource *
over(struct tide_resource *upstream)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = BLOCK };
    struct tide_resource *fixed;

    if (tide_fixed_create(upstream, &options, &fixed) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return fixed;
}

static void *
take(struct tide_resource *fixed, tide_stream stream)
{
    void *pointer = NULL;

    return tide_allocate(fixed, BLOCK, TIDE_DEFAULT_ALIGNMENT, stream, &pointer) == TIDE_OK ? pointer : NULL;
}

static enum tide_status
give(struct tide_resource *fixed, void *pointer, tide_stream stream)
{
    return tide_deallocate(fixed, pointer, BLOCK, TIDE_DEFAULT_ALIGNMENT, stream);
}

#define END_TESTS 4

static void
check_end(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(tide_resource_retain(&upstream->base));
    struct tide_resource *unused = over(tide_resource_retain(&upstream->base));
    void *a = take(fixed, 1), *b = take(fixed, 1);

    take(fixed, 1);
    give(fixed, a, 1);
    give(fixed, b, 2);
    upstream->gone = 1;
    tide_resource_release(fixed);
    ok(all_of(upstream->live_count == 0, upstream->wrong_frees == 0),
       "blocks freed on a stream that was destroyed go back to upstream");
    is_u64(upstream->gone_named, 0, "no call to upstream names the destroyed stream");
    ok(all_of(upstream->order_all_calls == 1, upstream->order_calls == 1, upstream->last_stream == 0),
       "the blocks go back on stream 0, behind one order of all streams");
    tide_resource_release(unused);
    is_u64(upstream->order_calls, 1, "a request without an idle block orders no stream");
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

#define NO_END_TESTS 2

static void
check_no_end(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(tide_resource_retain(&upstream->base));

    take(fixed, 1);
    give(fixed, take(fixed, 1), 1);
    upstream->order_all_status = TIDE_EDRIVER;
    tide_message_sink_set(sink, NULL);
    tide_resource_release(fixed);
    tide_message_sink_set(NULL, NULL);
    ok(all_of(upstream->deallocate_calls == 0, upstream->live_count == 2),
       "if streams cannot be ordered, blocks that might be in use do not go back to upstream");
    is_string(warning, "fixed: 2 blocks of 1 KiB stay with upstream, not ordered behind their use",
              "the warning names the blocks that stay with upstream");
    tide_resource_release(&upstream->base);
}

#define ORDER_TESTS 9

/* The application tells the layer that streams will be destroyed. */
static void
check_order(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(tide_resource_retain(&upstream->base));
    void *blocks[4];

    for (size_t i = 0; i < 4; i++)
        blocks[i] = take(fixed, 1);
    for (size_t i = 0; i < 3; i++)
        give(fixed, blocks[i], i + 1);
    upstream->gone = 1;
    ok(all_of(tide_order(fixed, TIDE_STREAM_ALL, 9) == TIDE_OK, upstream->last_later == 9),
       "an order behind all streams is passed to upstream");
    ok(all_of(take(fixed, 3) == blocks[2], give(fixed, blocks[2], 3) == TIDE_OK, upstream->order_calls == 1),
       "an order of stream 9 behind all streams leaves idle blocks on their streams");
    ok(all_of(tide_order(fixed, TIDE_STREAM_ALL, 0) == TIDE_OK, upstream->order_all_calls == 2),
       "an order of stream 0 behind all streams is passed to upstream");
    give(fixed, blocks[3], 5);
    ok(all_of(take(fixed, 5) == blocks[3], upstream->order_calls == 2),
       "a block that is freed after the order of stream 0 lies on its own stream");
    ok(all_of(take(fixed, 0) != NULL, upstream->order_calls == 2),
       "blocks freed before the order of stream 0 lie on stream 0");
    ok(all_of(take(fixed, 2) != NULL, upstream->last_earlier == 0, upstream->last_later == 2),
       "another stream that takes such a block waits for stream 0");
    ok(all_of(take(fixed, 3) != NULL, upstream->allocate_calls == 4),
       "after the order of stream 0 every idle block can be taken");
    upstream->order_all_status = TIDE_EDRIVER;
    give(fixed, blocks[0], 6);
    ok(all_of(tide_order(fixed, TIDE_STREAM_ALL, 0) == TIDE_EDRIVER, take(fixed, 6) == blocks[0]),
       "a failed order of stream 0 leaves idle blocks on their streams");
    upstream->order_all_status = TIDE_OK;
    tide_resource_release(fixed);
    is_u64(upstream->gone_named, 0, "no call has named the stream that is gone");
    tide_resource_release(&upstream->base);
}

#define PRESSURE_TESTS 6

/* Blocks that no stream can take over have to go back to upstream, although their stream was destroyed. */
static void
check_pressure(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(tide_resource_retain(&upstream->base));
    struct tide_resource *fixed = over(&gate->base);
    void *a = take(fixed, 1), *b = take(fixed, 1);

    upstream->capacity_bytes = 2 * BLOCK;
    gate->order_status = TIDE_EDRIVER;
    give(fixed, a, 1);
    give(fixed, b, 3);
    upstream->gone = 1;
    gate->order_all_status = TIDE_EDRIVER;
    ok(all_of(take(fixed, 2) == NULL, upstream->deallocate_calls == 0),
       "a block does not go back to upstream if its stream cannot be ordered");
    has_words(tide_error_text(), "upstream", "the error of the failed order is upstream's");
    ok(all_of(take(fixed, 3) == b, give(fixed, b, 3) == TIDE_OK),
       "after the failed order each block still lies on its stream");
    gate->order_all_status = TIDE_OK;
    ok(all_of(take(fixed, 2) != NULL, upstream->deallocate_calls == 2),
       "once the order succeeds all idle blocks go back to upstream");
    is_u64(upstream->order_all_calls, 1, "all streams are waited for once before idle blocks go back");
    tide_resource_release(fixed);
    is_u64(upstream->gone_named, 0, "no call has named the destroyed stream when idle blocks go back");
    tide_resource_release(&upstream->base);
}

static struct {
    struct tide_resource *fixed;
    void *out;
} scene;

static void
visit_give(void *context)
{
    (void)context;
    give(scene.fixed, scene.out, 4);
}

#define MEANWHILE_TESTS 4

/* A block freed while streams are waited for may be used by work that came after the wait began. */
static void
check_meanwhile(void)
{
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(&upstream->base);
    void *idle;

    scene.fixed = over(&gate->base);
    idle = take(scene.fixed, 4);
    scene.out = take(scene.fixed, 4);
    give(scene.fixed, idle, 4);
    gate->before_order_all = visit_give;
    ok(tide_order(scene.fixed, TIDE_STREAM_ALL, 0) == TIDE_OK, "a block is freed while all streams are waited for");
    ok(all_of(take(scene.fixed, 4) == scene.out, upstream->order_calls == 1),
       "a block freed during the order of all streams stays on its stream");
    ok(take(scene.fixed, 4) == idle, "a block freed before the order of all streams serves another stream");
    ok(all_of(upstream->last_earlier == 0, upstream->last_later == 4),
       "the block from before the order lies on stream 0");
    tide_resource_release(scene.fixed);
}

#define MANY       1000
#define MANY_TESTS 3

/* As many streams as blocks, so that every group of the table is in use. */
static void
check_many(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *fixed = over(&upstream->base);
    static void *pointers[MANY];
    uint64_t taken = 0;

    for (size_t i = 0; i < MANY; i++)
        pointers[i] = take(fixed, i + 1);
    for (size_t i = 0; i < MANY; i++)
        give(fixed, pointers[i], i + 1);
    ok(tide_order(fixed, TIDE_STREAM_ALL, 0) == TIDE_OK, "all of a thousand streams are ordered before stream 0");
    for (size_t i = 0; i < MANY; i++)
        taken += take(fixed, 0) != NULL;
    is_u64(taken, MANY, "the blocks of a thousand streams are on stream 0");
    ok(all_of(upstream->allocate_calls == MANY, upstream->order_calls == 1),
       "stream 0 takes the blocks of a thousand streams without a further order");
    tide_resource_release(fixed);
}

int
main(void)
{
    plan(END_TESTS + NO_END_TESTS + ORDER_TESTS + PRESSURE_TESTS + MEANWHILE_TESTS + MANY_TESTS);
    check_end();
    check_no_end();
    check_order();
    check_pressure();
    check_meanwhile();
    check_many();
    return done();
}
