/*
 * Tests a disk without room for another ring: the program goes on at its speed, since a ring is not asked for at each
 * event; nothing of a failed attempt stays on the disk; and a ring that can be had again is taken.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "tap.h"
#include "trace.h"
#include "src/sync/testpoint.h"

#define EVENTS   20000
#define AGAIN_NS 100000000u
#define MANY     64
#define RINGS    3

/*
 * Half of a ring of 1 MiB is what a failed attempt of posix_fallocate() below takes. A file system may take a few
 * blocks more for where the parts of a file lie, and keeps them when the parts are given back: ext4 takes 8 for a file
 * in more than four parts.
 */
#define HALF_RING_BLOCKS ((1 << 20) / 2 / 512)
#define MAP_BLOCKS       64

static _Atomic bool is_full;
static _Atomic unsigned attempts;

/* Replaces the C library's. A disk that becomes full keeps what it had room for, as ext4 does. */
__attribute__((visibility("default"))) int
posix_fallocate(int fd, off_t offset, off_t bytes)
{
    if (!atomic_load(&is_full))
        return fallocate(fd, 0, offset, bytes) == 0 ? 0 : errno;
    atomic_fetch_add(&attempts, 1);
    return fallocate(fd, 0, offset, bytes / 2) == 0 ? ENOSPC : errno;
}

static uint64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
pause_ns(long ns)
{
    const struct timespec pause = { 0, ns };

    nanosleep(&pause, NULL);
}

static void
events(struct tide_resource *stack, unsigned count)
{
    for (unsigned i = 0; i < count; i += 2)
        give(stack, take(stack, 64), 64);
}

/* The blocks that a file has on the disk. */
static int64_t
blocks(const char *path)
{
    struct stat info = { 0 };

    return stat(path, &info) == 0 ? info.st_blocks : -1;
}

static int64_t
size_of(const char *path)
{
    struct stat info = { 0 };

    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

/* A thread that records as many events as it is told to, until that is 0. */
struct worker {
    struct tide_resource *stack;
    pthread_t thread;
    sem_t go, done;
    unsigned events;
};

static void *
work(void *argument)
{
    struct worker *worker = argument;

    for (;;) {
        sem_wait(&worker->go);
        if (worker->events == 0)
            return NULL;
        events(worker->stack, worker->events);
        sem_post(&worker->done);
    }
}

static void
worker_start(struct worker *worker, struct tide_resource *stack)
{
    worker->stack = stack;
    sem_init(&worker->go, 0, 0);
    sem_init(&worker->done, 0, 0);
    pthread_create(&worker->thread, NULL, work, worker);
}

static void
worker_records(struct worker *worker, unsigned count)
{
    worker->events = count;
    sem_post(&worker->go);
    if (count != 0)
        sem_wait(&worker->done);
    else
        pthread_join(worker->thread, NULL);
}

#define FULL_TESTS 8

static void
test_full(void)
{
    char path[256], rings[256];
    struct worker worker, other;
    struct tide_resource *stack;
    uint64_t begin, most;
    int64_t before, size;

    snprintf(path, sizeof(path), "%s", scratch("full.db"));
    snprintf(rings, sizeof(rings), "%s", scratch("full.db-rings"));
    stack = stack_of("log(%s, ring=1MiB) | sim", path);
    worker_start(&worker, stack);
    worker_start(&other, stack);
    worker_records(&other, 2);
    tide_log_flush(stack);
    before = blocks(rings);
    size = size_of(rings);

    atomic_store(&is_full, true);
    begin = now_ns();
    worker_records(&worker, EVENTS);
    most = 1 + (now_ns() - begin) / AGAIN_NS;
    ok(all_of(atomic_load(&attempts) >= 1, atomic_load(&attempts) <= most),
       "a thread without a ring asks for one every 100 ms at the most, and not at each of its %u events (asked %u "
       "times)",
       EVENTS, atomic_load(&attempts));
    ok(all_of(size_of(rings) == size, blocks(rings) - before <= MAP_BLOCKS),
       "a ring that found no room leaves nothing on the disk (%jd blocks)", (intmax_t)(blocks(rings) - before));
    worker_records(&other, 0);
    worker_records(&worker, 10);
    ok(all_of(size_of(rings) == size, blocks(rings) - before <= MAP_BLOCKS),
       "the ring of a thread that ends is taken at once, and takes no more of the disk (%jd blocks)",
       (intmax_t)(blocks(rings) - before));

    worker_start(&other, stack);
    worker_records(&other, 4);
    atomic_store(&is_full, false);
    pause_ns(AGAIN_NS + AGAIN_NS / 2);
    worker_records(&other, 6);
    ok(blocks(rings) - before >= HALF_RING_BLOCKS, "once there is room again a thread gets a ring of its own");
    worker_records(&other, 0);
    worker_records(&worker, 0);
    tide_resource_release(stack);
    is_i64(sql_number(path, "SELECT sum(events) FROM loss"), EVENTS + 4,
           "the events of the threads without a ring are counted as lost, and no others");
    is_string(sql_text(path, "SELECT group_concat(reason, '; ') FROM (SELECT reason FROM loss ORDER BY 1)"),
              "allocation of a thread without a ring; free of a thread without a ring",
              "the reason of the loss is that threads had no ring");
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'failure'"),
              "there was no room for the rings of some threads", "the trace says that some threads had no ring");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation WHERE free_ns IS NOT NULL"), (2 + 10 + 6) / 2,
           "the events of the threads with a ring are all in the trace");
}

