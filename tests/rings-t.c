/*
 * Tests as many threads at once as a trace has rings for, and more: those with a ring are recorded whole, the others
 * are counted, later threads get the rings that were left, and a kill loses nothing. SCALE_RINGS=4096 is the real bound
 * (make scale). Times and memory are printed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tap.h"
#include "trace.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/ringfile.h"

#define MORE        8 /* threads beyond the bound */
#define PAIRS       20
#define GENERATIONS 3

/* Of a thread: room for what the library and the sanitizers need, of which most is never touched. */
#define STACK_BYTES (256u << 10)

static unsigned rings = SANITIZED ? 64 : 512;

static uint64_t
nanoseconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The memory that this process alone has: resident less shared pages. */
static uint64_t
private_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long all, resident, shared;
    int read = file != NULL ? fscanf(file, "%llu %llu %llu", &all, &resident, &shared) : 0;

    if (file != NULL)
        fclose(file);
    return read == 3 ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* How many rings a ring file has, and its size. */
static uint32_t
rings_of(const char *path, int64_t *size)
{
    struct tidei_ring_header header = { .format = 0 };
    FILE *file = fopen(path, "r");
    struct stat info = { 0 };

    if (file == NULL || fread(&header, sizeof(header), 1, file) != 1 || fstat(fileno(file), &info) != 0)
        return 0;
    fclose(file);
    *size = (int64_t)info.st_size;
    return atomic_load(&header.ring_count);
}

/* Threads with small stacks. Returns how many could be started: a machine may not let so many. */
static unsigned
start(pthread_t *threads, unsigned count, void *(*function)(void *), void *context)
{
    pthread_attr_t small;
    unsigned started = 0;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    while (started < count && pthread_create(&threads[started], &small, function, context) == 0)
        started++;
    pthread_attr_destroy(&small);
    return started;
}

