/*
 * The CUDA driver as a table of entry points, loaded once from libcuda.so.1 at run time. No other part of the library
 * calls the driver, and nothing links against it: one build runs with and without a GPU.
 */
#ifndef TIDEI_CUDA_DRIVER_TABLE_H
#define TIDEI_CUDA_DRIVER_TABLE_H

#include "config.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>
#include <stdbool.h>

#include "src/resource/resource.h"

/*
 * Named after the driver's functions. A slot is NULL where the driver is too old for it. Those up to
 * `context_synchronize` are always set in a table that tidei_driver_get returns.
 */
struct tidei_driver {
    CUresult(CUDAAPI *init)(unsigned int flags);
    CUresult(CUDAAPI *driver_get_version)(int *version);
    CUresult(CUDAAPI *get_error_name)(CUresult error, const char **name);
    CUresult(CUDAAPI *device_get_count)(int *count);
    CUresult(CUDAAPI *device_get)(CUdevice *device, int ordinal);
    CUresult(CUDAAPI *device_get_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
    CUresult(CUDAAPI *device_total_mem)(size_t *bytes, CUdevice device);
    CUresult(CUDAAPI *primary_context_retain)(CUcontext *context, CUdevice device);
    CUresult(CUDAAPI *primary_context_release)(CUdevice device);
    CUresult(CUDAAPI *context_push)(CUcontext context);
    CUresult(CUDAAPI *context_pop)(CUcontext *context);
    CUresult(CUDAAPI *context_get_device)(CUdevice *device);
    CUresult(CUDAAPI *context_synchronize)(void);

    CUresult(CUDAAPI *device_get_name)(char *name, int capacity, CUdevice device);
    CUresult(CUDAAPI *device_can_access_peer)(int *can, CUdevice device, CUdevice peer);

    CUresult(CUDAAPI *mem_get_info)(size_t *free_bytes, size_t *total_bytes);
    CUresult(CUDAAPI *mem_alloc)(CUdeviceptr *pointer, size_t bytes);
    CUresult(CUDAAPI *mem_free)(CUdeviceptr pointer);
    CUresult(CUDAAPI *mem_alloc_managed)(CUdeviceptr *pointer, size_t bytes, unsigned int flags);
    CUresult(CUDAAPI *mem_advise)(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device);
    CUresult(CUDAAPI *mem_prefetch_async)(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream);
    CUresult(CUDAAPI *memset_d8_async)(CUdeviceptr pointer, unsigned char value, size_t count, CUstream stream);
    CUresult(CUDAAPI *memcpy_dtoh_async)(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
    CUresult(CUDAAPI *mem_host_alloc)(void **pointer, size_t bytes, unsigned int flags);
    CUresult(CUDAAPI *mem_free_host)(void *pointer);

    CUresult(CUDAAPI *mem_pool_create)(CUmemoryPool *pool, const CUmemPoolProps *properties);
    CUresult(CUDAAPI *mem_pool_destroy)(CUmemoryPool pool);
    CUresult(CUDAAPI *mem_pool_set_attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
    CUresult(CUDAAPI *mem_pool_get_attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
    CUresult(CUDAAPI *mem_pool_trim_to)(CUmemoryPool pool, size_t keep_bytes);
    CUresult(CUDAAPI *mem_pool_set_access)(CUmemoryPool pool, const CUmemAccessDesc *accesses, size_t count);
    CUresult(CUDAAPI *mem_pool_get_access)(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location);
    CUresult(CUDAAPI *mem_pool_export)(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                       unsigned long long flags);
    CUresult(CUDAAPI *mem_pool_import)(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                                       unsigned long long flags);
    CUresult(CUDAAPI *mem_pool_export_pointer)(CUmemPoolPtrExportData *data, CUdeviceptr pointer);
    CUresult(CUDAAPI *mem_pool_import_pointer)(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data);
    CUresult(CUDAAPI *device_get_default_mem_pool)(CUmemoryPool *pool, CUdevice device);
    CUresult(CUDAAPI *mem_alloc_from_pool_async)(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                                 CUstream stream);
    CUresult(CUDAAPI *mem_free_async)(CUdeviceptr pointer, CUstream stream);

    CUresult(CUDAAPI *stream_create)(CUstream *stream, unsigned int flags);
    CUresult(CUDAAPI *stream_destroy)(CUstream stream);
    CUresult(CUDAAPI *stream_synchronize)(CUstream stream);
    CUresult(CUDAAPI *stream_is_capturing)(CUstream stream, CUstreamCaptureStatus *status);
    CUresult(CUDAAPI *stream_get_ctx)(CUstream stream, CUcontext *context);
    CUresult(CUDAAPI *stream_wait_event)(CUstream stream, CUevent event, unsigned int flags);
    CUresult(CUDAAPI *event_create)(CUevent *event, unsigned int flags);
    CUresult(CUDAAPI *event_destroy)(CUevent event);
    CUresult(CUDAAPI *event_record)(CUevent event, CUstream stream);

    int version; /* of the driver, as CUDA_VERSION counts: 12020 for 12.2 */
};

/*
 * The driver of this machine (static), loaded and initialized by the first call in the process. A failure is kept, too,
 * and reported to every caller, prefixed with its `subject`: the base that needs the driver.
 *
 * Errors: TIDE_EUNSUPPORTED (no library, a library that lacks an entry point of every driver, cuInit failed, no device,
 * or a child of fork() whose parent had loaded the driver); the text names the error. Thread safety: any thread.
 */
enum tide_status tidei_driver_get(const char *subject, const struct tidei_driver **out);

/* False in a child of fork() whose parent has loaded the driver: there no call into it is safe. */
bool tidei_driver_usable(void);

/* Returns the address of `symbol`, or NULL where there is none; used by tidei_driver_fill. */
typedef void *(*tidei_driver_find)(void *context, const char *symbol);

/*
 * Fill `table` with symbols from `find`, initialize the driver and query its version and a device. tidei_driver_get
 * calls it once the library is open; tests call it with their own symbols. Errors: TIDE_EUNSUPPORTED.
 */
enum tide_status tidei_driver_fill(struct tidei_driver *table, tidei_driver_find find, void *context);

/* The name of `result`, "CUDA_ERROR_OUT_OF_MEMORY"; "an unknown CUDA error" where the driver has none. */
const char *tidei_driver_error_name(const struct tidei_driver *table, CUresult result);

/*
 * Report that `function` returned `result`: set the thread's driver error and return TIDE_EDRIVER; TIDE_OK for
 * CUDA_SUCCESS. `subject` is a base: "driver: cuMemPoolCreate: CUDA_ERROR_INVALID_VALUE (1)".
 */
enum tide_status tidei_driver_error(const struct tidei_driver *table, const char *subject, CUresult result,
                                    const char *function);

/*
 * If a call returned `result` because the thread has no context, or a destroyed one, make `context` current and return
 * true. The caller then repeats the call and calls tidei_driver_leave.
 *
 * Querying the context before each call would cost more than the driver's own check. The context must not stay current:
 * the CUDA runtime takes the current context for the thread's choice of a device, so a thread that never chose one
 * would end up on ours.
 */
static inline bool
tidei_driver_enter(const struct tidei_driver *table, CUresult result, CUcontext context)
{
    if (result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return false;
    return table->context_push(context) == CUDA_SUCCESS;
}

static inline void
tidei_driver_leave(const struct tidei_driver *table)
{
    CUcontext left;

    table->context_pop(&left);
}

/* The result of `call`, an expression, which is evaluated again with `context` current where the thread has none. */
#define TIDEI_DRIVER_CALL(table, context, call)                                                                        \
    __extension__({                                                                                                    \
        CUresult result_ = (call);                                                                                     \
        if (tidei_driver_enter((table), result_, (context))) {                                                         \
            result_ = (call);                                                                                          \
            tidei_driver_leave(table);                                                                                 \
        }                                                                                                              \
        result_;                                                                                                       \
    })

#endif
#endif
