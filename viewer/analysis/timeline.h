/* The live and reserved bytes over time, in columns of equal duration. */
#ifndef VIEWER_ANALYSIS_TIMELINE_H
#define VIEWER_ANALYSIS_TIMELINE_H

#include "viewer/analysis/reserved.h"
#include "viewer/read/view.h"

/* The most columns. */
#define TIMELINE_COLUMNS 100000

struct timeline_column {
    int64_t ns;              /* its begin (inclusive); it ends where the next column begins (exclusive) */
    uint64_t most_bytes;     /* the most live bytes in it, including those at its begin */
    uint64_t least_bytes;    /* the fewest, likewise */
    uint64_t end_bytes;      /* live at its end */
    uint64_t reserved_bytes; /* the most, where the part's source is known; by samples, the most that one says */
    uint64_t rows_bytes;     /* the most of the chunks alone */
    uint64_t allocations;
    uint64_t frees;
    uint64_t failures;
    uint64_t marks; /* that the program set */
};

/* The columns of one group: of one kind of memory of one stack. */
struct timeline_part {
    const struct reserved_group *group; /* borrows from the timeline */
    struct timeline_column *columns;    /* owns */
    uint64_t limit_bytes;               /* the lowest of the limits below; 0: none */
};

struct timeline {
    struct view *view; /* borrows */
    struct reserved reserved;
    struct timeline_part *parts; /* owns; of the groups that have figures */
    size_t part_count;
    size_t count; /* of the columns of each part */
    int64_t begin_ns;
    int64_t end_ns;
    size_t at;       /* the column of the current event */
    int64_t next_ns; /* where the next column begins; INT64_MAX: it is the last */
    unsigned plans;  /* of `reserved`, as of the event before */
};

/*
 * Make `count` columns (at most one for each nanosecond) of the allocations that `view` selects. `last_ns`: of the last
 * event of the trace; TIMELINE_ASK: it is asked for, which reads all rows. COMMAND_FINE, or another status and there is
 * nothing to free.
 */
#define TIMELINE_ASK INT64_MIN
int timeline_make(struct view *view, size_t count, int64_t last_ns, struct timeline *out);

void timeline_free(struct timeline *timeline);

#endif
