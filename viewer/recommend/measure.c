/*
 * Measures what calls of the driver cost, as an application sees it: through the bases, with nothing above them.
 *
 * The driver takes back quickly what was freed just now, and slowly what lies among other memory. So each base first
 * takes blocks of many sizes, which nobody had before, and then frees and allocates some of them while the others stay.
 * All of it stays until the last base is measured, so that the memory of each is fresh.
 *
 * What goes back is cleared, and growth waits for that (clearing.h). How long is measured first, with blocks that are
 * freed and allocated at once. All else is measured while nothing is being cleared: after each return the measurement
 * waits itself.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/clock.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/base/processor.h"
#include "viewer/recommend/measure.h"
#include "viewer/replay/streams.h"

#define MIB (UINT64_C(1) << 20)

/* Sizes are powers of two from 2 MiB to 1 GiB: those of the chunks that pools ask for. */
#define MEASURE_SIZES 10

/* Once all sizes have this share of a base's memory, only the MEASURE_MANY smallest follow: many blocks, few bytes. */
#define MEASURE_LARGE_SHARE 0.75
#define MEASURE_MANY        4

/* With this share of the longest wait a block is taken not to have waited as long as any. */
#define MEASURE_NO_LIMIT 0.85

/* How fast an H200 was seen to clear memory. */
#define MEASURE_CLEAR_NS_PER_MIB 2400

/* How long clearing is waited for at the most while its speed is not known. */
#define MEASURE_CLEAR_NS 20e6

/* Blocks of a base at most, and the step in which they are visited: a prime, so that neighbours are freed apart. */
#define MEASURE_BLOCKS 512
#define MEASURE_STEP   211

/* How often a single call is timed. */
#define MEASURE_TURNS 16

/* After so many blocks a processor is chosen again: in a tenth of a second another one may be faster. */
#define MEASURE_STAY 16

/* How often all of that is done, where it can be done again. The least mean counts: what disturbs it only adds. */
#define MEASURE_PASSES 3

/* How often each size is allocated at once after a free, and after a while. The median counts. */
#define MEASURE_WAIT_PASSES 7

/*
 * Blocks of `vmm` that stay while its handles are mapped and released. As long as a base has few, it lays each far from
 * all others (src/bases/vmm/space.h), where a mapping needs tables of its own. A pool lays its chunks side by side.
 */
#define MEASURE_NEIGHBOURS 32

/* Small requests, of which cuMemAlloc puts several into one page. */
#define MEASURE_SMALL_BYTES (UINT64_C(256) << 10)

/* The share of a base's memory that is left for them, should each have a page of its own. */
#define MEASURE_SMALL_SHARE 4

/* Of so many calls the slowest one is left out: something else had the processor. */
#define MEASURE_OUTLIERS 16

/* With less a base is not measured. */
#define MEASURE_LEAST_BYTES (16 * MIB)

/* The share of the free memory that each of the three bases takes. */
#define MEASURE_SHARE 4

/* The times of one call by size. */
struct measured {
    double ns[MEASURE_SIZES][4 * MEASURE_BLOCKS / MEASURE_MANY];
    size_t count[MEASURE_SIZES];
};

struct measure_block {
    void *pointer; /* NULL: none */
    unsigned size; /* 2 MiB << size */
};

/* A base that is measured. */
struct measure {
    struct tide_resource *base; /* owns */
    double clear_ns;            /* for each MiB; < 0: not known */
    const char *text;           /* of the base */
    const char *why;            /* a constant: why it is not measured; NULL: the error's text says it */
    uint64_t most_bytes;        /* that it may have */
    unsigned sizes;             /* how many sizes that allows */
    struct measure_block blocks[MEASURE_BLOCKS];
    size_t count;
    uint64_t bytes; /* of the blocks */
    struct measured allocates, frees;
};

static uint64_t
measure_bytes(unsigned size)
{
    return 2 * MIB << size;
}

/* What blocks may have beside small ones. */
static uint64_t
measure_most_bytes(const struct measure *measure)
{
    return measure->most_bytes - measure->most_bytes / MEASURE_SMALL_SHARE;
}

static int
measure_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double
measure_max(double one, double other)
{
    return one > other ? one : other;
}

