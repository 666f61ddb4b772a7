/* A driver whose symbols have a version, for dlvsym(): no more than tests/run/reach.c asks it. */
#include "config.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))

static int live;

EXPORT CUresult CUDAAPI
cuInit(unsigned int flags)
{
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult CUDAAPI
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = NULL;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult CUDAAPI
cuCtxSetCurrent(CUcontext context)
{
    return context == NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult CUDAAPI
cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    live++;
    *pointer = 4096;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI
cuMemFree_v2(CUdeviceptr pointer)
{
    return pointer == 0 ? CUDA_SUCCESS : live-- > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult CUDAAPI
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    if (free_bytes != NULL)
        *free_bytes = 1 << 20;
    if (total_bytes != NULL)
        *total_bytes = 1 << 20;
    return CUDA_SUCCESS;
}
