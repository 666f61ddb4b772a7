/*
 * Tests overflow=drop: dropped events are counted by thread and kind, and kept events are paired correctly.
 * OVERFLOW_SEED sets the seed of the random run.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "point.h"
#include "tap.h"
#include "trace.h"
#include "src/sync/testpoint.h"

#define THREADS 4
#define SLOTS   16
#define CALLS   6000

struct run {
    struct tide_resource *log;
    pthread_barrier_t barrier;
    pthread_mutex_t lock;
    struct {
        void *pointer;
        uint32_t number;
    } slots[SLOTS];
    /* The threads' notes. The size of an allocation is its number. */
    uint64_t allocs[THREADS], frees[THREADS];
    uint8_t freed_by[THREADS * CALLS + THREADS + 1];
};

struct worker {
    struct run *run;
    unsigned index;
    uint64_t random;
};

static void
work_once(struct worker *worker, uint32_t number)
{
    struct run *run = worker->run;
    unsigned slot = (unsigned)(next_random(&worker->random) % SLOTS);
    void *pointer = take(run->log, number), *found;
    uint32_t other;

    run->allocs[worker->index]++;
    pthread_mutex_lock(&run->lock);
    found = run->slots[slot].pointer;
    other = run->slots[slot].number;
    run->slots[slot].pointer = pointer;
    run->slots[slot].number = number;
    pthread_mutex_unlock(&run->lock);
    if (found == NULL)
        return;
    run->freed_by[other] = (uint8_t)(worker->index + 1);
    run->frees[worker->index]++;
    give(run->log, found, other);
}

/* The writer stops for the second third of the calls. */
static void *
work(void *argument)
{
    struct worker *worker = argument;
    char name[16];

    snprintf(name, sizeof(name), "w%u", worker->index + 1);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    for (uint32_t i = 0; i < CALLS; i++) {
        if (i == CALLS / 3 || i == 2 * CALLS / 3) {
            pthread_barrier_wait(&worker->run->barrier);
            pthread_barrier_wait(&worker->run->barrier);
        }
        work_once(worker, 1 + worker->index + i * THREADS);
    }
    return NULL;
}

static int64_t
loss_of(const char *path, unsigned thread, const char *kind)
{
    return sql_number(path,
                      "SELECT ifnull(sum(events), 0) FROM loss JOIN thread USING (thread_id)"
                      " WHERE name = 'w%u' AND reason = 'dropped %s'",
                      thread, kind);
}

/* Whether rows and drops of each thread add up to its calls. */
static bool
counts_are_exact(const char *path, const struct run *run)
{
    bool good = true;

    for (unsigned i = 0; i < THREADS; i++) {
        int64_t kept = sql_number(path,
                                  "SELECT count(*) FROM allocation JOIN thread ON thread_id = alloc_thread_id"
                                  " WHERE name = 'w%u'",
                                  i + 1);
        int64_t freed = sql_number(path,
                                   "SELECT count(*) FROM allocation JOIN thread ON thread_id = free_thread_id"
                                   " WHERE name = 'w%u'",
                                   i + 1);
        int64_t dropped = loss_of(path, i + 1, "allocation"), dropped_frees = loss_of(path, i + 1, "free");

        if (dropped == 0 || kept + dropped != (int64_t)run->allocs[i] ||
            freed + dropped_frees != (int64_t)run->frees[i]) {
            diag("thread %u: %" PRId64 " allocations kept, %" PRId64 " dropped, of %" PRIu64 "; %" PRId64
                 " frees kept, %" PRId64 " dropped, of %" PRIu64,
                 i + 1, kept, dropped, run->allocs[i], freed, dropped_frees, run->frees[i]);
            good = false;
        }
    }
    return good;
}

/* Whether each freed row has the thread that freed it. */
static bool
pairs_are_right(const char *path, const struct run *run)
{
    sqlite3_stmt *query;
    bool good = true;
    sqlite3 *db;

    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    sqlite3_prepare_v2(db,
                       "SELECT size, CAST(substr(name, 2) AS INTEGER) FROM allocation JOIN thread ON thread_id ="
                       " free_thread_id",
                       -1, &query, NULL);
    while (sqlite3_step(query) == SQLITE_ROW) {
        int64_t number = sqlite3_column_int64(query, 0);

        if (run->freed_by[number] != sqlite3_column_int(query, 1)) {
            diag("number %" PRId64 " was freed by %d, noted %u", number, sqlite3_column_int(query, 1),
                 run->freed_by[number]);
            good = false;
        }
    }
    sqlite3_finalize(query);
    sqlite3_close(db);
    return good;
}

