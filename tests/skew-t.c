/*
 * Tests a recording whose clock is wrong: it is set back or forward, it stops, or the counters of processors differ.
 * Nothing waits for ever, nothing is missing, and frees find their allocations.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "point.h"
#include "tap.h"
#include "trace.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/clock.h"

#define MS INT64_C(1000000)
#define S  (1000 * MS)

/* What every thread's clock is off, and what this thread's is; and where the clock stands still. In nanoseconds. */
static _Atomic int64_t off_ns;
static _Thread_local int64_t skew_ns;
static _Atomic uint64_t stands_at;
static double ticks_per_ns = 1;
static bool tsc;

static uint64_t
right_ticks(void)
{
#if TIDEI_HAVE_TSC
    if (tsc)
        return __rdtsc();
#endif
    return tidei_monotonic_ns();
}

static uint64_t
faulty_clock(void)
{
    uint64_t stands = atomic_load(&stands_at);
    int64_t off = atomic_load(&off_ns) + skew_ns;

    return (stands != 0 ? stands : right_ticks()) + (uint64_t)(int64_t)((double)off * ticks_per_ns);
}

static void
begin_fault(void)
{
    atomic_store(&off_ns, 0);
    atomic_store(&stands_at, 0);
    atomic_store(&tidei_test_clock, faulty_clock);
    alarm(120); /* what waits for ever ends here */
}

/* The sentence of a test: what was tried, and what is so then. */
static const char *
said(const char *what, const char *so)
{
    static char text[256];

    snprintf(text, sizeof(text), "%s: %s", what, so);
    return text;
}

static int64_t
meta(const char *path, const char *key)
{
    return sql_number(path, "SELECT value FROM meta WHERE key = '%s'", key);
}

static int64_t
rows(const char *path)
{
    return sql_number(path, "SELECT count(*) FROM allocation");
}

/* Make so many pairs of calls. */
static void
work(struct tide_resource *stack, unsigned pairs)
{
    for (unsigned i = 0; i < pairs; i++)
        give(stack, take(stack, 100 + i % 7), 100 + i % 7);
}

/* The clock is set by so many nanoseconds while a thread records, and again while it does. */
static void
test_step(int64_t step_ns, const char *what)
{
    const char *path = scratch("step%+d.db", (int)(step_ns / MS));
    struct tide_resource *stack;

    begin_fault();
    stack = stack_of("log(%s, ring=4KiB) | sim", path);
    work(stack, 500);
    atomic_store(&off_ns, step_ns);
    work(stack, 500);
    is_i64(tide_log_flush(stack), TIDE_OK, said(what, "a flush ends"));
    is_i64(rows(path), 1000, said(what, "after the flush everything is in the trace"));
    work(stack, 100);
    atomic_store(&off_ns, 2 * step_ns);
    work(stack, 100);
    tide_resource_release(stack);
    is_i64(rows(path), 1200, said(what, "at the end everything is in the trace"));
    ok(trace_is_whole(path), "%s: the trace is whole", what);
    ok(sql_number(path, "SELECT max(free_ns) FROM allocation") <= meta(path, "end_ns") + 2 * S,
       "%s: no event is later than the end of the recording by more than two seconds", what);
    alarm(0);
}

static void *
resume_work(void *argument)
{
    (void)argument;
    usleep(1500000);
    atomic_store(&stands_at, 0);
    return NULL;
}

/* The clock stands still, with rings of 64 records. */
static void
test_stop(bool resumes)
{
    const char *path = scratch("stop%d.db", resumes);
    struct tide_resource *stack;
    pthread_t thread;

    begin_fault();
    stack = stack_of("log(%s, ring=4KiB) | sim", path);
    work(stack, 10);
    atomic_store(&stands_at, right_ticks());
    if (resumes)
        pthread_create(&thread, NULL, resume_work, NULL);
    work(stack, 300);
    is_i64(tide_log_flush(stack), TIDE_OK,
           resumes ? "the clock stood still for a while: a flush ends" : "the clock stands still: a flush ends");
    if (resumes)
        pthread_join(thread, NULL);
    work(stack, 10);
    tide_resource_release(stack);
    is_i64(rows(path), 320, "the clock stood still: everything is in the trace");
    ok(trace_is_whole(path), "the clock stood still: the trace is whole");
    alarm(0);
}

struct skewed {
    struct tide_resource *stack;
    int64_t skew_ns;
    unsigned pairs;
};

static void *
skewed_work(void *argument)
{
    struct skewed *skewed = argument;

    skew_ns = skewed->skew_ns;
    work(skewed->stack, skewed->pairs);
    return NULL;
}

