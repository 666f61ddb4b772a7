/*
 * Tests that lives of one address never overlap in what a killed program leaves, even where it is killed while an
 * address that is being freed is in use again: at the very moment, and at random ones. LIVES_SEED sets the seed.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "point.h"
#include "tap.h"
#include "trace.h"
#include "src/sync/testpoint.h"

#define THREADS 4
#define SLOTS   16
#define KILLS   60

/* In memory that outlives the child: the calls that have returned. */
struct progress {
    _Atomic uint64_t allocs, frees;
};

static struct progress *progress;

struct child {
    const char *path;
    bool flush; /* the second life is in the file before the kill */
    uint64_t seed;
};

/* A base that gives out the block freed last at once. All blocks have one size. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *freed[4096];
static size_t freed_count;
static uintptr_t next_block = 0x100000;

static enum tide_status
base_allocate(void *context, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)context;
    (void)bytes;
    (void)alignment;
    (void)stream;
    pthread_mutex_lock(&lock);
    *out = freed_count != 0 ? freed[--freed_count] : (void *)(next_block += 4096);
    pthread_mutex_unlock(&lock);
    return TIDE_OK;
}

static enum tide_status
base_deallocate(void *context, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)context;
    (void)bytes;
    (void)alignment;
    (void)stream;
    pthread_mutex_lock(&lock);
    freed[freed_count++] = pointer;
    pthread_mutex_unlock(&lock);
    sched_yield(); /* another thread has the address by now */
    return TIDE_OK;
}

static struct tide_resource *
log_over_base(const char *path)
{
    const struct tide_callback_options below = { TIDE_OPTIONS(below), .allocate = base_allocate,
                                                 .deallocate = base_deallocate };
    const struct tide_log_options options = { TIDE_OPTIONS(options), .path = path, .ring_bytes = 8192,
                                              .backlog_bytes = 1 << 20 };
    struct tide_resource *base, *log;

    if (tide_callback_create(&below, &base) != TIDE_OK || tide_log_create(base, &options, &log) != TIDE_OK)
        abort();
    tide_resource_release(base);
    return log;
}

struct freeing {
    struct tide_resource *stack;
    void *pointer;
    sem_t known, go;
};

static void *
freeing_work(void *argument)
{
    struct freeing *freeing = argument;

    prctl(PR_SET_NAME, "freeing", 0, 0, 0);
    tide_mark("the first record is not the free's");
    sem_post(&freeing->known);
    sem_wait(&freeing->go);
    give(freeing->stack, freeing->pointer, 64);
    return NULL;
}

/* Killed while one thread frees a block, whose address another thread has got already. */
static int
kill_in_free(void *argument)
{
    const struct child *child = argument;
    struct freeing freeing = { .stack = log_over_base(child->path) };
    pthread_t thread;

    freeing.pointer = take(freeing.stack, 64);
    if (child->flush)
        tide_log_flush(freeing.stack);
    sem_init(&freeing.known, 0, 0);
    sem_init(&freeing.go, 0, 0);
    pthread_create(&thread, NULL, freeing_work, &freeing);
    sem_wait(&freeing.known);
    point_arm("producer.before-publish", "freeing");
    sem_post(&freeing.go);
    point_wait();
    for (int i = 0; i < 3; i++) {
        void *pointer = take(freeing.stack, 64);

        if (pointer != freeing.pointer)
            return 1;
        if (i < 2)
            give(freeing.stack, pointer, 64);
    }
    if (child->flush)
        tide_log_flush(freeing.stack);
    kill(getpid(), SIGKILL);
    return 1;
}

