/* Tests the driver calls within the events of a stack, together with all other records of its logs. */
#include "tests/gpu/gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#if defined(HAVE_CUDA_H) && defined(HAVE_CUPTI_H)

#define THREADS 4

static unsigned pairs; /* of each of the four threads */

/* On device 0, with a context that is current: without one the base calls the driver twice. */
static void
set_context(void)
{
    CUcontext context;

    if (gpu.primary_retain(&context, 0) != CUDA_SUCCESS || gpu.context_set(context) != CUDA_SUCCESS)
        abort();
}

/* The number of calls that do not lie within their event, on the same thread, to a microsecond. */
static int64_t
calls_apart(const char *path)
{
    return sql_number(path, "SELECT count(*) FROM driver_call JOIN allocation AS a USING (allocation_id) WHERE"
                            " thread_id <> iif(is_free, free_thread_id, alloc_thread_id)"
                            " OR start_ns + 1000 < iif(is_free, free_ns, alloc_ns - alloc_duration_ns)"
                            " OR start_ns + duration_ns - 1000 > iif(is_free, free_ns + free_duration_ns, alloc_ns)");
}

static void *
calls_thread(void *stack)
{
    CUstream stream;
    void *pointer;

    set_context();
    if (gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        abort();
    for (unsigned i = 0; i < pairs; i++) {
        if (tide_allocate(stack, 4096, 256, (tide_stream)stream, &pointer) != TIDE_OK ||
            tide_deallocate(stack, pointer, 4096, 256, (tide_stream)stream) != TIDE_OK)
            abort();
    }
    gpu.stream_synchronize(stream);
    return NULL;
}

#define THREAD_TESTS 7

/* Four threads allocate through two logs. */
static void
test_threads(void)
{
    const char *path = scratch("calls.db");
    struct tide_resource *stack = stack_of("log(%s) | statistics | log | driver(release_threshold=1GiB)", path);
    int64_t wanted = (int64_t)pairs * THREADS;
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, calls_thread, stack);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(stack);
    ok(trace_is_whole(path), "the trace of four threads is whole");
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "calls",
              "the trace's meta says that it has the calls");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE layer_id = 3"), wanted,
           "the trace of four threads has all events");
    is_i64(sql_number(path, "SELECT count(*) FROM (SELECT allocation_id FROM driver_call GROUP BY 1"
                            " HAVING count(*) = 2 AND sum(is_free) = 1) JOIN allocation USING (allocation_id)"
                            " WHERE layer_id = 3"),
           wanted, "each allocation of the lower log has the call that made it, and the one that freed it");
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call WHERE result = 0"
                            " AND function = iif(is_free, 'cuMemFreeAsync', 'cuMemAllocFromPoolAsync')"),
           2 * wanted, "the trace has no other driver calls");
    is_i64(calls_apart(path), 0, "each call lies within the interval of its event, on the same thread");
    is_i64(sql_number(path, "SELECT value FROM meta WHERE key = 'late_records'"), 0, "no record came late");
}

#define PINNED_TESTS 2

/* Memory that is on no device. */
static void
test_pinned(void)
{
    const char *path = scratch("pinned.db");
    struct tide_resource *stack = stack_of("log(%s) | pinned", path);

    give(stack, take(stack, 4096), 4096);
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'"), "calls",
              "the meta of a trace of pinned memory says that it has the calls");
    is_string(sql_text(path, "SELECT group_concat(function) FROM (SELECT function FROM driver_call"
                             " JOIN allocation USING (allocation_id) WHERE result = 0 ORDER BY start_ns)"),
              "cuMemHostAlloc,cuMemFreeHost", "the calls of pinned memory are cuMemHostAlloc and cuMemFreeHost");
}

#define DOMAIN_TESTS 2

/* Callbacks of another domain, in which the numbers mean other functions. */
static void
test_domain(void)
{
    const char *path = scratch("domain.db");
    struct tide_resource *stack = stack_of("log(%s) | driver", path);

    if (gpu_is_fake())
        setenv("FAKE_CUPTI_OTHER_DOMAIN", "1", 1);
    for (unsigned i = 0; i < 10; i++)
        give(stack, take(stack, 4096), 4096);
    unsetenv("FAKE_CUPTI_OTHER_DOMAIN");
    tide_resource_release(stack);
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call"), 20, "callbacks of other domains add no driver calls");
    is_i64(calls_apart(path), 0, "with callbacks of other domains each call lies within its event");
}

