/* How sizes and lifetimes are spread. */
#ifndef VIEWER_ANALYSIS_HISTOGRAM_H
#define VIEWER_ANALYSIS_HISTOGRAM_H

#include "viewer/analysis/tallies.h"

/* Those of groups_class. */
#define HISTOGRAM_CLASSES 65

/* Of lifetimes: 0 ns, then by powers of ten from 1 ns on. */
#define HISTOGRAM_TIMES 20

/* Of what happened meanwhile: by powers of two, as sizes are. */
#define HISTOGRAM_EVENTS HISTOGRAM_CLASSES

/* Lives that ended: how many, what they took. */
struct histogram_bin {
    uint64_t count;
    uint64_t bytes;
    unsigned __int128 byte_ns;
};

struct histogram {
    struct tallies exact; /* by size */
    struct tally classes[HISTOGRAM_CLASSES];
    struct histogram_bin times[HISTOGRAM_TIMES];
    struct histogram_bin events[HISTOGRAM_EVENTS];
    struct histogram_bin live; /* at the end */
    const struct scan *scan;
};

/* Take in what the filters of `view` take. COMMAND_FINE, or there is nothing to free. */
int histogram_make(struct view *view, struct histogram *out);

void histogram_free(struct histogram *histogram);

/* The bin of a lifetime, and where it begins: 0, 1, 10, 100 ... */
unsigned histogram_time_bin(uint64_t ns);
uint64_t histogram_time_begin(unsigned bin);

#endif
