/*
 * Tests the merge of the threads' rings: time order, whichever thread sleeps at any point, and exact lives if addresses
 * are reused. MERGE_SEED sets the seed of the random runs.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <sqlite3.h>

#include "point.h"
#include "tap.h"
#include "src/sync/testpoint.h"
#include "trace.h"
#include "src/trace/ring/clock.h"

static int64_t
late_records(const char *path)
{
    return sql_number(path, "SELECT value FROM meta WHERE key = 'late_records'");
}

struct sleeper {
    struct tide_resource *stack;
    const char *name;
    sem_t known, go;
    size_t bytes;
    void *pointer; /* to free; NULL: allocate */
};

static void *
sleeper_work(void *argument)
{
    struct sleeper *sleeper = argument;

    prctl(PR_SET_NAME, sleeper->name, 0, 0, 0);
    tide_mark("the first record is not the call's");
    sem_post(&sleeper->known);
    sem_wait(&sleeper->go);
    if (sleeper->pointer != NULL)
        give(sleeper->stack, sleeper->pointer, sleeper->bytes);
    else
        sleeper->pointer = take(sleeper->stack, sleeper->bytes);
    return NULL;
}

/* Start a thread that makes one call, and wait until it stops at the label. */
static pthread_t
sleep_at(const char *label, struct sleeper *sleeper)
{
    pthread_t thread;

    sleeper->name = "sleeper";
    sem_init(&sleeper->known, 0, 0);
    sem_init(&sleeper->go, 0, 0);
    pthread_create(&thread, NULL, sleeper_work, sleeper);
    sem_wait(&sleeper->known);
    point_arm(label, "sleeper");
    sem_post(&sleeper->go);
    point_wait();
    return thread;
}

static void *
flush_work(void *stack)
{
    tide_log_flush(stack);
    return NULL;
}

/* An unfinished record holds up the records after it, and comes before them in the end. */
static void
test_waits(void)
{
    const char *path = scratch("waits.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct sleeper sleeper = { .stack = stack, .bytes = 1 };
    pthread_t thread, flush;
    int64_t seen = 0;

    atomic_store(&tidei_test_patience_ns, UINT64_C(3600000000000));
    take(stack, 10);
    thread = sleep_at("producer.open", &sleeper);
    for (size_t i = 0; i < 50; i++)
        take(stack, 100 + i);
    for (int i = 0; i < 600 && sql_number(path, "SELECT count(*) FROM allocation WHERE size = 10") == 0; i++)
        usleep(100000);
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE size = 10"), 1,
           "a record from before the unfinished one is in the file");
    pthread_create(&flush, NULL, flush_work, stack);
    for (int i = 0; i < 4; i++) {
        usleep(100000);
        seen += sql_number(path, "SELECT count(*) FROM allocation WHERE size >= 100");
    }
    is_i64(seen, 0, "records from after an unfinished one are not in the file");
    point_release();
    pthread_join(thread, NULL);
    pthread_join(flush, NULL);
    tide_log_flush(stack);
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 52,
           "all records are in the file once the unfinished one is done");
    thread = sleep_at("producer.before-publish", &(struct sleeper){ .stack = stack, .bytes = 2 });
    take(stack, 20);
    usleep(20000);
    point_release();
    pthread_join(thread, NULL);
    tide_resource_release(stack);
    ok(sql_number(path, "SELECT allocation_id FROM allocation WHERE size = 2") <
           sql_number(path, "SELECT allocation_id FROM allocation WHERE size = 20"),
       "a record whose time was taken first comes first, although it was published later");
    is_i64(late_records(path), 0, "a record that was waited for is not late");
    ok(trace_is_whole(path), "the trace with an unfinished record is whole");
    atomic_store(&tidei_test_patience_ns, 0);
}

