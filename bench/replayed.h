/* Calls of recorded traffic, made one after the other by one thread. */
#ifndef BENCH_REPLAYED_H
#define BENCH_REPLAYED_H

#include <stdint.h>

#include <tidemark/resource.h>

#include "viewer/replay/input.h"

/*
 * Make one call of the traffic; `pointers` has a place for each of its allocations. Returns the bytes that it adds to
 * what is live.
 */
uint64_t replayed_call(struct tide_resource *stack, const struct replay_input *input, const struct replay_event *event,
                       void **pointers);

/* The allocations that a layer `statistics` has seen: above a base, the chunks that it was asked for. */
uint64_t replayed_asked(struct tide_resource *statistics);

#endif
