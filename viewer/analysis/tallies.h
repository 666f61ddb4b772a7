/* Totals of allocations (counts, bytes, time), for all of them and for each group. */
#ifndef VIEWER_ANALYSIS_TALLIES_H
#define VIEWER_ANALYSIS_TALLIES_H

#include <stdint.h>
#include <string.h>

#include "viewer/analysis/groups.h"
#include "viewer/read/view.h"

struct tally {
    uint64_t allocations; /* successful ones */
    uint64_t frees;
    uint64_t failures;
    uint64_t bytes; /* of all successful allocations */
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t peak_bytes; /* of this set alone */
    int64_t peak_ns;     /* when it was first reached */
    uint64_t peak_count; /* live at it */
    uint64_t time_ns;    /* in the calls; 0 unless the scan has durations */
    uint64_t driver_ns;  /* the part of it in driver calls */
    uint64_t driver_calls;
    unsigned __int128 lived_ns; /* the lifetimes of all freed allocations */
    unsigned __int128 byte_ns;  /* sizes times lifetimes; valid after tally_end */
};

/* Add a successful or failed allocation. Returns whether the live bytes reached a new peak. */
static inline bool
tally_alloc(struct tally *tally, const struct scan_life *life)
{
    if (!life->clipped) /* the call of a clipped life was before the time range */
        tally->time_ns += (uint64_t)life->alloc_duration_ns;
    if (life->status != 0) {
        tally->failures++;
        return false;
    }
    tally->allocations++;
    tally->bytes += life->size;
    tally->live_bytes += life->size;
    tally->live_count += scan_live_count(life);
    /* tally_free or tally_end adds the end of the life; the sum wraps modulo 2^128 until then. */
    tally->byte_ns -= (unsigned __int128)life->size * (unsigned __int128)life->alloc_ns;
    if (tally->live_bytes <= tally->peak_bytes)
        return false;
    tally->peak_bytes = tally->live_bytes;
    tally->peak_ns = life->alloc_ns;
    tally->peak_count = tally->live_count;
    return true;
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

/* Add the sums of another set. The peaks of the two may be at different times: they are left alone. */
static inline void
tally_add(struct tally *to, const struct tally *from)
{
    to->allocations += from->allocations;
    to->frees += from->frees;
    to->failures += from->failures;
    to->bytes += from->bytes;
    to->live_bytes += from->live_bytes;
    to->live_count += from->live_count;
    to->time_ns += from->time_ns;
    to->lived_ns += from->lived_ns;
    to->byte_ns += from->byte_ns;
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

/*
 * Whether how long the calls of `tally` took was recorded. That of an imported trace is unknown where the input says
 * nothing of it, and 0 stands in its rows.
 */
bool tally_has_times(const struct trace *trace, const struct tally *tally);

struct tallies {
    struct view *view; /* borrows */
    struct groups groups;
    struct tally *list; /* owns; by group number */
    size_t capacity;
    struct tally all;
    int64_t end_ns; /* live allocations count up to here: --to, or the last event */
};

void tallies_begin(struct tallies *tallies, struct view *view, enum groups_by by);
void tallies_free(struct tallies *tallies);

/* The callbacks of a scan, for units that do more. Their context is a struct tallies. */
int tallies_clear(void *context);
int tallies_alloc(void *context, const struct scan_life *life);
int tallies_release(void *context, const struct scan_life *life);
int tallies_finish(void *context, int64_t last_ns);

/*
 * Tally the allocations that `view` selects, with the time in their calls and in the driver calls that any layer below
 * made for them. COMMAND_FINE, or another status and there is nothing to free.
 */
int tallies_make(struct view *view, enum groups_by by, struct tallies *out);

#endif
