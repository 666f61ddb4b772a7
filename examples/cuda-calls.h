/*
 * The few functions of the CUDA driver that the examples call for themselves, looked up at run time, so that they build
 * anywhere and say so where there is no GPU. A program of your own includes cuda.h and links libcuda.
 */
#ifndef EXAMPLES_CUDA_CALLS_H
#define EXAMPLES_CUDA_CALLS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As in cuda.h, whose handles are pointers and whose CUresult is an int with 0 for success. */
struct cuda_calls {
    int (*init)(unsigned flags);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*memset_async)(uint64_t address, unsigned value, size_t words, void *stream);
    int (*copy_to_host_async)(void *host, uint64_t address, size_t bytes, void *stream);
};

#define CUDA_STREAM_NON_BLOCKING 1u

static inline bool
cuda_call_find(void *library, const char *symbol, void *slot)
{
    void *address = dlsym(library, symbol);

    memcpy(slot, &address, sizeof(address));
    return address != NULL;
}

/* False where there is no driver, or no device. The context of the first device is current then. */
static inline bool
cuda_calls_open(struct cuda_calls *cuda)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *context;

    return library != NULL && cuda_call_find(library, "cuInit", &cuda->init) &&
           cuda_call_find(library, "cuDevicePrimaryCtxRetain", &cuda->context_retain) &&
           cuda_call_find(library, "cuDevicePrimaryCtxRelease_v2", &cuda->context_release) &&
           cuda_call_find(library, "cuCtxSetCurrent", &cuda->context_set) &&
           cuda_call_find(library, "cuStreamCreate", &cuda->stream_create) &&
           cuda_call_find(library, "cuStreamDestroy_v2", &cuda->stream_destroy) &&
           cuda_call_find(library, "cuStreamSynchronize", &cuda->stream_synchronize) &&
           cuda_call_find(library, "cuMemsetD32Async", &cuda->memset_async) &&
           cuda_call_find(library, "cuMemcpyDtoHAsync_v2", &cuda->copy_to_host_async) && cuda->init(0) == 0 &&
           cuda->context_retain(&context, 0) == 0 && cuda->context_set(context) == 0;
}

#endif
