/*
 * Sums the time in driver calls, for each group of the allocations that the calls were made for.
 *
 * The trace stores driver calls in the order in which they ended, so they are read in step with a scan. The allocation
 * of a call is mostly among the latest ones of the scan, of which a bounded number is remembered. Others are looked up
 * in the database. Looking up all of them, as a join does, took three times as long.
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
    bool has_calls;          /* the trace has driver calls */
    struct groups groups;    /* of the allocations of every layer */
    struct driver_sum *sums; /* owns; by group number */
    size_t capacity;
    struct filter filter;  /* the view's, extended to all layers below */
    sqlite3_stmt *rows;    /* owns */
    sqlite3_stmt *row_of;  /* owns; looks up an allocation */
    int64_t allocation_id; /* of the next call */
    bool has_next;
    struct driver_seen *seen; /* owns */
    struct scan_unit unit;
    struct scan_pass pass;
};

/*
 * Prepare `calls->pass`. If `has_calls`, run it in one scan of all allocations; the sums are complete after the scan.
 * COMMAND_FINE, or another status after a message and there is nothing to close.
 */
int driver_calls_open(struct view *view, enum groups_by by, struct driver_calls *calls);

void driver_calls_close(struct driver_calls *calls);

#endif
