/* Wraps the functions of stream-ordered memory, and knows the program's pools. */
#include "config.h"

#include "src/process/account.h"
#include "src/process/devices.h"

#ifdef HAVE_CUDA_H

struct async_call {
    struct tidei_process_call call; /* first */
    CUdeviceptr *pointer;
    CUmemoryPool pool;
    CUstream stream;
    bool per_thread; /* the function whose default stream is the thread's own */
};

/* The stream as traces have it. */
static tide_stream
async_stream(CUstream stream, bool per_thread)
{
    return stream == NULL && per_thread ? (tide_stream)(uintptr_t)CU_STREAM_PER_THREAD : (tide_stream)(uintptr_t)stream;
}

/*
 * Whether an allocation becomes a node of a graph: then it is the graph's, which may be launched any number of times.
 */
static bool
async_is_captured(tide_stream stream)
{
    const struct tidei_driver *cuda = tidei_process_driver();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (cuda->stream_is_capturing == NULL)
        return false;
    return cuda->stream_is_capturing((CUstream)(uintptr_t)stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult
async_make(struct tidei_process_call *call, uint64_t *key)
{
    struct async_call *async = (struct async_call *)call;
    CUresult result = async->per_thread ? TIDEI_REAL(cuMemAllocAsync_ptsz)(async->pointer, call->bytes, async->stream)
                                        : TIDEI_REAL(cuMemAllocAsync)(async->pointer, call->bytes, async->stream);

    if (result == CUDA_SUCCESS)
        *key = *async->pointer;
    return result;
}

static CUresult
pool_make(struct tidei_process_call *call, uint64_t *key)
{
    struct async_call *async = (struct async_call *)call;
    CUresult result =
        async->per_thread
            ? TIDEI_REAL(cuMemAllocFromPoolAsync_ptsz)(async->pointer, call->bytes, async->pool, async->stream)
            : TIDEI_REAL(cuMemAllocFromPoolAsync)(async->pointer, call->bytes, async->pool, async->stream);

    if (result == CUDA_SUCCESS)
        *key = *async->pointer;
    return result;
}

static CUresult
async_give(struct tidei_process_call *call, uint64_t key)
{
    struct async_call *async = (struct async_call *)call;

    return async->per_thread ? TIDEI_REAL(cuMemFreeAsync_ptsz)(key, async->stream)
                             : TIDEI_REAL(cuMemFreeAsync)(key, async->stream);
}

static CUresult
async_allocate(CUdeviceptr *pointer, size_t bytes, CUstream stream, bool per_thread)
{
    struct async_call async = {
        .call = { .make = async_make,
                  .give = async_give,
                  .function = "cuMemAllocAsync",
                  .bytes = bytes,
                  .stream = async_stream(stream, per_thread) },
        .pointer = pointer,
        .stream = stream,
        .per_thread = per_thread,
    };
    struct tidei_process_what what = { .kind = TIDEI_PROCESS_ASYNC, .device = -1, .stays = true };
    uint64_t key;

    if (tidei_process_passes() || async_is_captured(async.call.stream))
        return async_make(&async.call, &key);
    what.device = tidei_process_stream_device(async.call.stream, -1);
    return tidei_process_allocate(&async.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return async_allocate(pointer, bytes, stream, false);
}

CUresult CUDAAPI
tidei_process_cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return async_allocate(pointer, bytes, stream, true);
}

static CUresult
pool_allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread)
{
    struct async_call async = {
        .call = { .make = pool_make,
                  .give = async_give,
                  .function = "cuMemAllocFromPoolAsync",
                  .bytes = bytes,
                  .stream = async_stream(stream, per_thread) },
        .pointer = pointer,
        .pool = pool,
        .stream = stream,
        .per_thread = per_thread,
    };
    struct tidei_process_what what = { .kind = TIDEI_PROCESS_POOL, .device = -1, .stays = true };
    uint64_t key;

    if (tidei_process_passes() || async_is_captured(async.call.stream))
        return pool_make(&async.call, &key);
    if (!tidei_process_pool_device(pool, &what.device))
        what.device = tidei_process_stream_device(async.call.stream, -1);
    else if (what.device < 0)
        what.kind = TIDEI_PROCESS_PINNED; /* of a pool of host memory */
    return tidei_process_allocate(&async.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return pool_allocate(pointer, bytes, pool, stream, false);
}

CUresult CUDAAPI
tidei_process_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return pool_allocate(pointer, bytes, pool, stream, true);
}

static CUresult
async_free(CUdeviceptr pointer, CUstream stream, bool per_thread)
{
    struct async_call async = {
        .call = { .give = async_give, .function = "cuMemFreeAsync", .stream = async_stream(stream, per_thread) },
        .stream = stream,
        .per_thread = per_thread,
    };

    return tidei_process_free(&async.call, TIDEI_PROCESS_ADDRESSES, pointer);
}

CUresult CUDAAPI
tidei_process_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    return async_free(pointer, stream, false);
}

CUresult CUDAAPI
tidei_process_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return async_free(pointer, stream, true);
}

CUresult CUDAAPI
tidei_process_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = TIDEI_REAL(cuMemPoolCreate)(pool, properties);

    if (result == CUDA_SUCCESS && !tidei_process_passes())
        tidei_process_pool_add(*pool,
                               properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : -1);
    return result;
}

/* Out of the list before it is gone: what is in the list is asked for what it has reserved. */
CUresult CUDAAPI
tidei_process_cuMemPoolDestroy(CUmemoryPool pool)
{
    bool passes = tidei_process_passes(), known;
    CUresult result;
    int device = 0;

    known = !passes && tidei_process_pool_remove(pool, &device);
    result = TIDEI_REAL(cuMemPoolDestroy)(pool);
    if (result != CUDA_SUCCESS && known)
        tidei_process_pool_add(pool, device);
    return result;
}

#endif
