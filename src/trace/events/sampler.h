/* Asks resources every millisecond for their used and reserved bytes, for the table pool_sample. */
#ifndef TIDEI_TRACE_EVENTS_SAMPLER_H
#define TIDEI_TRACE_EVENTS_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/resource.h>

/* What a pool held at a moment. */
struct tidei_pool_sample {
    uint64_t ns; /* CLOCK_MONOTONIC */
    uint32_t layer_id;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
};

struct tidei_sampler;

/* NULL where host memory is short. */
struct tidei_sampler *tidei_sampler_new(void);
void tidei_sampler_free(struct tidei_sampler *sampler);

/* Ask `resource` (borrowed) from now on, until it is unwatched, which asks it once more. Any thread. */
void tidei_sampler_watch(struct tidei_sampler *sampler, struct tide_resource *resource, uint32_t layer_id);
void tidei_sampler_unwatch(struct tidei_sampler *sampler, struct tide_resource *resource);

/* Ask all resources where the period has passed, or `at_once`; keep the figures that have changed. */
void tidei_sampler_sample(struct tidei_sampler *sampler, uint64_t now_ns, bool at_once);

/* Whether samples wait for a transaction. */
bool tidei_sampler_has(struct tidei_sampler *sampler);

/* The samples for a transaction (borrowed): the same again, until tidei_sampler_written. The writer's thread alone. */
const struct tidei_pool_sample *tidei_sampler_take(struct tidei_sampler *sampler, size_t *count);
void tidei_sampler_written(struct tidei_sampler *sampler);

#endif