/* A record that stays unfinished for too long is not waited for any more. */
static void
test_patience(void)
{
    const char *path = scratch("patience.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    struct sleeper sleeper = { .stack = stack, .bytes = 1 };
    pthread_t thread;

    atomic_store(&tidei_test_patience_ns, 2000000);
    take(stack, 10);
    thread = sleep_at("producer.before-publish", &sleeper);
    take(stack, 20);
    is_i64(tide_log_flush(stack), TIDE_OK,
           "a flush succeeds while a thread is stopped for longer than the merge waits");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 2,
           "the other threads' events are in the file while the thread is stopped");
    point_release();
    pthread_join(thread, NULL);
    take(stack, 30);
    tide_resource_release(stack);
    is_i64(late_records(path), 1, "the record of the stopped thread is counted as late");
    is_string(sql_text(path, "SELECT group_concat(size) FROM (SELECT size FROM allocation ORDER BY allocation_id)"),
              "10,20,1,30", "a late record comes where it was found, and ids and times still grow together");
    ok(trace_is_whole(path), "the trace with a late record is whole");
    atomic_store(&tidei_test_patience_ns, 0);
}

/* A base that gives out the block freed last at once, under a lock of its own. Any block serves any size. */
#define RECYCLER_BLOCKS 64

struct recycler {
    struct tide_resource base;
    pthread_mutex_t lock;
    uintptr_t next;
    size_t count;
    void *freed[4096];
};

static enum tide_status
recycler_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct recycler *recycler = (struct recycler *)self;

    (void)bytes;
    (void)alignment;
    (void)stream;
    pthread_mutex_lock(&recycler->lock);
    *out = recycler->count != 0 ? recycler->freed[--recycler->count] : (void *)(recycler->next += 4096);
    pthread_mutex_unlock(&recycler->lock);
    return TIDE_OK;
}

static enum tide_status
recycler_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct recycler *recycler = (struct recycler *)self;

    (void)bytes;
    (void)alignment;
    (void)stream;
    pthread_mutex_lock(&recycler->lock);
    recycler->freed[recycler->count++] = pointer;
    pthread_mutex_unlock(&recycler->lock);
    sched_yield(); /* another thread has the address by now */
    return TIDE_OK;
}

static void
recycler_describe(struct tide_resource *self, struct tide_text *text)
{
    (void)self;
    (void)text;
}

static void
recycler_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops recycler_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "recycler",
    .allocate = recycler_allocate,
    .deallocate = recycler_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = recycler_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = recycler_destroy,
};

static struct tide_resource *
recycler_log(struct tide_log_options options)
{
    struct recycler *recycler = calloc(1, sizeof(*recycler));
    struct tide_resource *log;

    options.struct_size = sizeof(options);
    if (recycler == NULL || tide_resource_init(&recycler->base, &recycler_ops, NULL) != TIDE_OK)
        abort();
    pthread_mutex_init(&recycler->lock, NULL);
    recycler->next = 0x100000;
    if (tide_log_create(&recycler->base, &options, &log) != TIDE_OK)
        abort();
    tide_resource_release(&recycler->base);
    return log;
}

/* A free comes late, after its address was allocated and freed again. */
static void
test_late_free(void)
{
    const char *path = scratch("late-free.db");
    struct tide_resource *log = recycler_log((struct tide_log_options){ .path = path });
    struct sleeper sleeper = { .stack = log, .bytes = 1 };
    pthread_t thread;
    void *pointer;

    atomic_store(&tidei_test_patience_ns, 2000000);
    sleeper.pointer = take(log, 1);
    thread = sleep_at("producer.before-publish", &sleeper);
    for (size_t i = 2; i < 5; i++) {
        pointer = take(log, i);
        tide_log_flush(log);
        give(log, pointer, i);
    }
    pointer = take(log, 5);
    tide_log_flush(log);
    point_release();
    pthread_join(thread, NULL);
    tide_log_flush(log);
    is_string(sql_text(path, "SELECT group_concat(size || ':' || (free_ns IS NULL), ' ') FROM allocation"),
              "1:0 2:0 3:0 4:0 5:1", "a late free ends the allocation that was live when it began");
    give(log, pointer, 5);
    tide_resource_release(log);
    is_i64(late_records(path), 1, "a late free is counted");
    ok(trace_is_whole(path), "the trace with a late free is whole");
    atomic_store(&tidei_test_patience_ns, 0);
}

static void *
newcomer_work(void *stack)
{
    take(stack, 1);
    return NULL;
}

