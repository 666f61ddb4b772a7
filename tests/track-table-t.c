/* Tests adaptors/track/table.c. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "contract.h"
#include "point.h"
#include "src/resource/resource.h"
#include "sanitized.h"
#include "tap.h"
#include "trace.h"
#include "track-blocks.h"

#define THREADS  8
#define STEPS    30000
#define LIVE     2000   /* of each thread */
#define MANY     100000 /* more than the table has places at first */
#define COLLIDED 300
#define FRESH    200000 /* addresses that are used once */
#define LISTS    4000

static size_t
put_all(struct tidei_track_table *table, uint64_t (*address)(uint64_t n), size_t count, enum tidei_track_answer answer)
{
    size_t right = 0;

    for (size_t i = 0; i < count; i++)
        right += put_block(table, address(i), i) == answer;
    return right;
}

static size_t
take_all(struct tidei_track_table *table, uint64_t (*address)(uint64_t n), size_t count, enum tidei_track_answer answer)
{
    size_t right = 0;

    for (size_t i = 0; i < count; i++)
        right += take_block(table, address(i), i) == answer;
    return right;
}

#define MANY_TESTS 5

static void
check_many(const char *name, uint64_t (*address)(uint64_t n), size_t count)
{
    struct tidei_track_table *table = table_of();

    ok(put_all(table, address, count, TIDEI_TRACK_FINE) == count, "%zu %s addresses are added to the table", count,
       name);
    is_u64(put_all(table, address, count, TIDEI_TRACK_LIVE), count, "each added address is known to be live");
    is_u64(listed(table), count, "each added address is listed");
    is_u64(take_all(table, address, count, TIDEI_TRACK_FINE), count, "each added address is removed by its free");
    ok(all_of(take_all(table, address, count, TIDEI_TRACK_FREED_BEFORE) == count, listed(table) == 0),
       "each freed address is known to have been freed, and none is listed");
    tidei_track_table_destroy(table);
}

#define FREED_TESTS 6

/* A bounded number of frees is remembered: a bucket has two places, unless more blocks are live. */
static void
check_freed(void)
{
    struct tidei_track_table *table = table_of();

    put_block(table, colliding(0), 8);
    take_block(table, colliding(0), 8);
    put_block(table, colliding(1), 8);
    take_block(table, colliding(1), 8);
    is_u64(take_block(table, colliding(0), 8), TIDEI_TRACK_FREED_BEFORE, "two freed blocks of a bucket are remembered");
    put_block(table, colliding(2), 8);
    is_u64(take_block(table, colliding(0), 8), TIDEI_TRACK_UNKNOWN,
           "a third block takes the place of the block freed first");
    is_u64(take_block(table, colliding(1), 8), TIDEI_TRACK_FREED_BEFORE, "the block freed last is still remembered");
    put_block(table, colliding(0), 8);
    is_u64(take_block(table, colliding(0), 8), TIDEI_TRACK_FINE, "a forgotten address can be live again");
    put_block(table, colliding(1), 8);
    take_block(table, colliding(1), 8);
    take_block(table, colliding(2), 8); /* the latest, in the place that colliding(0) had */
    put_block(table, colliding(3), 8);
    ok(take_block(table, colliding(2), 8) == TIDEI_TRACK_FREED_BEFORE,
       "the block freed last is remembered, whichever place of the bucket it had");
    for (uint64_t i = 0; i < FRESH; i++) {
        put_block(table, even(i), 1);
        take_block(table, even(i), 1);
    }
    ok(all_of(take_block(table, even(0), 1) == TIDEI_TRACK_UNKNOWN,
              take_block(table, even(FRESH - 1), 1) == TIDEI_TRACK_FREED_BEFORE),
       "%d frees do not make the table larger", FRESH);
    tidei_track_table_destroy(table);
}

struct worker {
    pthread_t thread;
    struct tidei_track_table *table;
    unsigned index;
    uint64_t seed;
    uint64_t wrong;
    uint64_t live;
};