#define ENDS_TESTS 5

/* A stack of layers that only pass calls on, and two with a layer that may take its time. */
static void
test_ends(void)
{
    const char *quick = scratch("quick.db"), *slow = scratch("slow.db"), *soft = scratch("soft.db");
    /* The times may differ by three roundings. */
    const char *same = "SELECT count(*) FROM allocation AS a JOIN driver_call AS c USING (allocation_id)"
                       " WHERE abs(iif(is_free, free_ns + free_duration_ns, alloc_ns) - start_ns - duration_ns) <= 3";
    struct tide_resource *stacks[3] = { stack_of("log(%s) | statistics | limit(1GiB) | driver", quick),
                                        stack_of("log(%s) | aligned | driver", slow),
                                        stack_of("log(%s) | limit(1GiB, soft=512MiB) | driver", soft) };

    for (unsigned i = 0; i < 3; i++) {

        for (unsigned turn = 0; turn < 100; turn++)
            give(stacks[i], take(stacks[i], 4096), 4096);
        tide_resource_release(stacks[i]);
    }
    ok(all_of(trace_is_whole(quick), trace_is_whole(slow), trace_is_whole(soft)), "three stacks have whole traces");
    is_i64(calls_apart(quick) + calls_apart(slow) + calls_apart(soft), 0,
           "in the traces of three stacks each call lies within its event");
    if (strcmp(sql_text(quick, "SELECT value FROM meta WHERE key = 'clock'"), "tsc") == 0) {
        ok(sql_number(quick, "%s", same) >= 160, "over layers that only pass calls on, an event ends with its call");
        ok(sql_number(slow, "%s", same) <= 40, "over other layers an event has an end of its own");
        ok(sql_number(soft, "%s", same) <= 40,
           "over a soft limit, whose function may take long, an event has an end of its own");
    } else {
        skip(3, "no time stamp counter");
    }
}

#define CONTEXT_TESTS 3

static void *
context_thread(void *stack)
{
    give(stack, take(stack, 4096), 4096); /* on a thread without a context */
    return NULL;
}

static void
test_context(void)
{
    const char *path = scratch("context.db");
    struct tide_resource *stack = stack_of("log(%s) | statistics | driver", path);
    pthread_t thread;

    pthread_create(&thread, NULL, context_thread, stack);
    pthread_join(thread, NULL);
    tide_resource_release(stack);
    ok(trace_is_whole(path), "the trace of a thread without a context is whole");
    is_string(sql_text(path, "SELECT group_concat(function || iif(result = 0, '', ' fails')) FROM"
                             " (SELECT * FROM driver_call WHERE NOT is_free ORDER BY start_ns)"),
              "cuMemAllocFromPoolAsync fails,cuMemAllocFromPoolAsync",
              "the event has the failed call without a context and the one after it");
    is_i64(calls_apart(path), 0, "each call lies within its event");
}

/*
 * Each row of the table below is an option of a log, or of what runs below or beside it, with three values. The 27 runs
 * contain every pair of values of any two rows: their numbers in base 3 are combined by vectors of which no two are
 * multiples of each other (an orthogonal array of strength 2: Rao 1947).
 */
enum { CUPTI, SAMPLES, OVERFLOW, STACKS, CLOCK, LAYERS, WORK, FACTORS };
static const unsigned factor_vectors[FACTORS][3] = { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 }, { 1, 1, 0 },
                                                     { 1, 0, 1 }, { 0, 1, 1 }, { 1, 1, 1 } };
static const char *const factor_values[FACTORS][3] = {
    [CUPTI] = { "cupti=calls", "cupti=memory", "cupti=off" },
    [SAMPLES] = { "samples=auto", "samples=every", "samples=off" },
    [OVERFLOW] = { "overflow=wait", "overflow=drop", "ring=4KiB" },
    [STACKS] = { "callstack=0", "callstack=8", "callstack=4, unwind=fp" },
    [CLOCK] = { "clock=auto", "clock=monotonic", "overwrite=true" },
    [LAYERS] = { "statistics | limit(64MiB) | driver", "limit(64MiB) | log(callstack=2) | driver",
                 "limit(64MiB) | pool | driver" },
    [WORK] = { "pairs", "failures and nothing", "two threads" },
};

