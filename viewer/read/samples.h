/* The pool samples of the bases below the layers of a view, summed over several bases. */
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

struct samples {
    struct sample *list; /* owns; in the order of time */
    size_t count;
    size_t capacity;
    uint64_t used_peak_bytes;
    uint64_t reserved_peak_bytes;
    uint64_t reserved_high_bytes; /* the same, and between the samples where they tell */
};

/*
 * The SQL expression of the most that a row's layer had reserved up to the row, also between samples: 0 where the trace
 * does not tell, or where the time is not looked at from its start.
 */
const char *samples_high(const struct trace *trace, const struct filter *filter);

/*
 * Read the samples of the bases below the selected layers, within the time range of `view`. COMMAND_FINE, or another
 * status and there is nothing to free.
 */
int samples_read(const struct view *view, struct samples *out);

void samples_free(struct samples *samples);

/* The last sample at or before `ns`; NULL: there is none. */
const struct sample *samples_at(const struct samples *samples, int64_t ns);

#endif
