/* The figures of a trace that two traces are compared by, and what was live at its peak. */
#ifndef VIEWER_ANALYSIS_SNAPSHOT_H
#define VIEWER_ANALYSIS_SNAPSHOT_H

#include "viewer/analysis/groups.h"
#include "viewer/read/view.h"

/* Groups by at most so many things at once. */
#define SNAPSHOT_GROUPS 3

/* What a group had live at the peak. */
struct snapshot_group {
    uint64_t bytes;
    uint64_t count;
};

struct snapshot_groups {
    struct groups groups;
    struct snapshot_group *list; /* owns; by number */
    size_t capacity;
};

struct snapshot {
    struct view *view; /* borrows */
    const struct scan *scan;
    unsigned turn;         /* how many readings it has asked for */
    struct scan_unit unit; /* of this turn */
    uint64_t allocations;  /* that succeeded */
    uint64_t total_bytes;
    uint64_t failures;
    uint64_t live_bytes; /* at the end */
    uint64_t live_count;
    uint64_t peak_bytes;
    int64_t peak_ns;
    int64_t peak_id; /* 0: nothing was ever live */
    int64_t end_ns;
    uint64_t reserved_peak_bytes; /* of the pool samples, where it has_reserved */
    bool has_reserved;
    struct snapshot_groups by[SNAPSHOT_GROUPS];
    size_t by_count;
    bool failed; /* no memory */
};

/* Of what the filters of `view` take, grouped by each of `by`. COMMAND_FINE, or there is nothing to free. */
int snapshot_make(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out);

/*
 * The same in turns (see viewer/read/turns.h): begin, and what to read next. It is to be freed also where a turn fails.
 */
int snapshot_begin(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out);
int snapshot_next(void *snapshot, struct scan_pass *pass);

void snapshot_free(struct snapshot *snapshot);

/* What two traces are best compared by, in SNAPSHOT_GROUPS places: call stacks and tags where one has them, sizes. */
size_t snapshot_groups_default(const struct names *a, const struct names *b, enum groups_by *by);

/* Whether `b` is more than `a` by more than this share of it. */
bool snapshot_exceeds(uint64_t a, uint64_t b, double tolerance);

#endif