/* The mean without outliers: what many calls take together is what counts, and not what the usual one takes. */
static double
measure_mean(double *values, size_t count)
{
    double sum = 0;

    qsort(values, count, sizeof(*values), measure_compare);
    count -= count / MEASURE_OUTLIERS;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count > 0 ? sum / (double)count : 0;
}

/* Keep the least of the passes. `pass`: its number, from 0. */
static double
measure_least(double least, double now, int pass)
{
    return pass == 0 || now < least ? now : least;
}

/* The same for the mean of each size: where the times of this pass are less, they take the place of those before. */
static void
measure_keep_least(struct measured *least, struct measured *now)
{
    for (unsigned size = 0; size < MEASURE_SIZES; size++) {
        if (now->count[size] == 0 || (least->count[size] > 0 && measure_mean(least->ns[size], least->count[size]) <=
                                                                    measure_mean(now->ns[size], now->count[size])))
            continue;
        memcpy(least->ns[size], now->ns[size], sizeof(now->ns[size]));
        least->count[size] = now->count[size];
    }
}

static void
measure_add(struct measured *measured, unsigned size, double ns)
{
    if (measured->count[size] < sizeof(measured->ns[0]) / sizeof(measured->ns[0][0]))
        measured->ns[size][measured->count[size]++] = ns;
}

/* Fit ns + ns_per_mib * MiB to the means, each size weighing the same in proportion to what it takes. */
static struct cost
measure_fit(struct measured *measured)
{
    double weights = 0, x = 0, y = 0, xx = 0, xy = 0, mib[MEASURE_SIZES], ns[MEASURE_SIZES], off[MEASURE_SIZES];
    double slope, least;
    size_t count = 0;

    for (unsigned size = 0; size < MEASURE_SIZES; size++) {
        double weight;

        if (measured->count[size] == 0)
            continue;
        mib[count] = (double)measure_bytes(size) / MIB;
        ns[count] = measure_max(measure_mean(measured->ns[size], measured->count[size]), 1);
        weight = 1 / (ns[count] * ns[count]);
        weights += weight;
        x += weight * mib[count];
        y += weight * ns[count];
        xx += weight * mib[count] * mib[count];
        xy += weight * mib[count] * ns[count];
        count++;
    }
    if (count == 0)
        return (struct cost){ 0, 0, 0 };
    slope = count > 1 ? measure_max((weights * xy - x * y) / (weights * xx - x * x), 0) : 0;
    least = measure_max((y - slope * x) / weights, 0);
    for (size_t i = 0; i < count; i++)
        off[i] = fabs(least + slope * mib[i] - ns[i]) / ns[i];
    qsort(off, count, sizeof(*off), measure_compare);
    return (struct cost){ least, slope, off[count / 2] };
}

/* What one cost has on top of others; never less than nothing. */
static struct cost
measure_less(struct cost whole, double ns, double ns_per_mib)
{
    return (struct cost){ measure_max(whole.ns - ns, 0), measure_max(whole.ns_per_mib - ns_per_mib, 0), whole.spread };
}

/* Timed calls; *ns is what they took. */

static bool
measure_allocate(struct measure *measure, uint64_t bytes, void **out, double *ns)
{
    double begin = (double)clock_now_ns();
    enum tide_status status = tide_allocate(measure->base, bytes, 256, 0, out);

    *ns = (double)clock_now_ns() - begin;
    return status == TIDE_OK;
}

static bool
measure_free(struct measure *measure, void *pointer, uint64_t bytes, double *ns)
{
    double begin = (double)clock_now_ns();
    enum tide_status status = tide_deallocate(measure->base, pointer, bytes, 256, 0);

    *ns = (double)clock_now_ns() - begin;
    return status == TIDE_OK;
}

/* Give free memory back to the device until `keep_bytes` are left, once its work is done. *mib is how much it was. */
static bool
measure_trim(struct measure *measure, uint64_t keep_bytes, double *ns, double *mib)
{
    uint64_t before = 0, after = 0;
    enum tide_status status = tide_order(measure->base, TIDE_STREAM_ALL, 0);
    double begin;

    (void)tide_query(measure->base, TIDE_QUERY_BYTES_RESERVED, &before);
    begin = (double)clock_now_ns();
    if (status == TIDE_OK)
        status = tide_trim(measure->base, keep_bytes);
    *ns = (double)clock_now_ns() - begin;
    (void)tide_query(measure->base, TIDE_QUERY_BYTES_RESERVED, &after);
    *mib = before > after ? (double)(before - after) / MIB : 0;
    return status == TIDE_OK;
}

