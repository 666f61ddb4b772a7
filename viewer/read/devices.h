/* The GPUs that a trace lists in meta.devices. */
#ifndef VIEWER_READ_DEVICES_H
#define VIEWER_READ_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace.h"

struct trace_device {
    int64_t ordinal;
    char *name;           /* owns */
    uint64_t total_bytes; /* 0: unknown */
};

struct trace_devices {
    struct trace_device *list; /* owns */
    size_t count;
    size_t capacity;
};

/*
 * Read meta.devices. Returns whether it is a list that is not empty. Elements that are not readable as devices are
 * left out. Call trace_devices_free in both cases.
 */
bool trace_devices_read(const struct trace *trace, struct trace_devices *out);

void trace_devices_free(struct trace_devices *devices);

/* Whether a layer of the trace names this device. */
bool trace_devices_is_used(const struct trace *trace, int64_t ordinal);

#endif