static void
test_in_free(bool flush, const char *when)
{
    struct child child = { scratch("in-free%d.db", flush), flush, 0 };
    struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
    int status;

    atomic_store(&tidei_test_patience_ns, 1000000);
    status = in_child(kill_in_free, &child);
    atomic_store(&tidei_test_patience_ns, 0);
    ok(all_of(WIFSIGNALED(status), tide_trace_recover(child.path, &recovery) == TIDE_OK),
       "killed in a free, the next life of the address %s: the trace is recovered", when);
    ok(trace_is_whole(child.path), "killed in a free, the next life of the address %s: no two lives overlap", when);
    is_string(sql_text(child.path, "SELECT group_concat((free_ns IS NULL) || (free_thread_id IS NULL), ' ') FROM"
                                   " (SELECT * FROM allocation WHERE layer_id = 1 ORDER BY allocation_id)"),
              "01 00 00 11", "the free that never returned has ended its allocation, and no thread is known");
    ok(sql_number(child.path, "SELECT a.free_ns <= b.alloc_ns FROM allocation a, allocation b WHERE a.allocation_id ="
                              " (SELECT min(allocation_id) FROM allocation WHERE layer_id = 1) AND b.allocation_id ="
                              " (SELECT min(allocation_id) FROM allocation WHERE layer_id = 1 AND allocation_id >"
                              " a.allocation_id)") == 1,
       "that life ends where the address is allocated again");
}

struct worker {
    struct tide_resource *stack;
    uint64_t random;
    _Atomic(void *) *slots;
};

static void *
work(void *argument)
{
    struct worker *worker = argument;

    for (;;) {
        void *pointer = take(worker->stack, 64);

        atomic_fetch_add(&progress->allocs, 1);
        pointer = atomic_exchange(&worker->slots[next_random(&worker->random) % SLOTS], pointer);
        if (pointer == NULL)
            continue;
        give(worker->stack, pointer, 64);
        atomic_fetch_add(&progress->frees, 1);
    }
    return NULL;
}

static int
work_until_killed(void *argument)
{
    const struct child *child = argument;
    static _Atomic(void *) slots[SLOTS];
    struct worker workers[THREADS];
    pthread_t thread;

    atomic_store(&tidei_test_slice, 64);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ NULL, child->seed * (i + 1) + i + 1, slots };
        workers[i].stack = i == 0 ? log_over_base(child->path) : workers[0].stack;
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, work, &workers[i]);
    for (;;)
        tide_log_flush(workers[0].stack);
    return 0;
}

static void
test_random(void)
{
    uint64_t random = random_seed("LIVES_SEED"), bad = 0, missing = 0, ended = 0, rows = 0;

    for (unsigned i = 0; i < KILLS; i++) {
        struct child child = { scratch("random%u.db", i), false, next_random(&random) };
        struct tide_trace_recovery recovery = { TIDE_FIGURES(recovery) };
        const struct timespec pause = { 0, 5000000 + (long)(next_random(&random) % 40000000) };
        int64_t allocs, frees;
        pid_t pid;

        memset(progress, 0, sizeof(*progress));
        fflush(stdout);
        pid = fork();
        if (pid == 0)
            _exit(work_until_killed(&child));
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (access(child.path, F_OK) != 0)
            continue;
        bad += tide_trace_recover(child.path, &recovery) != TIDE_OK || !trace_is_whole(child.path);
        allocs = sql_number(child.path, "SELECT count(*) FROM allocation WHERE layer_id = 1");
        frees = sql_number(child.path, "SELECT count(free_thread_id) FROM allocation WHERE layer_id = 1");
        missing += allocs < (int64_t)atomic_load(&progress->allocs) || frees < (int64_t)atomic_load(&progress->frees);
        ended += (uint64_t)sql_number(child.path, "SELECT count(free_ns) - count(free_thread_id) FROM allocation");
        rows += (uint64_t)allocs;
        unlink(child.path);
    }
    diag("%" PRIu64 " allocations, %" PRIu64 " ended by the next life of their address", rows, ended);
    is_u64(bad, 0, "killed at random moments: every trace is whole, and no two lives overlap");
    is_u64(missing, 0, "killed at random moments: no call that had returned is missing");
}

int
main(void)
{
    plan(2 * 4 + 2);
    progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    test_in_free(false, "in the rings");
    test_in_free(true, "in the file");
    test_random();
    return done();
}
