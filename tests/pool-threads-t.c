/* Tests adaptors/pool.c with threads: thread caches, how threads affect each other, and what fork() leaves. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "pool.h"
#include "sanitized.h"
#include "tap.h"
#include "upstream.h"

/* The blocks that one thread frees and caches: 4 MiB. */
#define HELD       16
#define HELD_BYTES (MIB / 4)

struct holder {
    struct tide_resource *pool;
    pthread_barrier_t barrier;
    bool stay;
};

/* Free blocks into this thread's cache. The thread then stays, or ends. */
static void *
run_hold(void *context)
{
    struct holder *holder = context;
    void *blocks[HELD];

    for (size_t i = 0; i < HELD; i++)
        blocks[i] = take(holder->pool, HELD_BYTES);
    for (size_t i = 0; i < HELD; i++)
        give(holder->pool, blocks[i], HELD_BYTES);
    if (holder->stay) {
        pthread_barrier_wait(&holder->barrier);
        pthread_barrier_wait(&holder->barrier);
    }
    return NULL;
}

#define CACHE_TESTS 8

static void
check_caches(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .maximum_bytes = 4 * MIB };
    struct upstream *upstream = upstream_create();
    struct holder holder = { .pool = over(&upstream->base, &options), .stay = true };
    pthread_t thread;
    void *block;

    pthread_barrier_init(&holder.barrier, NULL, 2);
    pthread_create(&thread, NULL, run_hold, &holder);
    pthread_barrier_wait(&holder.barrier);
    is_u64(query(holder.pool, TIDE_QUERY_BYTES_CACHED), 4 * MIB, "a thread's cache keeps what it has freed");
    ok(all_of(query(holder.pool, TIDE_QUERY_BYTES_USED) == 0, query(holder.pool, TIDE_QUERY_LARGEST_FREE) == HELD_BYTES,
              query(holder.pool, TIDE_QUERY_FREE_BLOCKS) == HELD),
       "a thread's cache counts as free");
    block = take(holder.pool, 4 * MIB);
    ok(all_of(block != NULL, query(holder.pool, TIDE_QUERY_BYTES_CACHED) == 0),
       "a request takes the cache of another thread before it fails");
    is_u64(query(holder.pool, TIDE_QUERY_BYTES_USED), 4 * MIB, "a block from another thread's cache counts as used");
    give(holder.pool, block, 4 * MIB);
    pthread_barrier_wait(&holder.barrier);
    pthread_join(thread, NULL);
    holder.stay = false;
    pthread_create(&thread, NULL, run_hold, &holder);
    pthread_join(thread, NULL);
    is_u64(query(holder.pool, TIDE_QUERY_BYTES_CACHED), 0, "a thread that ends has an empty cache");
    is_u64(query(holder.pool, TIDE_QUERY_LARGEST_FREE), 4 * MIB, "the blocks of an ended thread's cache merge");
    block = take(holder.pool, 4096);
    give(holder.pool, block, 4096);
    ok(take(holder.pool, 4000) == block, "a thread gets the block that it freed last");
    ok(all_of(give(holder.pool, block, 4000) == TIDE_OK, give(holder.pool, block, 4000) == TIDE_EPOINTER),
       "a block in a thread's cache cannot be freed again");
    pthread_barrier_destroy(&holder.barrier);
    tide_resource_release(holder.pool);
}

#define NEAR_TESTS 6

/* A cached block also serves requests that are a little smaller. */
static void
check_near(void)
{
    struct tide_resource *pool = over(base_sim(0), NULL);
    void *block = take(pool, 64 * 1024), *small = take(pool, 512);

    give(pool, block, 64 * 1024);
    ok(take(pool, 52 * 1024) != block, "a request does not get a cached block more than a quarter larger");
    ok(take(pool, 60 * 1024) == block, "a request gets a cached block that is a little larger");
    is_u64(query(pool, TIDE_QUERY_BYTES_USED), 60 * 1024 + 52 * 1024 + 512,
           "of a larger cached block only the requested bytes count as used");
    ok(all_of(give(pool, block, 64 * 1024) == TIDE_EMISMATCH, give(pool, block, 60 * 1024) == TIDE_OK),
       "a larger cached block is freed with the requested size only");
    ok(take(pool, 64 * 1024) == block, "the freed block has its full size again");
    give(pool, small, 512);
    ok(take(pool, 256) != small, "requests below 1 KiB get blocks of their own size class only");
    tide_resource_release(pool);
}

