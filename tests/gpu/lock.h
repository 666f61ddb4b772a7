/*
 * Lets GPU tests that run at the same time agree on who has the device. All take the same lock: most share it; a test
 * that measures free memory, fills the device or measures time takes it alone.
 */
#ifndef TESTS_GPU_LOCK_H
#define TESTS_GPU_LOCK_H

#include <stdbool.h>

/*
 * Wait for the device, and hold it until this process ends. The first call decides; child processes belong to this one.
 * TIDEMARK_GPU_LOCK names the lock file ("": no lock); the default is tidemark-gpu.lock in TMPDIR or /tmp. False, with
 * a diag, if the file cannot be locked: the test then runs without a lock.
 */
bool gpu_lock(bool alone);

#endif