/* A thread starts while the merge begins to look at the rings. */
static void
test_newcomers(void)
{
    const char *path = scratch("newcomers.db");
    struct tide_resource *stack = stack_of("log(%s) | sim", path);
    pthread_t threads[20], flush;

    take(stack, 3);
    for (int i = 0; i < 20; i++) {
        point_arm("merge.look", NULL);
        pthread_create(&flush, NULL, flush_work, stack);
        point_wait();
        /* All threads live to the end of the round, so that each gets a new ring. */
        pthread_create(&threads[i], NULL, newcomer_work, stack);
        pthread_join(threads[i], NULL);
        take(stack, 2);
        point_release();
        pthread_join(flush, NULL);
    }
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT group_concat(size, '') FROM (SELECT size FROM allocation ORDER BY allocation_id)"),
              "31212121212121212121212121212121212121212",
              "records of a ring that is added while the merge looks are in order");
    is_i64(late_records(path), 0, "no record of a ring that is added while the merge looks is late");
}

/* Random runs. */
#define RANDOM_THREADS 6
#define RANDOM_SLOTS   32

struct random_run {
    struct tide_resource *log;
    unsigned calls; /* of each thread */
    struct {
        _Atomic(void *) pointer; /* a block that any thread may take and free */
        _Atomic uint32_t number;
    } slots[RANDOM_SLOTS];
    pthread_mutex_t locks[RANDOM_SLOTS];
    /* By number: the thread that allocated and the one that freed it, and the index of the call on that thread. */
    uint8_t *alloc_thread, *free_thread;
    size_t one_size; /* of all blocks; 0: each has its own */
    _Atomic bool ended;
    uint32_t *alloc_call, *free_call;
};

struct random_thread {
    struct random_run *run;
    unsigned index;
    uint64_t random;
};

/* The size of an allocation is its number. */
static void
random_free(struct random_run *run, unsigned index, uint32_t call, void *pointer, uint32_t number)
{
    run->free_thread[number] = (uint8_t)(index + 1);
    run->free_call[number] = call;
    give(run->log, pointer, run->one_size != 0 ? run->one_size : number);
}

static void *
random_work(void *argument)
{
    struct random_thread *mine = argument;
    struct random_run *run = mine->run;
    char name[16];
    uint32_t call = 0;

    snprintf(name, sizeof(name), "w%u", mine->index + 1);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    for (unsigned i = 0; i < run->calls; i++) {
        uint32_t number = 1 + mine->index + i * RANDOM_THREADS, other;
        unsigned slot = (unsigned)(next_random(&mine->random) % RANDOM_SLOTS);
        void *pointer, *found;

        run->alloc_thread[number] = (uint8_t)(mine->index + 1);
        run->alloc_call[number] = call++;
        pointer = take(run->log, run->one_size != 0 ? run->one_size : number);
        /* Leave the block for another thread, and free the block that was left there. */
        pthread_mutex_lock(&run->locks[slot]);
        found = atomic_load(&run->slots[slot].pointer);
        other = atomic_load(&run->slots[slot].number);
        atomic_store(&run->slots[slot].pointer, pointer);
        atomic_store(&run->slots[slot].number, number);
        pthread_mutex_unlock(&run->locks[slot]);
        if (found != NULL)
            random_free(run, mine->index, call++, found, other);
        if (next_random(&mine->random) % 512 == 0)
            usleep((useconds_t)(next_random(&mine->random) % 2000));
    }
    return NULL;
}

/* Make many small transactions, each with a clock line of its own. */
static void *
random_flush(void *argument)
{
    struct random_run *run = argument;

    while (!atomic_load(&run->ended))
        tide_log_flush(run->log);
    return NULL;
}