/* Two threads whose clocks differ from the writer's record, and the trace ends at once. */
static void
test_difference(int64_t ns, bool late, const char *what)
{
    const char *path = scratch("difference%d.db", (int)(ns / 1000));
    struct skewed ahead = { NULL, ns, 1000 }, behind = { NULL, -ns, 1000 };
    struct tide_resource *stack;
    pthread_t threads[2];

    begin_fault();
    stack = stack_of("log(%s, ring=4KiB) | sim", path);
    ahead.stack = behind.stack = stack;
    pthread_create(&threads[0], NULL, skewed_work, &ahead);
    pthread_create(&threads[1], NULL, skewed_work, &behind);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    tide_resource_release(stack);
    is_i64(rows(path), 2000, said(what, "everything is in the trace"));
    ok(trace_is_whole(path), "%s: the trace is whole", what);
    ok(!late || meta(path, "late_records") > 0, "%s: what got another time is counted", what);
    alarm(0);
}

/* One thread allocates, and another, whose clock is behind, frees. One address goes round, or a few. */
#define HANDED 64

struct handing {
    struct tide_resource *stack;
    int64_t skew_ns;
    unsigned pairs;
    unsigned pause_us;
    sem_t full, empty;
    void *pointers[HANDED];
};

static void *
freeing_work(void *argument)
{
    struct handing *handing = argument;

    skew_ns = -handing->skew_ns;
    for (unsigned i = 0; i < handing->pairs; i++) {
        sem_wait(&handing->full);
        give(handing->stack, handing->pointers[i % HANDED], 64);
        sem_post(&handing->empty);
    }
    return NULL;
}

/* `room`: how many blocks may be on their way. */
static void
hand_over(struct handing *handing, unsigned room)
{
    pthread_t thread;

    sem_init(&handing->full, 0, 0);
    sem_init(&handing->empty, 0, room);
    pthread_create(&thread, NULL, freeing_work, handing);
    for (unsigned i = 0; i < handing->pairs; i++) {
        sem_wait(&handing->empty);
        handing->pointers[i % HANDED] = take(handing->stack, 64);
        sem_post(&handing->full);
        if (handing->pause_us != 0)
            usleep(handing->pause_us);
    }
    pthread_join(thread, NULL);
}

/*
 * Where no reading of the writer's shows how far the clocks are apart, a free that came before its allocation cannot be
 * told from one of something else. Then the trace counts it, and says that it is not complete.
 */
static void
check_handed(const char *path, unsigned pairs, const char *what)
{
    int64_t counted = sql_number(path, "SELECT total(events) FROM loss WHERE reason = 'free before its allocation'");

    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE layer_id = 1"), pairs,
           said(what, "every allocation is in the trace"));
    ok(sql_number(path, "SELECT count(*) FROM live WHERE layer_id = 1") <= counted,
       "%s: nothing leaks that is not counted", what);
    ok(sql_number(path, "SELECT count(*) FROM unmatched_free") <= counted,
       "%s: every free is of an allocation, or counted", what);
    ok(sql_number(path, "SELECT count(*) FROM allocation WHERE layer_id = 1 AND free_thread_id IS NULL") <= counted,
       "%s: every free has its thread, or is counted", what);
    ok(trace_is_sound(path), "%s: the trace is sound", what);
    is_i64(meta(path, "complete"), counted == 0,
           said(what, "the trace is complete if nothing is counted, and only then"));
    diag("counted %d, late %d", (int)counted, (int)meta(path, "late_records"));
}

static void
test_handing(int64_t ns, unsigned room, unsigned pairs, unsigned pause_us, uint64_t slice, const char *what)
{
    const char *path = scratch("handing%d-%u-%u-%u.db", (int)(ns / 100), room, pause_us, (unsigned)slice);
    struct handing handing = { .skew_ns = ns, .pairs = pairs, .pause_us = pause_us };

    begin_fault();
    atomic_store(&tidei_test_slice, slice);
    handing.stack = stack_of("log(%s) | pool(initial=1MiB) | sim", path);
    hand_over(&handing, room);
    tide_resource_release(handing.stack);
    check_handed(path, pairs, what);
    atomic_store(&tidei_test_slice, 0);
    alarm(0);
}

/*
 * The writer first looks when everything has happened, so that it sees no difference. Each address is handed over more
 * than once: by the order of times, its first free comes too early, and each life may have the free of the next one.
 */
