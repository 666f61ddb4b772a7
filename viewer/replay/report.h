/* The report of a replay: its result and the figures of the stack's layers, as text or JSON. */
#ifndef VIEWER_REPLAY_REPORT_H
#define VIEWER_REPLAY_REPORT_H

#include <tidemark/statistics.h>

#include "viewer/replay/run.h"

struct report_layer {
    struct tide_resource *resource; /* borrows, while the stack lives */
    const char *kind;               /* a constant */
    char text[160];                 /* as in stack text: "limit(4GiB)"; truncated */
    bool has_used;
    bool has_reserved;
    bool has_reserved_peak;
    bool has_statistics;
    bool is_counter;         /* it was put over a base to count its calls (replay_counted_text), and is not shown */
    uint64_t used_bytes;     /* a layer that does not count reports the figure of the layer below */
    uint64_t reserved_bytes; /* after the last event */
    uint64_t reserved_peak_bytes;
    struct tide_statistics_figures statistics;
};

struct replay_report {
    char *stack;                 /* owns; the stack text */
    struct report_layer *layers; /* owns; each layer before all layers below it */
    size_t count;
    size_t capacity;
    bool has_reserved_peak;
    uint64_t reserved_peak_bytes;
    bool has_chunks; /* the calls of the bases were counted: */
    uint64_t chunks; /* allocations that the bases served */
    uint64_t calls;  /* these, and their frees */
};

/* One stack, and what the replay through it gave. The resources are gone. */
struct replay_outcome {
    struct replay replay;
    struct replay_report report;
};

/*
 * The text of a stack with `statistics` over each base, so that the calls that reach the bases are counted. The caller
 * frees it; NULL: no memory.
 */
char *replay_counted_text(const char *text);

/*
 * Ask every layer of `stack`. `counted`: it was made from the counted text of this one; else NULL. COMMAND_FINE, or
 * COMMAND_WRONG after a message. Call replay_report_free in any case.
 */
int replay_report_make(struct tide_resource *stack, const char *counted, struct replay_report *out);

/* Whether there is a log in the stack, which notes tags, marks and threads. */
bool replay_has_log(struct tide_resource *stack);

/*
 * Whether a base of the stack uses a CUDA device, the ordinal of which goes to *ordinal: that of its memory, or 0 where
 * all of its memory is the host's.
 */
bool replay_find_device(struct tide_resource *stack, int *ordinal);

/* The paths of the traces that the logs of the stack record, each once. False: no memory. The caller frees both. */
bool replay_report_traces(const struct replay_report *report, char ***paths, size_t *count);

/*
 * Print on standard output: one stack with its layers, or several side by side. `json`: as an object, or an array of
 * objects. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int replay_report_print(const struct replay_outcome *outcomes, size_t count, bool json);

void replay_report_free(struct replay_report *report);

#endif
