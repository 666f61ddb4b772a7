/* The allocations live at the end, grouped, and each group's growth from step to step. */
#ifndef VIEWER_ANALYSIS_LEAKS_H
#define VIEWER_ANALYSIS_LEAKS_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/steps.h"
#include "viewer/analysis/suppress.h"
#include "viewer/analysis/top-lives.h"
#include "viewer/read/view.h"

/* A group. Suppressed allocations do not count. */
struct leaks_group {
    uint64_t allocations; /* that succeeded, over the whole time */
    uint64_t live_bytes;
    uint64_t live_count;
    int64_t oldest_ns; /* of the allocations live at the end */
    /* The bytes live at the ends of the first and the last step. */
    uint64_t first_bytes;
    uint64_t last_bytes;
    uint32_t ends;        /* the number of step ends counted so far */
    uint32_t rose;        /* the number of steps that ended with more live bytes than the step before */
    uint32_t fell;        /* ... with fewer */
    uint32_t thirds_rose; /* a bit for each third of the steps in which it rose */
};

struct leaks {
    const struct scan *scan; /* while one runs */
    struct view *view;       /* borrows */
    struct steps steps;
    struct suppress suppress;
    struct groups groups;
    struct leaks_group *list; /* owns; by group number */
    size_t capacity;
    size_t ends; /* the number of step ends that have passed */
    struct top_lives lives;
    unsigned turn;         /* the number of readings asked for so far */
    struct scan_unit unit; /* of this turn */
    uint64_t live_bytes;   /* live at the end and not suppressed */
    uint64_t live_count;
    uint64_t suppressed_bytes;
    uint64_t suppressed_count;
    int64_t end_ns; /* the last event */
};

/*
 * Examine the allocations that `view` selects, grouped by `by`. `steps` is as in steps_find. `suppressions` is the path
 * of a file (NULL: none). The `lives` largest allocations are kept. COMMAND_FINE, or another status and there is
 * nothing to free.
 */
int leaks_make(struct view *view, enum groups_by by, const char *steps, const char *suppressions, uint64_t lives,
               struct leaks *out);

/* The same as one of several analyses (viewer/read/view.h). Call leaks_free also if a turn fails. */
int leaks_begin(struct view *view, enum groups_by by, const char *steps, const char *suppressions, uint64_t lives,
                struct leaks *out);
int leaks_next(void *leaks, struct scan_pass *pass);

void leaks_free(void *leaks);

/* The growth of a group in bytes from the first step end to the last; negative: it shrank. */
int64_t leaks_growth(const struct leaks_group *group);

/*
 * Whether a group grew repeatedly: twice as often as it shrank, and either in at least two steps and 1/8 of all steps,
 * or in at least three steps and in each third of the steps. So a rise in every tenth step is found, and one that the
 * program's first steps end is not.
 */
bool leaks_grows(const struct leaks *leaks, const struct leaks_group *group);

#endif
