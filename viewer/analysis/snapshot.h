/* The figures of a trace for comparing it with another: totals, and what was live at the peak. */
#ifndef VIEWER_ANALYSIS_SNAPSHOT_H
#define VIEWER_ANALYSIS_SNAPSHOT_H

#include "viewer/analysis/groups.h"
#include "viewer/read/view.h"

/* The most groupings of one snapshot. */
#define SNAPSHOT_GROUPS 3

/* What a group had live at the peak. */
struct snapshot_group {
    uint64_t bytes;
    uint64_t count;
};

struct snapshot_groups {
    struct groups groups;
    struct snapshot_group *list; /* owns; by group number */
    size_t capacity;
};

struct snapshot {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    unsigned turn;           /* the number of readings asked for so far */
    struct scan_unit unit;   /* of this turn */
    uint64_t allocations;    /* that succeeded */
    uint64_t total_bytes;
    uint64_t failures;
    uint64_t live_bytes; /* at the end */
    uint64_t live_count;
    uint64_t peak_bytes;
    int64_t peak_ns;
    int64_t peak_id; /* 0: nothing was ever live */
    int64_t end_ns;
    uint64_t reserved_peak_bytes; /* of the pool samples; valid if has_reserved */
    bool has_reserved;
    struct snapshot_groups by[SNAPSHOT_GROUPS];
    size_t by_count;
    bool failed; /* no memory */
};

/*
 * Take a snapshot of the allocations that `view` selects, grouped by each of `by`. COMMAND_FINE, or another status and
 * there is nothing to free.
 */
int snapshot_make(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out);

/* The same as one of several analyses (viewer/read/turns.h). Call snapshot_free also if a turn fails. */
int snapshot_begin(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out);
int snapshot_next(void *snapshot, struct scan_pass *pass);

void snapshot_free(void *snapshot);

/*
 * The default groupings for comparing two traces, into an array of SNAPSHOT_GROUPS; returns their number. Call stacks
 * and tags are among them if a trace has any; sizes always are.
 */
size_t snapshot_groups_default(const struct names *a, const struct names *b, enum groups_by *by);

/* Whether `b` exceeds `a` by more than the share `tolerance` of `a`. */
bool snapshot_exceeds(uint64_t a, uint64_t b, double tolerance);

#endif
