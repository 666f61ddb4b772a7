/* Tests src/track-table.c and src/track-buckets.c, and what `track` does where host memory is short. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "contract.h"
#include "point.h"
#include "resource.h"
#include "tap.h"
#include "trace.h"
#include "track-table.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

#define THREADS  8
#define STEPS    30000
#define LIVE     2000   /* of each thread */
#define MANY     100000 /* more than there are places at first */
#define COLLIDED 300
#define FRESH    200000 /* addresses that are used once */
#define LISTS    4000

static struct tidei_track_table *
table_of(void)
{
    struct tidei_track_table *table;

    if (tidei_track_table_create(&table) != TIDE_OK)
        abort();
    return table;
}

/* Addresses that all come into one bucket, however large the table: the hash is a product, which can be undone. */
static uint64_t
colliding(uint64_t n)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t inverse = factor;

    for (int i = 0; i < 5; i++) /* Newton's: each step doubles the bits that are right */
        inverse *= 2 - factor * inverse;
    return ((UINT64_C(5) << 52) + 1 + n) * inverse;
}

static uint64_t
even(uint64_t n)
{
    return (UINT64_C(1) << 40) + 512 * n;
}

static enum tidei_track_answer
put_block(struct tidei_track_table *table, uint64_t address, uint64_t bytes)
{
    const struct tidei_track_block block = { .address = address, .bytes = bytes, .caller = { 1, 2 } };
    struct tidei_track_block known;

    return tidei_track_put(table, &block, &known);
}

static enum tidei_track_answer
take_block(struct tidei_track_table *table, uint64_t address, uint64_t bytes)
{
    const struct tidei_track_block back = { .address = address, .bytes = bytes, .freed_by = { 3, 4 } };
    struct tidei_track_block known;

    return tidei_track_take(table, &back, &known);
}

static size_t
listed(struct tidei_track_table *table)
{
    struct tidei_track_block *list;
    size_t count;

    if (!tidei_track_list(table, &list, &count))
        abort();
    free(list);
    return count;
}

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

    ok(put_all(table, address, count, TIDEI_TRACK_FINE) == count, "%zu %s addresses are taken up", count, name);
    is_u64(put_all(table, address, count, TIDEI_TRACK_LIVE), count, "each of them is known to be live");
    is_u64(listed(table), count, "and is listed");
    is_u64(take_all(table, address, count, TIDEI_TRACK_FINE), count, "and comes back");
    ok(take_all(table, address, count, TIDEI_TRACK_FREED_BEFORE) == count && listed(table) == 0,
       "and is known to have been freed, as nothing else has needed its place");
    tidei_track_table_destroy(table);
}

#define FREED_TESTS 6