/* Some addresses share buckets with those of all other threads. */
static uint64_t
worker_address(const struct worker *worker, uint64_t n)
{
    return n % 64 == 0 ? colliding(n / 64 * THREADS + worker->index) : even(n * THREADS + worker->index);
}

static void *
worker_run(void *argument)
{
    struct worker *worker = argument;
    bool live[LIVE] = { false };

    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t n = contract_random(&worker->seed) % LIVE, address = worker_address(worker, n);

        if (live[n]) {
            worker->wrong += put_block(worker->table, address, n) != TIDEI_TRACK_LIVE;
            worker->wrong += take_block(worker->table, address, n + 1) != TIDEI_TRACK_OTHER_SIZE;
            worker->wrong += take_block(worker->table, address, n) != TIDEI_TRACK_FINE;
            worker->wrong += take_block(worker->table, address, n) == TIDEI_TRACK_FINE;
            worker->live--;
        } else {
            worker->wrong += put_block(worker->table, address, n) != TIDEI_TRACK_FINE;
            worker->live++;
        }
        live[n] = !live[n];
    }
    return NULL;
}

#define THREADS_TESTS 2

static void
check_threads(void)
{
    struct tidei_track_table *table = table_of();
    uint64_t seed = contract_seed(20261122), wrong = 0, live = 0;
    struct worker workers[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .table = table, .index = i, .seed = seed + i };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        listed(table);
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
        live += workers[i].live;
    }
    is_u64(wrong, 0, "threads whose addresses share buckets, and a table that grows, get right answers");
    is_u64(listed(table), live, "every block that the threads left live is listed");
    tidei_track_table_destroy(table);
}

struct walker {
    pthread_t thread;
    struct tidei_track_table *table;
    _Atomic bool stop;
};

/* Has one live block at any moment, and sometimes two. */
static void *
walker_run(void *argument)
{
    struct walker *walker = argument;

    for (uint64_t n = 0; !atomic_load_explicit(&walker->stop, memory_order_relaxed); n++) {
        put_block(walker->table, even((n + 1) % FRESH), 1);
        take_block(walker->table, even(n % FRESH), 1);
    }
    return NULL;
}

#define LIST_TESTS 1

static void
check_list(void)
{
    struct walker walker = { .table = table_of() };
    unsigned wrong = 0;

    put_block(walker.table, even(0), 1);
    pthread_create(&walker.thread, NULL, walker_run, &walker);
    for (unsigned i = 0; i < LISTS; i++) {
        size_t count = listed(walker.table);

        wrong += count != 1 && count != 2;
        sched_yield();
    }
    atomic_store_explicit(&walker.stop, true, memory_order_relaxed);
    pthread_join(walker.thread, NULL);
    is_u64(wrong, 0, "a listing is of one moment: a block that another thread moves is listed once");
    tidei_track_table_destroy(walker.table);
}

static void *
come(void *argument)
{
    listed(argument);
    return NULL;
}

static void *
put_held(void *argument)
{
    pthread_setname_np(pthread_self(), "holder");
    return put_block(argument, colliding(0), 8) == TIDEI_TRACK_FINE ? argument : NULL;
}

static void *
put_waiting(void *argument)
{
    return put_block(argument, colliding(1), 8) == TIDEI_TRACK_FINE ? argument : NULL;
}

#define HELD_TESTS 2

static void
check_held(void)
{
    struct tidei_track_table *table = table_of();
    pthread_t guest, holder, waiter;
    void *held, *waited;

    /* A second thread has used the table. */
    listed(table);
    pthread_create(&guest, NULL, come, table);
    pthread_join(guest, NULL);
    point_arm("track.held", "holder");
    pthread_create(&holder, NULL, put_held, table);
    point_wait();
    point_count("track.waits");
    pthread_create(&waiter, NULL, put_waiting, table);
    while (point_count("track.waits") == 0)
        sched_yield();
    is_u64(put_block(table, even(7), 8), TIDEI_TRACK_FINE,
           "a thread that holds a bucket does not block a thread that uses another");
    point_release();
    pthread_join(holder, &held);
    pthread_join(waiter, &waited);
    ok(all_of(held == table, waited == table, listed(table) == 3), "a thread that uses a held bucket waits for it");
    tidei_track_table_destroy(table);
}

