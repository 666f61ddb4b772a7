/* Measures what calls of two bases cost, of which there is more to say than of `cuda`: see measure.c. */
#ifndef VIEWER_RECOMMEND_MEASURE_BASES_H
#define VIEWER_RECOMMEND_MEASURE_BASES_H

#include "viewer/recommend/measure-calls.h"

/* Measure a pool of the driver, which is filled. False: a call has failed, with the error text. `fresh_ns`: what it took to allocate all blocks for the first time. */
bool measure_driver(struct measure *measure, double fresh_ns, struct cost out[COST_CALLS]);

/* Measure `vmm`, which is filled. `fresh`: what allocating all blocks for the first time took. */
bool measure_vmm(struct measure *measure, struct measured *fresh, struct cost out[COST_CALLS]);

#endif
