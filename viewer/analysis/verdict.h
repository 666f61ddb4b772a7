/* What was reserved for what was requested, and where the difference went. */
#ifndef VIEWER_ANALYSIS_VERDICT_H
#define VIEWER_ANALYSIS_VERDICT_H

#include "viewer/read/samples.h"
#include "viewer/analysis/summary.h"
#include "viewer/read/view.h"

enum verdict_source {
    VERDICT_NONE,
    VERDICT_LAYERS,  /* what the lowest logs had live */
    VERDICT_SAMPLES, /* of pools */
};

/* From the most that was requested to the most that was reserved: where the difference went. */
struct verdict {
    const struct summary *summary; /* borrows */
    enum verdict_source source;    /* of what was reserved */
    uint64_t reserved_peak_bytes;
    uint64_t limit_bytes;   /* the lowest one; 0: none */
    int64_t rounding_bytes; /* at the peak of what was requested */
    int64_t pools_bytes;    /* free in what stands between the outermost logs and the lowest, then */
    int64_t base_bytes;     /* the rest: reserved below, then or at another time */
};

/* COMMAND_FINE, or there is nothing to free; there never is. */
int verdict_make(const struct view *view, const struct summary *summary, struct verdict *out);

#endif