static void
test_unseen(void)
{
    const char *path = scratch("unseen.db"), *what = "handed over while nobody looks, 1 ms";
    struct handing handing = { .skew_ns = MS, .pairs = 300, .pause_us = 100 };

    begin_fault();
    point_arm("merge.look", NULL);
    handing.stack = stack_of("log(%s) | pool(initial=1MiB) | sim", path);
    point_wait();
    hand_over(&handing, 1);
    point_release();
    tide_resource_release(handing.stack);
    check_handed(path, handing.pairs, what);
    ok(sql_number(path, "SELECT count(*) FROM allocation GROUP BY layer_id, address LIMIT 1") > 1,
       "%s: an address is allocated more than once", what);
    alarm(0);
}

/* A free of memory that the trace does not know, and then another thread gets the address: no clock is wrong. */
static void *
foreign_work(void *argument)
{
    struct handing *handing = argument;

    give(handing->stack, handing->pointers[0], 64);
    return NULL;
}

static void
test_foreign(void)
{
    const char *path = scratch("foreign.db");
    struct tide_resource *pool = stack_of("pool(initial=1MiB) | sim"), *log;
    struct tide_log_options options = { TIDE_OPTIONS(options), .path = path };
    struct handing handing = { 0 };
    pthread_t thread;
    void *pointer;

    begin_fault();
    handing.pointers[0] = take(pool, 64);
    if (tide_log_create(pool, &options, &log) != TIDE_OK)
        abort();
    handing.stack = log;
    take(log, 1000);
    pthread_create(&thread, NULL, foreign_work, &handing);
    pthread_join(thread, NULL);
    pointer = take(log, 64);
    tide_log_flush(log);
    usleep(20000);
    is_i64(pointer == handing.pointers[0], 1, "the address of a block that the trace does not know is given out again");
    give(log, pointer, 64);
    tide_resource_release(log);
    tide_resource_release(pool);
    is_i64(sql_number(path, "SELECT count(*) FROM unmatched_free"), 1,
           "a free of a block that the trace does not know stays a free of no allocation");
    ok(sql_number(path, "SELECT free_ns - alloc_ns FROM allocation WHERE size = 64") >= 10 * MS,
       "the allocation that got its address lives to its own free");
    ok(all_of(sql_number(path, "SELECT count(*) FROM loss") == 0, meta(path, "complete") == 1),
       "nothing of that is counted as lost");
    alarm(0);
}

struct killed {
    const char *path;
    int64_t step_ns;
};

static int
killed_child(void *argument)
{
    const struct killed *killed = argument;
    struct tide_resource *stack;

    begin_fault();
    stack = stack_of("log(%s) | sim", killed->path);
    work(stack, 200);
    usleep(50000);
    atomic_store(&off_ns, killed->step_ns);
    work(stack, 100);
    tide_log_flush(stack); /* the writer has seen the step: a recovery cannot tell it from time that has passed */
    work(stack, 100);
    point_kill("merge.look", 1);
    sleep(10);
    return 0;
}

static void
test_killed(int64_t step_ns, const char *what)
{
    struct killed killed = { scratch("killed%+d.db", (int)(step_ns / MS)), step_ns };
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    int status = in_child(killed_child, &killed);

    ok(WIFSIGNALED(status), "%s: the program is killed", what);
    is_i64(tide_trace_recover(killed.path, &recovery), TIDE_OK, said(what, "what it leaves is recovered"));
    is_i64(rows(killed.path), 400, said(what, "every call is in the trace"));
    ok(trace_is_whole(killed.path), "%s: the recovered trace is whole", what);
    ok(sql_number(killed.path, "SELECT max(free_ns) FROM allocation") < 20 * S,
       "%s: the recovered trace has no times that were not", what);
}

#define ATTEMPTS 50

static int
assuming_child(void *argument)
{
    struct handing handing = { .skew_ns = MS, .pairs = 1 };

    begin_fault();
    handing.stack = stack_of("log(%s) | sim", (const char *)argument);
    hand_over(&handing, 1);
    tide_log_flush(handing.stack);
    kill(getpid(), SIGKILL);
    return 1;
}

static int
recovering_child(void *argument)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };

    point_kill("recover.before-stop", 1);
    return tide_trace_recover(argument, &recovery) == TIDE_OK;
}

