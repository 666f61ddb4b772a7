/*
 * The time in the driver's calls, for each group of the allocations that they were made for.
 *
 * The calls stand in the order in which they ended, so that they are read beside a scan: what one was made for is
 * mostly among the last allocations that have gone by, of which a bounded number is remembered. The others are looked
 * up. All of them looked up, as a join does, took three times as long.
 */
#ifndef VIEWER_ANALYSIS_DRIVER_CALLS_H
#define VIEWER_ANALYSIS_DRIVER_CALLS_H

#include "viewer/analysis/groups.h"
#include "viewer/read/view.h"

struct driver_sum {
    uint64_t ns;
    uint64_t calls;
};

struct driver_seen;

struct driver_calls {
    struct view *view;       /* borrows */
    struct groups groups;    /* of allocations of every layer */
    struct driver_sum *sums; /* owns; by number of the group */
    size_t capacity;
    struct filter filter;  /* of what is looked at, with all layers below */
    sqlite3_stmt *rows;    /* owns */
    sqlite3_stmt *row_of;  /* owns; of an allocation */
    int64_t allocation_id; /* of the call that comes next */
    bool has_next;
    struct driver_seen *seen; /* owns */
    struct scan_unit unit;
    struct scan_pass pass;
};

/* *has: whether the trace has calls. Only then there is something to close. COMMAND_FINE, or else after a message. */
int driver_calls_open(struct view *view, enum groups_by by, struct driver_calls *calls, bool *has);

/* What has to be part of a scan, once; afterwards the sums are there. */
struct scan_part driver_calls_part(struct driver_calls *calls);

void driver_calls_close(struct driver_calls *calls);

#endif