/*
 * Wait until so much that went back is cleared. Not asleep: after 10 ms of sleep cuMemAlloc took 250 us on an H200,
 * where it takes 40 in a program that goes on.
 */
static void
measure_settle(const struct measure *measure, double mib)
{
    double ns = measure->clear_ns < 0 ? MEASURE_CLEAR_NS : 1.25 * measure->clear_ns * mib + 1e5;
    int64_t end = clock_now_ns() + (int64_t)ns;

    while (clock_now_ns() < end)
        ;
}

/* The i-th of so many places, in an order in which neighbours are far apart. */
static size_t
measure_visit(size_t i, size_t count)
{
    return i * (count % MEASURE_STEP != 0 ? MEASURE_STEP : 1) % count;
}

static struct measure_block *
measure_at(struct measure *measure, size_t i)
{
    return &measure->blocks[measure_visit(i, measure->count)];
}

static bool
measure_fill_block(struct measure *measure, struct measure_block *block, struct measured *times)
{
    double ns;

    if (!measure_allocate(measure, measure_bytes(block->size), &block->pointer, &ns))
        return false;
    measure_add(times, block->size, ns);
    return true;
}

static bool
measure_empty_block(struct measure *measure, struct measure_block *block, struct measured *times)
{
    void *pointer = block->pointer;
    double ns;

    block->pointer = NULL;
    if (pointer == NULL)
        return true;
    if (!measure_free(measure, pointer, measure_bytes(block->size), &ns))
        return false;
    measure_add(times, block->size, ns);
    return true;
}

/* Allocate all blocks. *sum is what that took. */
static bool
measure_fill(struct measure *measure, struct measured *times, double *sum)
{
    double begin = (double)clock_now_ns();
    bool good = true;

    *times = (struct measured){ .count = { 0 } };
    for (size_t i = 0; i < measure->count && good; i++)
        good = measure_fill_block(measure, measure_at(measure, i), times);
    *sum = (double)clock_now_ns() - begin;
    return good;
}

static bool
measure_empty(struct measure *measure)
{
    struct measured times = { .count = { 0 } };
    bool good = true;

    for (size_t i = 0; i < measure->count; i++)
        good = measure_empty_block(measure, &measure->blocks[i], &times) && good;
    return good;
}

/* Free two blocks of different places and allocate them the other way round, again and again, while the others stay. */
static bool
measure_churn_once(struct measure *measure, struct measured *allocates, struct measured *frees)
{
    bool good = true;

    for (size_t i = 0; i < measure->count && good; i++) {
        struct measure_block *one = measure_at(measure, 2 * i), *other = measure_at(measure, 2 * i + 1);
        unsigned size = one->size;

        if (i % MEASURE_STAY == 0)
            processor_choose();
        if (one == other)
            continue;
        good = measure_empty_block(measure, one, frees) && measure_empty_block(measure, other, frees);
        measure_settle(measure, (double)(measure_bytes(one->size) + measure_bytes(other->size)) / MIB);
        one->size = other->size;
        other->size = size;
        good = good && measure_fill_block(measure, one, allocates) && measure_fill_block(measure, other, allocates);
    }
    return good;
}

static bool
measure_churn(struct measure *measure)
{
    bool good = true;

    measure->allocates = measure->frees = (struct measured){ .count = { 0 } };
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        struct measured allocates = { .count = { 0 } }, frees = { .count = { 0 } };

        good = measure_churn_once(measure, &allocates, &frees);
        measure_keep_least(&measure->allocates, &allocates);
        measure_keep_least(&measure->frees, &frees);
    }
    return good;
}

static bool
measure_order_once(struct measure *measure, const struct replay_streams *made, double *mean)
{
    double times[MEASURE_TURNS];

    for (int i = 0; i < MEASURE_TURNS; i++) {
        double begin = (double)clock_now_ns();

        if (tide_order(measure->base, made->streams[0], made->streams[1]) != TIDE_OK)
            return false;
        times[i] = (double)clock_now_ns() - begin;
    }
    *mean = measure_mean(times, MEASURE_TURNS);
    return true;
}

