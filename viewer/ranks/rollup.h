/*
 * The figures of one rank that go into the file of a job, of each memory that it has: what was live and reserved over
 * time, its peaks, its steps, and what groups of allocations had at them. All in one reading of the trace, in memory
 * that does not grow with it.
 *
 * A step begins at a mark and lasts until the next one; what is before the first mark is the step -1. The peak of the
 * whole time is that of some step, so groups are looked at where a step had its peak, and at its end. A figure is kept
 * where it differs from that of the step before.
 */
#ifndef VIEWER_RANKS_ROLLUP_H
#define VIEWER_RANKS_ROLLUP_H

#include "viewer/analysis/counterfactual.h"
#include "viewer/analysis/groups.h"
#include "viewer/analysis/reserved.h"
#include "viewer/analysis/steps.h"
#include "viewer/ranks/curve.h"
#include "viewer/read/view.h"

/* Tags, classes of sizes, and functions of call stacks, where the trace has them. */
#define ROLLUP_BY 3

/* The most groups of each kind at a peak, steps, and changes of groups from step to step. */
#define ROLLUP_GROUPS  4096
#define ROLLUP_STEPS   4096
#define ROLLUP_CHANGES 16384

/* Further memory of a rank is left out. */
#define ROLLUP_MEMORIES 16

#define ROLLUP_BEFORE (-1)

struct rollup_group {
    struct amount at_peak; /* of the whole time */
    uint64_t peak_bytes;   /* at that of the last step for which it has a change, and at its end */
    uint64_t end_bytes;    /* likewise */
    uint64_t most_bytes;   /* of both, in all steps */
    uint32_t touched;      /* one more than the last step in which it may have changed */
    bool is_dropped;       /* it has no changes: others have more bytes */
};

struct rollup_change {
    uint32_t step; /* its place */
    uint32_t group;
    uint64_t peak_bytes;
    uint64_t end_bytes;
};

/* One grouping of a memory. */
struct rollup_groups {
    struct groups groups;
    struct counterfactual rest;
    struct rollup_group *list; /* owns; by group number */
    size_t capacity;
    uint32_t *touched; /* owns; groups that may have changed in this step */
    size_t touched_count, touched_capacity;
    struct rollup_change *changes; /* owns */
    size_t change_count, change_capacity;
    size_t kept; /* so many groups may have changes */
};

struct rollup_step {
    int64_t number;
    int64_t begin_ns, end_ns;
    uint64_t peak_bytes, end_bytes;
    int64_t peak_ns;
    uint64_t reserved_bytes; /* the most */
    uint64_t allocations, allocated_bytes;
    bool is_whole; /* it ended with a mark */
};

struct rollup_memory {
    const struct reserved_group *group; /* borrows */
    char name[96];                      /* the same on all ranks: without the number of their only device */
    struct curve curve;
    struct rollup_groups by[ROLLUP_BY];
    struct rollup_step *steps; /* owns */
    size_t step_count, step_capacity;
    struct rollup_step now;
    uint64_t peak_bytes, peak_count;
    int64_t peak_ns;
    size_t peak_step;
    uint64_t live_count, now_count; /* allocations: live, and at the peak of this step */
    uint64_t allocations, frees, failures, allocated_bytes;
};

struct rollup {
    struct view *view; /* borrows */
    struct reserved reserved;
    struct steps steps;
    int64_t *numbers; /* owns; of the steps after each boundary */
    size_t by_count;
    enum groups_by by[ROLLUP_BY];
    struct rollup_memory *memories; /* owns */
    size_t memory_count;
    size_t memories_left; /* left out */
    uint64_t start_unix_ns;
    size_t next_step; /* the next boundary */
    int64_t next_step_ns;
    unsigned plans;
    int64_t first_ns, last_ns;
    bool begun;
};

/*
 * Read the trace of `view` (borrowed). `pattern` is that of the marks of steps; NULL: the text that most have.
 * COMMAND_FINE, or another status and there is nothing to free.
 */
int rollup_make(struct view *view, const char *pattern, struct rollup *out);

void rollup_free(struct rollup *rollup);

/* The memory whose blocks the layer records; NULL: chunks, or a memory that is left out. */
struct rollup_memory *rollup_memory_of(struct rollup *rollup, int64_t layer_id);

/* "tag", "class", "function" */
const char *rollup_word(enum groups_by by);

/* The place of the first whole step and behind the last one; both 0: there are none. */
void rollup_whole_steps(const struct rollup_memory *memory, size_t *first, size_t *end);

#endif
