/* The pool samples of a trace, each as it was taken. */
#ifndef VIEWER_READ_SAMPLES_H
#define VIEWER_READ_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/layer-graph.h"
#include "viewer/read/trace.h"

/* A row of `pool_sample`, of a base or a pool. */
struct sample_row {
    int64_t ns;
    size_t layer; /* its index in the trace's layers */
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t high_bytes; /* the most reserved so far; valid if has_high */
    bool has_high;
};

struct samples {
    struct sample_row *rows; /* owns; of all layers and times, in the order of time */
    size_t row_count;
    size_t row_capacity;
};

/* Read all samples. COMMAND_FINE, or another status after a message and there is nothing to free. */
int samples_read(const struct trace *trace, const struct trace_layers *layers, struct samples *out);

void samples_free(struct samples *samples);

#endif