/* Between streams such as a replay makes: one with the legacy default stream would wait for all others. */
static bool
measure_order(struct measure *measure, const struct replay_streams *made, struct cost *out)
{
    bool good = true;

    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        double now = 0;

        processor_choose();
        good = measure_order_once(measure, made, &now);
        out->ns = measure_least(out->ns, now, pass);
    }
    return good;
}

/* What an allocation took, by size and pass. */
struct measure_wait {
    double at_once[MEASURE_SIZES][MEASURE_WAIT_PASSES]; /* after a free of as much */
    double settled[MEASURE_SIZES][MEASURE_WAIT_PASSES]; /* once that is cleared */
};

/* Free a block and allocate it again. */
static bool
measure_again(struct measure *measure, struct measure_block *block, bool is_settled, double *ns)
{
    struct measured frees = { .count = { 0 } }, allocates = { .count = { 0 } };
    bool good = measure_empty_block(measure, block, &frees);

    if (is_settled)
        measure_settle(measure, 0);
    good = good && measure_fill_block(measure, block, &allocates);
    *ns = allocates.ns[block->size][0];
    measure_settle(measure, 0);
    return good;
}

static bool
measure_wait_times(struct measure *measure, struct measure_wait *times)
{
    bool good = true;

    for (int pass = 0; pass < MEASURE_WAIT_PASSES && good; pass++) {
        processor_choose();
        for (unsigned size = 0; size < measure->sizes && good; size++) {
            struct measure_block *block = &measure->blocks[size];

            good = measure_again(measure, block, true, &times->settled[size][pass]) &&
                   measure_again(measure, block, false, &times->at_once[size][pass]);
        }
    }
    return good;
}

static double
measure_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), measure_compare);
    return values[count / 2];
}

/*
 * How fast memory is cleared that went back, and how long growth waits at the most: from the slope of the times of the
 * two largest blocks that do not wait for so long. No costs: the device does not wait, as far as that can be seen.
 * Medians: a single allocation may wait for something else, and one may happen not to wait.
 */
static bool
measure_wait(struct measure *measure, struct cost *out)
{
    double now[MEASURE_SIZES] = { 0 }, settled[MEASURE_SIZES] = { 0 }, most = 0, slope;
    unsigned size = measure->sizes;
    struct measure_wait times;

    if (!measure_wait_times(measure, &times))
        return false;
    for (unsigned i = 0; i < measure->sizes; i++) {
        now[i] = measure_median(times.at_once[i], MEASURE_WAIT_PASSES);
        settled[i] = measure_median(times.settled[i], MEASURE_WAIT_PASSES);
        most = measure_max(most, now[i]);
    }
    while (size > 0 && (now[size - 1] > MEASURE_NO_LIMIT * most || now[size - 1] < 2 * settled[size - 1]))
        size--;
    *out = (struct cost){ 0, 0, 0 };
    if (size >= 2 && now[size - 2] >= 1.5 * settled[size - 2]) {
        slope =
            (now[size - 1] - now[size - 2]) * (double)MIB / (double)(measure_bytes(size - 1) - measure_bytes(size - 2));
        *out = (struct cost){ most, measure_max(slope, 0), 0 };
    }
    return true;
}

/* Free each block and allocate it again, while the others stay; the pass of that number. */
static bool
measure_small_once(struct measure *measure, void **pointers, size_t count, int pass, struct cost out[COST_CALLS])
{
    double allocates[MEASURE_BLOCKS], frees[MEASURE_BLOCKS];

    for (size_t i = 0; i < count; i++) {
        void **pointer = &pointers[measure_visit(i, count)], *freed = *pointer;

        *pointer = NULL;
        if (!measure_free(measure, freed, MEASURE_SMALL_BYTES, &frees[i]) ||
            !measure_allocate(measure, MEASURE_SMALL_BYTES, pointer, &allocates[i]))
            return false;
    }
    out[COST_ALLOCATE].ns = measure_least(out[COST_ALLOCATE].ns, measure_mean(allocates, count), pass);
    out[COST_FREE].ns = measure_least(out[COST_FREE].ns, measure_mean(frees, count), pass);
    return true;
}

