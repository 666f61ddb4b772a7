/*
 * Runs the tests of a program in parts, each in a process of its own: where the driver crashes, or does not come back,
 * the other parts still run, and none inherits what another has done to the device.
 */
#ifndef TESTS_GPU_PARTS_H
#define TESTS_GPU_PARTS_H

#include "tests/gpu/gpu.h"

#ifdef HAVE_CUDA_H

#include <stddef.h>

/*
 * How long a part may take before it ends by SIGALRM: under a wrapper, which is where tests/gpu/run ends the whole
 * program after a while, so long that the other parts still come to run; else as long as a busy machine may need. What
 * starts processes of its own gives them the same limit.
 */
unsigned gpu_part_seconds(void);

struct gpu_part {
    const char *name; /* one word, no other part's */
    int tests;
    void (*run)(void); /* the driver has been started */
};

/*
 * The main function of such a program, which has not started the driver: it runs itself again for each part, and has
 * the parts' tests as its own. A test that did not come to run has failed. Where the first part finds no GPU, the whole
 * program is skipped.
 */
int gpu_parts_main(int argc, char **argv, const struct gpu_part *parts, size_t count);

#endif
#endif
