/*
 * A CUDA driver of a few lines for tests of the base `driver`: it keeps count of what is called, knows contexts,
 * streams and events well enough to refuse what the real one refuses, and fails on request.
 */
#ifndef TESTS_DRIVER_FAKE_H
#define TESTS_DRIVER_FAKE_H

#include <string.h>

#include "src/cuda/driver-table.h"

#define FAKE_POOL_STEP (UINT64_C(32) << 20)

struct fake_context {
    int references;
    int synchronized; /* the number of calls */
};

struct CUstream_st {
    struct fake_context *context;
    int waits;
};

struct CUevent_st {
    struct fake_context *context;
    bool live;
};

static struct {
    const char *fail; /* the function that returns `result`; NULL: none */
    CUresult result;
    int devices;
    int pools_supported;
    int version;

    struct fake_context primary;
    struct fake_context *current; /* of the one thread that tests run on */
    struct fake_context *pushed[4];
    int depth;
    int pushes;

    CUmemPoolProps properties;
    int pools;
    cuuint64_t threshold_bytes;
    uint64_t used_bytes;
    uint64_t trimmed_to_bytes;
    bool trim_needs_context;
    int allocations; /* the number of calls, failed ones included */
    CUstream stream; /* of the last allocation */

    struct CUevent_st events[32];
    int events_created;
    int events_live;
    int flags; /* the flags that cuGetProcAddress was given */
    int total_mem_version;
} fake;

static bool
fake_fails(const char *function)
{
    return fake.fail != NULL && strcmp(fake.fail, function) == 0;
}

#define FAKE(name)                                                                                                     \
    if (fake_fails(name))                                                                                              \
        return fake.result;

