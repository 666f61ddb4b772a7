/*
 * Measures what a pair, an allocation and its free, costs over `pool`, alone and under the usual layers, over `sim`,
 * which has addresses only. 1 to 16 threads: freed at once, beside up to 100,000 live blocks, random replacement of
 * live blocks by blocks of mixed sizes, and blocks that other threads free. The floors of the same run: a pop from and
 * a push to a lock-free free list of each thread's own; and a random access to one struct for each live block, which is
 * the cost of the memory.
 *
 * Usage: bench/pool [JSON-FILE]. Writes its traces into the current directory and removes them.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench.h"

#define POOL_PAIRS   4096
#define POOL_ROUNDS  100
#define POOL_THREADS 16
#define POOL_LIVE    100000
#define POOL_LARGEST 65536
#define POOL_TRACE   "bench-pool.db"
/* The pause between two rounds with a log, in which its writer empties the rings. */
#define POOL_PAUSE_NS 4000000

/* A live block of a thread. */
struct pool_block {
    void *pointer;
    size_t bytes;
};

/* The floor: a list of nodes, linked by their numbers (0: none). The upper half of its head counts changes. */
struct pool_thread {
    _Alignas(128) _Atomic uint64_t head;
    _Atomic uint32_t next[64];
    uint64_t seed;
    struct pool_block *blocks; /* owns */
};

/* As large as a pool's record of a block. */
struct pool_struct {
    _Alignas(128) _Atomic uint64_t word;
};

/* What a round works on. */
struct pool_run {
    struct tide_resource *stack;
    unsigned threads;
    size_t live; /* blocks of each thread */
};

static struct pool_thread pool_threads[POOL_THREADS];

/* Knuth's MMIX generator. */
static uint64_t
pool_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static uint32_t
floor_pop(struct pool_thread *mine)
{
    uint64_t head = atomic_load_explicit(&mine->head, memory_order_acquire);
    uint64_t next;

    do {
        if ((uint32_t)head == 0)
            bench_fail("floor");
        next = atomic_load_explicit(&mine->next[(uint32_t)head], memory_order_relaxed);
        next |= ((head >> 32) + 1) << 32;
    } while (
        !atomic_compare_exchange_weak_explicit(&mine->head, &head, next, memory_order_acquire, memory_order_acquire));
    return (uint32_t)head;
}

static void
floor_push(struct pool_thread *mine, uint32_t node)
{
    uint64_t head = atomic_load_explicit(&mine->head, memory_order_relaxed);

    do {
        atomic_store_explicit(&mine->next[node], (uint32_t)head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&mine->head, &head, ((head >> 32) + 1) << 32 | node,
                                                    memory_order_release, memory_order_relaxed));
}

static double
floor_round(void *context, unsigned thread)
{
    struct pool_thread *mine = &pool_threads[thread];
    uint64_t begin = bench_now_ns();

    (void)context;
    for (unsigned i = 0; i < POOL_PAIRS; i++)
        floor_push(mine, floor_pop(mine));
    return (double)(bench_now_ns() - begin) / POOL_PAIRS;
}

/*
 * Touch the memory that every pool with live blocks touches at least: a random entry of a list and the struct behind
 * it.
 */
static double
touch_round(void *context, unsigned thread)
{
    const struct pool_run *run = context;
    struct pool_thread *mine = &pool_threads[thread];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < POOL_PAIRS; i++) {
        struct pool_block *block = &mine->blocks[pool_random(&mine->seed) % run->live];
        struct pool_struct *known = block->pointer;
        uint64_t found = known->word;

        if (!atomic_compare_exchange_strong(&known->word, &found, found + 1))
            bench_fail("floor");
    }
    return (double)(bench_now_ns() - begin) / POOL_PAIRS;
}

static double
measure_touch(unsigned threads, size_t live)
{
    struct pool_run run = { .threads = threads, .live = live };
    struct pool_struct *structs = aligned_alloc((size_t)2 << 20, POOL_THREADS * POOL_LIVE * sizeof(*structs));
    double figure;

    if (structs == NULL)
        bench_fail("no memory");
    (void)madvise(structs, POOL_THREADS * POOL_LIVE * sizeof(*structs), MADV_HUGEPAGE); /* the pool does the same */
    for (unsigned thread = 0; thread < threads; thread++) {
        pool_threads[thread].seed = 12345 + thread;
        for (size_t i = 0; i < live; i++) {
            pool_threads[thread].blocks[i].pointer = &structs[thread * POOL_LIVE + i * 7919 % live];
            atomic_init(&structs[thread * POOL_LIVE + i].word, 0);
        }
    }
    figure = bench_threads(threads, POOL_ROUNDS, 0, touch_round, &run);
    free(structs);
    return figure;
}

static double
back_to_back_round(void *context, unsigned thread)
{
    const struct pool_run *run = context;
    uint64_t begin = bench_now_ns();
    void *pointer;

    for (unsigned i = 0; i < POOL_PAIRS; i++) {
        if (tide_allocate(run->stack, 4096, 256, thread, &pointer) != TIDE_OK ||
            tide_deallocate(run->stack, pointer, 4096, 256, thread) != TIDE_OK)
            bench_fail("back to back");
    }
    return (double)(bench_now_ns() - begin) / POOL_PAIRS;
}

