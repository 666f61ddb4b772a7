/* The live and the reserved bytes over time, in columns of equal length. */
#ifndef VIEWER_ANALYSIS_TIMELINE_H
#define VIEWER_ANALYSIS_TIMELINE_H

#include "viewer/read/samples.h"
#include "viewer/analysis/space.h"
#include "viewer/read/view.h"

/* More columns are not made. */
#define TIMELINE_COLUMNS 100000

struct timeline_column {
    int64_t ns;              /* where it begins: it has the events from there to the next, which begins where it ends */
    uint64_t most_bytes;     /* live at any moment in it, with the one at which it begins */
    uint64_t least_bytes;    /* the same */
    uint64_t end_bytes;      /* live as it ends */
    uint64_t reserved_bytes; /* the most; where the timeline has it */
    uint64_t allocations;
    uint64_t frees;
    uint64_t failures;
    uint64_t marks; /* of the program */
};

enum timeline_reserved {
    TIMELINE_UNKNOWN,
    TIMELINE_LAYERS,  /* what the log below has live */
    TIMELINE_SAMPLES, /* of pools */
};

struct timeline {
    struct view *view;               /* borrows */
    struct timeline_column *columns; /* owns */
    size_t count;
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t peak_bytes;
    int64_t peak_ns;
    enum timeline_reserved reserved;
    uint64_t reserved_peak_bytes;
    uint64_t limit_bytes; /* the lowest of the limits that stand below; 0: none */
    struct space_layers layers;
    size_t at; /* the column of the event */
    uint64_t live_bytes;
    uint64_t held_bytes; /* live in the log below */
};

/*
 * Make `count` columns (no more than there are nanoseconds) of what the filters of `view` take. COMMAND_FINE, or there
 * is nothing to free.
 */
int timeline_make(struct view *view, size_t count, struct timeline *out);

void timeline_free(struct timeline *timeline);

#endif
