/* Pools of the fake driver: properties, attributes, access, allocation and trimming. */
#include "tests/fake-cuda/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake-cuda/capture.h"

/* The maximum of a pool on the host, which no device limits. */
#define POOL_HOST_BYTES (1024 * FAKE_MIB)

static CUmemoryPool pool_all;

CUmemoryPool
fake_pools(void)
{
    return pool_all;
}

bool
fake_pool_is(CUmemoryPool pool)
{
    for (CUmemoryPool known = pool_all; known != NULL; known = known->next) {
        if (known == pool)
            return known->alive;
    }
    return false;
}

/* Map twice the maximum, so that there is contiguous room although live blocks are scattered. */
static bool
pool_make_room(CUmemoryPool pool)
{
    uint64_t bytes = pool->device >= 0 ? fake.devices[pool->device].total_bytes : POOL_HOST_BYTES;

    if (pool->properties.maxSize != 0 && pool->properties.maxSize < bytes)
        bytes = pool->properties.maxSize;
    pool->most_bytes = (bytes + FAKE_SLAB_BYTES - 1) / FAKE_SLAB_BYTES * FAKE_SLAB_BYTES;
    pool->span_bytes = 2 * pool->most_bytes;
    pool->slab_count = (size_t)(pool->span_bytes / FAKE_SLAB_BYTES);
    pool->slabs = calloc(pool->slab_count, sizeof(pool->slabs[0]));
    if (pool->slabs == NULL)
        abort();
    if (pool->properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE && !fake_pool_make_shareable(pool))
        return false;
    return fake_pool_map(pool, PROT_NONE);
}

/* A pool without memory yet. */
static CUmemoryPool
pool_new(const CUmemPoolProps *properties, int device)
{
    CUmemoryPool pool = calloc(1, sizeof(*pool));
    CUmemoryPool *link = &pool_all;

    if (pool == NULL)
        abort();
    pool->properties = *properties;
    pool->device = device;
    pool->fd = -1;
    pool->kind = properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ? FAKE_MANAGED
                 : device < 0                                            ? FAKE_HOST
                                                                         : FAKE_DEVICE;
    pool->follow_events = pool->opportunistic = pool->internal_dependencies = 1;
    for (int i = 0; i < FAKE_MOST_DEVICES; i++)
        pool->access[i] = i == device && pool->kind == FAKE_DEVICE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pool->alive = true;
    while (*link != NULL)
        link = &(*link)->next;
    *link = pool;
    return pool;
}

CUmemoryPool
fake_pool_new(const CUmemPoolProps *properties, int device)
{
    CUmemoryPool pool = pool_new(properties, device);

    if (!pool_make_room(pool)) {
        fake_pool_drop(pool);
        return NULL;
    }
    return pool;
}

/* A pool over the memory behind a descriptor, which becomes the pool's. Its memory does not count in this process. */
CUmemoryPool
fake_pool_new_imported(const CUmemPoolProps *properties, uint64_t span_bytes, int fd)
{
    CUmemoryPool pool = pool_new(properties, properties->location.id);

    pool->imported = true;
    pool->span_bytes = span_bytes;
    pool->fd = fd;
    if (!fake_pool_map(pool, PROT_READ | PROT_WRITE)) {
        fake_pool_drop(pool);
        return NULL;
    }
    return pool;
}

/* Destroy a pool and its memory; the handle stays known as destroyed. */
void
fake_pool_drop(CUmemoryPool pool)
{
    fake_device_give(pool->device, pool->reserved_bytes);
    pool->reserved_bytes = 0;
    while (pool->first != NULL) {
        struct fake_block *after = pool->first->after;

        free(pool->first);
        pool->first = after;
    }
    pool->first_free = NULL;
    if (pool->base != NULL)
        munmap(pool->base, pool->span_bytes);
    pool->base = NULL;
    if (pool->fd >= 0)
        close(pool->fd);
    pool->fd = -1;
    free(pool->slabs);
    pool->slabs = NULL;
    pool->slab_count = 0;
    pool->alive = false;
}

