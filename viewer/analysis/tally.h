/* The totals of a set of allocations: counts, bytes, time. */
#ifndef VIEWER_ANALYSIS_TALLY_H
#define VIEWER_ANALYSIS_TALLY_H

#include <stdint.h>
#include <string.h>

#include "viewer/read/scan.h"

struct tally {
    uint64_t allocations; /* successful ones */
    uint64_t frees;
    uint64_t failures;
    uint64_t bytes; /* of all successful allocations */
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t peak_bytes; /* of this set alone */
    uint64_t time_ns;    /* in the calls; 0 unless the scan has durations */
    uint64_t driver_ns;  /* the part of it in driver calls */
    uint64_t driver_calls;
    unsigned __int128 lived_ns; /* the lifetimes of all freed allocations */
    unsigned __int128 byte_ns;  /* sizes times lifetimes; valid after tally_end */
};

/* Take in a successful or failed allocation. */
static inline void
tally_alloc(struct tally *tally, const struct scan_life *life)
{
    if (!life->clipped) /* the call of a clipped life was before the time range */
        tally->time_ns += (uint64_t)life->alloc_duration_ns;
    if (life->status != 0) {
        tally->failures++;
        return;
    }
    tally->allocations++;
    tally->bytes += life->size;
    tally->live_bytes += life->size;
    tally->live_count += scan_live_count(life);
    if (tally->live_bytes > tally->peak_bytes)
        tally->peak_bytes = tally->live_bytes;
    /* tally_free or tally_end adds the end of the life; the sum wraps modulo 2^128 until then. */
    tally->byte_ns -= (unsigned __int128)life->size * (unsigned __int128)life->alloc_ns;
}

static inline void
tally_free(struct tally *tally, const struct scan_life *life)
{
    tally->time_ns += (uint64_t)life->free_duration_ns;
    tally->frees++;
    tally->live_bytes -= life->size;
    tally->live_count -= scan_live_count(life);
    tally->lived_ns += (uint64_t)life->free_ns - (uint64_t)life->alloc_ns;
    tally->byte_ns += (unsigned __int128)life->size * (unsigned __int128)life->free_ns;
}

/* Let the live allocations count until `ns`. */
static inline void
tally_end(struct tally *tally, int64_t ns)
{
    tally->byte_ns += (unsigned __int128)tally->live_bytes * (unsigned __int128)ns;
}

/* Bytes times seconds. */
static inline double
tally_byte_seconds(const struct tally *tally)
{
    return (double)tally->byte_ns / 1e9;
}

/* A sort key for byte_ns: the bits of a positive double have its order. */
static inline uint64_t
tally_byte_order(const struct tally *tally)
{
    double real = (double)tally->byte_ns;
    uint64_t bits;

    memcpy(&bits, &real, sizeof(bits));
    return bits;
}

/* The mean lifetime of the freed allocations. */
static inline int64_t
tally_mean_life(const struct tally *tally)
{
    return tally->frees > 0 ? (int64_t)(tally->lived_ns / tally->frees) : 0;
}

#endif