static void *
put_until_grown(void *argument)
{
    pthread_setname_np(pthread_self(), "grower");
    put_all(argument, even, MANY, TIDEI_TRACK_FINE);
    return NULL;
}

struct meanwhile {
    struct tidei_track_table *table;
    pthread_barrier_t barrier;
    _Atomic bool done;
};

static void *
put_meanwhile(void *argument)
{
    struct meanwhile *meanwhile = argument;

    put_block(meanwhile->table, colliding(0), 8);
    pthread_barrier_wait(&meanwhile->barrier); /* the table knows the thread; now it grows */
    pthread_barrier_wait(&meanwhile->barrier);
    put_block(meanwhile->table, colliding(1), 8);
    atomic_store_explicit(&meanwhile->done, true, memory_order_release);
    return NULL;
}

#define GROWTH_TESTS 1

static void
check_growth(void)
{
    struct meanwhile meanwhile = { .table = table_of() };
    pthread_t grower, other;

    listed(meanwhile.table);
    pthread_barrier_init(&meanwhile.barrier, NULL, 2);
    pthread_create(&other, NULL, put_meanwhile, &meanwhile);
    pthread_barrier_wait(&meanwhile.barrier);
    point_arm("track.copied", "grower");
    pthread_create(&grower, NULL, put_until_grown, meanwhile.table);
    point_wait();
    point_count("track.waits");
    pthread_barrier_wait(&meanwhile.barrier);
    while (point_count("track.waits") == 0 && !atomic_load_explicit(&meanwhile.done, memory_order_acquire))
        sched_yield();
    point_release();
    pthread_join(grower, NULL);
    pthread_join(other, NULL);
    pthread_barrier_destroy(&meanwhile.barrier);
    is_u64(listed(meanwhile.table), MANY + 2, "addresses added while the table grows are kept");
    tidei_track_table_destroy(meanwhile.table);
}

#define FORK_TESTS 1

static int
fork_run(void *argument)
{
    struct tidei_track_table *table = argument;
    size_t count = listed(table);

    return (count == 1 || count == 2) && put_block(table, colliding(0), 8) == TIDEI_TRACK_FINE &&
                   take_block(table, colliding(0), 8) == TIDEI_TRACK_FINE && listed(table) == count
               ? 0
               : 1;
}

static void
check_fork(void)
{
    struct walker walker = { .table = table_of() };
    unsigned wrong = 0;

    if (SANITIZED_ADDRESS) {
        skip(FORK_TESTS, "the sanitizer's own locks may be held in the child");
        tidei_track_table_destroy(walker.table);
        return;
    }
    put_block(walker.table, even(0), 1);
    listed(walker.table);
    pthread_create(&walker.thread, NULL, walker_run, &walker);
    for (unsigned i = 0; i < 20; i++)
        wrong += in_child(fork_run, walker.table) != 0;
    atomic_store_explicit(&walker.stop, true, memory_order_relaxed);
    pthread_join(walker.thread, NULL);
    is_u64(wrong, 0, "a process forked beside a busy thread has a consistent table");
    tidei_track_table_destroy(walker.table);
}

int
main(void)
{
    plan(2 * MANY_TESTS + FREED_TESTS + THREADS_TESTS + LIST_TESTS + HELD_TESTS + GROWTH_TESTS + FORK_TESTS);
    check_many("even", even, MANY);
    check_many("colliding", colliding, COLLIDED);
    check_freed();
    check_threads();
    check_list();
    check_fork(); /* before the test points: the child would inherit their mutex as it is */
    check_held();
    check_growth();
    return done();
}
