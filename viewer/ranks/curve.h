/*
 * What was live and reserved in each bucket of a rank's time. A bucket is 2^shift ns of the time since 1970, so that
 * the buckets of two ranks can be made the same ones by joining pairs of the narrower ones. The end is not known before
 * it is reached: where there would be too many buckets, two become one.
 */
#ifndef VIEWER_RANKS_CURVE_H
#define VIEWER_RANKS_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CURVE_BUCKETS 4096

/* How low and how high something was in a bucket, and what it was at the end. */
struct curve_range {
    uint64_t least, most, end;
};

struct curve_bucket {
    struct curve_range live;
    struct curve_range reserved; /* by chunks and samples */
    struct curve_range rows;     /* by chunks alone */
    uint64_t allocations, frees, failures;
    bool changed; /* something happened in it */
};

struct curve {
    struct curve_bucket *list; /* owns; CURVE_BUCKETS */
    size_t count;
    uint64_t first; /* the number of the first bucket: its time >> shift */
    unsigned shift;
};

/* False: no memory. */
bool curve_begin(struct curve *curve);
void curve_free(struct curve *curve);
void curve_clear(struct curve *curve);

/*
 * Go on to the bucket at `unix_ns`, which is no earlier than the one before, and return it. What it begins with is what
 * the one before ended with; the first one begins with nothing.
 */
struct curve_bucket *curve_go(struct curve *curve, uint64_t unix_ns);

/* What was chunks and samples is chunks alone, in all buckets so far. */
void curve_drop_samples(struct curve *curve);

/* It is `bytes` now. */
static inline void
curve_set(struct curve_range *range, uint64_t bytes)
{
    range->end = bytes;
    if (bytes > range->most)
        range->most = bytes;
    if (bytes < range->least)
        range->least = bytes;
}

#endif
