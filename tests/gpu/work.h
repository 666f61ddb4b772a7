/* What GPU tests work with: a device's context with two streams and the kernels, and calls that say why they fail. */
#ifndef TESTS_GPU_WORK_H
#define TESTS_GPU_WORK_H

#include "tests/gpu/kernels.h"

#ifdef HAVE_CUDA_H

#include <tidemark/tidemark.h>

#define MIB ((size_t)1 << 20)

/* The device's primary context, current on this thread, and two non-blocking streams in it. */
struct gpu_work {
    int device;
    CUcontext context;
    CUstream first;
    CUstream second;
    struct gpu_kernels kernels;
};

/* False, with a diag, if the device cannot run the kernels. Close it in that case as well. */
bool gpu_work_open(struct gpu_work *work, int device);
void gpu_work_close(struct gpu_work *work);

/* Run `tests` tests on device 0, or skip them if there is no GPU. */
void gpu_with_work(void (*test)(struct gpu_work *work), int tests);

/* Make a stack from text; NULL, with a diag, if that fails. */
struct tide_resource *gpu_stack(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Each returns false, with a diag, if it fails. The alignment is the default one. */
bool gpu_allocates(struct tide_resource *stack, size_t bytes, CUstream stream, void **out);
bool gpu_frees(struct tide_resource *stack, void *pointer, size_t bytes, CUstream stream);

/* 0, with a diag, if the figure is unknown. */
uint64_t gpu_figure(struct tide_resource *stack, enum tide_query what);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t gpu_now_ns(void);

#endif
#endif
