/* What tests of the account of a process share: the wrappers, called as a program does, over the fake driver. */
#ifndef TESTS_FAKE_CUDA_ACCOUNT_H
#define TESTS_FAKE_CUDA_ACCOUNT_H

#include "config.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/process.h>

/* The wrappers where the account has started, by the names of the functions: account.w_cuMemAlloc_v2(...). */
struct account {
#define FUNCTION(name, parameters, arguments) CUresult(CUDAAPI *w_##name) parameters;
#include "src/process/functions.def"
#undef FUNCTION
    /* Functions of the driver that have no wrapper. */
    CUresult(CUDAAPI *init)(unsigned flags);
    CUresult(CUDAAPI *context_create)(CUcontext *context, unsigned flags, CUdevice device);
    CUresult(CUDAAPI *context_set)(CUcontext context);
    CUresult(CUDAAPI *context_pop)(CUcontext *context);
    CUresult(CUDAAPI *context_attach)(CUcontext *context, unsigned flags);
    CUresult(CUDAAPI *device_resource)(CUdevice device, CUdevResource *resource, CUdevResourceType type);
    CUresult(CUDAAPI *resource_descriptor)(CUdevResourceDesc *descriptor, CUdevResource *resources, unsigned count);
    CUresult(CUDAAPI *green_create)(CUgreenCtx *green, CUdevResourceDesc descriptor, CUdevice device, unsigned flags);
    CUresult(CUDAAPI *green_context)(CUcontext *context, CUgreenCtx green);
    CUresult(CUDAAPI *green_stream)(CUstream *stream, CUgreenCtx green, unsigned flags, int priority);
    CUresult(CUDAAPI *set_bytes)(CUdeviceptr pointer, unsigned char value, size_t bytes);
    CUresult(CUDAAPI *primary_retain)(CUcontext *context, CUdevice device);
    CUresult(CUDAAPI *primary_state)(CUdevice device, unsigned *flags, int *active);
    CUresult(CUDAAPI *stream_create)(CUstream *stream, unsigned flags);
    CUresult(CUDAAPI *stream_begin_capture)(CUstream stream, CUstreamCaptureMode mode);
    CUresult(CUDAAPI *stream_end_capture)(CUstream stream, CUgraph *graph);
    CUresult(CUDAAPI *stream_synchronize)(CUstream stream);
    CUresult(CUDAAPI *launch_host)(CUstream stream, CUhostFn function, void *context);
    CUresult(CUDAAPI *address_reserve)(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wish,
                                       unsigned long long flags);
    CUresult(CUDAAPI *default_pool)(CUmemoryPool *pool, CUdevice device);
    CUresult(CUDAAPI *set_pool)(CUdevice device, CUmemoryPool pool);
    CUresult(CUDAAPI *set_pool_attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
    CUresult(CUDAAPI *pool_attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
    CUresult(CUDAAPI *context_synchronize)(void);
    CUresult(CUDAAPI *graph_create)(CUgraph *graph, unsigned flags);
    CUresult(CUDAAPI *graph_add_alloc)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *parameters);
    CUresult(CUDAAPI *graph_add_free)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                      CUdeviceptr pointer);
    CUresult(CUDAAPI *graph_instantiate)(CUgraphExec *out, CUgraph graph, unsigned long long flags);
    CUresult(CUDAAPI *graph_launch)(CUgraphExec graph, CUstream stream);
    CUresult(CUDAAPI *graph_trim)(CUdevice device);
    CUresult(CUDAAPI *ipc_get)(CUipcMemHandle *handle, CUdeviceptr pointer);
    CUresult(CUDAAPI *export_pointer)(CUmemPoolPtrExportData *out, CUdeviceptr pointer);
    CUresult(CUDAAPI *pool_export)(void *out, CUmemoryPool pool, CUmemAllocationHandleType type,
                                   unsigned long long flags);
    CUresult(CUDAAPI *pool_import)(CUmemoryPool *pool, void *shared, CUmemAllocationHandleType type,
                                   unsigned long long flags);
    CUresult(CUDAAPI *real_get_info)(size_t *free_bytes, size_t *total_bytes);
    CUresult(CUDAAPI *real_alloc)(CUdeviceptr *pointer, size_t bytes);
    CUresult(CUDAAPI *real_free)(CUdeviceptr pointer);
    CUresult(CUDAAPI *real_reset)(CUdevice device);
};

extern struct account account;

/* Find the driver's functions; false where there is no fake driver. Starts nothing. */
bool account_find(void);

/* Start the driver and the account, with the primary context of device 0 current. False, and a diagnostic, if not. */
bool account_start(const struct tide_process_options *options);

/* The trace of a test in the scratch folder; and the account's start with a stack and a limit (both may be NULL). */
const char *account_trace(const char *name);
bool account_begin(const char *name, const char *stack, const char *limit);

/* Whether a test returns 0, in a process of its own, as the account is one of a process. */
bool account_passes(int (*test)(void *unused));

/* The same of a test that takes an argument. */
bool account_passes_with(int (*test)(void *argument), void *argument);

/* Have in the trace of a test what its process has left, which has ended without exit(). */
void account_recover(const char *name);

/* Have all that was recorded in the trace. */
void account_flush(void);

/* The bytes outstanding in the account of a kind, by its name, on a device. */
uint64_t account_used(const char *kind, int device);

/* What the account says that the kind has of the device: with what pools and graphs have reserved. */
uint64_t account_reserved(const char *kind, int device);

/* Say what is wrong, and remember it: the end of a child. */
#define CHECK(condition) account_check((condition), #condition, __LINE__)
bool account_check(bool condition, const char *text, int line);
extern int account_failures;

#endif
#endif
