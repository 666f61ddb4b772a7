/* Tests what a trace knows of bins that `binning` gets while it is recorded (tide_binning_add). */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* The layer that a bin of a trace leads to; 0: the trace does not have that bin once. */
static int64_t
bin_layer(const char *path, size_t limit_bytes)
{
    return sql_number(path,
                      "SELECT iif(count(*) = 1, max(upstream_layer_id), 0) FROM layer_bin WHERE limit_bytes = %zu",
                      limit_bytes);
}

static int64_t
rows_of(const char *path, int64_t layer)
{
    return sql_number(path, "SELECT count(*) FROM allocation WHERE layer_id = %lld", (long long)layer);
}

/* The first layer of this name at or below `layer`, in a stack without bins; NULL: there is none. */
static struct tide_resource *
find_layer(struct tide_resource *layer, const char *name)
{
    while (layer != NULL && strcmp(tide_resource_name(layer), name) != 0)
        layer = layer->upstream;
    return layer;
}

static void
check(enum tide_status status)
{
    if (status == TIDE_OK)
        return;
    diag("%s", tide_error_text());
    exit(1);
}

static void
add_bin(struct tide_resource *stack, size_t limit_bytes, struct tide_resource *bin)
{
    check(tide_binning_add(find_layer(stack, "binning"), limit_bytes, bin));
    tide_resource_release(bin);
}

/* The stack of a bin that ends in the layer that follows the binning of `stack`. */
static struct tide_resource *
pool_below(struct tide_resource *stack)
{
    const struct tide_pool_options options = { TIDE_OPTIONS(options), .cache_bytes = TIDE_NONE };
    struct tide_resource *pool;

    check(tide_pool_create(find_layer(stack, "binning")->upstream, &options, &pool));
    return pool;
}

static void
test_numbered(void)
{
    const char *path = scratch("numbered.db");
    struct tide_resource *stack =
        stack_of("log(%s, samples=every) | binning(4KiB={fixed(4KiB)}) | limit(1GiB) | sim", path);
    void *small = take(stack, 64 * KIB), *block, *large;
    int64_t pool;

    add_bin(stack, MIB, pool_below(stack));
    block = take(stack, 64 * KIB);
    large = take(stack, 2 * MIB);
    ok(tide_allocate(stack, 2048 * MIB, 256, 0, &(void *){ NULL }) != TIDE_OK, "the limit refuses 2 GiB");
    tide_log_flush(stack);
    pool = bin_layer(path, MIB);
    ok(sql_number(path,
                  "SELECT count(*) FROM layer WHERE layer_id = %lld AND kind = 'pool' AND upstream_layer_id ="
                  " (SELECT layer_id FROM layer WHERE kind = 'limit')",
                  (long long)pool) == 1,
       "a bin that is added later is a layer of the trace, over the layer that has a number already");
    is_i64(sql_number(path, "SELECT count(*) FROM layer"), 6, "no layer is numbered twice");
    is_i64(rows_of(path, pool), 1, "its chunks are its rows");
    ok(sql_number(path, "SELECT max(used_bytes) FROM pool_sample WHERE layer_id = %lld", (long long)pool) == 64 * KIB,
       "it is sampled after each event");
    ok(strstr(sql_text(path, "SELECT value FROM meta WHERE key = 'stack'"), "1MiB={pool") != NULL,
       "the text of the stack has the bin");
    is_i64(sql_number(path, "SELECT count(*) FROM meta WHERE key GLOB 'stack*'"), 1, "there is one stack");
    give(stack, block, 64 * KIB);
    give(stack, small, 64 * KIB);
    give(stack, large, 2 * MIB);
    tide_resource_release(stack);
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM live") == 0),
       "a trace with a later bin is whole, and all is freed");
}

