/* What the layers of a trace count themselves, for the table layer_count. */
#ifndef TIDEI_TRACE_EVENTS_COUNTS_H
#define TIDEI_TRACE_EVENTS_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/resource/resource.h"

/* A row of the table. */
struct tidei_layer_count {
    uint32_t layer_id;
    const char *name; /* constant */
    uint64_t value;
};

struct tidei_counts;

/* NULL without host memory. */
struct tidei_counts *tidei_counts_new(void);
void tidei_counts_free(struct tidei_counts *counts);

/* Whether the layer counts anything. */
bool tidei_counts_has(const struct tide_resource *resource);

/* Read the counts of `resource` (borrowed) until it is unwatched; the unwatch reads them once more. Any thread. */
void tidei_counts_watch(struct tidei_counts *counts, struct tide_resource *resource, uint32_t layer_id);
void tidei_counts_unwatch(struct tidei_counts *counts, const struct tide_resource *resource);

/*
 * Keep the counts of what is unwatched: a resource that is watched with the same layer_id goes on from there. Any
 * thread.
 */
void tidei_counts_keep(struct tidei_counts *counts);

/*
 * The counts that are not written as they are now (borrowed until the next call); NULL where there are none. Once their
 * transaction has succeeded, tidei_counts_written notes them as written. Writer thread only.
 */
const struct tidei_layer_count *tidei_counts_take(struct tidei_counts *counts, size_t *count);
void tidei_counts_written(struct tidei_counts *counts);

/* Whether a layer that is watched no more has counts to write. Counts of others wait for the next transaction. */
bool tidei_counts_wait(struct tidei_counts *counts);

#endif
