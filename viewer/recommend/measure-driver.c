/* Measures what calls of a pool of the driver cost. */
#include "config.h"

#include <tidemark/tidemark.h>

#include "viewer/base/processor.h"
#include "viewer/recommend/measure-bases.h"
#include "viewer/recommend/measure-calls.h"

/* The size of the units that a pool of the driver takes: measure_bytes(MEASURE_UNIT) are 32 MiB. */
#define MEASURE_UNIT 4

/*
 * Give all blocks back and take them again: *back_ns and *again_ns are what that takes for each MiB, beside the trim
 * and what allocating them takes where the pool has kept all.
 */
static bool
measure_driver_again(struct measure *measure, const struct cost *trim, double large_ns, double *back_ns,
                     double *again_ns, double *mib)
{
    struct measured filled;
    double ns, sum;

    for (int pass = 0; pass < MEASURE_PASSES; pass++) {
        processor_choose();
        if (!measure_empty(measure) || !measure_trim(measure, 0, &ns, mib))
            return false;
        measure_settle(measure, *mib);
        if (!measure_fill(measure, &filled, &sum))
            return false;
        *mib = measure_max(*mib, 1);
        *back_ns = measure_least(*back_ns, measure_max(ns - trim->ns, 0) / *mib, pass);
        *again_ns = measure_least(*again_ns, measure_max(sum - large_ns * (double)measure->count, 0) / *mib, pass);
    }
    return true;
}

/* Take a chunk of the device, and give it back, for which a pool waits until its work is done. */
static bool
measure_driver_chunk(struct measure *pool, unsigned size, const struct cost costs[COST_CALLS], struct measured *grown,
                     struct measured *returned)
{
    uint64_t bytes = measure_bytes(size);
    double allocates, frees;
    void *chunk;

    if (!measure_allocate(pool, bytes, &chunk, &allocates) || !measure_free(pool, chunk, bytes, &frees))
        return false;
    measure_add(grown, size, measure_max(allocates - costs[COST_ALLOCATE].ns, 1));
    measure_add(returned, size, measure_max(frees - costs[COST_FREE].ns - costs[COST_TRIM].ns, 1));
    measure_settle(pool, (double)bytes / MIB);
    return true;
}

static bool
measure_driver_chunks_once(struct measure *pool, const struct cost costs[COST_CALLS], struct measured *grown,
                           struct measured *returned)
{
    bool good = true;

    for (unsigned size = MEASURE_UNIT; size < pool->sizes && good; size++) {
        for (int turn = 0; turn < MEASURE_TURNS && good; turn++)
            good = measure_driver_chunk(pool, size, costs, grown, returned);
    }
    return good;
}

/*
 * What growth and giving back take by size, below a pool that keeps nothing, with chunks of what is left beside the
 * blocks. Of fewer than two sizes nothing is found, and *out stays.
 */
static bool
measure_driver_chunks(struct measure *measure, struct cost out[COST_CALLS])
{
    struct measure pool = { .clear_ns = measure->clear_ns };
    struct measured grown = { .count = { 0 } }, returned = { .count = { 0 } };
    bool good = true;

    while (pool.sizes < measure->sizes && measure_bytes(pool.sizes) <= measure->most_bytes / MEASURE_SMALL_SHARE)
        pool.sizes++;
    if (pool.sizes < MEASURE_UNIT + 2)
        return true;
    if (tide_stack_parse(measure->second_text, &pool.base) != TIDE_OK)
        return false;
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        struct measured up = { .count = { 0 } }, down = { .count = { 0 } };

        processor_choose();
        good = measure_driver_chunks_once(&pool, out, &up, &down);
        measure_keep_least(&grown, &up);
        measure_keep_least(&returned, &down);
    }
    tide_resource_release(pool.base);
    out[COST_GROW] = measure_fit(&grown);
    out[COST_RETURN] = measure_fit(&returned);
    return good;
}

/* `fresh_ns`: what it took to allocate all blocks for the first time. */
bool
measure_driver(struct measure *measure, double fresh_ns, struct cost out[COST_CALLS])
{
    double times[MEASURE_TURNS], mib, none, large, first, again = 0, back = 0;

    if (!measure_churn(measure) || !measure_small(measure, out))
        return false;
    large = measure_mean_of(&measure->allocates);
    for (int i = 0; i < MEASURE_TURNS; i++) {
        if (!measure_trim(measure, UINT64_MAX, &times[i], &none))
            return false;
    }
    out[COST_TRIM] = (struct cost){ measure_mean(times, MEASURE_TURNS), 0, 0 };
    if (!measure_driver_again(measure, &out[COST_TRIM], large, &back, &again, &mib))
        return false;
    first = measure_max(fresh_ns - large * (double)measure->count, 0) / mib;
    out[COST_GROW] = (struct cost){ 0, again, 0 };
    out[COST_RETURN] = (struct cost){ 0, back, 0 };
    if (!measure_driver_chunks(measure, out))
        return false;
    out[COST_FRESH] = (struct cost){ 0, measure_max(first - again, 0), 0 };
    return true;
}
