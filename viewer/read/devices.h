/* The GPUs that a trace says its program had. */
#ifndef VIEWER_READ_DEVICES_H
#define VIEWER_READ_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace-open.h"

struct trace_device {
    int64_t ordinal;
    char *name;           /* owns */
    uint64_t total_bytes; /* 0: not known */
};

struct trace_devices {
    struct trace_device *list; /* owns */
    size_t count;
    size_t capacity;
};

/*
 * Read meta.devices. Returns whether it is a list that has anything; what of it is no device, or not readable, is left
 * out. To be freed in both cases.
 */
bool trace_devices_read(const struct trace *trace, struct trace_devices *out);

void trace_devices_free(struct trace_devices *devices);

/* Whether a layer of the trace says that it is of this device. */
bool trace_devices_is_used(const struct trace *trace, int64_t ordinal);

#endif