/* Killed when the trace has frees that came before their allocations, and so may be of something else. */
static void
test_killed_assumed(void)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    char path[256];
    int64_t assumed = 0;
    bool killed = true;

    /* Where the writer happens to see how far the clocks are apart, nothing need be assumed: then again. */
    for (int i = 0; i < ATTEMPTS && killed && assumed <= 0; i++) {
        snprintf(path, sizeof(path), "%s", scratch("killed-assumed%d.db", i));
        killed = WIFSIGNALED(in_child(assuming_child, path));
        assumed = meta(path, "assumed_frees");
    }
    ok(killed, "killed with early frees: the program is killed after a flush");
    is_i64(assumed, 1, "killed with early frees: the trace has an allocation that is assumed to be freed");
    ok(WIFSIGNALED(in_child(recovering_child, path)), "killed with early frees: the recovery is killed, too");
    is_i64(tide_trace_recover(path, &recovery), TIDE_OK, "killed with early frees: the next recovery ends");
    is_i64(sql_number(path, "SELECT total(events) FROM loss WHERE reason = 'free before its allocation'"), assumed,
           "killed with early frees: each is counted as a loss");
    ok(all_of(meta(path, "complete") == 0,
              sql_number(path, "SELECT count(*) FROM meta WHERE key = 'assumed_frees'") == 0),
       "killed with early frees: the trace does not say that it is complete");
}

/* The clock that clock=auto takes where the kernel keeps its time by `source`; NULL: it does not say. */
static void
test_source(const char *source, const char *wanted, const char *what)
{
    char path[256], name[256];
    struct tide_resource *stack;
    FILE *file;

    snprintf(path, sizeof(path), "%s", scratch("source-%s.db", source != NULL ? source : "none"));
    snprintf(name, sizeof(name), "%s", scratch("source-%s", source != NULL ? source : "none"));
    if (source != NULL && (file = fopen(name, "w")) != NULL) {
        fprintf(file, "%s\n", source);
        fclose(file);
    }
    atomic_store(&tidei_test_clocksource, name);
    stack = stack_of("log(%s, clock=auto) | sim", path);
    work(stack, 3);
    tide_resource_release(stack);
    atomic_store(&tidei_test_clocksource, NULL);
    ok(all_of(strcmp(sql_text(path, "SELECT value FROM meta WHERE key = 'clock'"), wanted) == 0, trace_is_whole(path)),
       "clock=auto %s", what);
}

static void
test_sources(void)
{
    const char *counter = tidei_clock_tsc_is_invariant() ? "tsc" : "monotonic";

    atomic_store(&tidei_test_clock, NULL);
    test_source("tsc", counter, "takes the time stamp counter where the kernel does, and it is invariant");
    test_source("hpet", "monotonic",
                "takes CLOCK_MONOTONIC where the kernel has another clock, as after a failed check");
    test_source("tsc_early", "monotonic", "takes CLOCK_MONOTONIC where the kernel has not yet checked the counter");
    test_source(NULL, "monotonic", "takes CLOCK_MONOTONIC where the kernel does not tell");
}

static void
calibrate(void)
{
    struct tidei_clock_sample first, second;

    tsc = tidei_clock_tsc_is_trusted();
    first = tidei_clock_sample_now(tsc);
    usleep(20000);
    second = tidei_clock_sample_now(tsc);
    ticks_per_ns = (double)(second.ticks - first.ticks) / (double)(second.ns - first.ns);
    diag("%s, %.3f ticks in a nanosecond", tsc ? "time stamp counter" : "CLOCK_MONOTONIC", ticks_per_ns);
}

int
main(void)
{
    plan(4 * 5 + 2 * 3 + 3 * 3 + 5 * 6 + 7 + 4 + 2 * 5 + 6 + 4);
    calibrate();
    test_step(-3600 * S, "the clock is set back by an hour");
    test_step(3600 * S, "the clock is set forward by an hour");
    test_step(-300 * MS, "the clock is set back by 300 ms");
    test_step(300 * MS, "the clock is set forward by 300 ms");
    test_stop(true);
    test_stop(false);
    test_difference(1000, false, "clocks that differ by 1 us");
    test_difference(5 * MS, false, "clocks that differ by 5 ms");
    test_difference(5 * S, true, "clocks that differ by 5 s");
    test_handing(1000, 1, 20000, 0, 0, "one block at a time, 1 us");
    test_handing(MS, 16, 20000, 0, 0, "some blocks on their way, 1 ms");
    test_handing(MS, 1, 200, 500, 16, "slowly, in small transactions, 1 ms");
    test_handing(50 * MS, 1, 2000, 0, 64, "one block at a time, 50 ms");
    test_handing(MS, 1, 1, 0, 0, "a single block, 1 ms");
    test_unseen();
    test_foreign();
    test_killed(-3600 * S, "killed after the clock was set back");
    test_killed(3600 * S, "killed after the clock was set forward");
    test_killed_assumed();
    test_sources();
    return done();
}
