/* The pool samples of a trace: each as it was taken, and their sums over the bases below the layers of a view. */
#ifndef VIEWER_READ_SAMPLES_H
#define VIEWER_READ_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/view.h"

struct sample {
    int64_t ns;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
};

/* A row of `pool_sample`, of a base or a pool. */
struct sample_row {
    int64_t ns;
    size_t layer; /* its index in the view's layers */
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t high_bytes; /* the most reserved so far; valid if has_high */
    bool has_high;
};

struct samples {
    struct sample_row *rows; /* owns; of all layers and times, in the order of time */
    size_t row_count;
    size_t row_capacity;
    struct sample *list; /* owns; in the order of time */
    size_t count;
    size_t capacity;
    uint64_t used_peak_bytes;
    uint64_t reserved_peak_bytes;
    uint64_t reserved_high_bytes; /* the same, and between the samples where they tell */
};

/*
 * Read the samples of the bases below the selected layers, within the time range of `view`. COMMAND_FINE, or another
 * status and there is nothing to free.
 */
int samples_read(const struct view *view, struct samples *out);

void samples_free(struct samples *samples);

/* The last sample at or before `ns`; NULL: there is none. */
const struct sample *samples_at(const struct samples *samples, int64_t ns);

#endif