CUmemoryPool
fake_pool_default(int device)
{
    struct fake_device *entry = &fake.devices[device];
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };

    if (entry->default_pool == NULL) {
        entry->default_pool = fake_pool_new(&properties, device);
        if (entry->default_pool == NULL)
            return NULL;
        entry->default_pool->is_default = true;
        fake_pool_trace(entry->default_pool, FAKE_POOL_CREATED, 0);
    }
    return entry->default_pool;
}

void
fake_pool_trace(CUmemoryPool pool, enum fake_event_kind kind, uint64_t least_bytes)
{
    struct fake_event event = { .kind = kind,
                                .pool_type = pool->imported ? 2 : 1,
                                .pool_address = (uint64_t)(uintptr_t)pool->base,
                                .pool_bytes = pool->reserved_bytes,
                                .pool_used_bytes = pool->told_used_bytes,
                                .pool_threshold_bytes = pool->threshold_bytes,
                                .least_bytes = least_bytes,
                                .device = pool->device < 0 ? 0 : (uint32_t)pool->device,
                                .managed = pool->kind == FAKE_MANAGED };

    if (kind == FAKE_POOL_CREATED && !pool->imported)
        event.pool_bytes = FAKE_SLAB_BYTES; /* as observed, although nothing is reserved yet */
    fake_trace(&event);
}

void
fake_block_trace(CUmemoryPool pool, const struct fake_block *block, enum fake_event_kind kind, CUstream stream)
{
    struct fake_event event = { .kind = kind,
                                .memory_kind = fake_memory_number(pool->kind),
                                .pool_type = pool->imported ? 2 : 1,
                                .address = (uint64_t)(uintptr_t)(pool->base + block->offset),
                                .bytes = block->requested_bytes,
                                .pool_address = (uint64_t)(uintptr_t)pool->base,
                                .pool_bytes = pool->reserved_bytes,
                                .pool_used_bytes = pool->told_used_bytes,
                                .pool_threshold_bytes = pool->threshold_bytes,
                                .pool_process = (uint64_t)getpid(),
                                .device = pool->device < 0 ? 0 : (uint32_t)pool->device,
                                .context = stream != NULL ? stream->context->id : UINT32_MAX,
                                .stream = stream != NULL ? (uint32_t)stream->id : UINT32_MAX,
                                .asynchronous = stream != NULL };

    fake_trace(&event);
}

static void
pool_trim(CUmemoryPool pool, CUmemoryPool but)
{
    if (pool != but) {
        fake_pool_retire(pool);
        fake_pool_trim(pool, pool->threshold_bytes);
    }
    pool->told_used_bytes -= pool->told_freed_bytes;
    pool->told_freed_bytes = 0;
    fake_pool_trace(pool, FAKE_POOL_TRIMMED, 0);
}

/* CUPTI gets an event for every pool, default pools first, whether or not memory was released. */
void
fake_pools_trim(int device, CUmemoryPool but)
{
    for (int defaults = 1; defaults >= 0; defaults--) {
        for (CUmemoryPool pool = pool_all; pool != NULL; pool = pool->next) {
            if (pool->alive && !pool->imported && pool->is_default == (defaults != 0) &&
                (pool->device == device || pool->device < 0))
                pool_trim(pool, but);
        }
    }
}

/* Drop destroyed pools whose last frees are done by now. */
static void
pools_drop_done(void)
{
    CUmemoryPool next;

    for (CUmemoryPool pool = pool_all; pool != NULL; pool = next) {
        next = pool->next;
        if (!pool->alive && pool->live_count == 0 && !fake_pool_waits(pool))
            fake_pool_drop(pool);
    }
}