static void
join(const pthread_t *threads, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void *
wait_for_all(void *context)
{
    pthread_barrier_wait(context);
    return NULL;
}

/* Whether the machine lets so many threads be. If not, those that could be started wait until the program ends. */
static bool
may_start(pthread_t *threads, unsigned count)
{
    static pthread_barrier_t all;

    pthread_barrier_init(&all, NULL, count + 1);
    if (start(threads, count, wait_for_all, &all) != count)
        return false;
    pthread_barrier_wait(&all);
    join(threads, count);
    pthread_barrier_destroy(&all);
    return true;
}

/* Threads that record at once: each has recorded something before one goes on, and all before one ends. */
struct crowd {
    struct tide_resource *stack;
    pthread_barrier_t begun, recorded;
};

static void *
work(void *context)
{
    struct crowd *crowd = context;

    give(crowd->stack, take(crowd->stack, 64), 64);
    pthread_barrier_wait(&crowd->begun);
    for (unsigned i = 0; i < PAIRS; i++)
        give(crowd->stack, take(crowd->stack, 64), 64);
    pthread_barrier_wait(&crowd->recorded);
    return NULL;
}

/* Have so many threads record at once. Returns how long they took for it. */
static uint64_t
gather(struct tide_resource *stack, pthread_t *threads, unsigned count)
{
    struct crowd crowd = { .stack = stack };
    uint64_t begin = nanoseconds(CLOCK_MONOTONIC);

    pthread_barrier_init(&crowd.begun, NULL, count);
    pthread_barrier_init(&crowd.recorded, NULL, count);
    if (start(threads, count, work, &crowd) != count)
        abort();
    join(threads, count);
    pthread_barrier_destroy(&crowd.begun);
    pthread_barrier_destroy(&crowd.recorded);
    return nanoseconds(CLOCK_MONOTONIC) - begin;
}

/* The processor time that other threads of this process have taken. */
static uint64_t
others_ns(void)
{
    uint64_t own = nanoseconds(CLOCK_THREAD_CPUTIME_ID);

    return nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - own;
}

static _Atomic unsigned looks;

static void
count_look(const char *label)
{
    if (strcmp(label, "merge.look") == 0)
        atomic_fetch_add(&looks, 1);
}

/*
 * Print what the recorder's threads take while one thread records a pair each millisecond, or nothing. Whether the
 * rings were looked at no more often than once in a millisecond and a microsecond for each ring, but for commits.
 */
static bool
rests(struct tide_resource *stack, bool record)
{
    const struct timespec pause = { 0, 1000000 };
    uint64_t begin = nanoseconds(CLOCK_MONOTONIC), others = others_ns(), most;

    atomic_store(&looks, 0);
    atomic_store(&tidei_test_point, count_look);

    while (nanoseconds(CLOCK_MONOTONIC) - begin < 500000000) {
        if (record)
            give(stack, take(stack, 64), 64);
        nanosleep(&pause, NULL);
    }
    begin = nanoseconds(CLOCK_MONOTONIC) - begin;
    others = others_ns() - others;
    diag("%u rings, %s: the recorder takes %.1f%% of a processor", rings,
         record ? "a pair each millisecond" : "nothing recorded", 100.0 * (double)others / (double)begin);
    atomic_store(&tidei_test_point, NULL);
    most = begin / (1000000 + 1000 * (uint64_t)rings) + 10;
    diag("%u looks at the rings, of %" PRIu64, atomic_load(&looks), most);
    return atomic_load(&looks) <= most;
}

#define BOUND_TESTS 7

static void
test_bound(pthread_t *threads)
{
    const char *path = scratch("bound.db"), *file = scratch("bound.db-rings");
    struct tide_resource *stack = stack_of("log(%s, ring=4KiB) | sim", path);
    uint64_t memory = private_bytes(), spent = gather(stack, threads, rings + MORE), begin;
    int64_t size = 0, lost = (int64_t)2 * (MORE + 1) * (PAIRS + 1);
    uint32_t count = rings_of(file, &size);
    char failure[128];

    diag("%u threads at once: %" PRIu64 " ms; %" PRIu64 " KiB of memory and %" PRId64 " KiB of disk", rings + MORE,
         spent / 1000000, (private_bytes() - memory) / 1024, size / 1024);
    tide_log_flush(stack);
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns IS NOT NULL"),
           (int64_t)(rings - 1) * (PAIRS + 1), "of as many threads at once as there are rings each is recorded whole");
    for (unsigned i = 0; i < GENERATIONS; i++)
        gather(stack, threads, rings - 1);
    ok(all_of(count == rings, rings_of(file, &size) == rings), "later threads take the rings that were left");
    tide_log_flush(stack); /* or the rows of the generations are measured */
    ok(all_of(rests(stack, true), rests(stack, false)),
       "the more rings there are, the less often they are looked at while little is recorded");
    begin = nanoseconds(CLOCK_MONOTONIC);
    tide_resource_release(stack);
    diag("the end of the recording took %" PRIu64 " ms", (nanoseconds(CLOCK_MONOTONIC) - begin) / 1000000);
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE alloc_thread_id <> 1 AND free_ns IS NOT NULL"),
           (int64_t)(GENERATIONS + 1) * (rings - 1) * (PAIRS + 1),
           "threads that come when there is a ring again are recorded whole");
    is_i64(sql_number(path, "SELECT sum(events) FROM loss WHERE reason LIKE '%%of a thread without a ring'"), lost,
           "each event of the threads beyond the bound is counted, and no other one");
    snprintf(failure, sizeof(failure), "more than %u threads recorded at once: the others had no ring", rings);
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'failure'"), failure,
              "the trace says how many threads may record at once");
    ok(trace_is_sound(path), "a trace of more threads at once than rings is sound");
}

/* What each thread counts before the kill. */
struct journal {
    struct tide_resource *stack;
    _Atomic unsigned next, begun;
    struct {
        _Atomic uint64_t allocs, frees;
    } threads[TIDEI_MAX_RINGS + MORE];
};

