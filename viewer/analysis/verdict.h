/* Compares the peaks of reserved and requested bytes, and breaks the difference down. */
#ifndef VIEWER_ANALYSIS_VERDICT_H
#define VIEWER_ANALYSIS_VERDICT_H

#include "viewer/read/samples.h"
#include "viewer/analysis/summary.h"
#include "viewer/read/view.h"

enum verdict_source {
    VERDICT_NONE,
    VERDICT_LAYERS,  /* the live bytes of the lowest logs */
    VERDICT_SAMPLES, /* pool samples */
};

/* The difference between the peak of the reserved bytes and the peak of the requested bytes, in three parts. */
struct verdict {
    const struct summary *summary; /* borrows */
    enum verdict_source source;    /* of the reserved bytes */
    uint64_t reserved_peak_bytes;
    uint64_t limit_bytes;   /* the lowest one; 0: none */
    int64_t rounding_bytes; /* alignment, at the peak of the requested bytes */
    int64_t pools_bytes;    /* free in layers between the outermost and the lowest logs, at that peak */
    int64_t base_bytes;     /* the rest: reserved below the lowest logs, or reserved at another time */
};

/* COMMAND_FINE, or another status. There is never anything to free. */
int verdict_make(const struct view *view, const struct summary *summary, struct verdict *out);

#endif