/* Make the blocks available whose free the host has waited for. */
void
fake_pools_synchronized(int device)
{
    bool freed = false;

    pools_drop_done();
    for (CUmemoryPool pool = pool_all; pool != NULL; pool = pool->next)
        freed = freed || (!pool->imported && pool->frees_since_trim);
    if (!freed)
        return;
    for (CUmemoryPool pool = pool_all; pool != NULL; pool = pool->next)
        pool->frees_since_trim = pool->frees_since_trim && pool->alive && fake_pool_waits(pool);
    fake_pools_trim(device, NULL);
}

static CUresult
pool_check(const CUmemPoolProps *properties, int *device)
{
    *device = -1;
    switch (properties->allocType) {
    case CU_MEM_ALLOCATION_TYPE_PINNED:
    case CU_MEM_ALLOCATION_TYPE_MANAGED:
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        if (!fake_device_is(properties->location.id))
            return CUDA_ERROR_INVALID_VALUE;
        *device = properties->location.id;
        break;
    case CU_MEM_LOCATION_TYPE_NONE:
        if (properties->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_MEM_LOCATION_TYPE_HOST:
        break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        if (properties->location.id != 0)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (properties->handleTypes & ~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED &&
        (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE || properties->maxSize != 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof(properties->reserved); i++) {
        if (properties->reserved[i] != 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult
do_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    CUresult result;
    int device;

    if (out == NULL || properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = pool_check(properties, &device);
    if (result != CUDA_SUCCESS)
        return result;
    *out = fake_pool_new(properties, device);
    if (*out == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_pool_trace(*out, FAKE_POOL_CREATED, 0);
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps *properties), (out, properties))

void
fake_pool_refused(CUmemoryPool pool)
{
    if (!pool->refused)
        return;
    fprintf(stderr, "fake-cuda: a pool was used, or destroyed, after its export was not permitted\n");
    abort();
}

/* A pool with live blocks is destroyed when they are freed. */
static CUresult
do_cuMemPoolDestroy(CUmemoryPool pool)
{
    if (!fake_pool_is(pool) || pool->is_default || (pool->imported && pool->live_count > 0))
        return CUDA_ERROR_INVALID_VALUE;
    fake_pool_refused(pool);
    for (int i = 0; i < fake.device_count; i++) {
        if (fake.devices[i].pool == pool)
            fake.devices[i].pool = NULL;
    }
    fake_pool_trace(pool, FAKE_POOL_DESTROYED, 0);
    pool->alive = false;
    if (pool->live_count == 0 && !fake_pool_waits(pool))
        fake_pool_drop(pool);
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolDestroy, (CUmemoryPool pool), (pool))

static CUresult
do_cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = fake_pool_default(device);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

FAKE_API(11020, cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), (out, device))

static CUresult
do_cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = fake.devices[device].pool != NULL ? fake.devices[device].pool : fake_pool_default(device);
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device), (out, device))

static CUresult
do_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!fake_pool_is(pool) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    fake.devices[device].pool = pool;
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), (device, pool))

/* The host's pools have numbers as well: 0 pinned, 1 managed without a location, 2 managed. */
static CUmemoryPool pool_host_default[3], pool_host_current[3];

static int
pool_host_number(const CUmemLocation *location, CUmemAllocationType type)
{
    if (location->type == CU_MEM_LOCATION_TYPE_NONE)
        return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? 1 : -1;
    if (location->type != CU_MEM_LOCATION_TYPE_HOST &&
        (location->type != CU_MEM_LOCATION_TYPE_HOST_NUMA || location->id != 0))
        return -1;
    return type == CU_MEM_ALLOCATION_TYPE_PINNED ? 0 : type == CU_MEM_ALLOCATION_TYPE_MANAGED ? 2 : -1;
}

static bool
pool_is_of_device(const CUmemLocation *location, CUmemAllocationType type)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

static CUresult
do_cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    CUmemPoolProps properties = { .allocType = type };
    int number;

    if (out == NULL || location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool_is_of_device(location, type))
        return do_cuDeviceGetDefaultMemPool(out, location->id);
    number = pool_host_number(location, type);
    if (number < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool_host_default[number] == NULL) {
        properties.location = *location;
        pool_host_default[number] = fake_pool_new(&properties, -1);
        if (pool_host_default[number] == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pool_host_default[number]->is_default = true;
    }
    *out = pool_host_default[number];
    return CUDA_SUCCESS;
}

FAKE_API(13000, cuMemGetDefaultMemPool, (CUmemoryPool * out, CUmemLocation *location, CUmemAllocationType type),
         (out, location, type))

static CUresult
do_cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    int number;

    if (out == NULL || location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool_is_of_device(location, type))
        return do_cuDeviceGetMemPool(out, location->id);
    number = pool_host_number(location, type);
    if (number < 0 || pool_host_current[number] == NULL || !fake_pool_is(pool_host_current[number]))
        return do_cuMemGetDefaultMemPool(out, location, type);
    *out = pool_host_current[number];
    return CUDA_SUCCESS;
}

