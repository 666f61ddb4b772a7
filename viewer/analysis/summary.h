/* The totals of each log layer of a trace, and a verdict: why more bytes were reserved than requested. */
#ifndef VIEWER_ANALYSIS_SUMMARY_H
#define VIEWER_ANALYSIS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/analysis/reserved.h"
#include "viewer/analysis/tallies.h"
#include "viewer/read/view.h"

/* One layer. */
struct summary_layer {
    int64_t layer_id;
    const char *kind; /* borrows from the layers; "": the trace does not define the layer */
    struct tally sums;
    bool asked;                             /* selected by --layer; without --layer, every layer is */
    bool outermost;                         /* no selected log is above it: its requests come from the program */
    bool has_times;                         /* how long its calls took was recorded */
    const struct reserved_figure *reserved; /* below it; NULL: unknown */
};

/* The sum of the outermost selected layers, so that nothing counts twice: of all, or of those of one group. */
struct summary_total {
    const struct reserved_group *group; /* NULL: of all, or of layers that the trace does not define */
    struct tally sums;
    uint64_t rounded_bytes;         /* live bytes, each size rounded up to the alignment */
    uint64_t peak_rounded_bytes;    /* at the peak of the live bytes */
    uint64_t peak_reserved_bytes;   /* likewise, in chunks */
    struct scan_life first_failure; /* valid if sums.failures > 0 */
};

struct summary {
    const struct view *view; /* borrows, as the next two */
    const struct trace *trace;
    const struct trace_layers *layers;
    struct summary_layer *found; /* owns; in the order of `layers` */
    size_t capacity;
    size_t count;
    struct groups numbers;        /* of the layers; indices in `found` */
    struct trace_layer_set inner; /* layers that have a selected log above */
    size_t last;                  /* the layer of the last event */
    struct reserved reserved;
    struct summary_total total;  /* of all; its bytes are of one memory only where there is one part */
    struct summary_total *parts; /* owns; of each group with selected logs, and of undefined layers if there are any */
    size_t part_count;
    size_t sole;        /* while the scan runs: the only part so far, whose sums are those of the total */
    bool told_apart;    /* parts have sums of their own */
    bool has_times;     /* how long calls took was recorded */
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

/* Of a part: the difference between what was reserved at most and what was requested at most, in three parts. */
struct verdict {
    const struct summary *summary; /* borrows, as the next one */
    const struct summary_total *part;
    const struct reserved_figure *reserved; /* borrows; its source is RESERVED_UNKNOWN where nothing is known */
    const struct reserved_figure *base;
    uint64_t limit_bytes;   /* the lowest one; 0: none */
    int64_t rounding_bytes; /* alignment, at the peak of the requested bytes */
    bool has_pools;         /* chunks are recorded */
    int64_t pools_bytes;    /* free in chunks at that peak */
    int64_t base_bytes;     /* the rest: reserved at another time, or by a base of which no chunks are recorded */
};

/* The verdict on a part of `summary`. */
void verdict_make(const struct summary *summary, const struct summary_total *part, struct verdict *out);

#endif
