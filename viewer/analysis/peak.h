/* How high the live bytes went, what stood there then, and what the peak would have been without it. */
#ifndef VIEWER_ANALYSIS_PEAK_H
#define VIEWER_ANALYSIS_PEAK_H

#include "viewer/analysis/counterfactual.h"
#include "viewer/analysis/groups.h"
#include "viewer/analysis/levels.h"
#include "viewer/analysis/summits.h"
#include "viewer/analysis/top-lives.h"
#include "viewer/read/view.h"

/* A time in which the live bytes stayed within a share of the peak. */
struct peak_plateau {
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t most_bytes;
};

#define PEAK_PLATEAUS_MAX 32

/* What stood at the moment that is looked at. */
struct peak_group {
    uint64_t bytes;
    uint64_t count;
};

struct peak {
    struct view *view; /* borrows */
    struct groups groups;
    struct counterfactual rest;
    struct summits summits;
    struct levels levels;    /* near the peak */
    const struct scan *scan; /* while one runs */
    unsigned turn;           /* how many readings it has asked for */
    struct scan_unit unit;   /* of this turn */
    double within;           /* of the peak: what is near */
    uint64_t bytes;
    uint64_t count;
    uint64_t peak_count;
    int64_t ns;
    int64_t allocation_id; /* that made it; 0: nothing was ever live */
    int64_t end_ns;
    uint64_t live_bytes; /* now, in the second pass */
    /* The moment that is looked at. */
    bool at_peak;
    int64_t at_ns;
    bool looked;
    uint64_t at_bytes;
    uint64_t at_count;
    struct peak_group *at_groups; /* owns; by number */
    struct top_lives at_lives;
    /* Within a share of the peak; of the peak so far in the first pass. */
    uint64_t near_bytes; /* from here on */
    bool near;
    struct peak_plateau plateau;                     /* that lasts */
    struct peak_plateau plateaus[PEAK_PLATEAUS_MAX]; /* the longest first */
    size_t plateau_count;                            /* of all */
    int64_t near_ns;                                 /* of all together */
};

/*
 * Find the peak of what the filters of `view` take, grouped by `by`, and then look at what is live at `at`
 * (MOMENT_PEAK: at the peak), of which the `lives` largest allocations are kept. COMMAND_FINE, or there is nothing to
 * free.
 */
int peak_make(struct view *view, enum groups_by by, const struct moment *at, double within, uint64_t lives,
              struct peak *out);

/*
 * The same in turns (see viewer/read/turns.h): begin, and what to read next. It is to be freed also where a turn fails.
 */
int peak_begin(struct view *view, enum groups_by by, const struct moment *at, double within, uint64_t lives,
               struct peak *out);
int peak_next(void *peak, struct scan_pass *pass);

void peak_free(struct peak *peak);

#endif
