/* The live and reserved bytes over time, in columns of equal duration. */
#ifndef VIEWER_ANALYSIS_TIMELINE_H
#define VIEWER_ANALYSIS_TIMELINE_H

#include "viewer/read/samples.h"
#include "viewer/analysis/space.h"
#include "viewer/read/view.h"

/* The most columns. */
#define TIMELINE_COLUMNS 100000

struct timeline_column {
    int64_t ns;              /* its begin (inclusive); it ends where the next column begins (exclusive) */
    uint64_t most_bytes;     /* the most live bytes in it, including those at its begin */
    uint64_t least_bytes;    /* the fewest, likewise */
    uint64_t end_bytes;      /* live at its end */
    uint64_t reserved_bytes; /* the most, unless the timeline's `reserved` is TIMELINE_UNKNOWN */
    uint64_t allocations;
    uint64_t frees;
    uint64_t failures;
    uint64_t marks; /* that the program set */
};

enum timeline_reserved {
    TIMELINE_UNKNOWN,
    TIMELINE_LAYERS,  /* from the live bytes of the log below */
    TIMELINE_SAMPLES, /* from pool samples */
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
    uint64_t limit_bytes; /* the lowest of the limits below; 0: none */
    struct space_layers layers;
    size_t at; /* the column of the current event */
    uint64_t live_bytes;
    uint64_t held_bytes; /* live in the log below */
};

/*
 * Make `count` columns (at most one for each nanosecond) of the allocations that `view` selects. COMMAND_FINE, or
 * another status and there is nothing to free.
 */
int timeline_make(struct view *view, size_t count, struct timeline *out);

void timeline_free(struct timeline *timeline);

#endif