/* A bounded number of frees is remembered: a bucket has two places until more are live. */
static void
check_freed(void)
{
    struct tidei_track_table *table = table_of();

    put_block(table, colliding(0), 8);
    take_block(table, colliding(0), 8);
    put_block(table, colliding(1), 8);
    take_block(table, colliding(1), 8);
    is_u64(take_block(table, colliding(0), 8), TIDEI_TRACK_FREED_BEFORE, "two frees of a bucket are remembered");
    put_block(table, colliding(2), 8);
    is_u64(take_block(table, colliding(0), 8), TIDEI_TRACK_UNKNOWN, "a third block gets the place of the older one");
    is_u64(take_block(table, colliding(1), 8), TIDEI_TRACK_FREED_BEFORE, "the latest free is remembered still");
    put_block(table, colliding(0), 8);
    is_u64(take_block(table, colliding(0), 8), TIDEI_TRACK_FINE, "what was forgotten can be live again");
    put_block(table, colliding(1), 8);
    take_block(table, colliding(1), 8);
    take_block(table, colliding(2), 8); /* the latest, in the place of colliding(0) before */
    put_block(table, colliding(3), 8);
    ok(take_block(table, colliding(2), 8) == TIDEI_TRACK_FREED_BEFORE, "wherever the latest was");
    for (uint64_t i = 0; i < FRESH; i++) {
        put_block(table, even(i), 1);
        take_block(table, even(i), 1);
    }
    ok(take_block(table, even(0), 1) == TIDEI_TRACK_UNKNOWN &&
           take_block(table, even(FRESH - 1), 1) == TIDEI_TRACK_FREED_BEFORE,
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

/* Some of the addresses come into one bucket with those of all other threads. */
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
    is_u64(listed(table), live, "and all that they have left is listed");
    tidei_track_table_destroy(table);
}

struct walker {
    pthread_t thread;
    struct tidei_track_table *table;
    _Atomic bool stop;
};

/* Has one block live at any moment, now and then two. */
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
    is_u64(wrong, 0, "a list is of one moment: a block that moves is in it wherever it is");
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

    /* More than one thread has come. */
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
    is_u64(put_block(table, even(7), 8), TIDEI_TRACK_FINE, "a thread that holds a bucket keeps nobody from another");
    point_release();
    pthread_join(holder, &held);
    pthread_join(waiter, &waited);
    ok(held == table && waited == table && listed(table) == 3, "who wants the same one waits for it");
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
    is_u64(listed(meanwhile.table), MANY + 2, "what comes while the table grows is not lost");
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

#if defined(__SANITIZE_ADDRESS__)
    skip(FORK_TESTS, "the sanitizer's own locks may be held in the child");
    tidei_track_table_destroy(walker.table);
    return;
#endif
    put_block(walker.table, even(0), 1);
    listed(walker.table);
    pthread_create(&walker.thread, NULL, walker_run, &walker);
    for (unsigned i = 0; i < 20; i++)
        wrong += in_child(fork_run, walker.table) != 0;
    atomic_store_explicit(&walker.stop, true, memory_order_relaxed);
    pthread_join(walker.thread, NULL);
    is_u64(wrong, 0, "a process that is forked beside a busy thread has a whole table");
    tidei_track_table_destroy(walker.table);
}

/* Have malloc fail from now on; returns what is to be given back to have it work again. */
static void *
use_up_memory(struct rlimit *before)
{
    void **last = NULL, **more;
    struct rlimit none;

    getrlimit(RLIMIT_AS, before);
    none = (struct rlimit){ 0, before->rlim_max };
    setrlimit(RLIMIT_AS, &none);
    for (size_t bytes = 1 << 20; bytes >= sizeof(void *); bytes /= 2) {
        while ((more = malloc(bytes)) != NULL) {
            *more = last;
            last = more;
        }
    }
    return last;
}

static void
give_memory_back(void *last, const struct rlimit *before)
{
    while (last != NULL) {
        void *next = *(void **)last;

        free(last);
        last = next;
    }
    setrlimit(RLIMIT_AS, before);
}

struct late {
    struct tidei_track_table *table;
    pthread_barrier_t barrier;
    bool right;
};

/* A thread whose first call comes when there is no memory for its part. */
static void *
late_run(void *argument)
{
    struct late *late = argument;
    struct rlimit before;
    void *all;

    pthread_barrier_wait(&late->barrier);
    all = use_up_memory(&before); /* what malloc has kept for threads */
    late->right = put_block(late->table, even(1), 8) == TIDEI_TRACK_FINE &&
                  take_block(late->table, even(1), 8) == TIDEI_TRACK_FINE;
    give_memory_back(all, &before);
    return NULL;
}

static int
memory_run(void *argument)
{
    struct late late = { .table = argument };
    struct rlimit before;
    bool right;
    void *all;
    pthread_t thread;

    pthread_barrier_init(&late.barrier, NULL, 2);
    pthread_create(&thread, NULL, late_run, &late);
    put_block(late.table, colliding(0), 8);
    put_block(late.table, colliding(1), 8);
    all = use_up_memory(&before);
    right = put_block(late.table, colliding(2), 8) == TIDEI_TRACK_NO_MEMORY &&
            put_block(late.table, even(2), 8) == TIDEI_TRACK_FINE;
    pthread_barrier_wait(&late.barrier);
    pthread_join(thread, NULL);
    give_memory_back(all, &before);
    return right && late.right && put_block(late.table, colliding(2), 8) == TIDEI_TRACK_FINE && listed(late.table) == 4
               ? 0
               : 1;
}

