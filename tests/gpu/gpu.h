/*
 * The functions of the CUDA driver that GPU tests call themselves: to make streams and contexts, hold a stream back,
 * and read memory. They do not go through the library, which is under test.
 */
#ifndef TESTS_GPU_GPU_H
#define TESTS_GPU_GPU_H

#include "config.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* Named after the driver's functions. */
struct gpu {
    CUresult(CUDAAPI *init)(unsigned int);
    CUresult(CUDAAPI *driver_get_version)(int *);
    CUresult(CUDAAPI *device_get_count)(int *);
    CUresult(CUDAAPI *device_get)(CUdevice *, int);
    CUresult(CUDAAPI *device_get_name)(char *, int, CUdevice);
    CUresult(CUDAAPI *device_get_attribute)(int *, CUdevice_attribute, CUdevice);
    CUresult(CUDAAPI *device_total_mem)(size_t *, CUdevice);
    CUresult(CUDAAPI *device_can_access_peer)(int *, CUdevice, CUdevice);
    CUresult(CUDAAPI *device_get_default_mem_pool)(CUmemoryPool *, CUdevice);
    CUresult(CUDAAPI *device_graph_mem_trim)(CUdevice);
    CUresult(CUDAAPI *primary_retain)(CUcontext *, CUdevice);
    CUresult(CUDAAPI *primary_release)(CUdevice);
    CUresult(CUDAAPI *primary_reset)(CUdevice);
    CUresult(CUDAAPI *primary_get_state)(CUdevice, unsigned int *, int *);
    CUresult(CUDAAPI *context_create)(CUcontext *, unsigned int, CUdevice);
    CUresult(CUDAAPI *context_destroy)(CUcontext);
    CUresult(CUDAAPI *context_set)(CUcontext);
    CUresult(CUDAAPI *context_push)(CUcontext);
    CUresult(CUDAAPI *context_pop)(CUcontext *);
    CUresult(CUDAAPI *context_get)(CUcontext *);
    CUresult(CUDAAPI *context_synchronize)(void);
    CUresult(CUDAAPI *stream_create)(CUstream *, unsigned int);
    CUresult(CUDAAPI *stream_destroy)(CUstream);
    CUresult(CUDAAPI *stream_query)(CUstream);
    CUresult(CUDAAPI *stream_synchronize)(CUstream);
    CUresult(CUDAAPI *stream_wait_event)(CUstream, CUevent, unsigned int);
    CUresult(CUDAAPI *stream_begin_capture)(CUstream, CUstreamCaptureMode);
    CUresult(CUDAAPI *stream_end_capture)(CUstream, CUgraph *);
    CUresult(CUDAAPI *event_create)(CUevent *, unsigned int);
    CUresult(CUDAAPI *event_destroy)(CUevent);
    CUresult(CUDAAPI *event_record)(CUevent, CUstream);
    CUresult(CUDAAPI *graph_instantiate)(CUgraphExec *, CUgraph, unsigned long long);
    CUresult(CUDAAPI *graph_launch)(CUgraphExec, CUstream);
    CUresult(CUDAAPI *graph_exec_destroy)(CUgraphExec);
    CUresult(CUDAAPI *graph_destroy)(CUgraph);
    CUresult(CUDAAPI *mem_get_info)(size_t *, size_t *);
    CUresult(CUDAAPI *mem_alloc)(CUdeviceptr *, size_t);
    CUresult(CUDAAPI *mem_free)(CUdeviceptr);
    CUresult(CUDAAPI *memset_d32_async)(CUdeviceptr, unsigned int, size_t, CUstream);
    CUresult(CUDAAPI *memcpy_dtoh_async)(void *, CUdeviceptr, size_t, CUstream);
    CUresult(CUDAAPI *host_alloc)(void **, size_t, unsigned int);
    CUresult(CUDAAPI *host_free)(void *);
    CUresult(CUDAAPI *host_device_pointer)(CUdeviceptr *, void *, unsigned int);
    CUresult(CUDAAPI *pointer_get_attribute)(void *, CUpointer_attribute, CUdeviceptr);
    CUresult(CUDAAPI *module_load_data)(CUmodule *, const void *);
    CUresult(CUDAAPI *module_unload)(CUmodule);
    CUresult(CUDAAPI *module_get_function)(CUfunction *, CUmodule, const char *);
    CUresult(CUDAAPI *launch_kernel)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                     unsigned int, unsigned int, CUstream, void **, void **);
    CUresult(CUDAAPI *mem_pool_create)(CUmemoryPool *, const CUmemPoolProps *);
    CUresult(CUDAAPI *mem_pool_destroy)(CUmemoryPool);
    CUresult(CUDAAPI *mem_pool_get_attribute)(CUmemoryPool, CUmemPool_attribute, void *);
    CUresult(CUDAAPI *mem_pool_set_attribute)(CUmemoryPool, CUmemPool_attribute, void *);
    CUresult(CUDAAPI *mem_pool_trim_to)(CUmemoryPool, size_t);
    CUresult(CUDAAPI *mem_pool_set_access)(CUmemoryPool, const CUmemAccessDesc *, size_t);
    CUresult(CUDAAPI *mem_pool_get_access)(CUmemAccess_flags *, CUmemoryPool, CUmemLocation *);
    CUresult(CUDAAPI *mem_alloc_from_pool_async)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
    CUresult(CUDAAPI *mem_free_async)(CUdeviceptr, CUstream);
    int devices;
};

/* Filled by gpu_open. */
extern struct gpu gpu;

/*
 * Load and start the driver. Returns NULL, or the reason why there is no GPU to test on. Shares the device with other
 * tests (tests/gpu/lock.h), unless gpu_lock was called before.
 */
const char *gpu_open(void);

/* Whether the driver is the fake one of tests/fake-cuda, whose environment may switch features off. */
bool gpu_is_fake(void);

/* Whether this runs under compute-sanitizer, as CHECK_GPU_WRAPPER asks. */
bool gpu_is_sanitized(void);

/*
 * Skip the whole program under compute-sanitizer. The driver is started first: compute-sanitizer fails a program that
 * never starts it.
 */
void gpu_skip_sanitized(const char *reason);

/* Print the device and the driver's version. */
void gpu_diag(void);

/*
 * A kernel that waits until the test releases it and then fills words, in the context that was current when it was
 * made. It goes on by itself after 20 s, so that a failing test does not hang.
 */
struct gpu_hold {
    CUmodule module;
    CUfunction function;
    volatile uint32_t *go; /* pinned host memory: 0 holds */
    CUdeviceptr device_go;
};

/* False, with a diag, if the device cannot run the kernel. */
bool gpu_hold_open(struct gpu_hold *hold);
void gpu_hold_close(struct gpu_hold *hold);

/* Have `stream` wait from here on, and then set `count` words at `words` to `value`. */
bool gpu_hold_fill(struct gpu_hold *hold, CUstream stream, void *words, uint32_t count, uint32_t value);
void gpu_hold_go(struct gpu_hold *hold);

#endif
#endif
