/* Offline placement of few blocks by a beam search, which does well where they fill all of the memory. */
#ifndef BENCH_PLAN_BEAM_H
#define BENCH_PLAN_BEAM_H

#include "plan-place.h"

/* More blocks are not placed so: a search would take minutes. */
#define BEAM_MOST 1200

/* How the placements of a search are compared; see plan-beam.c. */
struct beam_weights {
    double waste;
    double placed;
};

/*
 * Place blocks from below upwards, and keep the `width` best of the placements of the first blocks. *top is the highest
 * end, if it is below `most`. False: there is none below, or `deadline_ns` by bench_now_ns has passed.
 */
bool beam_place(const struct place_blocks *blocks, const struct beam_weights *weights, size_t width, uint64_t most,
                uint64_t deadline_ns, uint64_t *offsets, uint64_t *top);

#endif