#define BOUND_TESTS 2

/* A cache holds no more than its bound, whatever is freed. */
static void
check_bounds(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .cache_bytes = MIB };
    struct tide_resource *pool = over(&upstream_create()->base, &options);
    static void *blocks[4000];
    uint64_t most = 0, cached, seed = 5;
    static size_t sizes[4000];

    for (size_t i = 0; i < 4000; i++) {
        sizes[i] = 1 + contract_random(&seed) % (MIB / 4);
        tide_allocate(pool, sizes[i], 256, i % 20, &blocks[i]);
    }
    for (size_t i = 0; i < 4000; i++) {
        tide_deallocate(pool, blocks[i], sizes[i], 256, i % 20);
        cached = query(pool, TIDE_QUERY_BYTES_CACHED);
        most = most < cached ? cached : most;
    }
    ok(all_of(most <= MIB, most > MIB / 4), "a thread's cache keeps no more than its bound");
    tide_order(pool, TIDE_STREAM_ALL, 0);
    ok(all_of(figures_of(pool).free_bytes == figures_of(pool).reserved_bytes, query(pool, TIDE_QUERY_BYTES_USED) == 0),
       "after an order behind all streams a thread's cache is empty");
    tide_resource_release(pool);
}

#define SHARE_TESTS 3

/* Free 54 MiB of blocks into this thread's cache. */
static void *
run_free_many(void *pool)
{
    void *blocks[256];

    for (size_t i = 0; i < 256; i++)
        blocks[i] = take(pool, i % 4 * 16 * 1024 + 192 * 1024);
    for (size_t i = 0; i < 256; i++)
        give(pool, blocks[i], i % 4 * 16 * 1024 + 192 * 1024);
    return NULL;
}

/* Threads cache more of a large pool: all of them together up to a 64th. */
static void
check_shares(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .initial_bytes = 1024 * MIB };
    struct tide_resource *pool = over(base_sim(0), &options);
    struct holder holder = { .pool = pool, .stay = true };
    uint64_t alone;
    pthread_t thread;

    run_free_many(pool);
    alone = query(pool, TIDE_QUERY_BYTES_CACHED);
    ok(all_of(alone > 8 * MIB, alone <= 16 * MIB), "one thread's cache keeps up to a 64th of a large pool");
    pthread_barrier_init(&holder.barrier, NULL, 2);
    pthread_create(&thread, NULL, run_hold, &holder);
    pthread_barrier_wait(&holder.barrier);
    run_free_many(pool);
    ok(query(pool, TIDE_QUERY_BYTES_CACHED) <= 12 * MIB,
       "beside another thread with a cache of 4 MiB the cache keeps half of that");
    pthread_barrier_wait(&holder.barrier);
    pthread_join(thread, NULL);
    run_free_many(pool);
    ok(query(pool, TIDE_QUERY_BYTES_CACHED) == alone,
       "after the other thread has ended the cache keeps all of it again");
    pthread_barrier_destroy(&holder.barrier);
    tide_resource_release(pool);
}

#define REFUSAL_TESTS 3

static _Atomic unsigned refusals;

static void *
run_refused(void *pool)
{
    for (int i = 0; i < 20; i++) {
        if (take(pool, 5 * MIB) == NULL)
            atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed); /* relaxed: read after the join */
    }
    return NULL;
}

/* Threads that upstream refuses at the same time do not wait for each other. */
static void
check_refusals(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), NULL);
    pthread_t threads[4];

    upstream->capacity_bytes = 8 * MIB;
    ok(take(pool, 6 * MIB) != NULL, "upstream has room for one chunk");
    upstream->delay_us = 200;
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run_refused, pool);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    is_u64(refusals, 80, "requests of four threads over a full upstream are all refused");
    ok(upstream->allocate_calls < 1000, "the refused threads have called upstream a limited number of times");
    upstream->delay_us = 0;
    tide_resource_release(pool);
    tide_resource_release(&upstream->base);
}

#define CROWD_TESTS 3

