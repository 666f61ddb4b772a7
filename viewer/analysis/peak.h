/* The peak of the live bytes, what was live at it, and what it would have been without each group. */
#ifndef VIEWER_ANALYSIS_PEAK_H
#define VIEWER_ANALYSIS_PEAK_H

#include "viewer/analysis/counterfactual.h"
#include "viewer/analysis/groups.h"
#include "viewer/analysis/summits.h"
#include "viewer/analysis/top-lives.h"
#include "viewer/read/view.h"

/* With more entries than this (32 MiB), `overflowed` is set and the list is incomplete. */
#define LEVELS_MAX ((size_t)2 << 20)

struct level {
    int64_t ns;
    uint64_t bytes;
};

/*
 * The levels of a curve that reach a threshold which rises with the curve. A level below the threshold of its time is
 * also below the final one and is not kept. The list tells when the curve was at or above the final threshold. All
 * zeros is the initial state.
 */
struct levels {
    struct level *list; /* owns; of successive levels below the threshold only the first */
    size_t count;
    size_t capacity;
    size_t most; /* the maximum of capacity, a power of two; 0: LEVELS_MAX */
    bool overflowed;
};

/* Keep an entry. Only levels_add calls this. */
void levels_keep(struct levels *self, int64_t ns, uint64_t bytes, uint64_t threshold);

/* The curve is at `bytes` from `ns` on, and the threshold at `threshold`. */
static inline void
levels_add(struct levels *self, int64_t ns, uint64_t bytes, uint64_t threshold)
{
    if (bytes >= threshold || (self->count > 0 && self->list[self->count - 1].bytes >= threshold))
        levels_keep(self, ns, bytes, threshold);
}

void levels_free(struct levels *self);

/* An interval in which the live bytes stayed within a share of the peak. */
struct peak_plateau {
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t most_bytes;
};

#define PEAK_PLATEAUS_MAX 32

struct peak {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    struct groups groups;
    struct counterfactual rest;
    struct summits summits;
    struct levels levels;  /* near the peak */
    bool has_no_groups;    /* set after peak_begin: summits and plateaus alone are wanted */
    unsigned turn;         /* the number of readings asked for so far */
    struct scan_unit unit; /* of this turn */
    double within;         /* the share of the peak that counts as near */
    uint64_t bytes;
    uint64_t count;
    uint64_t peak_count;
    int64_t ns;
    int64_t allocation_id; /* that reached the peak; 0: nothing was ever live */
    int64_t end_ns;
    uint64_t live_bytes; /* now, in the second pass */
    /* The examined moment. */
    bool at_peak;
    int64_t at_ns;
    bool looked;
    uint64_t at_bytes;
    uint64_t at_count;
    struct amount *at_groups; /* owns; by group number */
    struct top_lives at_lives;
    /* Times near the peak; in the first pass, near the peak so far. */
    uint64_t near_bytes; /* at least this is near */
    bool near;
    struct peak_plateau plateau;                     /* the current one */
    struct peak_plateau plateaus[PEAK_PLATEAUS_MAX]; /* the longest first */
    size_t plateau_count;                            /* of all, also those not kept */
    int64_t near_ns;                                 /* the length of all together */
};

/* What counts, as shares of the peak. */
struct peak_shares {
    double within;     /* how near to the peak a plateau is */
    double prominence; /* the least of a distinct peak */
};

/*
 * Find the peak of the allocations that `view` selects, grouped by `by`. Then examine what is live at `at`
 * (MOMENT_PEAK: the peak), and keep the `lives` largest allocations of it. COMMAND_FINE, or another status and there is
 * nothing to free.
 */
int peak_make(struct view *view, enum groups_by by, const struct moment *at, const struct peak_shares *shares,
              uint64_t lives, struct peak *out);

/* The same as one of several analyses (viewer/read/view.h). Call peak_free also if a turn fails. */
int peak_begin(struct view *view, enum groups_by by, const struct moment *at, const struct peak_shares *shares,
               uint64_t lives, struct peak *out);
int peak_next(void *peak, struct scan_pass *pass);

void peak_free(void *peak);

#endif
