/* What overflow=drop has dropped and may still see freed. */
#ifndef TIDEI_TRACE_RING_DROPS_H
#define TIDEI_TRACE_RING_DROPS_H

#include <stdbool.h>
#include <stdint.h>

struct tidei_drops;

/* NULL where host memory is short. */
struct tidei_drops *tidei_drops_new(void);
void tidei_drops_free(struct tidei_drops *drops);

/* An allocation was dropped. Takes a lock. */
void tidei_drops_add(struct tidei_drops *drops, uint16_t layer, uint64_t address);

/* Whether the allocation at that address was dropped; it is forgotten then. One load while nothing was dropped. */
bool tidei_drops_take(struct tidei_drops *drops, uint16_t layer, uint64_t address);

#endif
