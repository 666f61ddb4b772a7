/*
 * What a process holds of each device, by kind of memory, and what of the device in use that does not explain: for
 * traces of unmodified programs, whose calls of the driver pass through layers `process`.
 */
#ifndef VIEWER_ANALYSIS_ACCOUNT_H
#define VIEWER_ANALYSIS_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/view.h"

/* One base: what it held at the moment of its device. Pools and graphs hold what they have reserved. */
struct account_kind {
    const char *word; /* static: "plain", or the name of the layer that plain memory was redirected to */
    int64_t device;   /* CUDA's ordinal; -1: on none */
    uint64_t bytes;
    bool is_tracked; /* memory of the device, and the process's own: not managed, pinned or imported */
};

struct account_device {
    int64_t device;
    uint64_t tracked_bytes;
    bool has_use; /* the driver has said what is in use: the next ones are valid */
    uint64_t used_bytes, total_bytes;
    int64_t ns;     /* when all of this was; without it, when what is tracked was known last */
    bool has_found; /* as is the last one: what was in use before the first allocation */
    uint64_t found_bytes;
};

struct account {
    bool is_process;            /* the trace is of an unmodified program; else there is nothing here */
    struct account_kind *kinds; /* owns; in the order of the layers */
    size_t kind_count, kind_capacity;
    struct account_device *devices; /* owns; those that were sampled first, then by their first layers */
    size_t device_count, device_capacity;
    int64_t end_ns; /* of the recording, or of the view, if that ends before */
};

/*
 * Read the last figures within the time of the view, of a recording that ends at `end_ns`. COMMAND_FINE, or
 * COMMAND_WRONG after a message: nothing to free.
 */
int account_read(const struct view *view, int64_t end_ns, struct account *out);

/* Nothing, as where the figures are of a part of the allocations. COMMAND_FINE. */
int account_none(struct account *out);

void account_free(struct account *account);

/*
 * What is in use and not tracked; negative: so much more is tracked than in use. And what of it was there before the
 * first allocation.
 */
int64_t account_unaccounted(const struct account_device *device);
uint64_t account_before(const struct account_device *device);

#endif