/* A bin with logs of its own, which belongs to the trace from its first request on, and keeps what it had. */
static void
test_logged(void)
{
    const char *path = scratch("logged.db");
    struct tide_log_options no_path = { TIDE_OPTIONS(no_path) };
    struct tide_resource *stack = stack_of("log(%s) | binning(4KiB={fixed(4KiB)}) | host", path);
    struct tide_resource *bin = stack_of("fixed(64KiB, preallocate=2) | limit(256KiB) | sim"), *logged;
    void *blocks[4];
    int64_t log;

    give(stack, take(stack, 1), 1);
    tide_log_flush(stack);
    tide_log_create(bin, &no_path, &logged);
    tide_resource_release(bin);
    add_bin(stack, 64 * KIB, logged);
    for (size_t i = 0; i < 4; i++)
        blocks[i] = take(stack, 64 * KIB);
    ok(tide_allocate(stack, 64 * KIB, 256, 0, &(void *){ NULL }) == TIDE_ELIMIT, "the limit in the bin refuses");
    tide_log_flush(stack);
    log = bin_layer(path, 64 * KIB);
    is_i64(rows_of(path, log), 5, "a log in a later bin records all its requests");
    ok(sql_number(path, "SELECT count(*) FROM allocation JOIN layer USING (layer_id) WHERE kind = 'fixed'"
                        " AND alloc_duration_ns = 0 AND status = 0 AND alloc_ns > 0") == 2,
       "what a later bin had already begins when it is added");
    is_i64(sql_number(path, "SELECT count(*) FROM refusal JOIN layer USING (layer_id) WHERE kind = 'limit'"), 2,
           "a refusal names the layer of the bin, in its log and in the one above");
    for (size_t i = 0; i < 4; i++)
        give(stack, blocks[i], 64 * KIB);
    tide_resource_release(stack);
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM live") == 0),
       "a trace with a log in a later bin is whole, and all is freed");
}

/* Several traces, and several logs of one trace, over one binning. */
static void
test_traces(void)
{
    const char *first = scratch("first.db"), *second = scratch("second.db"), *ended = scratch("ended.db");
    struct tide_resource *lower = stack_of("log(%s) | binning(4KiB={fixed(4KiB)}) | sim", first), *upper, *other, *gone;
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = first };

    tide_log_create(lower, &options, &upper);
    options.path = second;
    tide_log_create(upper, &options, &other);
    options.path = ended;
    tide_log_create(upper, &options, &gone);
    tide_resource_release(gone);
    add_bin(lower, MIB, pool_below(lower));
    give(other, take(other, 64 * KIB), 64 * KIB);
    tide_resource_release(other);
    tide_resource_release(upper);
    tide_resource_release(lower);
    ok(all_of(trace_is_whole(first), trace_is_whole(second), trace_is_whole(ended)),
       "the traces of all logs are whole");
    is_string(sql_text(first, "SELECT group_concat(value) FROM meta WHERE key GLOB 'stack*'"),
              sql_text(first, "SELECT 'log(%s) | log(%s) | binning(4KiB={fixed(4KiB)}, 1MiB={pool(cache=0)}) | sim'",
                       first, first),
              "the text of a stack that contains a recorded one replaces it, and has the later bin");
    ok(all_of(bin_layer(first, MIB) > 0, sql_number(first, "SELECT count(*) FROM layer WHERE kind = 'pool'") == 1,
              rows_of(first, bin_layer(first, MIB)) == 1),
       "two logs of one trace number a later bin once");
    ok(all_of(bin_layer(second, MIB) > 0, sql_number(second, "SELECT count(*) FROM layer WHERE kind = 'pool'") == 1),
       "each trace has the later bin under a number of its own");
    is_i64(bin_layer(ended, MIB), 0, "a trace that has ended does not get it");
}

#define BINS 24

static atomic_bool stop;

static void *
use_stack(void *stack)
{
    size_t bytes = 1;

    while (!atomic_load(&stop)) {
        bytes = bytes % (BINS * 4 * KIB) + 1021;
        give(stack, take(stack, bytes), bytes);
    }
    return NULL;
}

static void
test_threads(void)
{
    const char *path = scratch("threads.db");
    struct tide_resource *stack = stack_of("log(%s) | binning(1KiB={fixed(1KiB)}) | sim", path);
    struct tide_log_options no_path = { TIDE_OPTIONS(no_path) };
    pthread_t threads[3];

    atomic_store(&stop, false);
    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, use_stack, stack);
    for (size_t i = 0; i < BINS; i++) {
        struct tide_resource *logged;

        tide_log_create(find_layer(stack, "binning")->upstream, &no_path, &logged);
        add_bin(stack, (BINS - i) * 4 * KIB, logged);
        give(stack, take(stack, (BINS - i) * 4 * KIB), (BINS - i) * 4 * KIB);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(stack);
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM layer_bin") == BINS + 1),
       "bins are added while threads use the layer, and the trace is whole");
    ok(all_of(sql_number(path, "SELECT count(DISTINCT layer_id) FROM allocation WHERE layer_id > 4") == BINS,
              sql_number(path, "SELECT count(*) FROM live") == 0),
       "each later bin has its requests, with their frees");
}

int
main(void)
{
    plan(8 + 5 + 5 + 2);
    test_numbered();
    test_logged();
    test_traces();
    test_threads();
    return done();
}
