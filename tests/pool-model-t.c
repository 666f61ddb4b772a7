/*
 * Tests random traffic of several threads through pools and arenas over host memory. Each block is filled, and any
 * thread may verify and free it. Every figure is compared with what the threads know.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "tap.h"

#define THREADS 4
#define STEPS   15000
#define OWN     100
#define SHARED  64
#define ROUNDS  8

struct block {
    uint64_t *pointer; /* NULL: none */
    size_t bytes;
    size_t alignment;
    uint64_t stamp;
};

/* Blocks that threads leave for others. */
struct shelf {
    pthread_mutex_t lock;
    struct block block;
};

static struct shelf shelves[SHARED];
static struct tide_resource *pool;
static _Atomic uint64_t overwritten, failures, odd_figures;

struct worker {
    pthread_t thread;
    uint64_t seed;
    uint64_t stamp;
    struct block own[OWN];
    int64_t used; /* allocated bytes less freed bytes */
};

/* Fill both ends of a block, and some words between. */
static void
block_write(struct block *block)
{
    size_t words = block->bytes / sizeof(uint64_t);

    for (size_t i = 0; i < words; i += i < 64 || i + 65 > words ? 1 : 61)
        block->pointer[i] = block->stamp + i;
}

static bool
block_is_whole(const struct block *block)
{
    size_t words = block->bytes / sizeof(uint64_t);

    for (size_t i = 0; i < words; i += i < 64 || i + 65 > words ? 1 : 61) {
        if (block->pointer[i] != block->stamp + i)
            return false;
    }
    return true;
}

static void
block_new(struct worker *worker, struct block *block)
{
    void *pointer;

    block->bytes = 1 + contract_random(&worker->seed) % (UINT64_C(1) << contract_random(&worker->seed) % 22);
    block->alignment = (size_t)1 << (3 + contract_random(&worker->seed) % 11);
    block->stamp = worker->stamp += UINT64_C(1) << 32;
    if (tide_allocate(pool, block->bytes, block->alignment, contract_random(&worker->seed) % 3, &pointer) != TIDE_OK) {
        atomic_fetch_add(&failures, 1);
        block->pointer = NULL;
        return;
    }
    block->pointer = pointer;
    worker->used += (int64_t)block->bytes;
    block_write(block);
}

static void
block_end(struct worker *worker, struct block *block)
{
    if (!block_is_whole(block))
        atomic_fetch_add(&overwritten, 1);
    if (tide_deallocate(pool, block->pointer, block->bytes, block->alignment, contract_random(&worker->seed) % 3) !=
        TIDE_OK)
        atomic_fetch_add(&failures, 1);
    worker->used -= (int64_t)block->bytes;
    block->pointer = NULL;
}

/* Put a block on a shelf, and take the block that lay there. */
static void
block_swap(struct worker *worker, struct block *block)
{
    struct shelf *shelf = &shelves[contract_random(&worker->seed) % SHARED];
    struct block other;

    pthread_mutex_lock(&shelf->lock);
    other = shelf->block;
    shelf->block = *block;
    pthread_mutex_unlock(&shelf->lock);
    *block = other;
}

/* A figure of the resource at the end. */
static uint64_t
figure(enum tide_query what)
{
    uint64_t value = UINT64_MAX;

    tide_query(pool, what, &value);
    return value;
}

/* What holds for the figures at any moment. */
static void
check_figures(void)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    if (tide_pool_read(pool, &figures) != TIDE_OK)
        return; /* an arena, whose figures are not of one moment */
    if (figures.used_bytes + figures.cached_bytes + figures.free_bytes > figures.reserved_bytes ||
        figures.reserved_bytes > figures.reserved_peak_bytes || figures.largest_free_bytes > figures.reserved_bytes)
        atomic_fetch_add(&odd_figures, 1);
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < STEPS; i++) {
        struct block *block = &worker->own[contract_random(&worker->seed) % OWN];
        uint64_t what = contract_random(&worker->seed) % 1000;

        if (what == 0)
            check_figures();
        else if (what == 1)
            atomic_fetch_add(&failures, tide_trim(pool, 16 << 20) != TIDE_OK);
        else if (what == 2)
            atomic_fetch_add(&failures, tide_order(pool, TIDE_STREAM_ALL, 0) != TIDE_OK);
        else if (what < 300)
            block_swap(worker, block);
        else if (block->pointer == NULL)
            block_new(worker, block);
        else
            block_end(worker, block);
    }
    return NULL;
}

/* Run one round. Returns the bytes that the threads still have allocated. */
static int64_t
run_round(struct worker workers[THREADS], uint64_t seed)
{
    int64_t used = 0;

    for (size_t i = 0; i < THREADS; i++) {
        workers[i].seed = seed + i + 1;
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        used += workers[i].used;
    }
    return used;
}

static const char *const stacks[] = {
    "pool | host",
    "pool(maximum=512MiB, growth=16MiB) | host",
    "pool(initial=64MiB, release_threshold=0) | host",
    "pool(cache=64KiB, alignment=16) | host",
    "pool(cache=0) | host",
    "pool(growth=4KiB, cache=16MiB) | pool(growth=64MiB) | host",
    "arena | host",
    "arena(size=512MiB) | host",
};

static void
check_stack(const char *text, uint64_t seed)
{
    static struct worker workers[THREADS];
    uint64_t host = 1;
    struct tide_resource *base;
    int64_t used;

    memset(workers, 0, sizeof(workers));
    if (tide_stack_parse(text, &pool) != TIDE_OK)
        abort();
    for (size_t i = 0; i < THREADS; i++)
        workers[i].stamp = (uint64_t)(i + 1) << 60;
    used = run_round(workers, seed);
    ok(figure(TIDE_QUERY_BYTES_USED) == (uint64_t)used, "%s: the bytes used are those of the threads' blocks", text);
    for (size_t i = 0; i < THREADS; i++) {
        for (size_t j = 0; j < OWN; j++) {
            if (workers[i].own[j].pointer != NULL)
                block_end(&workers[i], &workers[i].own[j]);
        }
    }
    for (size_t i = 0; i < SHARED; i++) {
        if (shelves[i].block.pointer != NULL)
            block_end(&workers[0], &shelves[i].block);
    }
    tide_trim(pool, 0);
    ok(all_of(figure(TIDE_QUERY_BYTES_USED) == 0, figure(TIDE_QUERY_BYTES_RESERVED) == 0,
              figure(TIDE_QUERY_FREE_BLOCKS) == 0),
       "%s: after all frees the pool gives everything back", text);
    for (base = pool; base->upstream != NULL; base = base->upstream)
        ;
    tide_query(base, TIDE_QUERY_BYTES_USED, &host);
    ok(host == 0, "%s: the base has every byte back", text);
    tide_resource_release(pool);
}

int
main(void)
{
    uint64_t seed = contract_seed(20261122);

    plan(3 * ROUNDS + 3);
    for (size_t i = 0; i < SHARED; i++)
        pthread_mutex_init(&shelves[i].lock, NULL);
    for (size_t i = 0; i < ROUNDS; i++)
        check_stack(stacks[i], seed + 1000 * i);
    is_u64(overwritten, 0, "no thread's block is overwritten by another");
    is_u64(failures, 0, "no call of any thread fails");
    is_u64(odd_figures, 0, "the figures of one moment are consistent");
    return done();
}
