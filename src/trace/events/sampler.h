/* Queries the used and reserved bytes of resources every millisecond, for the table pool_sample. */
#ifndef TIDEI_TRACE_EVENTS_SAMPLER_H
#define TIDEI_TRACE_EVENTS_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/* The bytes of one pool at one time. */
struct tidei_pool_sample {
    uint64_t ns; /* CLOCK_MONOTONIC */
    uint32_t layer_id;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
};

struct tidei_sampler;

/* NULL without host memory. */
struct tidei_sampler *tidei_sampler_new(void);
void tidei_sampler_free(struct tidei_sampler *sampler);

/* Query `resource` (borrowed) until it is unwatched; the unwatch queries it once more. Any thread. */
void tidei_sampler_watch(struct tidei_sampler *sampler, struct tide_resource *resource, uint32_t layer_id);
void tidei_sampler_unwatch(struct tidei_sampler *sampler, struct tide_resource *resource);

/* Query all resources if the period has passed, or with `at_once`; keep the figures that have changed. */
void tidei_sampler_sample(struct tidei_sampler *sampler, uint64_t now_ns, bool at_once);

/* Whether there are samples to write. */
bool tidei_sampler_has(struct tidei_sampler *sampler);

/* The samples to write (borrowed). Returns the same ones until tidei_sampler_written. Writer thread only. */
const struct tidei_pool_sample *tidei_sampler_take(struct tidei_sampler *sampler, size_t *count);
void tidei_sampler_written(struct tidei_sampler *sampler);

#endif