/* Compare each row with the threads' notes. */
static bool
random_check(const char *path, const struct random_run *run)
{
    uint32_t last_call[RANDOM_THREADS + 1];
    int64_t rows = 0, wrong = 0;
    sqlite3_stmt *query;
    sqlite3 *db;

    memset(last_call, 0xff, sizeof(last_call));
    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    sqlite3_prepare_v2(db,
                       "SELECT size, CAST(substr(a.name, 2) AS INTEGER), CAST(substr(f.name, 2) AS INTEGER)"
                       " FROM allocation JOIN thread a ON a.thread_id = alloc_thread_id"
                       " LEFT JOIN thread f ON f.thread_id = free_thread_id ORDER BY allocation_id",
                       -1, &query, NULL);
    while (sqlite3_step(query) == SQLITE_ROW) {
        uint32_t number = (uint32_t)sqlite3_column_int64(query, 0);
        unsigned by = (unsigned)sqlite3_column_int(query, 1), freed_by = (unsigned)sqlite3_column_int(query, 2);

        rows++;
        if (by == 0 || by > RANDOM_THREADS || run->alloc_thread[number] != by || run->free_thread[number] != freed_by ||
            run->alloc_call[number] < last_call[by] + 1) {
            if (wrong++ < 5)
                diag("number %u: thread %u, noted %u; freed by %u, noted %u; call %u after %u", number, by,
                     run->alloc_thread[number], freed_by, run->free_thread[number], run->alloc_call[number],
                     last_call[by]);
        }
        last_call[by <= RANDOM_THREADS ? by : 0] = run->alloc_call[number];
    }
    sqlite3_finalize(query);
    sqlite3_close(db);
    if (rows != (int64_t)run->calls * RANDOM_THREADS)
        diag("%" PRId64 " rows, wanted %u", rows, run->calls * RANDOM_THREADS);
    return rows == (int64_t)run->calls * RANDOM_THREADS && wrong == 0;
}

/* Whether the times of each thread's frees are in the order of its calls. */
static bool
random_check_frees(const char *path, const struct random_run *run)
{
    uint32_t last_call[RANDOM_THREADS + 1] = { 0 };
    int64_t wrong = 0;
    sqlite3_stmt *query;
    sqlite3 *db;

    sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    sqlite3_prepare_v2(db,
                       "SELECT size, CAST(substr(name, 2) AS INTEGER), free_ns, lag(free_ns) OVER (PARTITION BY"
                       " free_thread_id ORDER BY free_ns) FROM allocation JOIN thread ON thread_id = free_thread_id"
                       " ORDER BY free_thread_id, free_ns",
                       -1, &query, NULL);
    while (sqlite3_step(query) == SQLITE_ROW) {
        uint32_t number = (uint32_t)sqlite3_column_int64(query, 0);
        unsigned by = (unsigned)sqlite3_column_int(query, 1);
        bool same = sqlite3_column_int64(query, 2) == sqlite3_column_int64(query, 3);

        if (by == 0 || by > RANDOM_THREADS || (!same && run->free_call[number] < last_call[by])) {
            if (wrong++ < 5)
                diag("thread %u: call %u is a free before that of call %u", by, run->free_call[number], last_call[by]);
        }
        if (by <= RANDOM_THREADS && run->free_call[number] > last_call[by])
            last_call[by] = run->free_call[number];
    }
    sqlite3_finalize(query);
    sqlite3_close(db);
    return wrong == 0;
}

/* With one size for all, whether each thread has as many calls as it noted. */
static bool
random_check_counts(const char *path, const struct random_run *run)
{
    bool good = true;

    for (unsigned i = 1; i <= RANDOM_THREADS; i++) {
        int64_t frees = 0, seen, seen_frees;

        for (unsigned number = 1; number <= run->calls * RANDOM_THREADS; number++)
            frees += run->free_thread[number] == i;
        seen = sql_number(path,
                          "SELECT count(*) FROM allocation JOIN thread ON thread_id = alloc_thread_id"
                          " WHERE name = 'w%u'",
                          i);
        seen_frees = sql_number(path,
                                "SELECT count(*) FROM allocation JOIN thread ON thread_id = free_thread_id"
                                " WHERE name = 'w%u'",
                                i);
        if (seen != run->calls || seen_frees != frees) {
            diag("thread %u: %" PRId64 " allocations, noted %u; %" PRId64 " frees, noted %" PRId64, i, seen, run->calls,
                 seen_frees, frees);
            good = false;
        }
    }
    return good;
}

