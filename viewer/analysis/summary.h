/* The totals of each log layer of a trace, and a verdict: why more bytes were reserved than requested. */
#ifndef VIEWER_ANALYSIS_SUMMARY_H
#define VIEWER_ANALYSIS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/analysis/tallies.h"
#include "viewer/read/view.h"

/* One layer. */
struct summary_layer {
    int64_t layer_id;
    const char *kind; /* borrows from the layers; "": the trace does not define the layer */
    struct tally sums;
    bool asked;       /* selected by --layer; without --layer, every layer is */
    bool outermost;   /* no selected log is above it: its requests come from the program */
    bool lowest;      /* it is below a selected log and no log is below it: its requests go to the base */
    bool has_samples; /* the base below has pool samples, which give the next two fields */
    uint64_t reserved_bytes;
    uint64_t reserved_peak_bytes;
};

/* The sum of the outermost selected layers, so that nothing counts twice. */
struct summary_total {
    struct tally sums;
    uint64_t rounded_bytes; /* live bytes, each size rounded up to the alignment */
    uint64_t held_bytes;    /* live in the lowest layers */
    uint64_t held_peak_bytes;
    uint64_t peak_rounded_bytes; /* at the peak of the live bytes */
    uint64_t peak_held_bytes;
    struct scan_life first_failure; /* valid if sums.failures > 0 */
};

struct summary {
    const struct view *view; /* borrows, as the next two */
    const struct trace *trace;
    const struct trace_layers *layers;
    struct summary_layer *found; /* owns; in the order of `layers` */
    size_t capacity;
    size_t count;
    struct groups numbers; /* of the layers; indices in `found` */
    size_t last;           /* the layer of the last event */
    bool has_lowest;       /* there is a lowest layer, and all it holds belongs to the selected allocations */
    struct summary_total total;
    int64_t end_ns;     /* of the whole trace */
    int64_t span_ns;    /* of the selected time range; never negative */
    bool has_driver;    /* driver calls are recorded, which give the next two fields */
    uint64_t driver_ns; /* in driver calls for the selected allocations */
    uint64_t driver_calls;
    int64_t unmatched_frees;
    int64_t misuses; /* calls that track layers refused; 0 if the trace does not record them */
};

/*
 * Sum up the trace of `view` (borrowed until summary_free). Every log layer, and every other layer with allocations, is
 * summed over the allocations that pass the filters; --layer only selects which layers are `asked` and form the total.
 * Unmatched frees and misuses count over the whole trace. COMMAND_FINE, or another exit status after a message and
 * there is nothing to free.
 */
int summary_make(struct view *view, struct summary *out);

/* Whether any filter is set, so that the report must say what it covers (the field "of"). */
bool summary_is_part(const struct view *view);

void summary_free(struct summary *summary);

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