/* Requests that share pages with others, which stay: the costs of calls for which nothing is taken of the device. */
static bool
measure_small(struct measure *measure, struct cost out[COST_CALLS])
{
    void *pointers[MEASURE_BLOCKS] = { NULL };
    double ns;
    uint64_t fit = measure->most_bytes / MEASURE_SMALL_SHARE / measure_bytes(0);
    size_t count = fit < MEASURE_BLOCKS ? (size_t)fit : MEASURE_BLOCKS;
    bool good = true;

    for (size_t i = 0; i < count && good; i++)
        good = measure_allocate(measure, MEASURE_SMALL_BYTES, &pointers[i], &ns);
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        processor_choose();
        good = measure_small_once(measure, pointers, count, pass, out);
    }
    for (size_t i = 0; i < count; i++) {
        if (pointers[i] != NULL)
            good = measure_free(measure, pointers[i], MEASURE_SMALL_BYTES, &ns) && good;
    }
    return good;
}

static bool
measure_cuda(struct measure *measure, struct measured *fresh, struct cost out[COST_CALLS])
{
    struct cost first = measure_fit(fresh), again, back;

    if (!measure_wait(measure, &out[COST_WAIT]))
        return false;
    /* Where no wait was seen, none may have been there to see: what is measured next does without them all the same. */
    measure->clear_ns = measure_max(out[COST_WAIT].ns_per_mib, MEASURE_CLEAR_NS_PER_MIB);
    if (!measure_churn(measure) || !measure_small(measure, out))
        return false;
    again = measure_fit(&measure->allocates);
    back = measure_fit(&measure->frees);
    out[COST_GROW] = measure_less(again, out[COST_ALLOCATE].ns, 0);
    out[COST_RETURN] = measure_less(back, out[COST_FREE].ns, 0);
    out[COST_FRESH] = measure_less((struct cost){ 0, first.ns_per_mib, first.spread }, 0, again.ns_per_mib);
    return true;
}

/* The mean of all sizes. */
static double
measure_mean_of(const struct measured *measured)
{
    static double all[4 * MEASURE_BLOCKS];
    size_t count = 0;

    for (unsigned size = 0; size < MEASURE_SIZES; size++) {
        memcpy(&all[count], measured->ns[size], measured->count[size] * sizeof(*all));
        count += measured->count[size];
    }
    return measure_mean(all, count);
}

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

/* `fresh_ns`: what it took to allocate all blocks for the first time. */
static bool
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
    out[COST_RETURN] = (struct cost){ 0, back, 0 };
    first = measure_max(fresh_ns - large * (double)measure->count, 0) / mib;
    out[COST_GROW] = (struct cost){ 0, again, 0 };
    out[COST_FRESH] = (struct cost){ 0, measure_max(first - again, 0), 0 };
    return true;
}

/* A block gets the handles of two: they are mapped, and with the next free their former mappings end. */
static bool
measure_remap_once(struct measure *measure, int pass, struct cost out[COST_CALLS])
{
    double maps[MEASURE_TURNS], unmaps[MEASURE_TURNS], ns, mib;
    void *one, *other, *both;

    for (int i = 0; i < MEASURE_TURNS; i++) {
        if (!measure_trim(measure, 0, &ns, &mib) || !measure_allocate(measure, 2 * MIB, &one, &ns))
            return false;
        if (!measure_allocate(measure, 2 * MIB, &other, &ns)) {
            (void)measure_free(measure, one, 2 * MIB, &ns);
            return false;
        }
        if (!measure_free(measure, one, 2 * MIB, &ns) || !measure_free(measure, other, 2 * MIB, &ns) ||
            tide_order(measure->base, TIDE_STREAM_ALL, 0) != TIDE_OK ||
            !measure_allocate(measure, 4 * MIB, &both, &maps[i]) || !measure_free(measure, both, 4 * MIB, &unmaps[i]))
            return false;
    }
    out[COST_MAP].ns = measure_least(
        out[COST_MAP].ns, measure_max(measure_mean(maps, MEASURE_TURNS) - out[COST_ALLOCATE].ns, 0) / 2, pass);
    out[COST_UNMAP].ns = measure_least(
        out[COST_UNMAP].ns, measure_max(measure_mean(unmaps, MEASURE_TURNS) - out[COST_FREE].ns, 0) / 2, pass);
    return true;
}

static bool
measure_remap(struct measure *measure, struct cost out[COST_CALLS])
{
    bool good = true;

    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        processor_choose();
        good = measure_remap_once(measure, pass, out);
    }
    return good;
}

