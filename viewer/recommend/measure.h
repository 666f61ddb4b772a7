/* Measures on a device what calls of the driver cost. */
#ifndef VIEWER_RECOMMEND_MEASURE_H
#define VIEWER_RECOMMEND_MEASURE_H

#include "viewer/recommend/costs.h"

/*
 * Measure the bases `cuda`, `driver` and `vmm` on a device, with blocks of up to 1 GiB, each with at most a quarter of
 * what is free. A base that the device does not have keeps the default costs, and a message says so. To each cost is
 * added what a program's own code takes longer behind such a call, which is no matter of the device: 0.6 us behind one
 * that goes into the kernel, 0.15 us behind others of the driver. Moves the calling thread to the processors that are
 * fastest. COMMAND_FINE, or COMMAND_FINDING after a message: the device is not there, or does not answer, or no base
 * could be measured; or COMMAND_WRONG after a message: no memory. *out is written in any case, with the default costs
 * where nothing was measured.
 */
int measure_device(int ordinal, struct costs *out);

#endif
