/*
 * The CUDA functions whose calls a trace records, by number. The numbers are part of the ring file's format: a new
 * function gets the next number.
 */
#ifndef TIDEI_TRACE_RING_FUNCTION_H
#define TIDEI_TRACE_RING_FUNCTION_H

#include <stdbool.h>

/* D(number, name, whether it frees) for driver functions, R for runtime functions; the names are CUPTI's. */
#define TIDEI_FUNCTIONS(D, R)                                                                                          \
    D(1, cuMemAllocFromPoolAsync, false)                                                                               \
    D(2, cuMemAllocFromPoolAsync_ptsz, false)                                                                          \
    D(3, cuMemAllocAsync, false)                                                                                       \
    D(4, cuMemAllocAsync_ptsz, false)                                                                                  \
    D(5, cuMemFreeAsync, true)                                                                                         \
    D(6, cuMemFreeAsync_ptsz, true)                                                                                    \
    D(7, cuMemAlloc_v2, false)                                                                                         \
    D(8, cuMemAllocPitch_v2, false)                                                                                    \
    D(9, cuMemAllocManaged, false)                                                                                     \
    D(10, cuMemFree_v2, true)                                                                                          \
    D(11, cuMemAllocHost_v2, false)                                                                                    \
    D(12, cuMemHostAlloc, false)                                                                                       \
    D(13, cuMemFreeHost, true)                                                                                         \
    D(14, cuMemCreate, false)                                                                                          \
    D(15, cuMemMap, false)                                                                                             \
    D(16, cuMemSetAccess, false)                                                                                       \
    D(17, cuMemUnmap, true)                                                                                            \
    D(18, cuMemRelease, true)                                                                                          \
    R(64, cudaMalloc_v3020, false)                                                                                     \
    R(65, cudaMallocPitch_v3020, false)                                                                                \
    R(66, cudaMalloc3D_v3020, false)                                                                                   \
    R(67, cudaMallocManaged_v6000, false)                                                                              \
    R(68, cudaMallocHost_v3020, false)                                                                                 \
    R(69, cudaHostAlloc_v3020, false)                                                                                  \
    R(70, cudaFree_v3020, true)                                                                                        \
    R(71, cudaFreeHost_v3020, true)                                                                                    \
    R(72, cudaMallocAsync_v11020, false)                                                                               \
    R(73, cudaMallocAsync_ptsz_v11020, false)                                                                          \
    R(74, cudaMallocFromPoolAsync_v11020, false)                                                                       \
    R(75, cudaMallocFromPoolAsync_ptsz_v11020, false)                                                                  \
    R(76, cudaFreeAsync_v11020, true)                                                                                  \
    R(77, cudaFreeAsync_ptsz_v11020, true)

#define TIDEI_FUNCTION_MOST 256

/* The name (static); NULL for an unknown number. */
const char *tidei_function_name(unsigned number);

/* Whether the function frees memory. */
bool tidei_function_is_free(unsigned number);

#endif
