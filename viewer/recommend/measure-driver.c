/* Measures what calls of a pool of the driver cost. */
#include "config.h"

#include <tidemark/tidemark.h>

#include "viewer/base/clock.h"
#include "viewer/base/processor.h"
#include "viewer/recommend/measure-bases.h"
#include "viewer/recommend/measure-calls.h"

/* The size of the units that a pool of the driver takes: measure_bytes(MEASURE_UNIT) are 32 MiB. */
#define MEASURE_UNIT 4

/* Pairs of units of which one moves. */
#define MEASURE_UNITS 32

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

/* What an order behind all streams takes that finds nothing to do. */
static bool
measure_driver_wait(struct measure *own, double *ns)
{
    double begin = (double)clock_now_ns();
    enum tide_status status = tide_order(own->base, TIDE_STREAM_ALL, 0);

    *ns = (double)clock_now_ns() - begin;
    return status == TIDE_OK;
}

/* Take a chunk of the device, and give it back, as the pool does where the host waits for its work. */
static bool
measure_driver_chunk(struct measure *own, unsigned size, const struct cost costs[COST_CALLS], struct measured *grown,
                     struct measured *returned)
{
    uint64_t bytes = measure_bytes(size);
    double allocates, frees, wait, idle;
    void *chunk;

    if (!measure_allocate(own, bytes, &chunk, &allocates) || !measure_free(own, chunk, bytes, &frees) ||
        !measure_driver_wait(own, &wait) || !measure_driver_wait(own, &idle))
        return false;
    measure_add(grown, size, measure_max(allocates - costs[COST_ALLOCATE].ns, 1));
    measure_add(returned, size, measure_max(frees - costs[COST_FREE].ns + wait - idle, 1));
    measure_settle(own, (double)bytes / MIB);
    return true;
}

static bool
measure_driver_chunks_once(struct measure *own, const struct cost costs[COST_CALLS], struct measured *grown,
                           struct measured *returned)
{
    bool good = true;

    for (unsigned size = MEASURE_UNIT; size < own->sizes && good; size++) {
        for (int turn = 0; turn < MEASURE_TURNS && good; turn++)
            good = measure_driver_chunk(own, size, costs, grown, returned);
    }
    return good;
}

/*
 * What growth and giving back take by size, in a pool that keeps nothing, with chunks of what is left beside the
 * blocks. Of fewer than two sizes nothing is found, and *out stays.
 */
static bool
measure_driver_chunks(struct measure *measure, struct cost out[COST_CALLS])
{
    struct measure own = { .clear_ns = measure->clear_ns, .reading_ns = measure->reading_ns };
    struct measured grown = { .count = { 0 } }, returned = { .count = { 0 } };
    bool good = true;

    while (own.sizes < measure->sizes && measure_bytes(own.sizes) <= measure->most_bytes / MEASURE_SMALL_SHARE)
        own.sizes++;
    if (own.sizes < MEASURE_UNIT + 2)
        return true;
    if (tide_stack_parse(measure->second_text, &own.base) != TIDE_OK)
        return false;
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        struct measured up = { .count = { 0 } }, down = { .count = { 0 } };

        processor_choose();
        good = measure_driver_chunks_once(&own, out, &up, &down);
        measure_keep_least(&grown, &up);
        measure_keep_least(&returned, &down);
    }
    tide_resource_release(own.base);
    out[COST_GROW] = measure_fit(&grown);
    out[COST_RETURN] = measure_fit(&returned);
    return good;
}

/* Blocks of a unit each, and of two, which are made of units that lie apart. */
struct measure_units {
    void *ones[2 * MEASURE_UNITS];
    void *twos[MEASURE_UNITS / 2];
    size_t count; /* of the pairs among `ones`, an even number */
    double times[MEASURE_UNITS / 2];
    size_t moves;
};

static bool
measure_units_free(struct measure *own, void **pointer, unsigned size)
{
    double ns;
    bool good = *pointer == NULL || measure_free(own, *pointer, measure_bytes(size), &ns);

    *pointer = NULL;
    return good;
}

/* Free every second unit, and allocate blocks of two: no addresses have them side by side, so they move. */
static bool
measure_units_move(struct measure *own, struct measure_units *units, double allocate_ns)
{
    uint64_t before, after;
    double ns;

    for (size_t i = 0; i < units->count; i++) {
        if (!measure_units_free(own, &units->ones[2 * i], MEASURE_UNIT))
            return false;
    }
    if (!measure_driver_wait(own, &ns))
        return false;
    for (size_t i = 0; i < units->count / 2; i++) {
        if (tide_query(own->base, TIDE_QUERY_BYTES_RESERVED, &before) != TIDE_OK ||
            !measure_allocate(own, measure_bytes(MEASURE_UNIT + 1), &units->twos[i], &ns) ||
            tide_query(own->base, TIDE_QUERY_BYTES_RESERVED, &after) != TIDE_OK)
            return false;
        if (before == after)
            units->times[units->moves++] = measure_max(ns - allocate_ns, 0) / 2;
    }
    return true;
}

static bool
measure_units_once(struct measure *own, struct measure_units *units, double allocate_ns)
{
    bool good = true;
    double ns;

    units->moves = 0;
    for (size_t i = 0; i < 2 * units->count && good; i++)
        good = measure_allocate(own, measure_bytes(MEASURE_UNIT), &units->ones[i], &ns);
    good = good && measure_units_move(own, units, allocate_ns);
    for (size_t i = 0; i < 2 * units->count; i++)
        good = measure_units_free(own, &units->ones[i], MEASURE_UNIT) && good;
    for (size_t i = 0; i < units->count / 2; i++)
        good = measure_units_free(own, &units->twos[i], MEASURE_UNIT + 1) && good;
    return good && measure_driver_wait(own, &ns);
}

/* What a unit takes that gets other addresses. Where none moves it is what one of the device takes. */
static bool
measure_driver_units(struct measure *measure, struct cost out[COST_CALLS])
{
    uint64_t fit = measure->most_bytes / MEASURE_SMALL_SHARE / measure_bytes(MEASURE_UNIT + 1);
    struct measure own = { .clear_ns = measure->clear_ns, .reading_ns = measure->reading_ns };
    static struct measure_units units;
    bool good = true, any = false;

    units = (struct measure_units){ .count = (fit < MEASURE_UNITS ? (size_t)fit : MEASURE_UNITS) & ~(size_t)1 };
    out[COST_MAP] =
        (struct cost){ out[COST_GROW].ns + out[COST_GROW].ns_per_mib * (double)(measure_bytes(MEASURE_UNIT) / MIB), 0,
                       0 };
    if (units.count == 0)
        return true;
    if (tide_stack_parse(measure->text, &own.base) != TIDE_OK)
        return false;
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        processor_choose();
        good = measure_units_once(&own, &units, out[COST_ALLOCATE].ns);
        if (good && units.moves > 0) {
            double now = measure_mean(units.times, units.moves);

            out[COST_MAP].ns = any && out[COST_MAP].ns < now ? out[COST_MAP].ns : now;
            any = true;
        }
    }
    tide_resource_release(own.base);
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
    if (!measure_driver_chunks(measure, out) || !measure_driver_units(measure, out))
        return false;
    out[COST_FRESH] = (struct cost){ 0, measure_max(first - out[COST_GROW].ns_per_mib, 0), 0 };
    return true;
}
