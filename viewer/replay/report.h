/* The report of a replay: its result and the figures of the stack's layers, as text or JSON. */
#ifndef VIEWER_REPLAY_REPORT_H
#define VIEWER_REPLAY_REPORT_H

#include <tidemark/statistics.h>

#include "viewer/replay/run.h"

struct report_layer {
    struct tide_resource *resource; /* borrows */
    char text[160];                 /* as in stack text: "limit(4GiB)"; truncated */
    bool has_used;
    bool has_reserved;
    bool has_reserved_peak;
    bool has_statistics;
    uint64_t used_bytes; /* a layer that does not count reports the figure of the layer below */
    uint64_t reserved_bytes; /* after the last event */
    uint64_t reserved_peak_bytes;
    struct tide_statistics_figures statistics;
};

struct replay_report {
    char *stack;                 /* owns; the stack text */
    struct report_layer *layers; /* owns; each layer before all layers below it */
    size_t count;
    size_t capacity;
};

/* Ask every layer of `stack`. COMMAND_FINE, or COMMAND_WRONG after a message. Call replay_report_free in any case. */
int replay_report_make(struct tide_resource *stack, struct replay_report *out);

/* Print on standard output, as one JSON object if `json` is set. COMMAND_FINE, or COMMAND_WRONG after a message. */
int replay_report_print(const struct replay_report *report, const struct replay *replay, bool json);

void replay_report_free(struct replay_report *report);

#endif
