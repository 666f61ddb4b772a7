/* What every log layer of a trace comes to: counts, bytes, the peak and what is left. */
#ifndef VIEWER_ANALYSIS_SUMMARY_H
#define VIEWER_ANALYSIS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"
#include "viewer/read/scan.h"
#include "viewer/read/view.h"

/* One layer. Bytes are as requested. */
struct summary_layer {
    int64_t layer_id;
    const char *kind;     /* borrows from the layers; "" where the trace does not know the layer */
    uint64_t allocations; /* that succeeded */
    uint64_t frees;
    uint64_t failures;
    uint64_t total_bytes;
    uint64_t peak_bytes;
    int64_t peak_ns; /* when the peak was first reached */
    uint64_t peak_count;
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t time_ns; /* in its calls */
    bool asked;       /* by --layer, or nothing was */
    bool outermost;   /* no log that was asked is above: what the program asked for */
    bool lowest;      /* below one that was asked, and no log is below: what the base was asked for */
    bool has_samples; /* the base below has pool samples: */
    uint64_t reserved_bytes;
    uint64_t reserved_peak_bytes;
};

/* The outermost layers of those that were asked, together: nothing is counted twice. */
struct summary_total {
    uint64_t bytes; /* of all allocations */
    uint64_t allocations;
    uint64_t failures;
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t rounded_bytes; /* live, rounded up to the alignment */
    uint64_t held_bytes;    /* live in the lowest layers */
    uint64_t held_peak_bytes;
    uint64_t time_ns;
    uint64_t peak_bytes;
    int64_t peak_ns; /* when the peak was first reached */
    uint64_t peak_count;
    uint64_t peak_rounded_bytes; /* then */
    uint64_t peak_held_bytes;
    unsigned __int128 byte_ns;      /* the live bytes over the time */
    struct scan_life first_failure; /* where there are failures */
};

struct summary {
    const struct view *view; /* borrows, as the next two */
    const struct trace *trace;
    const struct trace_layers *layers;
    struct summary_layer *found; /* owns; in the order of `layers` */
    size_t capacity;
    size_t count;
    struct id_map numbers; /* owns; of layer_id: the place in `found` */
    size_t last;           /* the layer of the last event */
    bool has_lowest;       /* some layer is, and what it holds is for what is looked at */
    struct summary_total total;
    int64_t end_ns;     /* of the whole trace */
    int64_t span_ns;    /* of the time that is looked at; never less than 0 */
    bool has_driver;    /* calls of the driver are recorded: */
    uint64_t driver_ns; /* in them, for what is looked at */
    uint64_t driver_calls;
    int64_t unmatched_frees;
    int64_t misuses; /* calls that track layers refused; 0 where the trace cannot say */
};

/*
 * Sum up the trace of `view` (borrowed until summary_free): of all log layers, and whatever else has allocations, what
 * the filters take. --layer says which of them are `asked` and what the total is of. Frees that fit nothing and misuses
 * are of the whole trace. COMMAND_FINE, or another exit status after a message and there is nothing to free.
 */
int summary_make(struct view *view, struct summary *out);

/* Whether any filter was given, of which the answer has to say `of` what it is. */
bool summary_is_part(const struct view *view);

void summary_free(struct summary *summary);

#endif
