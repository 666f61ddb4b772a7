/*
 * Empties chunks that a heap does not need, where a chunk goes back to upstream only as a whole.
 *
 * The best fit for a request may lie in any chunk, so a heap that needs a tenth of its chunks soon has something in
 * each of them. The chunks of which the least is in use are made to leave: their free pieces serve only what fits
 * nowhere else, so that they become free as their blocks are freed. Blocks that live for long hold them. No locks.
 */
#ifndef TIDEI_SUBALLOC_LEAVING_H
#define TIDEI_SUBALLOC_LEAVING_H

#include "src/suballoc/heap.h"

/*
 * Choose chunks of up to `bytes` that leave, beside those that are free already; all others stay. Returns how many
 * pieces were looked at, which it takes time for. Not for chunks that are joined.
 */
uint64_t tidei_leaving_choose(struct tidei_heap *heap, uint64_t bytes);

#endif
