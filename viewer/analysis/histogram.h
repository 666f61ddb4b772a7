/* The distributions of sizes and lifetimes. */
#ifndef VIEWER_ANALYSIS_HISTOGRAM_H
#define VIEWER_ANALYSIS_HISTOGRAM_H

#include "viewer/analysis/tallies.h"

/* The classes of groups_class. */
#define HISTOGRAM_CLASSES 65

/* Bins of lifetimes: 0 ns, then powers of ten from 1 ns on. */
#define HISTOGRAM_TIMES 20

/* Bins of lifetimes in events: powers of two, as for sizes. */
#define HISTOGRAM_EVENTS HISTOGRAM_CLASSES

/* A bin of allocations. */
struct histogram_bin {
    uint64_t count;
    uint64_t bytes;
    unsigned __int128 byte_ns;
};

struct histogram {
    const struct scan *scan; /* while one runs */
    struct tallies exact;    /* by size; without peaks */
    struct tally classes[HISTOGRAM_CLASSES];
    struct histogram_bin times[HISTOGRAM_TIMES];
    struct histogram_bin events[HISTOGRAM_EVENTS];
    struct histogram_bin live; /* the allocations live at the end */
};

/* Take in the allocations that `view` selects. COMMAND_FINE, or another status and there is nothing to free. */
int histogram_make(struct view *view, struct histogram *out);

void histogram_free(struct histogram *histogram);

/* The bin of a lifetime, and the shortest lifetime of a bin: 0, 1, 10, 100 ... */
unsigned histogram_time_bin(uint64_t ns);
uint64_t histogram_time_begin(unsigned bin);

#endif
