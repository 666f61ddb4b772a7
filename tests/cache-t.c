/* Tests src/suballoc/cache.c: how much a thread caches, by the reserved bytes and the contention of the lock. */
#include <pthread.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "point.h"
#include "src/suballoc/cache.h"
#include "tap.h"

#define MIB    (UINT64_C(1) << 20)
#define HELD   (256 * MIB)
#define BLOCKS 1024
/* Sixteen sizes up to 128 KiB, 98 MiB in all. */
#define BLOCK_BYTES(i) (((i) % 16 + 17) * 4096)

static struct {
    struct tide_resource *base;
    struct tidei_chunk_heap supply;
    struct tidei_cache cache;
} model;

static void
gather(struct tidei_chunk_heap *supply)
{
    (void)supply;
    tidei_cache_gather(&model.cache);
}

static void
begin(uint64_t most_bytes)
{
    const struct tidei_chunk_heap_options options = {
        .name = "cache-t",
        .granule = 256,
        .growth_bytes = HELD,
        .maximum_bytes = UINT64_MAX,
        .release_threshold_bytes = UINT64_MAX,
        .class_bytes = tidei_cache_class_bytes(most_bytes, 256),
        .gather = gather,
    };

    memset(&model, 0, sizeof(model));
    model.base = base_sim(0);
    if (tidei_chunk_heap_init(&model.supply, model.base, &options) != TIDE_OK ||
        tidei_chunk_heap_begin(&model.supply, HELD) != TIDE_OK)
        abort();
    tidei_cache_init(&model.cache, &model.supply, most_bytes);
}

static void
end(void)
{
    tidei_cache_fini(&model.cache);
    tidei_chunk_heap_fini(&model.supply);
    tide_resource_release(model.base);
}

static uint64_t
kept(void)
{
    struct tidei_cache_sums sums;

    tidei_cache_close(&model.cache, &sums);
    tidei_cache_open(&model.cache);
    return sums.bytes;
}

/* The most that this thread's cache keeps while it frees 98 MiB of blocks, in MiB, rounded up. */
static uint64_t
kept_of_many(void)
{
    static struct tidei_piece *pieces[BLOCKS];
    uint64_t most = 0;

    for (size_t i = 0; i < BLOCKS; i++) {
        if (tidei_chunk_heap_allocate(&model.supply, BLOCK_BYTES(i), 256, 0, true, &pieces[i]) != TIDE_OK)
            abort();
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        void *pointer = (void *)tidei_piece_address(pieces[i]);

        if (tidei_cache_give(&model.cache, false, pieces[i], pointer, BLOCK_BYTES(i), 256, 0) == TIDEI_CACHE_TAKEN)
            tidei_cache_put(&model.cache, pieces[i], BLOCK_BYTES(i), 256, 0);
        if (most < kept())
            most = kept();
    }
    return (most + MIB - 1) / MIB;
}

static void
test_bounds(void)
{
    begin(24 * MIB);
    is_u64(kept_of_many(), 4, "a thread keeps 4 MiB while no thread waits for another");
    model.supply.contention = 1;
    is_u64(kept_of_many(), 8, "a thread keeps 8 MiB after threads have waited often");
    model.supply.contention = 2;
    is_u64(kept_of_many(), 16, "a thread keeps 16 MiB after threads have waited often twice");
    model.supply.contention = TIDEI_CHUNK_HEAP_CONTENTION_MOST;
    is_u64(kept_of_many(), 24, "a thread keeps 24 MiB, its upper bound, after threads have waited often three times");
    tidei_cache_gather(&model.cache);
    ok(kept() == 0 && model.supply.contention == 0,
       "a request that would fail takes back all that threads keep, and resets their bounds");
    is_u64(kept_of_many(), 4, "after the reset a thread keeps 4 MiB");
    end();

    begin(1024 * MIB);
    model.supply.contention = TIDEI_CHUNK_HEAP_CONTENTION_MOST;
    is_u64(kept_of_many(), 64, "all threads together keep at most a quarter of the reserved memory");
    end();
}

static void *
run_enter(void *context)
{
    (void)context;
    tidei_chunk_heap_enter(&model.supply);
    tidei_lock_release(&model.supply.lock);
    return NULL;
}

/* A thread takes the lock; `held`: it had to wait. */
static void
enter(bool held)
{
    pthread_t thread;

    if (held) {
        tidei_lock_acquire(&model.supply.lock);
        point_arm("chunk-heap.waits", NULL);
    }
    pthread_create(&thread, NULL, run_enter, NULL);
    if (held) {
        point_wait();
        tidei_lock_release(&model.supply.lock);
        point_release();
    }
    pthread_join(thread, NULL);
}

static void
test_crowd(void)
{
    begin(24 * MIB);
    enter(false);
    model.supply.entered = model.supply.waited = 0;
    enter(false);
    enter(true);
    ok(model.supply.entered == 2 && model.supply.waited == 1, "a thread that finds the lock held is counted");
    model.supply.entered = TIDEI_CHUNK_HEAP_ENTERED - 1;
    model.supply.waited = TIDEI_CHUNK_HEAP_WAITED - 2;
    enter(true);
    ok(model.supply.contention == 0 && model.supply.entered == 0 && model.supply.waited == 0,
       "fewer than one wait in eight does not raise the bound");
    model.supply.entered = TIDEI_CHUNK_HEAP_ENTERED - 1;
    model.supply.waited = TIDEI_CHUNK_HEAP_WAITED - 1;
    enter(true);
    ok(model.supply.contention == 1 && model.supply.entered == 0 && model.supply.waited == 0,
       "one wait in eight raises the bound");
    end();
}

int
main(void)
{
    plan(10);
    test_bounds();
    test_crowd();
    return done();
}