static void
test_pressure(uint64_t seed)
{
    const char *path = scratch("pressure.db");
    struct run *run = calloc(1, sizeof(*run));
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    run->log = stack_of("log(%s, overflow=drop, ring=4KiB) | sim", path);
    pthread_barrier_init(&run->barrier, NULL, THREADS + 1);
    pthread_mutex_init(&run->lock, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ run, i, seed * (i + 1) };
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    pthread_barrier_wait(&run->barrier);
    point_arm("merge.look", NULL);
    point_wait();
    pthread_barrier_wait(&run->barrier);
    pthread_barrier_wait(&run->barrier);
    point_release();
    pthread_barrier_wait(&run->barrier);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tide_resource_release(run->log);
    ok(counts_are_exact(path, run), "for each thread and kind, kept and dropped records add up to the calls");
    ok(pairs_are_right(path, run), "kept frees have their own allocations");
    is_i64(sql_number(path, "SELECT count(*) FROM unmatched_free"), 0, "no kept free is without an allocation");
    is_i64(sql_number(path, "SELECT count(*) FROM mark"), 0, "no kept free has another size than its allocation");
    is_i64(sql_number(path, "SELECT value FROM meta WHERE key = 'complete'"), 1,
           "a trace with dropped records is complete");
    ok(trace_is_sound(path), "a trace with dropped records is sound");
    free(run);
}

/* Fill the ring of this thread while the writer stops, so that the next records are dropped. */
static void
fill(struct tide_resource *log, size_t bytes)
{
    for (int i = 0; i < 70; i++)
        take(log, bytes);
}

static void
test_refused(void)
{
    const char *path = scratch("refused.db");
    struct tide_resource *log = stack_of("log(%s, overflow=drop, ring=4KiB) | sim", path);
    void *pointer, *nothing, *again;

    take(log, 1);
    tide_log_flush(log);
    point_arm("merge.look", NULL);
    point_wait();
    fill(log, 2);
    pointer = take(log, 100);
    nothing = take(log, 0);
    ok(tide_allocate(log, SIZE_MAX, 256, 0, &(void *){ NULL }) != TIDE_OK, "a failed allocation is dropped");
    point_release();
    tide_log_flush(log);
    ok(tide_deallocate(log, pointer, 99, 256, 0) == TIDE_EMISMATCH,
       "a free of a dropped allocation with a wrong size is refused");
    give(log, pointer, 100);
    give(log, nothing, 0);
    again = take(log, 100);
    give(log, again, 100);
    tide_resource_release(log);
    ok(all_of(again == pointer, sql_number(path, "SELECT count(free_ns) FROM allocation WHERE size = 100") == 1),
       "an address that was dropped and freed is recorded again, with its free");
    is_i64(sql_number(path, "SELECT count(*) FROM unmatched_free"), 0,
           "the refused free leaves the allocation dropped, and the right free is dropped with it");
    is_i64(sql_number(path, "SELECT sum(events) FROM loss WHERE reason = 'dropped free'"), 3,
           "all dropped frees are counted");
    is_i64(sql_number(path, "SELECT (SELECT count(*) FROM allocation) + sum(events) FROM loss WHERE"
                            " reason = 'dropped allocation'"),
           75, "a dropped allocation that is never freed is counted");
}

/* The ring is full, and nothing empties it: a new tag, its call stack and a mark are neither waited for nor lost. */
static void
test_names(void)
{
    const char *path = scratch("names.db");
    struct tide_resource *log = stack_of("log(%s, overflow=drop, ring=4KiB, callstack=8) | sim", path);

    take(log, 1);
    tide_log_flush(log);
    atomic_store(&tidei_test_wait_ns, 200000000); /* what waits gives up */
    point_arm("merge.look", NULL);
    point_wait();
    fill(log, 2);
    for (int i = 0; i < 20; i++) {
        char name[32];

        snprintf(name, sizeof(name), "tag %d", i);
        tide_tag_push(name);
        take(log, 3);
        tide_tag_pop();
        tide_mark("a mark");
    }
    point_release();
    tide_log_flush(log);
    tide_tag_push("tag 7");
    give(log, take(log, 4), 4);
    tide_tag_pop();
    atomic_store(&tidei_test_wait_ns, 0);
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT count(*) FROM tag WHERE name LIKE 'tag %%'"), 20,
           "tags that are new while a ring is full are in the trace");
    is_i64(sql_number(path, "SELECT count(*) FROM mark WHERE kind = 'mark' AND text = 'a mark' AND thread_id ="
                            " (SELECT min(alloc_thread_id) FROM allocation)"),
           20, "marks that find the ring full are in the trace, with their thread");
    ok(all_of(sql_number(path, "SELECT count(*) FROM allocation WHERE tag_id NOT IN (SELECT tag_id FROM tag)") == 0,
              sql_number(path, "SELECT count(*) FROM allocation WHERE callstack_id NOT IN (SELECT callstack_id FROM"
                               " callstack)") == 0,
              sql_number(path, "SELECT count(*) FROM allocation WHERE size = 4 AND tag_id = (SELECT tag_id FROM tag"
                               " WHERE name = 'tag 7')") == 1),
       "every kept event finds its tag and its call stack");
    is_i64(sql_number(path, "SELECT value FROM meta WHERE key = 'ring_waits'"), 0, "no thread has waited");
}

/* A process is killed while a thread that ends reports its drops. */
static void *
told_work(void *log)
{
    take(log, 1);
    point_arm("merge.look", NULL);
    point_wait();
    fill(log, 2);
    point_release();
    return NULL;
}

