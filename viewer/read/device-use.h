/* What the devices of a trace had in use, by `device_sample`, and how much of it the bases of the trace held. */
#ifndef VIEWER_READ_DEVICE_USE_H
#define VIEWER_READ_DEVICE_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/samples.h"
#include "viewer/read/view.h"

/* A row of `device_sample`. */
struct device_use_row {
    int64_t ns;
    int64_t device; /* CUDA's ordinal */
    uint64_t used_bytes;
};

/* The figures of one device, within the time range of the view. */
struct device_use {
    int64_t device;
    uint64_t total_bytes;
    uint64_t used_bytes; /* by the last sample */
    uint64_t peak_bytes; /* the most in use */
    int64_t peak_ns;
    uint64_t peak_held_bytes; /* of that: what all bases of the trace held on the device then */
    uint64_t beside_bytes;    /* the most that was in use at a sample and not held by a base */
};

struct device_uses {
    struct device_use_row *rows; /* owns; in the order of time, of all times */
    size_t row_count;
    size_t row_capacity;
    struct device_use *list; /* owns; in the order of the first samples */
    size_t count;
    size_t capacity;
};

/*
 * Read the samples of all devices. `samples` (borrowed for the call) says what the bases held. A trace without such
 * samples has no devices here. COMMAND_FINE, or another status and there is nothing to free.
 */
int device_use_read(const struct view *view, const struct samples *samples, struct device_uses *out);

void device_use_free(struct device_uses *uses);

/* The last sample of a device at or before `ns`; NULL: there is none. */
const struct device_use_row *device_use_at(const struct device_uses *uses, int64_t device, int64_t ns);

/* What was in use and not held by a base, at the peak. */
uint64_t device_use_beside_peak(const struct device_use *use);

#endif
