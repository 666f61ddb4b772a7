/* What was live and reserved in each bucket of a rank's time. */
#include "config.h"

#include <stdlib.h>

#include "viewer/ranks/curve.h"

/* 1 us: no trace needs narrower ones. */
#define CURVE_SHIFT 10

bool
curve_begin(struct curve *curve)
{
    *curve = (struct curve){ .list = calloc(CURVE_BUCKETS, sizeof(*curve->list)), .shift = CURVE_SHIFT };
    return curve->list != NULL;
}

void
curve_free(struct curve *curve)
{
    free(curve->list);
    curve->list = NULL;
}

void
curve_clear(struct curve *curve)
{
    curve->count = 0;
    curve->shift = CURVE_SHIFT;
}

static void
curve_join(struct curve_range *range, const struct curve_range *next)
{
    if (next->least < range->least)
        range->least = next->least;
    if (next->most > range->most)
        range->most = next->most;
    range->end = next->end;
}

/* Two buckets become one, by their numbers. */
static void
curve_fold(struct curve *curve)
{
    uint64_t first = curve->first >> 1;
    size_t count = 0;

    for (size_t i = 0; i < curve->count; i++) {
        size_t at = (size_t)(((curve->first + i) >> 1) - first);
        const struct curve_bucket bucket = curve->list[i];
        struct curve_bucket *into = &curve->list[at];

        if (at == count) {
            curve->list[count++] = bucket;
            continue;
        }
        curve_join(&into->live, &bucket.live);
        curve_join(&into->reserved, &bucket.reserved);
        curve_join(&into->rows, &bucket.rows);
        into->allocations += bucket.allocations;
        into->frees += bucket.frees;
        into->failures += bucket.failures;
        into->changed = into->changed || bucket.changed;
    }
    curve->first = first;
    curve->count = count;
    curve->shift++;
}

static struct curve_range
curve_still(const struct curve_range *range)
{
    return (struct curve_range){ range->end, range->end, range->end };
}

/* Begin the next bucket. */
static void
curve_open(struct curve *curve)
{
    struct curve_bucket *bucket = &curve->list[curve->count], *before = bucket - 1;

    *bucket = (struct curve_bucket){ .changed = false };
    if (curve->count > 0) {
        bucket->live = curve_still(&before->live);
        bucket->reserved = curve_still(&before->reserved);
        bucket->rows = curve_still(&before->rows);
    }
    curve->count++;
}

struct curve_bucket *
curve_go(struct curve *curve, uint64_t unix_ns)
{
    if (curve->count == 0) {
        curve->first = unix_ns >> curve->shift;
        curve_open(curve);
    }
    if (unix_ns >> curve->shift < curve->first + curve->count)
        return &curve->list[curve->count - 1];
    while ((unix_ns >> curve->shift) - curve->first >= CURVE_BUCKETS)
        curve_fold(curve);
    while (unix_ns >> curve->shift >= curve->first + curve->count)
        curve_open(curve);
    return &curve->list[curve->count - 1];
}

void
curve_drop_samples(struct curve *curve)
{
    for (size_t i = 0; i < curve->count; i++)
        curve->list[i].reserved = curve->list[i].rows;
}