/* What blocks take, by size, that get new handles, and that are unmapped and released. */
static bool
measure_handles_once(struct measure *measure, struct measured *grown, struct measured *released)
{
    for (unsigned size = 0; size < measure->sizes; size++) {
        uint64_t bytes = measure_bytes(size), fit = measure_most_bytes(measure) / bytes;
        size_t count = fit < MEASURE_TURNS ? (size_t)fit : MEASURE_TURNS;
        struct measure_block blocks[MEASURE_TURNS] = { { .pointer = NULL } };
        double ns, mib;
        bool good = true;

        for (size_t i = 0; i < count && good; i++) {
            blocks[i].size = size;
            good = measure_fill_block(measure, &blocks[i], grown);
        }
        for (size_t i = 0; i < count; i++) {
            if (blocks[i].pointer != NULL)
                good = measure_free(measure, blocks[i].pointer, bytes, &ns) && good;
        }
        if (!good || !measure_trim(measure, 0, &ns, &mib))
            return false;
        measure_add(released, size, ns / (double)count);
        measure_settle(measure, mib);
    }
    return true;
}

static bool
measure_grow_handles(struct measure *measure, struct measured *grown, struct measured *released)
{
    bool good = true;

    *grown = *released = (struct measured){ .count = { 0 } };
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        struct measured up = { .count = { 0 } }, down = { .count = { 0 } };

        processor_choose();
        good = measure_handles_once(measure, &up, &down);
        measure_keep_least(grown, &up);
        measure_keep_least(released, &down);
    }
    return good;
}

/* What creating, mapping, unmapping and releasing handles takes beside others. */
static bool
measure_handles(struct measure *measure, struct cost out[COST_CALLS], struct measured *grown, struct measured *released)
{
    void *neighbours[MEASURE_NEIGHBOURS] = { NULL };
    uint64_t fit = measure->most_bytes / MEASURE_SMALL_SHARE / measure_bytes(0);
    size_t count = fit < MEASURE_NEIGHBOURS ? (size_t)fit : MEASURE_NEIGHBOURS;
    bool good = true;
    double ns, mib;

    for (size_t i = 0; i < count && good; i++)
        good = measure_allocate(measure, measure_bytes(0), &neighbours[i], &ns);
    good = good && measure_remap(measure, out) && measure_trim(measure, 0, &ns, &mib);
    measure_settle(measure, 4.0 * MEASURE_TURNS);
    good = good && measure_grow_handles(measure, grown, released);
    for (size_t i = 0; i < count; i++) {
        if (neighbours[i] != NULL)
            good = measure_free(measure, neighbours[i], measure_bytes(0), &ns) && good;
    }
    return good;
}

/* The memory that the first blocks got is fresh, and what handles get beside others is not. */
static bool
measure_vmm(struct measure *measure, struct measured *fresh, struct cost out[COST_CALLS])
{
    struct cost first = measure_fit(fresh), again, back;
    struct measured grown, released;
    double ns, mib;

    if (!measure_churn(measure))
        return false;
    out[COST_ALLOCATE] = (struct cost){ measure_mean_of(&measure->allocates), 0, 0 };
    out[COST_FREE] = (struct cost){ measure_mean_of(&measure->frees), 0, 0 };
    if (!measure_empty(measure) || !measure_trim(measure, 0, &ns, &mib))
        return false;
    measure_settle(measure, mib);
    if (!measure_handles(measure, out, &grown, &released))
        return false;
    again = measure_fit(&grown);
    back = measure_fit(&released);
    out[COST_GROW] = measure_less(again, out[COST_ALLOCATE].ns + out[COST_MAP].ns, 0);
    out[COST_RETURN] = measure_less(back, out[COST_UNMAP].ns, 0);
    out[COST_FRESH] = measure_less((struct cost){ 0, first.ns_per_mib, first.spread }, 0, again.ns_per_mib);
    return true;
}