static void *
run_crowd(void *pool)
{
    if (take(pool, MIB) == NULL)
        atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed); /* relaxed: read after the join */
    return NULL;
}

/*
 * A thread that finds the maximum used up by a chunk that another is still allocating waits for its part of the chunk.
 */
static void
check_crowd(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .maximum_bytes = 24 * MIB, .growth_bytes = 24 * MIB };
    struct upstream *upstream = upstream_create();
    struct tide_resource *pool = over(tide_resource_retain(&upstream->base), &options);
    pthread_t threads[8];

    refusals = 0;
    upstream->delay_us = 20000;
    for (size_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, run_crowd, pool);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    is_u64(refusals, 0, "eight threads share the one chunk that the maximum allows");
    is_u64(upstream->allocate_calls, 1, "the shared chunk is allocated once");
    upstream->delay_us = 0;
    tide_resource_release(pool);
    is_u64(upstream->live_count, 0, "the shared chunk goes back");
    tide_resource_release(&upstream->base);
}

#define ARRIVAL_TESTS 3

struct arrival {
    struct tide_resource *pool;
    pthread_barrier_t barrier;
    _Atomic bool done;
};

static void
stay_before_arrival(void *context)
{
    struct arrival *arrival = context;

    pthread_barrier_wait(&arrival->barrier);
    pthread_barrier_wait(&arrival->barrier);
}

static void *
run_arrival(void *context)
{
    struct arrival *arrival = context;
    void *block = take(arrival->pool, MIB);

    atomic_store(&arrival->done, true);
    return block;
}

/*
 * Upstream has given all its memory to a thread that has not returned with it yet: another thread waits for its part.
 */
static void
check_arrival(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = 24 * MIB };
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(tide_resource_retain(&upstream->base));
    struct arrival arrival = { .pool = over(&gate->base, &options) };
    pthread_t first, second;
    void *blocks[2];

    upstream->capacity_bytes = 24 * MIB;
    gate->after_allocate = stay_before_arrival;
    gate->context = &arrival;
    pthread_barrier_init(&arrival.barrier, NULL, 2);
    pthread_create(&first, NULL, run_arrival, &arrival);
    pthread_barrier_wait(&arrival.barrier);
    pthread_create(&second, NULL, run_arrival, &arrival);
    for (int i = 0; i < 100 && !atomic_load(&arrival.done); i++)
        usleep(1000); /* long enough to be refused */
    ok(!atomic_load(&arrival.done),
       "a thread that would be refused waits for a chunk that another thread is allocating");
    pthread_barrier_wait(&arrival.barrier);
    pthread_join(first, &blocks[0]);
    pthread_join(second, &blocks[1]);
    ok(all_of(blocks[0] != NULL, blocks[1] != NULL), "a thread that has waited gets its part of the chunk");
    pthread_barrier_destroy(&arrival.barrier);
    tide_resource_release(arrival.pool);
    is_u64(upstream->live_count, 0, "the chunk that both threads used goes back");
    tide_resource_release(&upstream->base);
}

#define FREED_TESTS 2

/* Upstream refuses a thread, which waits for another one's answer. What is freed meanwhile serves it. */
static void
check_freed(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .growth_bytes = MIB };
    struct upstream *upstream = upstream_create();
    struct gate *gate = gate_create(tide_resource_retain(&upstream->base));
    struct arrival arrival = { .pool = over(&gate->base, &options) };
    void *block = take(arrival.pool, 4 * MIB), *blocks[2];
    pthread_t first, second;
    uint64_t calls;

    gate->before_allocate = stay_before_arrival;
    gate->context = &arrival;
    pthread_barrier_init(&arrival.barrier, NULL, 2);
    pthread_create(&first, NULL, run_arrival, &arrival);
    pthread_barrier_wait(&arrival.barrier);
    upstream->capacity_bytes = 4 * MIB;
    calls = upstream->allocate_calls;
    pthread_create(&second, NULL, run_arrival, &arrival);
    for (bool refused = false; !refused; usleep(10000)) { /* then it waits */
        pthread_mutex_lock(&upstream->lock);
        refused = upstream->allocate_calls >= calls + 2;
        pthread_mutex_unlock(&upstream->lock);
    }
    give(arrival.pool, block, 4 * MIB);
    pthread_mutex_lock(&upstream->lock);
    upstream->fail_allocate = 1;
    upstream->fail_status = TIDE_ENOMEM;
    pthread_mutex_unlock(&upstream->lock);
    pthread_barrier_wait(&arrival.barrier);
    pthread_join(first, &blocks[0]);
    pthread_join(second, &blocks[1]);
    ok(blocks[0] == NULL, "a thread is refused for good by upstream");
    ok(blocks[1] != NULL, "a thread that waits for another one's answer gets what was freed meanwhile");
    pthread_barrier_destroy(&arrival.barrier);
    tide_resource_release(arrival.pool);
    tide_resource_release(&upstream->base);
}