/* Many threads at once on a full disk, none of which has a ring. */
static void
test_many(void)
{
    static struct worker workers[MANY];
    char path[256];
    struct tide_resource *stack;
    uint64_t begin, most;

    snprintf(path, sizeof(path), "%s", scratch("many.db"));
    stack = stack_of("log(%s, ring=1MiB) | sim", path);
    events(stack, 2);
    atomic_store(&attempts, 0);
    atomic_store(&is_full, true);
    for (unsigned i = 0; i < MANY; i++)
        worker_start(&workers[i], stack);
    begin = now_ns();
    for (unsigned i = 0; i < MANY; i++) {
        workers[i].events = EVENTS;
        sem_post(&workers[i].go);
    }
    for (unsigned i = 0; i < MANY; i++)
        sem_wait(&workers[i].done);
    most = 1 + (now_ns() - begin) / AGAIN_NS;
    diag("%u threads made %u events each in %" PRIu64 " ms", MANY, EVENTS, (now_ns() - begin) / 1000000);
    ok(all_of(atomic_load(&attempts) >= 1, atomic_load(&attempts) <= most),
       "of %u threads without a ring one asks for it every 100 ms at the most (asked %u times)", MANY,
       atomic_load(&attempts));
    atomic_store(&is_full, false);
    for (unsigned i = 0; i < MANY; i++)
        worker_records(&workers[i], 0);
    events(stack, 2);
    tide_resource_release(stack);
    is_i64(sql_number(path, "SELECT sum(events) FROM loss WHERE reason LIKE '%%of a thread without a ring'"),
           (int64_t)MANY * EVENTS, "each event of many threads without a ring is counted");
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), 2, "the thread that has a ring goes on");
    ok(trace_is_sound(path), "a trace of which many threads have no ring is sound");
}

/* More threads at once than a file has rings. The one that makes the stack has the first. */
static void
test_most(void)
{
    struct worker workers[RINGS + 2];
    char path[256];
    struct tide_resource *stack;

    snprintf(path, sizeof(path), "%s", scratch("most.db"));
    atomic_store(&tidei_test_rings, RINGS);
    stack = stack_of("log(%s, ring=4KiB) | sim", path);
    for (unsigned i = 0; i < RINGS + 2; i++) {
        worker_start(&workers[i], stack);
        worker_records(&workers[i], 10);
    }
    for (unsigned i = 0; i < RINGS + 2; i++)
        worker_records(&workers[i], 0);
    tide_resource_release(stack);
    atomic_store(&tidei_test_rings, 0);
    is_i64(sql_number(path, "SELECT count(*) FROM allocation"), (RINGS - 1) * 5,
           "where more threads record at once than there can be rings, those with a ring are recorded");
    is_i64(sql_number(path, "SELECT sum(events) FROM loss WHERE reason LIKE '%%of a thread without a ring'"), 30,
           "the events of the others are counted, by that reason");
    is_string(sql_text(path, "SELECT value FROM meta WHERE key = 'failure'"),
              "more than 3 threads recorded at once: the others had no ring",
              "the trace says how many threads may record at once");
}

int
main(void)
{
    plan(FULL_TESTS + 4 + 3);
    test_full();
    test_many();
    test_most();
    return done();
}