/* As many blocks of each size as the memory allows. */
static void
measure_plan(struct measure *measure)
{
    uint64_t most_bytes = measure_most_bytes(measure);

    while (measure->sizes < MEASURE_SIZES && 2 * measure_bytes(measure->sizes) <= most_bytes)
        measure->sizes++;
    for (unsigned i = 0; measure->sizes > 0 && measure->count < MEASURE_BLOCKS; i++) {
        bool is_large = (double)measure->bytes < MEASURE_LARGE_SHARE * (double)most_bytes;
        unsigned sizes = is_large || measure->sizes < MEASURE_MANY ? measure->sizes : MEASURE_MANY;
        unsigned size = i % sizes;

        if (measure_bytes(size) > most_bytes - measure->bytes)
            break;
        measure->blocks[measure->count++].size = size;
        measure->bytes += measure_bytes(size);
    }
}

static bool
measure_base(enum cost_base kind, struct measure *measure, struct cost out[COST_CALLS])
{
    static const uint64_t recorded[] = { 1, 2 };
    struct replay_streams made = { 0 };
    struct measured fresh;
    double fresh_ns;
    bool good;

    if (measure->most_bytes < MEASURE_LEAST_BYTES) {
        measure->why = "too little memory is free";
        return false;
    }
    measure_plan(measure);
    if (tide_stack_parse(measure->text, &measure->base) != TIDE_OK)
        return false;
    processor_choose();
    /* All is done with a context, as a replay does it. */
    good = replay_streams_make(measure->base, recorded, 2, &made) == COMMAND_FINE;
    measure_settle(measure, (double)measure->most_bytes / MIB);
    good = good && measure_fill(measure, &fresh, &fresh_ns);
    if (good)
        good = kind == COST_CUDA  ? measure_cuda(measure, &fresh, out)
               : kind == COST_VMM ? measure_vmm(measure, &fresh, out)
                                  : measure_driver(measure, fresh_ns, out);
    good = good && measure_order(measure, &made, &out[COST_ORDER]);
    /* What the base knows of the streams ends before they do. */
    good = tide_order(measure->base, TIDE_STREAM_ALL, 0) == TIDE_OK && good;
    replay_streams_finish(&made);
    return good;
}

/* Measure the bases one after the other; the memory of all of them goes back at the end. */
static void
measure_all(int ordinal, uint64_t most_bytes, struct measure *measures, struct costs *out)
{
    char texts[COST_BASES][64];
    double clear_ns = -1;

    for (int base = 0; base < COST_BASES; base++) {
        struct cost measured[COST_CALLS] = { { 0, 0, 0 } };

        /* The driver's pool keeps what is free, so that it can be seen what giving it back takes. */
        snprintf(texts[base], sizeof(texts[base]), "%s(device=%d%s)", cost_base_names[base], ordinal,
                 base == COST_DRIVER ? ", release_threshold=1EiB" : "");
        measures[base] = (struct measure){ .text = texts[base], .most_bytes = most_bytes, .clear_ns = clear_ns };
        if (measure_base((enum cost_base)base, &measures[base], measured)) {
            /* The device clears the memory of all bases, and `cuda` is the one with which that is seen. */
            if (base != COST_CUDA && clear_ns >= 0)
                measured[COST_WAIT] = out->of[COST_CUDA][COST_WAIT];
            else if (base != COST_CUDA)
                measured[COST_WAIT] = costs_default.of[base][COST_WAIT];
            memcpy(out->of[base], measured, sizeof(measured));
            clear_ns = base == COST_CUDA ? measures[base].clear_ns : clear_ns;
        } else
            message("tidemark devices: device %d: %s is not measured, and keeps the costs of an %s: %s", ordinal,
                    cost_base_names[base], costs_default.device,
                    measures[base].why != NULL ? measures[base].why : tide_error_text());
    }
    for (int base = 0; base < COST_BASES; base++) {
        if (measures[base].base == NULL)
            continue;
        (void)measure_empty(&measures[base]);
        tide_resource_release(measures[base].base);
    }
}

int
measure_device(int ordinal, struct costs *out)
{
    struct measure *measures;
    uint64_t left;

    *out = costs_default;
    if (tide_device_name(ordinal, out->device, sizeof(out->device)) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_DEVICE_FREE, &left) != TIDE_OK) {
        message("tidemark devices: device %d: %s", ordinal, tide_error_text());
        return COMMAND_FINDING;
    }
    measures = calloc(COST_BASES, sizeof(*measures));
    if (measures == NULL) {
        message("tidemark devices: no memory for what is measured");
        return COMMAND_WRONG;
    }
    measure_all(ordinal, left / MEASURE_SHARE, measures, out);
    free(measures);
    return COMMAND_FINE;
}