#define MEMORY_TESTS 1

static void
check_memory(void)
{
    struct tidei_track_table *table = table_of();

    if (SANITIZED)
        skip(MEMORY_TESTS, "a sanitizer ends a process without memory");
    else
        is_i64(in_child(memory_run, table), 0,
               "without host memory the table refuses what it has no place for, no more");
    tidei_track_table_destroy(table);
}

/* Takes nothing back, and has another thread's call come before it says so. */
struct refuser {
    struct tide_resource base;
    struct tide_resource *track;
    uint64_t next;
    bool comes_between;
};

static enum tide_status
refuser_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)bytes;
    (void)alignment;
    (void)stream;
    *out = (void *)(uintptr_t)colliding(((struct refuser *)self)->next++);
    return TIDE_OK;
}

static enum tide_status
refuser_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct refuser *refuser = (struct refuser *)self;

    (void)alignment;
    (void)stream;
    if (refuser->comes_between && tide_allocate(refuser->track, bytes, 1, 0, &pointer) != TIDE_OK)
        return TIDE_EINVAL;
    return tide_error_set(TIDE_EDRIVER, "refuser: no");
}

static void
refuser_destroy(struct tide_resource *self)
{
    (void)self;
}

static const struct tide_resource_ops refuser_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "refuser",
    .allocate = refuser_allocate,
    .deallocate = refuser_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = refuser_destroy,
};

/* What comes between gets the place of the block that is not taken back. */
static int
lost_run(void *argument)
{
    struct refuser *refuser = argument;
    struct heard heard = { .errors = 0 };
    struct rlimit before;
    void *pointers[2], *all;
    enum tide_status status, again;

    hear(&heard);
    tide_allocate(refuser->track, 4096, 1, 0, &pointers[0]);
    tide_allocate(refuser->track, 4096, 1, 0, &pointers[1]);
    again = tide_deallocate(refuser->track, pointers[0], 4096, 1, 0);
    if (again != TIDE_EDRIVER || heard.errors != 0)
        return 1;
    refuser->comes_between = true;
    all = use_up_memory(&before);
    status = tide_deallocate(refuser->track, pointers[0], 4096, 1, 0);
    give_memory_back(all, &before);
    return status == TIDE_EDRIVER && strcmp(tide_error_text(), "refuser: no") == 0 && heard.errors == 1 &&
                   strncmp(heard.text, "track: no host memory to note again that 0x", 43) == 0 &&
                   strstr(heard.text, " (4 KiB) is outstanding") != NULL
               ? 0
               : 1;
}

#define LOST_TESTS 1

static void
check_lost(void)
{
    struct refuser refuser = { .next = 0 };

    if (tide_resource_init(&refuser.base, &refuser_ops, NULL) != TIDE_OK ||
        tide_track_create(&refuser.base, NULL, &refuser.track) != TIDE_OK)
        abort();
    if (SANITIZED)
        skip(LOST_TESTS, "a sanitizer ends a process without memory");
    else
        is_i64(in_child(lost_run, &refuser), 0, "a block that upstream does not take back, and is lost, is told");
    tide_resource_release(refuser.track);
    tide_resource_release(&refuser.base);
}

int
main(void)
{
    plan(2 * MANY_TESTS + FREED_TESTS + THREADS_TESTS + LIST_TESTS + HELD_TESTS + GROWTH_TESTS + FORK_TESTS +
         MEMORY_TESTS + LOST_TESTS);
    check_many("even", even, MANY);
    check_many("colliding", colliding, COLLIDED);
    check_freed();
    check_threads();
    check_list();
    check_fork(); /* before the points: a child would find their mutex as it was */
    check_held();
    check_growth();
    check_memory();
    check_lost();
    return done();
}
