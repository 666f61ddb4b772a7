/* What is live at the end, grouped, and how each group grew from step to step. */
#ifndef VIEWER_ANALYSIS_LEAKS_H
#define VIEWER_ANALYSIS_LEAKS_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/steps.h"
#include "viewer/analysis/suppress.h"
#include "viewer/analysis/top-lives.h"
#include "viewer/read/view.h"

/* Suppressed allocations count nowhere in it. */
struct leaks_group {
    uint64_t allocations; /* that succeeded, over the whole time */
    uint64_t live_bytes;
    uint64_t live_count;
    int64_t oldest_ns; /* of what is live at the end */
    /* At the ends of steps: what was allocated by then and not freed by then. */
    uint64_t first_bytes;
    uint64_t last_bytes;
    uint32_t ends; /* of the steps, that are counted in so far */
    uint32_t rose; /* steps at whose end it had more than at that of the one before */
    uint32_t fell;
};

struct leaks {
    struct view *view; /* borrows */
    struct steps steps;
    struct suppress suppress;
    struct groups groups;
    struct leaks_group *list; /* owns; by number */
    size_t capacity;
    size_t ends; /* of steps, that have passed */
    struct top_lives lives;
    const struct scan *scan;
    unsigned turn;         /* how many readings it has asked for */
    struct scan_unit unit; /* of this turn */
    uint64_t live_bytes;   /* what is live at the end and not suppressed */
    uint64_t live_count;
    uint64_t suppressed_bytes;
    uint64_t suppressed_count;
    int64_t end_ns; /* the last event */
};

/*
 * Look at what the filters of `view` take, grouped by `by`. `steps` is as in steps_find; `suppressions` the path of a
 * file (NULL: none); the `lives` largest allocations are kept. COMMAND_FINE, or there is nothing to free.
 */
int leaks_make(struct view *view, enum groups_by by, const char *steps, const char *suppressions, uint64_t lives,
               struct leaks *out);

/*
 * The same in turns (see viewer/read/turns.h): begin, and what to read next. It is to be freed also where a turn fails.
 */
int leaks_begin(struct view *view, enum groups_by by, const char *steps, const char *suppressions, uint64_t lives,
                struct leaks *out);
int leaks_next(void *leaks, struct scan_pass *pass);

void leaks_free(struct leaks *leaks);

/* By how much a group grew from the first end of a step to the last; less than 0: it shrank. */
int64_t leaks_growth(const struct leaks_group *group);

/*
 * Whether it did so again and again: in two steps and in an eighth of them at least, and twice as often as it shrank.
 */
bool leaks_grows(const struct leaks *leaks, const struct leaks_group *group);

#endif