static CUresult CUDAAPI
fake_init(unsigned int flags)
{
    (void)flags;
    FAKE("cuInit")
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_driver_get_version(int *version)
{
    *version = fake.version;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_get_error_name(CUresult error, const char **name)
{
    *name = error == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CUDA_ERROR_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
            : error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
            : error == CUDA_ERROR_INVALID_HANDLE  ? "CUDA_ERROR_INVALID_HANDLE"
            : error == CUDA_ERROR_LAUNCH_FAILED   ? "CUDA_ERROR_LAUNCH_FAILED"
            : error == CUDA_ERROR_STUB_LIBRARY    ? "CUDA_ERROR_STUB_LIBRARY"
                                                  : NULL;
    return *name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI
fake_device_get_count(int *count)
{
    *count = fake.devices;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_device_get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED ? fake.pools_supported : 0;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_device_total_mem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_primary_context_retain(CUcontext *context, CUdevice device)
{
    (void)device;
    FAKE("cuDevicePrimaryCtxRetain")
    fake.primary.references++;
    *context = (CUcontext)&fake.primary;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_primary_context_release(CUdevice device)
{
    (void)device;
    fake.primary.references--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_context_push(CUcontext context)
{
    fake.pushed[fake.depth++] = fake.current;
    fake.current = (struct fake_context *)context;
    fake.pushes++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_context_pop(CUcontext *context)
{
    *context = (CUcontext)fake.current;
    fake.current = fake.pushed[--fake.depth];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_context_get_device(CUdevice *device)
{
    *device = 0;
    return fake.current != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult CUDAAPI
fake_context_synchronize(void)
{
    if (fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake.current->synchronized++;
    FAKE("cuCtxSynchronize")
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_mem_pool_create(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    FAKE("cuMemPoolCreate")
    if (fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake.properties = *properties;
    fake.pools++;
    fake.threshold_bytes = 0;
    *pool = (CUmemoryPool)&fake.properties;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_mem_pool_destroy(CUmemoryPool pool)
{
    (void)pool;
    if (fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake.pools--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool;
    FAKE("cuMemPoolSetAttribute")
    if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&fake.threshold_bytes, value, sizeof(fake.threshold_bytes));
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_mem_pool_trim_to(CUmemoryPool pool, size_t keep_bytes)
{
    (void)pool;
    FAKE("cuMemPoolTrimTo")
    if (fake.trim_needs_context && fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake.trimmed_to_bytes = keep_bytes;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    cuuint64_t figure = attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? fake.threshold_bytes : fake.used_bytes;

    (void)pool;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        figure = (figure + FAKE_POOL_STEP - 1) / FAKE_POOL_STEP * FAKE_POOL_STEP;
    memcpy(value, &figure, sizeof(figure));
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_device_get_default_mem_pool(CUmemoryPool *pool, CUdevice device)
{
    (void)device;
    *pool = (CUmemoryPool)&fake.pools;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_mem_alloc_from_pool_async(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    (void)pool;
    fake.allocations++;
    fake.stream = stream;
    FAKE("cuMemAllocFromPoolAsync")
    if (stream == NULL && fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fake.properties.maxSize != 0 && fake.used_bytes + bytes > fake.properties.maxSize)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake.used_bytes += bytes;
    *pointer = 0x7f0000000000 + (CUdeviceptr)fake.allocations * 0x100000000;
    return CUDA_SUCCESS;
}

/* There is only one block at a time, so any free releases it. */
static CUresult CUDAAPI
fake_mem_free_async(CUdeviceptr pointer, CUstream stream)
{
    (void)pointer;
    FAKE("cuMemFreeAsync")
    if (stream == NULL && fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake.used_bytes = 0;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_stream_get_ctx(CUstream stream, CUcontext *context)
{
    struct fake_context *found = stream != NULL ? stream->context : fake.current;

    *context = (CUcontext)found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult CUDAAPI
fake_stream_wait_event(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    FAKE("cuStreamWaitEvent")
    if (stream == NULL && fake.current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!event->live)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream != NULL)
        stream->waits++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_event_create(CUevent *event, unsigned int flags)
{
    if (fake.current == NULL || flags != CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_CONTEXT;
    *event = &fake.events[fake.events_created++];
    **event = (struct CUevent_st){ .context = fake.current, .live = true };
    fake.events_live++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_event_destroy(CUevent event)
{
    event->live = false;
    fake.events_live--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI
fake_event_record(CUevent event, CUstream stream)
{
    struct fake_context *context = stream != NULL ? stream->context : fake.current;

    if (!event->live || event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

#define FAKE_SYMBOL(symbol, function)                                                                                  \
    {                                                                                                                  \
        symbol, (void (*)(void))(function)                                                                             \
    }

static const struct fake_symbol {
    const char *name; /* as dlsym knows it */
    void (*function)(void);
} fake_symbols[] = {
    FAKE_SYMBOL("cuInit", fake_init),
    FAKE_SYMBOL("cuDriverGetVersion", fake_driver_get_version),
    FAKE_SYMBOL("cuGetErrorName", fake_get_error_name),
    FAKE_SYMBOL("cuDeviceGetCount", fake_device_get_count),
    FAKE_SYMBOL("cuDeviceGet", fake_device_get),
    FAKE_SYMBOL("cuDeviceGetAttribute", fake_device_get_attribute),
    FAKE_SYMBOL("cuDeviceTotalMem_v2", fake_device_total_mem),
    FAKE_SYMBOL("cuDevicePrimaryCtxRetain", fake_primary_context_retain),
    FAKE_SYMBOL("cuDevicePrimaryCtxRelease_v2", fake_primary_context_release),
    FAKE_SYMBOL("cuCtxPushCurrent_v2", fake_context_push),
    FAKE_SYMBOL("cuCtxPopCurrent_v2", fake_context_pop),
    FAKE_SYMBOL("cuCtxGetDevice", fake_context_get_device),
    FAKE_SYMBOL("cuCtxSynchronize", fake_context_synchronize),
    FAKE_SYMBOL("cuMemPoolCreate", fake_mem_pool_create),
    FAKE_SYMBOL("cuMemPoolDestroy", fake_mem_pool_destroy),
    FAKE_SYMBOL("cuMemPoolSetAttribute", fake_mem_pool_set_attribute),
    FAKE_SYMBOL("cuMemPoolTrimTo", fake_mem_pool_trim_to),
    FAKE_SYMBOL("cuMemPoolGetAttribute", fake_mem_pool_get_attribute),
    FAKE_SYMBOL("cuDeviceGetDefaultMemPool", fake_device_get_default_mem_pool),
    FAKE_SYMBOL("cuMemAllocFromPoolAsync", fake_mem_alloc_from_pool_async),
    FAKE_SYMBOL("cuMemFreeAsync", fake_mem_free_async),
    FAKE_SYMBOL("cuStreamGetCtx", fake_stream_get_ctx),
    FAKE_SYMBOL("cuStreamWaitEvent", fake_stream_wait_event),
    FAKE_SYMBOL("cuEventCreate", fake_event_create),
    FAKE_SYMBOL("cuEventDestroy_v2", fake_event_destroy),
    FAKE_SYMBOL("cuEventRecord", fake_event_record),
};

/* A driver older than cuGetProcAddress; `without` (NULL: none) is a symbol that it lacks. */
static void *
fake_find(void *without, const char *symbol)
{
    void *address = NULL;

    for (size_t i = 0; i < sizeof(fake_symbols) / sizeof(fake_symbols[0]); i++) {
        if (strcmp(fake_symbols[i].name, symbol) == 0 && (without == NULL || strcmp(without, symbol) != 0))
            memcpy(&address, &fake_symbols[i].function, sizeof(address));
    }
    return address;
}

/* Looks up the plain name, as the driver's own function does, and records its arguments. */
static CUresult CUDAAPI
fake_get_proc_address_v2(const char *symbol, void **address, int version, cuuint64_t flags, int *how)
{
    char versioned[64];

    (void)how;
    fake.flags = (int)flags;
    if (strcmp(symbol, "cuDeviceTotalMem") == 0)
        fake.total_mem_version = version;
    snprintf(versioned, sizeof(versioned), "%s_v2", symbol);
    *address = fake_find(NULL, versioned);
    if (*address == NULL)
        *address = fake_find(NULL, symbol);
    return *address != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* A driver whose symbols are all behind cuGetProcAddress. */
static void *
fake_find_proc_address(void *context, const char *symbol)
{
    CUresult(CUDAAPI * function)(const char *, void **, int, cuuint64_t, int *) = fake_get_proc_address_v2;
    void *address = NULL;

    (void)context;
    if (strcmp(symbol, "cuGetProcAddress_v2") == 0)
        memcpy(&address, &function, sizeof(address));
    return address;
}

/* One device with pools, nothing made yet. */
static void
fake_reset(void)
{
    memset(&fake, 0, sizeof(fake));
    fake.devices = 2;
    fake.pools_supported = 1;
    fake.version = 13000;
}

#endif