#define FORK_TESTS 2

static _Atomic bool stop;

static void *
run_pairs(void *context)
{
    uint64_t seed = (uintptr_t)&seed;

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) { /* relaxed: only the stop */
        size_t bytes = 1 + contract_random(&seed) % (2 * MIB);
        void *block = take(context, bytes);

        give(context, block, bytes);
    }
    return NULL;
}

/* The exit status of a child that was forked while other threads were using the pool. */
static int
forked(struct tide_resource *pool, void *block)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    void *other = take(pool, 3 * MIB);

    if (other == NULL || give(pool, other, 3 * MIB) != TIDE_OK || give(pool, block, 7777) != TIDE_OK)
        return 1;
    if (tide_order(pool, TIDE_STREAM_ALL, 0) != TIDE_OK)
        return 2;
    figures = figures_of(pool);
    return figures.cached_bytes == 0 && figures.used_bytes <= 4 * 2 * MIB ? 0 : 3;
}

static void
check_fork(void)
{
    struct tide_resource *pool = over(base_sim(0), NULL);
    void *block = take(pool, 7777);
    pthread_t threads[4];
    int wrong = 0;

    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run_pairs, pool);
    for (int i = 0; i < 20 && wrong == 0; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            alarm(60);
            _exit(forked(pool, block));
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            wrong = WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    }
    atomic_store_explicit(&stop, true, memory_order_relaxed); /* relaxed: only the stop */
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    is_i64(wrong, 0, "a child forked amid other threads' calls uses the pool");
    tide_resource_release(pool);
}

static pthread_barrier_t asking;

static void
stay_with_upstream(void *context)
{
    (void)context;
    pthread_barrier_wait(&asking);
    pthread_barrier_wait(&asking);
}

static void *
run_ask(void *pool)
{
    take(pool, MIB);
    return NULL;
}

/* The thread that is allocating all that the maximum allows does not exist in the child. */
static void
check_fork_asking(void)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .maximum_bytes = 24 * MIB, .growth_bytes = 24 * MIB };
    struct gate *gate = gate_create(base_sim(0));
    struct tide_resource *pool = over(&gate->base, &options);
    pthread_t thread;
    int status;
    pid_t child;

    pthread_barrier_init(&asking, NULL, 2);
    gate->before_allocate = stay_with_upstream;
    pthread_create(&thread, NULL, run_ask, pool);
    pthread_barrier_wait(&asking);
    child = fork();
    if (child == 0) {
        alarm(20);
        _exit(take(pool, MIB) != NULL && take(pool, 24 * MIB) == NULL ? 0 : 1);
    }
    ok(all_of(waitpid(child, &status, 0) == child, WIFEXITED(status), WEXITSTATUS(status) == 0),
       "a child does not wait for a thread that was calling upstream in its parent");
    pthread_barrier_wait(&asking);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&asking);
    tide_resource_release(pool);
}

int
main(void)
{
    plan(CACHE_TESTS + NEAR_TESTS + BOUND_TESTS + SHARE_TESTS + REFUSAL_TESTS + CROWD_TESTS + ARRIVAL_TESTS +
         FREED_TESTS + FORK_TESTS);
    check_caches();
    check_near();
    check_bounds();
    check_shares();
    check_refusals();
    check_crowd();
    check_arrival();
    check_freed();
    if (!SANITIZED_ADDRESS) {
        check_fork();
        check_fork_asking();
    } else {
        skip(FORK_TESTS, "AddressSanitizer's allocator is not safe to fork() beside other threads");
    }
    return done();
}
