/* A tally for each group of allocations: by tag, call stack, size and so on. */
#ifndef VIEWER_ANALYSIS_TALLIES_H
#define VIEWER_ANALYSIS_TALLIES_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/tally.h"
#include "viewer/read/view.h"

struct tallies {
    struct view *view; /* borrows */
    struct groups groups;
    struct tally *list; /* owns; by number */
    size_t capacity;
    struct tally all;
    int64_t end_ns; /* until when what is live counts: --to, or the last event */
};

/* Begin and end; between them take in what a scan hands out. COMMAND_FINE, or COMMAND_WRONG after a message. */
void tallies_begin(struct tallies *tallies, struct view *view, enum groups_by by);
void tallies_clear(struct tallies *tallies);
int tallies_alloc(struct tallies *tallies, const struct scan_life *life);
int tallies_release(struct tallies *tallies, const struct scan_life *life);
void tallies_finish(struct tallies *tallies, int64_t last_ns);
void tallies_free(struct tallies *tallies);

/*
 * Group what the filters of `view` take, with the time in calls, and in those of the driver that were made for them by
 * any layer below. COMMAND_FINE, or there is nothing to free.
 */
int tallies_make(struct view *view, enum groups_by by, struct tallies *out);

#endif