static void
random_run(const char *name, struct tide_log_options options, size_t one_size, uint64_t seed, const char *sentence)
{
    const char *path = scratch("%s", name);
    unsigned calls = 8000, numbers = calls * RANDOM_THREADS + 1;
    struct random_run *run = calloc(1, sizeof(*run));
    struct random_thread threads[RANDOM_THREADS];
    pthread_t ids[RANDOM_THREADS], flush;
    int64_t late;

    options.path = path;
    run->log = recycler_log(options);
    run->calls = calls;
    run->one_size = one_size;
    run->alloc_thread = calloc(numbers, 1);
    run->free_thread = calloc(numbers, 1);
    run->alloc_call = calloc(numbers, sizeof(uint32_t));
    run->free_call = calloc(numbers, sizeof(uint32_t));
    for (unsigned i = 0; i < RANDOM_SLOTS; i++)
        pthread_mutex_init(&run->locks[i], NULL);
    for (unsigned i = 0; i < RANDOM_THREADS; i++) {
        threads[i] = (struct random_thread){ run, i, seed * (i + 1) + i };
        pthread_create(&ids[i], NULL, random_work, &threads[i]);
    }
    if (one_size != 0)
        pthread_create(&flush, NULL, random_flush, run);
    for (unsigned i = 0; i < RANDOM_THREADS; i++)
        pthread_join(ids[i], NULL);
    atomic_store(&run->ended, true);
    if (one_size != 0)
        pthread_join(flush, NULL);
    tide_resource_release(run->log);
    late = late_records(path);
    if (late != 0)
        diag("%" PRId64 " late records: this machine stops threads for long", late);
    if (one_size == 0) {
        ok(random_check(path, run), "%s: every allocation has the threads that made and freed it, in their order",
           sentence);
        ok(late != 0 || random_check_frees(path, run), "frees are in the order of their threads' calls");
    } else {
        ok(random_check_counts(path, run), "%s: each thread has as many allocations and frees as it made", sentence);
    }
    ok(trace_is_whole(path), "the trace of the random run is whole");
    free(run->alloc_thread);
    free(run->free_thread);
    free(run->alloc_call);
    free(run->free_call);
    free(run);
}

/* A clock that stands still. */
static _Atomic uint64_t set_clock_ns;

static uint64_t
set_clock(void)
{
    return atomic_load(&set_clock_ns);
}

struct relay {
    struct tide_resource *log;
    sem_t mine, other;
    void *pointer;
};

static void *
relay_work(void *argument)
{
    struct relay *relay = argument;

    sem_wait(&relay->other);
    relay->pointer = take(relay->log, 1);
    sem_post(&relay->mine);
    sem_wait(&relay->other);
    give(relay->log, relay->pointer, 2);
    relay->pointer = take(relay->log, 3);
    sem_post(&relay->mine);
    return NULL;
}

/*
 * One address goes from thread to thread while the clock stands still. The thread whose ring is read first frees first.
 * `slice`: the records of a transaction; 0: the default.
 */
static void
test_one_tick(uint64_t slice)
{
    const char *path = scratch("one-tick-%u.db", (unsigned)slice);
    struct relay relay = { 0 };
    pthread_t thread;

    atomic_store(&set_clock_ns, tidei_monotonic_ns());
    atomic_store(&tidei_test_clock, set_clock);
    atomic_store(&tidei_test_slice, slice);
    relay.log = recycler_log((struct tide_log_options){ .path = path, .clock = TIDE_CLOCK_MONOTONIC });
    sem_init(&relay.mine, 0, 0);
    sem_init(&relay.other, 0, 0);
    tide_mark("the first ring is this thread's");
    pthread_create(&thread, NULL, relay_work, &relay);
    sem_post(&relay.other);
    sem_wait(&relay.mine);
    give(relay.log, relay.pointer, 1);
    relay.pointer = take(relay.log, 2);
    sem_post(&relay.other);
    sem_wait(&relay.mine);
    pthread_join(thread, NULL);
    /* The flush waits for the next tick, since this one may have more events. */
    pthread_create(&thread, NULL, flush_work, relay.log);
    usleep(50000);
    atomic_store(&tidei_test_clock, NULL);
    pthread_join(thread, NULL);
    is_string(sql_text(path, "SELECT group_concat(size || ':' || (free_ns IS NULL), ' ') FROM (SELECT * FROM allocation"
                             " ORDER BY size)"),
              "1:0 2:0 3:1",
              slice != 0 ? "three allocations of one address in one tick are told apart if a slice has one record"
                         : "three allocations of one address in one tick are told apart");
    tide_resource_release(relay.log);
    ok(trace_is_whole(path), "the trace of one tick is whole");
    atomic_store(&tidei_test_slice, 0);
}

