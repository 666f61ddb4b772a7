/* Measures on a device what calls of the driver cost. */
#ifndef VIEWER_RECOMMEND_MEASURE_H
#define VIEWER_RECOMMEND_MEASURE_H

#include "viewer/recommend/costs.h"

/*
 * Measure the bases `cuda`, `driver` and `vmm` on a device, with blocks of 2 to 256 MiB, each with at most a quarter of
 * what is free. A base that the device does not have keeps the default costs, and a message says so. COMMAND_FINE, or
 * COMMAND_FINDING after a message: the device is not there, or does not answer; or COMMAND_WRONG after a message: no
 * memory.
 */
int measure_device(int ordinal, struct costs *out);

#endif
