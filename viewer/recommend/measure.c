/* Measures what calls of the driver cost, as an application sees it: through the bases, with nothing above them. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/clock.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/message.h"
#include "viewer/recommend/measure.h"

#define MIB (UINT64_C(1) << 20)

/* The median of so many calls for each size. */
#define MEASURE_TURNS 15

static const uint64_t measure_sizes[] = { 2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB, 1024 * MIB, 4096 * MIB };
#define MEASURE_SIZES (sizeof(measure_sizes) / sizeof(measure_sizes[0]))

/* The medians of one call, by size. */
struct measured {
    double mib[MEASURE_SIZES];
    double ns[MEASURE_SIZES];
    size_t count;
};

static int
measure_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double
measure_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), measure_compare);
    return values[count / 2];
}

/* Fit ns + ns_per_mib * MiB, each size weighing the same in proportion to what it takes. */
static struct cost
measure_fit(const struct measured *measured)
{
    double weights = 0, x = 0, y = 0, xx = 0, xy = 0, off[MEASURE_SIZES], slope, base;

    for (size_t i = 0; i < measured->count; i++) {
        double weight = 1 / (measured->ns[i] * measured->ns[i]);

        weights += weight;
        x += weight * measured->mib[i];
        y += weight * measured->ns[i];
        xx += weight * measured->mib[i] * measured->mib[i];
        xy += weight * measured->mib[i] * measured->ns[i];
    }
    slope = measured->count > 1 ? (weights * xy - x * y) / (weights * xx - x * x) : 0;
    slope = slope > 0 ? slope : 0;
    base = (y - slope * x) / weights;
    base = base > 0 ? base : 0;
    for (size_t i = 0; i < measured->count; i++)
        off[i] = fabs(base + slope * measured->mib[i] - measured->ns[i]) / measured->ns[i];
    return (struct cost){ base, slope, measure_median(off, measured->count) };
}

/* Which calls of a base are timed. */
enum measure_way {
    MEASURE_COLD, /* the base gives all back between two calls: what is asked for comes from the device */
    MEASURE_WARM, /* what was freed is there again */
};

/* Time one size. False: the base refused it. */
static bool
measure_size(struct tide_resource *base, uint64_t bytes, enum measure_way way, double *allocate, double *give)
{
    double allocates[MEASURE_TURNS], frees[MEASURE_TURNS];

    for (int i = -1; i < MEASURE_TURNS; i++) { /* the first one warms up */
        double begin = (double)clock_now_ns(), between;
        void *block;

        if (tide_allocate(base, bytes, 256, 0, &block) != TIDE_OK)
            return false;
        between = (double)clock_now_ns();
        if (tide_deallocate(base, block, bytes, 256, 0) != TIDE_OK ||
            (way == MEASURE_COLD && tide_trim(base, 0) != TIDE_OK))
            return false;
        if (i >= 0) {
            allocates[i] = between - begin;
            frees[i] = (double)clock_now_ns() - between;
        }
    }
    *allocate = measure_median(allocates, MEASURE_TURNS);
    *give = measure_median(frees, MEASURE_TURNS);
    return true;
}

static bool
measure_way(struct tide_resource *base, uint64_t most, enum measure_way way, struct cost *allocate, struct cost *give)
{
    struct measured allocates = { .count = 0 }, frees = { .count = 0 };

    for (size_t i = 0; i < MEASURE_SIZES && measure_sizes[i] <= most; i++) {
        size_t at = allocates.count;

        if (!measure_size(base, measure_sizes[i], way, &allocates.ns[at], &frees.ns[at]))
            break;
        allocates.mib[at] = frees.mib[at] = (double)measure_sizes[i] / MIB;
        allocates.count = frees.count = at + 1;
    }
    if (allocates.count == 0)
        return false;
    *allocate = measure_fit(&allocates);
    *give = measure_fit(&frees);
    return true;
}

/* What growing costs: a cold call less a warm one. */
static struct cost
measure_less(struct cost cold, struct cost warm)
{
    struct cost less = { 0, cold.ns_per_mib - warm.ns_per_mib, cold.spread };

    less.ns_per_mib = less.ns_per_mib > 0 ? less.ns_per_mib : 0;
    return less;
}

static bool
measure_base(enum cost_base kind, int ordinal, uint64_t most, struct cost out[COST_CALLS])
{
    struct cost cold[2], warm[2] = { { 0, 0, 0 } };
    struct tide_resource *base;
    char text[64];
    bool good;

    snprintf(text, sizeof(text), "%s(device=%d)", cost_base_names[kind], ordinal);
    if (tide_stack_parse(text, &base) != TIDE_OK)
        return false;
    good = measure_way(base, most, MEASURE_COLD, &cold[0], &cold[1]) &&
           (kind != COST_DRIVER || measure_way(base, most, MEASURE_WARM, &warm[0], &warm[1]));
    if (good) {
        out[COST_ALLOCATE] = kind == COST_DRIVER ? warm[0] : cold[0];
        out[COST_FREE] = kind == COST_DRIVER ? warm[1] : cold[1];
        out[COST_GROW] = kind == COST_DRIVER ? measure_less(cold[0], warm[0]) : (struct cost){ 0, 0, 0 };
    }
    tide_resource_release(base);
    return good;
}

int
measure_device(int ordinal, struct costs *out)
{
    uint64_t left;

    *out = costs_default;
    if (tide_device_name(ordinal, out->device, sizeof(out->device)) != TIDE_OK ||
        tide_device_query(ordinal, TIDE_QUERY_DEVICE_FREE, &left) != TIDE_OK) {
        message("tidemark devices: device %d: %s", ordinal, tide_error_text());
        return COMMAND_FINDING;
    }
    for (int base = 0; base < COST_BASES; base++) {
        if (!measure_base((enum cost_base)base, ordinal, left / 4, out->of[base]))
            message("tidemark devices: device %d: %s is not measured, and keeps the costs of an %s: %s", ordinal,
                    cost_base_names[base], costs_default.device, tide_error_text());
    }
    return COMMAND_FINE;
}
