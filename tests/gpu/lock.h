/*
 * Lets GPU tests that run at the same time agree on who has the device. All take the same lock: most share it, and a
 * test that measures free memory, fills the device or waits for what takes time has it alone.
 */
#ifndef TESTS_GPU_LOCK_H
#define TESTS_GPU_LOCK_H

#include <stdbool.h>

/*
 * Wait for the device, and have it until this process ends. The first call counts; processes that this one starts
 * belong to it. TIDEMARK_GPU_LOCK names the file, "" for none; by default it is tidemark-gpu.lock in TMPDIR or /tmp.
 * False, with a diag, where there can be no lock: then the test runs without.
 */
bool gpu_lock(bool alone);

#endif