static void
block_replace(const struct pool_run *run, unsigned thread, uint64_t *seed, struct pool_block *block)
{
    if (block->pointer != NULL && tide_deallocate(run->stack, block->pointer, block->bytes, 256, thread) != TIDE_OK)
        bench_fail("free");
    block->bytes = 1 + pool_random(seed) % POOL_LARGEST;
    if (tide_allocate(run->stack, block->bytes, 256, thread, &block->pointer) != TIDE_OK)
        bench_fail("allocate");
}

/* Replace random blocks, which stay live from round to round. */
static double
live_round(void *context, unsigned thread)
{
    const struct pool_run *run = context;
    struct pool_thread *mine = &pool_threads[thread];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < POOL_PAIRS; i++)
        block_replace(run, thread, &mine->seed, &mine->blocks[pool_random(&mine->seed) % run->live]);
    return (double)(bench_now_ns() - begin) / POOL_PAIRS;
}

static double
fill_round(void *context, unsigned thread)
{
    const struct pool_run *run = context;
    struct pool_thread *mine = &pool_threads[thread];

    mine->seed = 12345 + thread;
    for (size_t i = 0; i < run->live; i++) {
        mine->blocks[i].pointer = NULL;
        block_replace(run, thread, &mine->seed, &mine->blocks[i]);
    }
    return 0;
}

/* Free the blocks that the neighbouring thread allocated in the round before, and allocate new ones. */
static double
hand_over_round(void *context, unsigned thread)
{
    const struct pool_run *run = context;
    struct pool_thread *mine = &pool_threads[(thread + 1) % run->threads];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < POOL_PAIRS; i++)
        block_replace(run, thread, &mine->seed, &mine->blocks[i % run->live]);
    return (double)(bench_now_ns() - begin) / POOL_PAIRS;
}

/* The stacks; each is a line of the table. */
static const struct {
    const char *name;
    const char *text;
    uint64_t pause_ns;
} stacks[] = {
    { "pool", "pool | sim(capacity=4TiB)", 0 },
    { "pool(cache=0)", "pool(cache=0) | sim(capacity=4TiB)", 0 },
    { "arena", "arena | sim(capacity=4TiB)", 0 },
    { "log | statistics | limit | pool",
      "log(" POOL_TRACE ", overwrite) | statistics | limit(4TiB) | pool | sim(capacity=4TiB)", POOL_PAUSE_NS },
};

static void
measure(size_t index, const char *what, struct pool_run *run, double floor,
        double (*round)(void *context, unsigned thread))
{
    char name[96];
    double figure;

    if (tide_stack_parse(stacks[index].text, &run->stack) != TIDE_OK)
        bench_fail(stacks[index].name);
    if (run->live > 0)
        bench_threads(run->threads, 1, stacks[index].pause_ns, fill_round, run);
    figure = bench_threads(run->threads, POOL_ROUNDS, stacks[index].pause_ns, round, run);
    snprintf(name, sizeof(name), "%s, %s", stacks[index].name, what);
    bench_report(name, run->threads, figure, "ns/pair", floor, "floor");
    tide_resource_release(run->stack);
    unlink(POOL_TRACE);
}

static void
measure_stack(size_t index, unsigned threads, double floor)
{
    struct pool_run run = { .threads = threads };
    char what[40];

    measure(index, "back to back", &run, floor, back_to_back_round);
    for (run.live = 100; run.live <= POOL_LIVE; run.live *= 10) {
        snprintf(what, sizeof(what), "beside %zu live", run.live);
        measure(index, what, &run, floor, back_to_back_round);
    }
    for (run.live = 100; run.live <= POOL_LIVE; run.live *= 10) {
        snprintf(what, sizeof(what), "%zu live, mixed sizes", run.live);
        measure(index, what, &run, floor, live_round);
    }
    run.live = 1000;
    if (threads > 1)
        measure(index, "freed by another thread", &run, floor, hand_over_round);
}

int
main(int argc, char **argv)
{
    bench_begin("pool");
    for (unsigned i = 0; i < POOL_THREADS; i++) {
        atomic_init(&pool_threads[i].head, 1);
        pool_threads[i].blocks = calloc(POOL_LIVE, sizeof(*pool_threads[i].blocks));
        if (pool_threads[i].blocks == NULL)
            bench_fail("no memory");
    }
    for (unsigned threads = 0; (threads = bench_next_threads(threads, POOL_THREADS)) != 0;) {
        double floor = bench_threads(threads, POOL_ROUNDS, 0, floor_round, NULL);

        bench_report("floor: pop and push, each thread on its own free list", threads, floor, "ns/pair", 0, NULL);
        for (size_t live = 100; live <= POOL_LIVE; live *= 10) {
            char name[80];

            snprintf(name, sizeof(name), "floor: 1 of %zu structs, at random", live);
            bench_report(name, threads, measure_touch(threads, live), "ns", 0, NULL);
        }
        for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
            measure_stack(i, threads, floor);
    }
    for (unsigned i = 0; i < POOL_THREADS; i++)
        free(pool_threads[i].blocks);
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