/* The size says which thread made an allocation. */
static void *
work_on(void *context)
{
    struct journal *journal = context;
    unsigned mine = atomic_fetch_add(&journal->next, 1);
    const struct timespec pause = { 0, 1000000 };

    for (unsigned i = 0;; i++) {
        void *pointer = take(journal->stack, mine + 1);

        atomic_fetch_add_explicit(&journal->threads[mine].allocs, 1, memory_order_release);
        give(journal->stack, pointer, mine + 1);
        atomic_fetch_add_explicit(&journal->threads[mine].frees, 1, memory_order_release);
        if (i == 0)
            atomic_fetch_add(&journal->begun, 1);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static _Noreturn void
record_until_killed(struct journal *journal, pthread_t *threads)
{
    journal->stack = stack_of("log(%s, ring=4KiB) | sim", scratch("killed.db"));
    if (start(threads, rings + MORE, work_on, journal) != rings + MORE)
        _exit(1);
    for (;;)
        pause();
}

/* The rows of each thread, by the size that says whose they are. */
struct seen {
    uint64_t allocs, frees;
};

static void
read_seen(const char *path, struct seen *seen)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT size - 1, count(*), count(free_ns) FROM allocation GROUP BY size", -1,
                           &statement, NULL) != SQLITE_OK)
        abort();
    while (sqlite3_step(statement) == SQLITE_ROW) {
        struct seen *one = &seen[sqlite3_column_int64(statement, 0)];

        *one =
            (struct seen){ (uint64_t)sqlite3_column_int64(statement, 1), (uint64_t)sqlite3_column_int64(statement, 2) };
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

/* Check each thread's rows against what it has counted: at most one call was under way at the kill. */
static void
check_journal(const char *path, const struct journal *journal)
{
    static struct seen seen[TIDEI_MAX_RINGS + MORE];
    unsigned wrong = 0, without = 0;
    uint64_t lost = 0, events = 0;

    read_seen(path, seen);
    for (unsigned i = 0; i < rings + MORE; i++) {
        uint64_t allocs = atomic_load(&journal->threads[i].allocs), frees = atomic_load(&journal->threads[i].frees);

        events += allocs + frees;
        if (seen[i].allocs == 0) {
            without++;
            lost += allocs + frees;
        } else if (seen[i].allocs < allocs || seen[i].allocs > allocs + 1 || seen[i].frees < frees ||
                   seen[i].frees > frees + 1) {
            diag("thread %u counted %" PRIu64 " and %" PRIu64 ", the trace has %" PRIu64 " and %" PRIu64, i, allocs,
                 frees, seen[i].allocs, seen[i].frees);
            wrong++;
        }
    }
    diag("%" PRIu64 " events had returned", events);
    ok(all_of(wrong == 0, without == MORE + 1),
       "of %u threads at a kill each that had a ring has all calls in the trace that had returned", rings + MORE);
    /* A call that was under way may have been counted. */
    events = (uint64_t)sql_number(path, "SELECT sum(events) FROM loss");
    ok(all_of(events >= lost, events <= lost + MORE + 1), "the calls of the others are counted as lost, kill or not");
}

#define KILL_TESTS 4

static void
test_kill(pthread_t *threads)
{
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    struct journal *journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct timespec pause = { 0, 1000000 };
    const char *path = scratch("killed.db");
    uint64_t begin;
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        record_until_killed(journal, threads);
    while (atomic_load(&journal->begun) < rings + MORE && waitpid(child, &status, WNOHANG) == 0)
        nanosleep(&pause, NULL);
    nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ok(WIFSIGNALED(status), "a program with %u threads records until it is killed", rings + MORE);
    begin = nanoseconds(CLOCK_MONOTONIC);
    ok(tide_trace_recover(path, &recovery) == TIDE_OK, "the rings of %u threads are recovered", rings);
    diag("the recovery of %" PRIu64 " events took %" PRIu64 " ms", recovery.events,
         (nanoseconds(CLOCK_MONOTONIC) - begin) / 1000000);
    check_journal(path, journal);
    munmap(journal, sizeof(*journal));
}

int
main(void)
{
    const char *text = getenv("SCALE_RINGS");
    pthread_t *threads = calloc(TIDEI_MAX_RINGS + MORE, sizeof(*threads));

    if (text != NULL)
        rings = (unsigned)strtoul(text, NULL, 10);
    if (threads == NULL || rings < 2 || rings > TIDEI_MAX_RINGS)
        return 2;
    if (rings != TIDEI_MAX_RINGS)
        atomic_store(&tidei_test_rings, rings);
    if (!may_start(threads, rings + MORE))
        skip_all("this machine does not let so many threads be");
    plan(BOUND_TESTS + KILL_TESTS);
    test_bound(threads);
    if (CHILDREN_MAY_RECORD)
        test_kill(threads);
    else
        skip(KILL_TESTS, "ThreadSanitizer supports no such child");
    free(threads);
    return done();
}
