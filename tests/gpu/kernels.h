/*
 * The kernels of the GPU tests, as PTX that the driver compiles: no nvcc is needed. Every one runs over `count` words
 * of 32 bits with as many threads as it is launched with.
 *
 *     fill(words, count, value)                     words[i] = value
 *     add(words, count, value)                      words[i] += value
 *     verify(words, count, value, wrong)            *wrong += the number of words that are not `value`
 *     delay(ns)                                     waits, by the device's clock
 *     hold_then_fill(go, words, count, value)       waits until *go is not 0, at the most 20 s; then fill
 *
 * Parameters: `count` and `value` are uint32_t, `ns` is uint64_t, all others are addresses on the device. A kernel
 * that is added here needs its match in tests/fake-cuda/, which knows them by name.
 */
#ifndef TESTS_GPU_KERNELS_H
#define TESTS_GPU_KERNELS_H

#include "tests/gpu/gpu.h"

#ifdef HAVE_CUDA_H

/* PTX for all devices since Volta. */
extern const char gpu_kernels_ptx[];

/* The kernels in the context that was current when they were opened. */
struct gpu_kernels {
    CUmodule module;
    CUfunction fill;
    CUfunction add;
    CUfunction verify;
    CUfunction delay;
    CUdeviceptr wrong; /* one word, for gpu_count_wrong */
};

/* False, with a diag, where the device cannot run them. Each has run once then, which may wait for the whole device. */
bool gpu_kernels_open(struct gpu_kernels *kernels);
void gpu_kernels_close(struct gpu_kernels *kernels);

/* Launch a kernel in `stream`. False, with a diag, if the driver refuses. */
bool gpu_fill(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value);
bool gpu_add(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value);
bool gpu_verify(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count, uint32_t value,
                CUdeviceptr wrong);
bool gpu_delay(const struct gpu_kernels *kernels, CUstream stream, uint64_t ns);

/*
 * Count the words that differ from `value`, by a kernel on `stream`, and wait for the result; UINT32_MAX if that fails.
 * Call from one thread at a time.
 */
uint32_t gpu_count_wrong(const struct gpu_kernels *kernels, CUstream stream, const void *words, uint32_t count,
                         uint32_t value);

#endif
#endif
