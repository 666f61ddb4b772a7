/*
 * Tests what a trace knows of the chunks of suballocators: told by a log below, or by the suballocator itself, and what
 * was taken before the trace began. A trace of its own below the suballocator, which begins before the suballocator
 * does, is the model: `log(told.db) | pool | log(model.db) | sim`.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>
#include <tidemark/trace.h>

#include "src/sync/testpoint.h"
#include "tests/tap.h"
#include "tests/trace.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static uint64_t state;

/* The result of one statement over both traces, as `told` and `model`. */
static int64_t
both(const char *told, const char *model, const char *sql)
{
    char *attach = sqlite3_mprintf("ATTACH %Q AS model", model);
    sqlite3_stmt *statement = NULL;
    int64_t number = INT64_MIN;
    sqlite3 *db;

    if (sqlite3_open_v2(told, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_exec(db, attach, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    else
        diag("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    sqlite3_free(attach);
    return number;
}

/* The rows of a layer but for ids and times, with their order; frees with theirs. */
#define ROWS(trace, layer)                                                                                             \
    "SELECT row_number() OVER (ORDER BY allocation_id), iif(free_ns IS NULL, NULL, rank() OVER (ORDER BY free_ns)),"   \
    " address, size, alignment, status, name, free_ns IS NULL,"                                                        \
    " (SELECT handle FROM " trace ".stream s WHERE s.stream_id = alloc_stream_id),"                                    \
    " (SELECT handle FROM " trace ".stream s WHERE s.stream_id = free_stream_id)"                                      \
    " FROM " trace ".allocation LEFT JOIN " trace ".tag USING (tag_id) WHERE layer_id = " layer

/* Whether a layer of `told`, which has this id, has the rows of the only log of `model`. */
static bool
same_rows(const char *told, const char *model, unsigned layer)
{
    char sql[4096];
    int64_t differ;

    snprintf(sql, sizeof(sql),
             "WITH a AS (" ROWS("main", "%u") "), b AS (" ROWS(
                 "model", "1") ")"
                               " SELECT (SELECT count(*) FROM (SELECT * FROM a EXCEPT SELECT * FROM b))"
                               " + (SELECT count(*) FROM (SELECT * FROM b EXCEPT SELECT * FROM a))",
             layer);
    differ = both(told, model, sql);
    if (differ != 0)
        diag("%lld rows differ: %s", (long long)differ, sql);
    return differ == 0;
}

static int64_t
rows_of(const char *path, const char *kind, const char *where)
{
    return sql_number(path, "SELECT count(*) FROM allocation JOIN layer USING (layer_id) WHERE kind = '%s' AND %s",
                      kind, where);
}

#define HIGH_OF "SELECT max(reserved_high_bytes) FROM pool_sample WHERE layer_id = %d"

#define HELD_MOST 200

/* Random requests, of which some fail, and frees, on a few streams under tags; all is freed at the end. */
static void
traffic(struct tide_resource *stack, unsigned steps, size_t most)
{
    struct {
        void *pointer;
        size_t bytes;
        tide_stream stream;
    } held[HELD_MOST];
    size_t count = 0;

    for (unsigned i = 0; i < steps || count > 0; i++) {
        uint64_t random = next_random(&state);

        if (i < steps && count < HELD_MOST && random % 5 < 3) {
            held[count].bytes = 1 + (random >> 8) % most;
            held[count].stream = random >> 60 & 1;
            tide_tag_push(random >> 61 & 1 ? "odd" : "even");
            count += tide_allocate(stack, held[count].bytes, 256, held[count].stream, &held[count].pointer) == TIDE_OK;
            tide_tag_pop();
        } else if (random % 199 == 0) {
            tide_trim(stack, 0);
        } else if (count > 0) {
            size_t chosen = (size_t)(random >> 8) % count;

            tide_deallocate(stack, held[chosen].pointer, held[chosen].bytes, 256, held[chosen].stream);
            held[chosen] = held[--count];
        }
    }
}

static const struct {
    const char *text;
    const char *base;
    size_t most;    /* bytes of a request */
    int64_t before; /* chunks that are taken at creation */
} layers[] = {
    { "pool", "sim", 900 * KIB, 0 },
    { "pool(initial=4MiB)", "sim", 900 * KIB, 1 },
    { "pool(release_threshold=2MiB, cache=0)", "sim", 3 * MIB, 0 },
    { "pool(maximum=20MiB, growth=256KiB)", "sim", 2 * MIB, 0 },
    { "pool(initial=1MiB)", "sim(capacity=30MiB)", 3 * MIB, 1 },
    { "arena", "sim", 3 * MIB, 0 },
    { "arena(size=40MiB)", "sim(capacity=20MiB)", 3 * MIB, 0 },
    { "fixed(64KiB, preallocate=5)", "sim", 64 * KIB, 5 },
    { "fixed(64KiB)", "sim(capacity=3MiB)", 64 * KIB, 0 },
    { "monotonic(256KiB)", "sim(capacity=100MiB)", 300 * KIB, 0 },
};

#define LAYERS (sizeof(layers) / sizeof(layers[0]))

static void
test_own_word(void)
{
    for (size_t i = 0; i < LAYERS; i++) {
        const char *told = scratch("told-%zu.db", i), *model = scratch("model-%zu.db", i);
        const char *lower = scratch("lower-%zu.db", i);
        struct tide_resource *stack =
            stack_of("log(%s) | %s | log(%s) | %s", told, layers[i].text, model, layers[i].base);
        uint64_t seed = state;

        traffic(stack, 3000, layers[i].most);
        tide_resource_release(stack);
        ok(all_of(trace_is_whole(told), same_rows(told, model, 2)), "%s over %s says its chunks as a log below does",
           layers[i].text, layers[i].base);
        ok(sql_number(told, "SELECT count(*) FROM allocation WHERE layer_id = 2 AND alloc_ns = 0"
                            " AND alloc_duration_ns = 0 AND status = 0") == layers[i].before,
           "%s: what it took before the trace stands at its beginning", layers[i].text);
        ok(sql_number(told, HIGH_OF, 2) == sql_number(told, "SELECT max(live_bytes) FROM usage WHERE layer_id = 2"),
           "%s over %s: its highest reserved bytes are those of its chunks", layers[i].text, layers[i].base);
        ok(sql_number(told, HIGH_OF, 4) == both(told, model, "SELECT max(live_bytes) FROM model.usage"),
           "%s over %s: the highest reserved bytes of the base are exact", layers[i].text, layers[i].base);
        state = seed;
        stack = stack_of("log(%s) | %s | log | %s", lower, layers[i].text, layers[i].base);
        traffic(stack, 3000, layers[i].most);
        tide_resource_release(stack);
        ok(all_of(trace_is_whole(lower), same_rows(lower, model, 3),
                  sql_number(lower, "SELECT count(*) FROM allocation WHERE layer_id = 2") == 0),
           "%s: over a log of its trace it says nothing, and the log has all chunks", layers[i].text);
    }
}

static void
test_two(void)
{
    const char *told = scratch("two.db"), *upper = scratch("two-upper.db"), *lower = scratch("two-lower.db");
    struct tide_resource *stack =
        stack_of("log(%s) | fixed(64KiB, preallocate=3) | pool(initial=2MiB) | log(%s) | sim", told, lower);
    uint64_t seed = state;

    traffic(stack, 2000, 64 * KIB);
    tide_resource_release(stack);
    state = seed;
    stack = stack_of("fixed(64KiB, preallocate=3) | log(%s) | pool(initial=2MiB) | sim", upper);
    traffic(stack, 2000, 64 * KIB);
    tide_resource_release(stack);
    /* The pool belongs to the trace above it there. */
    ok(all_of(same_rows(told, upper, 2), same_rows(told, lower, 3), trace_is_whole(told)),
       "two suballocators on each other say their own chunks each");
}

/* Layers that pass other blocks on than they hand out, or choose a way for each. */
static void
test_ways(void)
{
    static const struct {
        const char *text;
        int64_t rows, own;
    } ways[] = {
        { "fixed(4KiB, preallocate=3) | aligned(1KiB) | log | sim", 3, 0 },
        { "fixed(4KiB, preallocate=3) | aligned(64KiB, above=64KiB) | log | sim", 3, 0 },
        { "fixed(4KiB, preallocate=3) | guard | log | host", 3, 0 },
        { "fixed(4KiB, preallocate=3) | limit(1MiB) | statistics | track | log | sim", 3, 0 },
        { "fixed(4KiB, preallocate=3) | log | log | sim", 6, 0 },
        { "fixed(4KiB, preallocate=3) | fallback({limit(8KiB) | log | sim}) | log | host", 3, 0 },
        { "fixed(4KiB, preallocate=3) | fallback({limit(8KiB) | log | sim}) | host", 2, 1 },
        { "fixed(4KiB, preallocate=3) | binning(4KiB={log}) | sim", 3, 0 },
        { "fixed(4KiB, preallocate=3) | binning(1KiB={fixed(1KiB, preallocate=2)}) | log | sim", 5, 0 },
        { "fixed(4KiB, preallocate=3) | limit(1MiB) | sim", 0, 3 },
        { "binning(4KiB={fixed(4KiB, preallocate=3)}) | sim", 0, 3 },
        { "binning(4KiB={fixed(4KiB, preallocate=3)}, 1KiB..2KiB) | pool(initial=2MiB) | sim", 0, 5 },
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const char *path = scratch("way-%zu.db", i);
        struct tide_resource *stack = stack_of("log(%s) | %s", path, ways[i].text);

        tide_log_flush(stack);
        ok(all_of(rows_of(path, "log", "alloc_ns = 0") == ways[i].rows,
                  sql_number(path, "SELECT count(*) FROM allocation") == ways[i].rows + ways[i].own),
           "the chunks of before are in the logs on their way, or said: %s", ways[i].text);
        tide_resource_release(stack);
        ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM live") == 0),
           "their later frees end them: %s", ways[i].text);
    }
}

#define LIVES(trace, layers)                                                                                           \
    "SELECT address, size, free_ns IS NULL, count(*) FROM " trace ".allocation WHERE layer_id IN (" layers ")"         \
    " AND status = 0 GROUP BY 1, 2, 3"
#define SAYS        "SELECT max(layer_id) FROM main.layer WHERE kind IN ('pool', 'fixed', 'monotonic')"
#define LIVES_TOLD  LIVES("main", "SELECT 1 UNION " SAYS)
#define LIVES_MODEL LIVES("model", "1")

/* Whether the chunks that a layer of `told` says, and those of the log below it, are the rows of `model`, each once. */
static bool
same_lives(const char *told, const char *model)
{
    return both(told, model,
                "SELECT (SELECT count(*) FROM (" LIVES_TOLD " EXCEPT " LIVES_MODEL "))"
                " + (SELECT count(*) FROM (" LIVES_MODEL " EXCEPT " LIVES_TOLD "))") == 0;
}

/* Some ways down have a log, others none: each chunk is in the trace once. */
static void
test_some_ways(void)
{
    static const char *const ways[] = {
        "pool(release_threshold=2MiB, cache=0) | log(%s) | fallback({limit(8MiB) | log(%s) | sim}) | host",
        "pool(initial=4MiB) | log(%s) | binning(4MiB={log(%s)}) | sim",
        "fixed(512KiB, preallocate=3) | log(%s) | fallback({limit(3MiB) | log(%s) | sim}) | host",
        "monotonic(256KiB) | log(%s) | binning(300KiB={limit(400MiB) | log(%s)}, 1MiB={statistics}) | host",
        "pool(cache=0) | log(%s) | fallback({limit(6MiB) | log(%s) | pool(cache=0) | sim}) | host",
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const char *told = scratch("some-%zu.db", i), *model = scratch("some-model-%zu.db", i);
        char way[512];
        struct tide_resource *stack;

        snprintf(way, sizeof(way), ways[i], model, told);
        stack = stack_of("log(%s) | %s", told, way);
        traffic(stack, 2000, 500 * KIB);
        tide_resource_release(stack);
        ok(same_lives(told, model), "each chunk is in the trace once: %s", way);
        ok(all_of(trace_is_whole(told), rows_of(told, "log", "layer_id = 1") > 0,
                  sql_number(told, "SELECT count(*) FROM allocation WHERE layer_id = (" SAYS ")") > 0,
                  sql_number(told, "SELECT count(*) FROM live") == 0),
           "some chunks passed a log and some none, and each return is where its chunk is: %s", way);
    }
}

/* A pool that outlives the log, or belongs to several. */
static void
test_shared(void)
{
    const char *first = scratch("first.db"), *second = scratch("second.db"), *third = scratch("third.db");
    struct tide_resource *pool = stack_of("pool(initial=2MiB) | sim"), *logs[4];
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = first };
    void *large;

    tide_log_create(pool, &options, &logs[0]);
    tide_log_create(pool, &options, &logs[1]);
    options.path = second;
    tide_log_create(pool, &options, &logs[2]);
    large = take(logs[2], 9 * MIB);
    tide_resource_release(logs[0]);
    give(logs[2], large, 9 * MIB);
    tide_trim(pool, 0);
    tide_resource_release(logs[1]);
    ok(all_of(trace_is_whole(first), rows_of(first, "pool", "free_ns IS NOT NULL") == 2,
              rows_of(first, "pool", "1") == 2),
       "a pool that two logs of a trace have is in it until the second ends");
    options.path = third;
    tide_log_create(pool, &options, &logs[3]);
    large = take(pool, 5 * MIB);
    tide_resource_release(logs[2]);
    tide_resource_release(logs[3]);
    ok(all_of(trace_is_whole(second), rows_of(second, "pool", "1") == 0),
       "of two traces over a pool the first one has its chunks");
    ok(all_of(trace_is_whole(third), rows_of(third, "pool", "free_ns IS NULL") == 1, rows_of(third, "pool", "1") == 1),
       "a trace that begins when that one has ended has them, too; a pool that stays keeps its chunks live in it");
    give(pool, large, 5 * MIB);
    tide_resource_release(pool);
}

/* A layer that joins a trace in which events are. */
static void
test_late(void)
{
    const char *path = scratch("late.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path), *later;
    void *block = take(stack, 100);

    later = stack_of("log(%s) | pool(initial=2MiB) | sim", path);
    give(stack, block, 100);
    tide_resource_release(later);
    tide_resource_release(stack);
    ok(all_of(trace_is_whole(path), rows_of(path, "pool", "alloc_ns > 0 AND alloc_duration_ns = 0") == 1,
              rows_of(path, "pool", "1") == 1),
       "a chunk of a stack that joins the trace later begins when the stack joins");
}

/* `guard | log | host`, where the log has no trace yet. */
static struct tide_resource *
guard_over_log(void)
{
    struct tide_log_options no_path = { TIDE_OPTIONS(no_path) };
    struct tide_resource *base = stack_of("host"), *middle, *guard;

    tide_log_create(base, &no_path, &middle);
    tide_guard_create(middle, NULL, &guard);
    tide_resource_release(base);
    tide_resource_release(middle);
    return guard;
}

/* What a guard keeps was freed to it before the trace, and goes to upstream later. */
static void
test_kept(void)
{
    const char *path = scratch("kept.db"), *pooled = scratch("kept-pool.db");
    struct tide_pool_options no_threshold = { TIDE_OPTIONS(no_threshold), .cache_bytes = TIDE_NONE };
    struct tide_resource *lower = guard_over_log(), *pool, *stack;
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };

    give(lower, take(lower, 4096), 4096);
    tide_log_create(lower, &options, &stack);
    give(stack, take(stack, 100), 100);
    tide_log_flush(stack);
    ok(all_of(rows_of(path, "log", "alloc_ns = 0 AND size = 4096 + 512 AND free_ns IS NULL") == 1,
              rows_of(path, "log", "alloc_ns = 0") == 1),
       "a freed block that a guard keeps is live in the log below, from the beginning of the trace");
    tide_trim(stack, 0);
    tide_resource_release(stack);
    tide_resource_release(lower);
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM live") == 0),
       "when the guard gives the blocks back, their frees end them");
    lower = guard_over_log();
    tide_pool_create(lower, &no_threshold, &pool);
    give(pool, take(pool, 3 * MIB), 3 * MIB);
    tide_pool_trim(pool, 0);
    options.path = pooled;
    tide_log_create(pool, &options, &stack);
    traffic(stack, 300, MIB);
    tide_trim(stack, 0);
    tide_resource_release(stack);
    tide_resource_release(pool);
    tide_resource_release(lower);
    ok(all_of(trace_is_whole(pooled), rows_of(pooled, "log", "alloc_ns = 0") > 0,
              sql_number(pooled, "SELECT count(*) FROM live") == 0),
       "chunks that a pool has returned to a guard are in the log below it");
}

/* Everything but the last half second is in no transaction when the process is killed. */
static int
record_and_die(void *path)
{
    struct tide_resource *stack =
        stack_of("log(%s-told.db, samples=every) | pool(initial=4MiB) | log(%s-model.db) | sim", (const char *)path,
                 (const char *)path);

    traffic(stack, 1500, 2 * MIB);
    take(stack, 3 * MIB);
    kill(getpid(), SIGKILL);
    return 1;
}

static void
test_kill(void)
{
    const char *told = scratch("killed-told.db"), *model = scratch("killed-model.db");
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    char path[256];

    snprintf(path, sizeof(path), "%.*s", (int)(strlen(told) - strlen("-told.db")), told);
    in_child(record_and_die, path);
    ok(all_of(tide_trace_recover(told, &recovery) == TIDE_OK, tide_trace_recover(model, &recovery) == TIDE_OK,
              trace_is_whole(told), same_rows(told, model, 2), rows_of(told, "pool", "alloc_ns = 0") == 1,
              rows_of(told, "pool", "free_ns IS NULL") > 0),
       "a killed program's trace has all chunks, those of before the trace included");
    is_i64(sql_number(told, HIGH_OF, 2), sql_number(told, "SELECT max(live_bytes) FROM usage WHERE layer_id = 2"),
           "with samples=every its highest reserved bytes survive, too");
}

static int
use_in_child(void *stack)
{
    traffic(stack, 500, 3 * MIB);
    return 0;
}

/* The child's own trace begins with what the parent took. */
static int
record_in_child(void *stack)
{
    const char *path = scratch("own-%d.db", (int)getpid());

    traffic(stack, 200, 3 * MIB);
    tide_trim(stack, 0);
    if (tide_log_flush(stack) != TIDE_OK)
        return 1;
    return !all_of(trace_is_sound(path), sql_number(path, "SELECT count(*) FROM unmatched_free") == 0,
                   rows_of(path, "fixed", "alloc_ns = 0") >= 1, rows_of(path, "pool", "alloc_ns = 0") >= 1);
}

static void
test_fork(void)
{
    const char *path = scratch("fork.db");
    struct tide_resource *stack = stack_of("log(%s) | pool(initial=4MiB, release_threshold=4MiB) | sim", path);
    void *small, *large;
    int status = 0;

    traffic(stack, 500, 3 * MIB);
    if (CHILDREN_MAY_RECORD)
        status = in_child(use_in_child, stack);
    traffic(stack, 500, 3 * MIB);
    tide_resource_release(stack);
    ok(all_of(status == 0, trace_is_whole(path)), "a forked child uses the pool and leaves the trace alone");
    stack = stack_of("log(%s) | binning(64KiB={fixed(64KiB, preallocate=3)}) | pool(initial=4MiB) | statistics | sim",
                     scratch("own-%%p.db"));
    traffic(stack, 200, 3 * MIB);
    small = take(stack, 60000);
    large = take(stack, 3 * MIB);
    if (CHILDREN_MAY_RECORD)
        status = in_child(record_in_child, stack);
    give(stack, small, 60000);
    give(stack, large, 3 * MIB);
    tide_resource_release(stack);
    is_i64(status, 0, "the trace of a forked child begins with the chunks that its parent took");
}

static atomic_bool stop;

static void *
use_pool(void *pool)
{
    void *pointer;

    /* Chunks come and go with nearly each of these. */
    while (!atomic_load(&stop)) {
        if (tide_allocate(pool, 3 * MIB, 256, 0, &pointer) == TIDE_OK)
            tide_deallocate(pool, pointer, 3 * MIB, 256, 0);
    }
    return NULL;
}

#define USERS   3
#define OPENING 16

/* Traces begin and end over a pool, and a log below it joins, while other threads make the pool take chunks. */
static void
test_threads(void)
{
    struct tide_resource *pool = stack_of("pool(release_threshold=2MiB, cache=0) | sim");
    struct tide_resource *below = NULL, *middle = NULL, *lowest = stack_of("pool(cache=0) | sim");
    struct tide_log_options no_path = { TIDE_OPTIONS(no_path) };
    struct tide_pool_options options_below = { TIDE_OPTIONS(options_below), .release_threshold_bytes = 2 * MIB,
                                               .cache_bytes = TIDE_NONE };
    struct tide_resource *used[] = { pool, NULL };
    pthread_t threads[USERS * 2];
    bool whole = true;
    int64_t rows = 0;

    tide_log_create(lowest, &no_path, &middle);
    tide_pool_create(middle, &options_below, &below);
    tide_resource_release(lowest);
    tide_resource_release(middle);
    used[1] = below;
    atomic_store(&stop, false);
    for (size_t i = 0; i < USERS * 2; i++)
        pthread_create(&threads[i], NULL, use_pool, used[i % 2]);
    for (unsigned i = 0; i < OPENING; i++) {
        const char *path = scratch("opening-%u.db", i);
        struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
        struct tide_resource *log;

        /* The log below belongs to the first trace for good: it is opened once, in the midst. */
        if (tide_log_create(i == OPENING / 2 ? below : pool, &options, &log) != TIDE_OK) {
            diag("%s", tide_error_text());
            whole = false;
            continue;
        }
        usleep(1000);
        tide_resource_release(log);
        if (i != OPENING / 2) {
            whole &= trace_is_whole(path);
            rows += rows_of(path, "pool", "1");
        }
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < USERS * 2; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(pool);
    tide_resource_release(below);
    ok(whole, "traces that begin and end over a pool in use are whole");
    ok(all_of(rows > OPENING, trace_is_whole(scratch("opening-%u.db", OPENING / 2)),
              rows_of(scratch("opening-%u.db", OPENING / 2), "log", "1") > 0),
       "they have its chunks, and so does a log below that joins while the pool is used");
}

int
main(void)
{
    plan((int)LAYERS * 5 + 1 + 24 + 10 + 3 + 1 + 3 + 2 + 2 + 2);
    state = random_seed("CHUNKS_SEED");
    test_own_word();
    test_two();
    test_ways();
    test_some_ways();
    test_shared();
    test_late();
    test_kept();
    test_kill();
    test_fork();
    test_threads();
    return done();
}