struct run {
    unsigned value[FACTORS];
    const char *path;
    struct tide_resource *stack;
    unsigned events; /* successful allocations with an address, of each log */
};

#define RUN_PAIRS 40

static void *
run_thread(void *argument)
{
    struct run *run = argument;
    void *pointers[RUN_PAIRS];

    set_context();
    for (unsigned i = 0; i < RUN_PAIRS; i++)
        pointers[i] = take(run->stack, 256 * (i + 1));
    for (unsigned i = 0; i < RUN_PAIRS; i++)
        give(run->stack, pointers[i], 256 * (i + 1));
    return NULL;
}

static void
run_work(struct run *run)
{
    pthread_t thread;
    void *pointer;

    run->events = RUN_PAIRS;
    if (run->value[WORK] == 2) {
        run->events *= 2;
        pthread_create(&thread, NULL, run_thread, run);
    }
    run_thread(run);
    if (run->value[WORK] == 2)
        pthread_join(thread, NULL);
    if (run->value[WORK] != 1)
        return;
    for (unsigned i = 0; i < 5; i++) {
        if (tide_allocate(run->stack, (size_t)128 << 20, 256, 0, &pointer) != TIDE_ELIMIT)
            abort();
        give(run->stack, take(run->stack, 0), 0);
    }
}

/* Check one figure of a run. False, with a diag, if it differs. */
static bool
run_has(const struct run *run, const char *what, int64_t wanted, const char *query)
{
    int64_t seen = sql_number(run->path, "%s", query);

    if (seen != wanted)
        diag("%s: %" PRIi64 ", wanted %" PRIi64, what, seen, wanted);
    return seen == wanted;
}

/* The rows of logs: a pool without a log below says its chunks, too. */
#define LOGGED "(SELECT a.* FROM allocation AS a JOIN layer USING (layer_id) WHERE kind = 'log')"

static bool
run_has_rows(const struct run *run)
{
    int64_t logs = run->value[LAYERS] == 1 ? 2 : 1, odd = run->value[WORK] == 1 ? 5 : 0;
    bool stacks = run->value[STACKS] != 0;
    bool good = trace_is_whole(run->path);

    good =
        run_has(run, "allocations", logs * run->events,
                "SELECT count(*) FROM " LOGGED " WHERE status = 0 AND size > 0 AND address > 0 AND size % 256 = 0"
                " AND alignment = 256 AND free_ns >= alloc_ns AND alloc_duration_ns >= 0 AND free_duration_ns >= 0") &&
        good;
    good = run_has(run, "allocations of nothing", logs * odd,
                   "SELECT count(*) FROM " LOGGED " WHERE status = 0 AND size = 0 AND address = 0") &&
           good;
    good = run_has(run, "refused allocations", odd,
                   "SELECT count(*) FROM " LOGGED " WHERE status <> 0 AND size = 134217728 AND free_ns IS NULL") &&
           good;
    good = run_has(run, "all rows", logs * (run->events + odd) + odd, "SELECT count(*) FROM " LOGGED) && good;
    good = run_has(run, "call stacks of the upper log", stacks ? run->events + 2 * odd : 0,
                   "SELECT count(callstack_id) FROM allocation WHERE layer_id = 1") &&
           good;
    good = run_has(run, "call stacks of the lower log", run->value[LAYERS] == 1 ? run->events + odd : 0,
                   "SELECT count(callstack_id) FROM " LOGGED " WHERE layer_id > 1") &&
           good;
    good = run_has(run, "bytes", logs * (run->events / RUN_PAIRS) * 256 * RUN_PAIRS * (RUN_PAIRS + 1) / 2,
                   "SELECT sum(size) FROM " LOGGED " WHERE status = 0") &&
           good;
    return good;
}