FAKE_API(13000, cuMemGetMemPool, (CUmemoryPool * out, CUmemLocation *location, CUmemAllocationType type),
         (out, location, type))

static CUresult
do_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    int number;

    if (location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool_is_of_device(location, type))
        return do_cuDeviceSetMemPool(location->id, pool);
    number = pool_host_number(location, type);
    if (number < 0 || !fake_pool_is(pool) || pool->properties.allocType != type ||
        pool->properties.location.type != location->type)
        return CUDA_ERROR_INVALID_VALUE;
    pool_host_current[number] = pool;
    return CUDA_SUCCESS;
}

FAKE_API(13000, cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
         (location, type, pool))

static CUresult
pool_allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUresult result;
    struct fake_place place;

    if (out == NULL || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    fake_pool_refused(pool);
    *out = 0;
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (stream->capture != NULL)
        return fake_capture_allocate(stream, bytes, out);
    result = fake_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    result = fake_pool_allocate(pool, bytes, stream, out);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && bytes <= pool->most_bytes) {
        fake_pools_trim(pool->device, pool);
        result = fake_pool_allocate(pool, bytes, stream, out);
    }
    if (result == CUDA_SUCCESS && fake_place_find(*out, &place)) {
        pool->told_used_bytes += bytes;
        fake_block_trace(pool, place.block, FAKE_ALLOCATION, stream);
    }
    return result;
}

static CUresult
do_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (!fake_pool_is(pool))
        return CUDA_ERROR_INVALID_VALUE;
    return pool_allocate(out, bytes, pool, stream);
}

FAKE_API_STREAM(11020, cuMemAllocFromPoolAsync, (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream handle),
                (out, bytes, pool, handle))

static CUresult
do_cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    CUmemoryPool pool;
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    result = do_cuDeviceGetMemPool(&pool, stream->context->device);
    if (result != CUDA_SUCCESS)
        return result;
    return pool_allocate(out, bytes, pool, stream);
}

FAKE_API_STREAM(11020, cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream handle), (out, bytes, handle))

/* Memory of cuMemAlloc may also be freed in stream order. */
static CUresult
do_cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    struct fake_place place;
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS || address == 0)
        return result;
    if (stream->capture != NULL)
        return fake_capture_free(stream, address);
    if (!fake_place_find(address, &place) || place.start != address || place.mapping != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = fake_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (place.of_graph)
        return fake_graph_memory_free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (place.block == NULL)
        return fake_memory_free(address, stream);
    if (place.pool->alive) /* CUPTI reports nothing for a destroyed pool */
        fake_block_trace(place.pool, place.block, FAKE_RELEASE, stream);
    place.pool->told_freed_bytes += place.bytes;
    place.pool->frees_since_trim = true;
    fake_pool_free(place.pool, place.block, (struct fake_point){ stream, stream->submitted });
    return CUDA_SUCCESS;
}

FAKE_API_STREAM(11020, cuMemFreeAsync, (CUdeviceptr address, CUstream handle), (address, handle))
