/*
 * Runs the tests of a program in parts, each in its own process: if the driver crashes or hangs in one part, the others
 * still run, and no part inherits what another has done to the device.
 */
#ifndef TESTS_GPU_PARTS_H
#define TESTS_GPU_PARTS_H

#include "tests/gpu/gpu.h"

#ifdef HAVE_CUDA_H

#include <stddef.h>

/*
 * How long a part may take before SIGALRM ends it. Under a wrapper, where tests/gpu/run ends the whole program after a
 * while, the other parts must still have time to run; otherwise as long as a busy machine may need. A part that starts
 * processes gives them the same limit.
 */
unsigned gpu_part_seconds(void);

struct gpu_part {
    const char *name; /* one word, different from other parts' */
    int tests;
    void (*run)(void); /* called with the driver started */
};

/*
 * The main function of a program with parts; it has not started the driver. It runs the program again for each part,
 * and reports the parts' tests as its own. A test that did not run has failed. If the first part finds no GPU, the
 * whole program is skipped.
 */
int gpu_parts_main(int argc, char **argv, const struct gpu_part *parts, size_t count);

#endif
#endif