static bool
run_has_calls(const struct run *run)
{
    bool pool = run->value[LAYERS] == 2, none = run->value[CUPTI] == 2, memory = run->value[CUPTI] == 1;
    int64_t calls = sql_number(run->path, "SELECT count(*) FROM driver_call WHERE allocation_id IS NOT NULL");
    bool good = true;

    good = run_has(run, "calls apart from their events", 0,
                   "SELECT count(*) FROM driver_call AS c JOIN allocation AS a USING (allocation_id) WHERE"
                   " thread_id <> iif(is_free, free_thread_id, alloc_thread_id) OR result <> 0 OR a.status <> 0"
                   " OR layer_id NOT IN (SELECT max(layer_id) FROM layer WHERE kind IN ('log', 'pool') GROUP BY kind)"
                   " OR start_ns < iif(is_free, free_ns, alloc_ns - alloc_duration_ns)"
                   " OR start_ns + duration_ns > iif(is_free, free_ns + free_duration_ns, alloc_ns) + 1") &&
           good;
    good = run_has(run, "calls without an event", 0,
                   "SELECT count(*) FROM driver_call AS c WHERE function LIKE"
                   " '%Async' AND NOT EXISTS (SELECT 1 FROM allocation AS a"
                   " WHERE a.allocation_id = c.allocation_id)") &&
           good;
    good = run_has(run, "numbers of calls", memory ? calls : 0,
                   "SELECT count(correlation) FROM driver_call WHERE allocation_id IS NOT NULL") &&
           good;
    if (none || !pool)
        good = run_has(run, "calls", none ? 0 : 2 * (int64_t)run->events, "SELECT count(*) FROM driver_call") && good;
    else
        good = good && calls >= 1 && calls < (int64_t)run->events;
    good = run_has(run, "events of memory", memory ? calls : 0,
                   "SELECT count(*) FROM device_event WHERE allocation_id IS NOT NULL AND os_tid IS NOT NULL") &&
           good;
    return good;
}

static bool
run_has_samples(const struct run *run)
{
    int64_t samples = sql_number(run->path, "SELECT count(*) FROM pool_sample");
    int64_t strange = sql_number(run->path, "SELECT count(*) FROM pool_sample JOIN layer USING (layer_id) WHERE"
                                            " kind NOT IN ('driver', 'pool') OR used_bytes > reserved_bytes");

    if (run->value[SAMPLES] == 2)
        return samples == 0;
    if (run->value[SAMPLES] == 1 && run->value[LAYERS] != 2)
        return samples >= (int64_t)run->events && strange == 0;
    return strange == 0;
}

static void
run_one(unsigned number)
{
    const unsigned digits[3] = { number % 3, number / 3 % 3, number / 9 };
    const char *const *values[FACTORS];
    struct run run = { .path = scratch("run-%u.db", number) };
    bool rows, calls, samples;
    char options[256];

    for (unsigned i = 0; i < FACTORS; i++) {
        const unsigned *vector = factor_vectors[i];

        run.value[i] = (vector[0] * digits[0] + vector[1] * digits[1] + vector[2] * digits[2]) % 3;
        values[i] = &factor_values[i][run.value[i]];
    }
    snprintf(options, sizeof(options), "%s, %s, %s, %s, %s", *values[CUPTI], *values[SAMPLES], *values[OVERFLOW],
             *values[STACKS], *values[CLOCK]);
    run.stack = stack_of("log(%s, %s) | %s", run.path, options, *values[LAYERS]);
    run_work(&run);
    tide_resource_release(run.stack);
    rows = run_has_rows(&run);
    calls = run_has_calls(&run);
    samples = run_has_samples(&run);
    ok(all_of(rows, calls, samples), "%s: log(%s) | %s", *values[WORK], options, *values[LAYERS]);
}

#define RUNS 27

int
main(void)
{
    const char *reason = gpu_open();

    if (reason != NULL)
        skip_all(reason);
    gpu_skip_sanitized("compute-sanitizer takes the place of CUPTI");
    pairs = gpu_is_fake() ? 2500 : 250000;
    scratch("x");
    set_context();
    plan(THREAD_TESTS + PINNED_TESTS + DOMAIN_TESTS + ENDS_TESTS + CONTEXT_TESTS + RUNS);
    test_threads();
    test_pinned();
    test_domain();
    test_ends();
    test_context();
    for (unsigned i = 0; i < RUNS; i++)
        run_one(i);
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA or no CUPTI");
}

#endif