static int
told_child(void *path)
{
    struct tide_resource *log = stack_of("log(%s, overflow=drop, ring=4KiB) | sim", (const char *)path);
    pthread_t thread;

    point_kill("producer.told", 1);
    pthread_create(&thread, NULL, told_work, log);
    pthread_join(thread, NULL);
    return 1;
}

static void
test_told(void)
{
    const char *path = scratch("told.db");
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    int status = in_child(told_child, (void *)path);

    ok(WIFSIGNALED(status), "a process is killed after a thread has reported what it dropped");
    is_i64(tide_trace_recover(path, &recovery), TIDE_OK, "the trace of the killed process is recovered");
    is_i64(sql_number(path, "SELECT (SELECT count(*) FROM allocation) + sum(events) FROM loss"), 71,
           "the recovered trace counts each dropped record once");
}

/* Threads start and end while rings are full, and set marks, which go from ring to ring. */
static void *
short_work(void *argument)
{
    struct tide_resource *log = argument;

    for (int i = 0; i < 200; i++) {
        give(log, take(log, 8), 8);
        if (i % 20 == 0)
            tide_mark("a mark");
    }
    return NULL;
}

static void
test_short_threads(void)
{
    const char *path = scratch("short.db");
    struct tide_resource *log = stack_of("log(%s, overflow=drop, ring=4KiB) | sim", path);
    pthread_t threads[8];

    for (int i = 0; i < 40; i++) {
        for (int j = 0; j < 8; j++)
            pthread_create(&threads[j], NULL, short_work, log);
        for (int j = 0; j < 8; j++)
            pthread_join(threads[j], NULL);
    }
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT count(*) FROM thread LEFT JOIN (SELECT alloc_thread_id AS thread_id, count(*) AS"
                            " kept FROM allocation GROUP BY 1) USING (thread_id) LEFT JOIN (SELECT thread_id,"
                            " sum(events) AS dropped FROM loss WHERE reason = 'dropped allocation' GROUP BY 1) USING"
                            " (thread_id) WHERE ifnull(kept, 0) + ifnull(dropped, 0) = 200"),
           320, "each of 320 short threads has 200 calls, kept or dropped");
    is_i64(sql_number(path, "SELECT count(*) FROM unmatched_free"), 0,
           "no kept free of the short threads is without an allocation");
    is_i64(sql_number(path, "SELECT count(*) FROM mark WHERE kind = 'mark' AND text = 'a mark'"), 3200,
           "all marks of the short threads are in the trace");
}

/*
 * The writer empties a ring that a thread has left, while another thread is about to write a mark into it. Relaxed
 * atomics, so that ThreadSanitizer sees no other order between the two than that of the library.
 */
static _Atomic bool left_hold, left_begun, left_is_left, left_there, left_go_on;

static void
left_await(_Atomic bool *flag)
{
    while (!atomic_load_explicit(flag, memory_order_relaxed))
        usleep(1000);
}

static void
left_say(_Atomic bool *flag)
{
    atomic_store_explicit(flag, true, memory_order_relaxed);
}

static void
left_point(const char *label)
{
    if (strcmp(label, "merge.look") == 0) {
        while (atomic_load_explicit(&left_hold, memory_order_relaxed))
            usleep(1000);
    } else if (strcmp(label, "producer.elsewhere") == 0) {
        left_say(&left_there);
        left_await(&left_go_on);
    }
}

static void *
left_full(void *log)
{
    for (int i = 0; i < 62; i++) /* with the thread and its name 64 records: the ring is full, and nothing dropped */
        take(log, 2);
    return NULL;
}

static void *
left_mark(void *log)
{
    take(log, 2);
    left_say(&left_begun); /* this thread has a ring of its own */
    left_await(&left_is_left);
    fill(log, 2);
    tide_mark("a mark");
    return NULL;
}

static void
test_left_ring(void)
{
    const char *path = scratch("left.db");
    struct tide_resource *log = stack_of("log(%s, overflow=drop, ring=4KiB) | sim", path);
    pthread_t full, mark;

    atomic_store(&left_hold, true);
    atomic_store(&tidei_test_point, left_point);
    pthread_create(&mark, NULL, left_mark, log);
    left_await(&left_begun);
    pthread_create(&full, NULL, left_full, log);
    pthread_join(full, NULL);
    left_say(&left_is_left);
    left_await(&left_there);
    atomic_store_explicit(&left_hold, false, memory_order_relaxed);
    usleep(100000); /* for the writer to empty both rings */
    left_say(&left_go_on);
    pthread_join(mark, NULL);
    atomic_store(&tidei_test_point, NULL);
    tide_resource_release(log);
    is_i64(sql_number(path, "SELECT count(*) FROM mark WHERE kind = 'mark' AND text = 'a mark'"), 1,
           "a mark is in the trace that was written into a ring which the writer had just emptied");
}

int
main(void)
{
    uint64_t seed;

    plan(23);
    seed = random_seed("OVERFLOW_SEED");
    test_pressure(seed);
    test_refused();
    test_told();
    test_names();
    test_short_threads();
    test_left_ring();
    return done();
}
