/*
 * Measures the calls of two of the bases, `driver` and `vmm`; measure.c has `cuda`, and what is the same for all.
 *
 * The blocks of `measure` are allocated. `out` is zeroed, and gets the costs but for those of orders and waits. False:
 * a call has failed, with the error text, or measure->why; what *out has then counts for nothing.
 */
#ifndef VIEWER_RECOMMEND_MEASURE_BASES_H
#define VIEWER_RECOMMEND_MEASURE_BASES_H

#include "viewer/recommend/measure-calls.h"

/* `fresh_ns`: what it took to allocate all blocks for the first time. They are allocated afterwards, too. */
bool measure_driver(struct measure *measure, double fresh_ns, struct cost out[COST_CALLS]);

/* `fresh`: what allocating each block for the first time took. They are free afterwards. */
bool measure_vmm(struct measure *measure, struct measured *fresh, struct cost out[COST_CALLS]);

#endif
