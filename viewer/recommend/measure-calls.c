/* Times calls of a base, as an application sees them, with nothing above it. */
#include "config.h"

#include "viewer/recommend/measure-calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/clock.h"
#include "viewer/base/processor.h"

/* How long clearing is waited for at the most while its speed is not known. */
#define MEASURE_CLEAR_NS 20e6

/* The step in which places are visited: a prime, so that neighbours are freed apart. */
#define MEASURE_STEP 211

/* After so many blocks a processor is chosen again: in a tenth of a second another one may be faster. */
#define MEASURE_STAY 16

/* Small requests, of which cuMemAlloc puts several into one page: the largest, and how many halves of it follow. */
#define MEASURE_SMALL_BYTES (UINT64_C(256) << 10)
#define MEASURE_SMALL_SIZES 10

/* Of so many calls the slowest one is left out: something else had the processor. */
#define MEASURE_OUTLIERS 16

uint64_t
measure_bytes(unsigned size)
{
    return 2 * MIB << size;
}

uint64_t
measure_large_bytes(const struct measure *measure)
{
    return measure->most_bytes - measure->most_bytes / MEASURE_SMALL_SHARE;
}

static int
measure_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

double
measure_max(double one, double other)
{
    return one > other ? one : other;
}

/* The mean without outliers: what many calls take together is what counts, and not what the usual one takes. */
double
measure_mean(double *values, size_t count)
{
    double sum = 0;

    qsort(values, count, sizeof(*values), measure_compare);
    count -= count / MEASURE_OUTLIERS;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count > 0 ? sum / (double)count : 0;
}

double
measure_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), measure_compare);
    return values[count / 2];
}

double
measure_least(double least, double now, int pass)
{
    return pass == 0 || now < least ? now : least;
}

/* Where the times of this pass are less, they take the place of those before. */
void
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

void
measure_add(struct measured *measured, unsigned size, double ns)
{
    if (measured->count[size] < sizeof(measured->ns[0]) / sizeof(measured->ns[0][0]))
        measured->ns[size][measured->count[size]++] = ns;
}

/* Fit ns + ns_per_mib * MiB to the means, each size weighing the same in proportion to what it takes. */
struct cost
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

struct cost
measure_less(struct cost whole, double ns, double ns_per_mib)
{
    return (struct cost){ measure_max(whole.ns - ns, 0), measure_max(whole.ns_per_mib - ns_per_mib, 0), whole.spread };
}

double
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

bool
measure_allocate(struct measure *measure, uint64_t bytes, void **out, double *ns)
{
    double begin = (double)clock_now_ns();
    enum tide_status status = tide_allocate(measure->base, bytes, 256, 0, out);

    *ns = measure_max((double)clock_now_ns() - begin - measure->reading_ns, 0);
    return status == TIDE_OK;
}

bool
measure_free(struct measure *measure, void *pointer, uint64_t bytes, double *ns)
{
    double begin = (double)clock_now_ns();
    enum tide_status status = tide_deallocate(measure->base, pointer, bytes, 256, 0);

    *ns = measure_max((double)clock_now_ns() - begin - measure->reading_ns, 0);
    return status == TIDE_OK;
}

bool
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
void
measure_settle(const struct measure *measure, double mib)
{
    double ns = measure->clear_ns < 0 ? MEASURE_CLEAR_NS : 1.25 * measure->clear_ns * mib + 1e5;
    int64_t end = clock_now_ns() + (int64_t)ns;

    while (measure->clear_ns != 0 && clock_now_ns() < end)
        ;
}

size_t
measure_visit(size_t i, size_t count)
{
    return i * (count % MEASURE_STEP != 0 ? MEASURE_STEP : 1) % count;
}

static struct measure_block *
measure_at(struct measure *measure, size_t i)
{
    return &measure->blocks[measure_visit(i, measure->count)];
}

bool
measure_fill_block(struct measure *measure, struct measure_block *block, struct measured *times)
{
    double ns;

    if (!measure_allocate(measure, measure_bytes(block->size), &block->pointer, &ns))
        return false;
    measure_add(times, block->size, ns);
    return true;
}

bool
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

bool
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

bool
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
        if (!measure_empty_block(measure, one, frees) || !measure_empty_block(measure, other, frees))
            return false;
        measure_settle(measure, (double)(measure_bytes(one->size) + measure_bytes(other->size)) / MIB);
        one->size = other->size;
        other->size = size;
        good = measure_fill_block(measure, one, allocates) && measure_fill_block(measure, other, allocates);
    }
    return good;
}

bool
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

/* Small blocks of many sizes. */
struct measure_small {
    void *pointers[MEASURE_BLOCKS];
    size_t bytes[MEASURE_BLOCKS];
    size_t count;
};

/* 512 B to 256 KiB. */
static size_t
measure_small_bytes(size_t i)
{
    return MEASURE_SMALL_BYTES >> i % MEASURE_SMALL_SIZES;
}

static bool
measure_small_in(struct measure *measure, struct measure_small *small, size_t i, double *ns)
{
    return measure_allocate(measure, small->bytes[i], &small->pointers[i], ns);
}

static bool
measure_small_out(struct measure *measure, struct measure_small *small, size_t i, double *ns)
{
    void *pointer = small->pointers[i];

    small->pointers[i] = NULL;
    *ns = 0;
    return pointer == NULL || measure_free(measure, pointer, small->bytes[i], ns);
}

/* Free two blocks and allocate them the other way round, while the others stay; the pass of that number. */
static bool
measure_small_once(struct measure *measure, struct measure_small *small, int pass, struct cost out[COST_CALLS])
{
    double allocates[MEASURE_BLOCKS], frees[MEASURE_BLOCKS];
    size_t timed = small->count - small->count % 2;

    for (size_t i = 0; i < timed; i += 2) {
        size_t one = measure_visit(i, small->count), other = measure_visit(i + 1, small->count);
        size_t bytes = small->bytes[one];

        if (!measure_small_out(measure, small, one, &frees[i]) ||
            !measure_small_out(measure, small, other, &frees[i + 1]))
            return false;
        small->bytes[one] = small->bytes[other];
        small->bytes[other] = bytes;
        if (!measure_small_in(measure, small, one, &allocates[i]) ||
            !measure_small_in(measure, small, other, &allocates[i + 1]))
            return false;
    }
    out[COST_ALLOCATE].ns = measure_least(out[COST_ALLOCATE].ns, measure_mean(allocates, timed), pass);
    out[COST_FREE].ns = measure_least(out[COST_FREE].ns, measure_mean(frees, timed), pass);
    return true;
}

/* Requests that share pages with others, which stay: the costs of calls for which nothing is taken of the device. */
bool
measure_small(struct measure *measure, struct cost out[COST_CALLS])
{
    uint64_t fit = measure->most_bytes / MEASURE_SMALL_SHARE / measure_bytes(0);
    struct measure_small small = { .count = fit < MEASURE_BLOCKS ? (size_t)fit : MEASURE_BLOCKS };
    bool good = true;
    double ns;

    for (size_t i = 0; i < small.count && good; i++) {
        small.bytes[i] = measure_small_bytes(i);
        good = measure_small_in(measure, &small, i, &ns);
    }
    for (int pass = 0; pass < MEASURE_PASSES && good; pass++) {
        processor_choose();
        good = measure_small_once(measure, &small, pass, out);
    }
    for (size_t i = 0; i < small.count; i++)
        good = measure_small_out(measure, &small, i, &ns) && good;
    return good;
}
