/* Keeps a tally for each group of allocations. */
#ifndef VIEWER_ANALYSIS_TALLIES_H
#define VIEWER_ANALYSIS_TALLIES_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/tally.h"
#include "viewer/read/view.h"

struct tallies {
    struct view *view; /* borrows */
    struct groups groups;
    struct tally *list; /* owns; by group number */
    size_t capacity;
    struct tally all;
    int64_t end_ns; /* live allocations count up to here: --to, or the last event */
};

/* The steps of a scan, for callers that run it themselves. COMMAND_FINE, or COMMAND_WRONG after a message. */
void tallies_begin(struct tallies *tallies, struct view *view, enum groups_by by);
void tallies_clear(struct tallies *tallies);
int tallies_alloc(struct tallies *tallies, const struct scan_life *life);
int tallies_release(struct tallies *tallies, const struct scan_life *life);
void tallies_finish(struct tallies *tallies, int64_t last_ns);
void tallies_free(struct tallies *tallies);

/*
 * Tally the allocations that `view` selects, with the time in their calls and in the driver calls that any layer below
 * made for them. COMMAND_FINE, or another status and there is nothing to free.
 */
int tallies_make(struct view *view, enum groups_by by, struct tallies *out);

#endif
