/*
 * Buckets of an axis, which is time (ns) or the events (their numbers): how low and how high the live bytes were in
 * each.
 *
 * The end of the axis is not known before it is reached. So a bucket is as wide as a power of two, and two become one
 * where there would be too many.
 */
#ifndef VIEWER_REPORT_BUCKETS_H
#define VIEWER_REPORT_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buckets of 2^shift positions each, from `begin` on. */
struct axis {
    int64_t begin;
    unsigned shift;
    size_t count;
};

/* The axis from `begin` to `last` (inclusive) with the narrowest buckets of which there are at most `most`. */
struct axis axis_make(int64_t begin, int64_t last, size_t most);

/* The bucket of a position from `begin` on. */
static inline size_t
axis_bucket(const struct axis *axis, int64_t position)
{
    return (size_t)(((uint64_t)position - (uint64_t)axis->begin) >> axis->shift);
}

struct buckets {
    struct axis axis; /* `count`: those begun */
    size_t most;
    uint64_t *least;  /* owns; the fewest live bytes, as the next three by bucket */
    uint64_t *high;   /* owns; the most */
    uint64_t *events; /* owns */
    int64_t *ns;      /* owns; when the first event of the bucket was; of a bucket without any, of the one behind it */
};

/* Make room for `most` buckets, at least 2. False: no memory. */
bool buckets_begin(struct buckets *buckets, size_t most);
void buckets_free(struct buckets *buckets);

/* Forget what was added. */
void buckets_clear(struct buckets *buckets);

/* Go on to the bucket of `position`, which is no earlier than the one before; `live` bytes are live since that one. */
void buckets_go(struct buckets *buckets, int64_t position, uint64_t live, int64_t ns);

/* Two buckets become one. */
void buckets_fold(struct buckets *buckets);

/* An event at the position has made them `live`. */
static inline void
buckets_add(struct buckets *buckets, uint64_t live)
{
    size_t at = buckets->axis.count - 1;

    buckets->events[at]++;
    if (live > buckets->high[at])
        buckets->high[at] = live;
    if (live < buckets->least[at])
        buckets->least[at] = live;
}

#endif