/* A clock that moves in steps of half a millisecond. */
static uint64_t
coarse_clock(void)
{
    return tidei_monotonic_ns() / 500000 * 500000;
}

static void
coarse_run(uint64_t seed)
{
    const char *path = scratch("coarse.db");
    struct tide_resource *log;
    struct random_run *run = calloc(1, sizeof(*run));
    struct random_thread threads[RANDOM_THREADS];
    pthread_t ids[RANDOM_THREADS];
    unsigned calls = 5000, numbers = calls * RANDOM_THREADS + 1;

    atomic_store(&tidei_test_clock, coarse_clock);
    log = recycler_log((struct tide_log_options){ .path = path, .clock = TIDE_CLOCK_MONOTONIC });
    run->log = log;
    run->calls = calls;
    run->alloc_thread = calloc(numbers, 1);
    run->free_thread = calloc(numbers, 1);
    run->alloc_call = calloc(numbers, sizeof(uint32_t));
    run->free_call = calloc(numbers, sizeof(uint32_t));
    for (unsigned i = 0; i < RANDOM_SLOTS; i++)
        pthread_mutex_init(&run->locks[i], NULL);
    for (unsigned i = 0; i < RANDOM_THREADS; i++) {
        threads[i] = (struct random_thread){ run, i, seed * (i + 1) + i };
        pthread_create(&ids[i], NULL, random_work, &threads[i]);
    }
    for (unsigned i = 0; i < RANDOM_THREADS; i++)
        pthread_join(ids[i], NULL);
    is_i64(tide_log_flush(log), TIDE_OK, "a flush with a coarse clock succeeds");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), (int64_t)calls * RANDOM_THREADS,
           "a flush with a coarse clock writes every event of its own tick");
    tide_resource_release(log);
    diag("%" PRId64 " ticks for %u allocations", sql_number(path, "SELECT count(DISTINCT alloc_ns) FROM allocation"),
         calls * RANDOM_THREADS);
    /* Within a tick, the sizes tell the allocations of an address apart only if the address was free in between. */
    is_i64(sql_number(path,
                      "SELECT (SELECT count(free_thread_id) FROM allocation) + (SELECT count(*) FROM unmatched_free)"),
           (int64_t)calls * RANDOM_THREADS - RANDOM_SLOTS, "with a coarse clock every free is in the trace once");
    atomic_store(&tidei_test_clock, NULL);
    free(run->alloc_thread);
    free(run->free_thread);
    free(run->alloc_call);
    free(run->free_call);
    free(run);
}

int
main(void)
{
    uint64_t seed;

    plan(34);
    seed = random_seed("MERGE_SEED");
    test_waits();
    test_patience();
    test_late_free();
    test_newcomers();
    random_run("tsc.db", (struct tide_log_options){ .clock = TIDE_CLOCK_AUTO }, 0, seed, "six threads");
    random_run("one-size.db", (struct tide_log_options){ .clock = TIDE_CLOCK_AUTO }, 64, seed + 8,
               "all of one size, in many transactions");
    random_run("monotonic.db", (struct tide_log_options){ .clock = TIDE_CLOCK_MONOTONIC }, 0, seed + 2,
               "with CLOCK_MONOTONIC");
    random_run("small-ring.db", (struct tide_log_options){ .ring_bytes = 4096, .backlog_bytes = 1 << 20 }, 0, seed + 4,
               "with small rings");
    test_one_tick(0);
    test_one_tick(1);
    coarse_run(seed + 6);
    return done();
}
