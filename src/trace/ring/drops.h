/* The allocations that overflow=drop has dropped and whose frees may still come. */
#ifndef TIDEI_TRACE_RING_DROPS_H
#define TIDEI_TRACE_RING_DROPS_H

#include <stdbool.h>
#include <stdint.h>

struct tidei_drops;

/* NULL without host memory. */
struct tidei_drops *tidei_drops_new(void);
void tidei_drops_free(struct tidei_drops *drops);

/* Note a dropped allocation. Takes a lock. */
void tidei_drops_add(struct tidei_drops *drops, uint16_t layer, uint64_t address);

/* Whether the allocation at `address` was dropped; if so, forget it. Costs one load while no drop is noted. */
bool tidei_drops_take(struct tidei_drops *drops, uint16_t layer, uint64_t address);

#endif
