/*
 * Tests the driver's behaviour where the library relies on it and the manual is silent, as observed on an H200 with the
 * driver 580.159. On the fake driver it tests that the fake behaves alike.
 */
#include "tests/gpu/gpu.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/gpu/call.h"
#include "tests/gpu/lock.h"

#ifdef HAVE_CUDA_H

#define MIB ((size_t)1 << 20)

static CUcontext primary;

static CUmemoryPool
pool_of(size_t maximum_bytes)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
                                  .maxSize = maximum_bytes };
    CUmemoryPool pool = NULL;

    MUST(cuMemPoolCreate, &pool, &properties);
    return pool;
}

static CUdeviceptr
taken(CUmemoryPool pool, size_t bytes, CUstream stream)
{
    CUdeviceptr address = 0;

    MUST(cuMemAllocFromPoolAsync, &address, bytes, pool, stream);
    return address;
}

/* Returns a pool's figure, in bytes. */
static cuuint64_t
figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    MUST(cuMemPoolGetAttribute, pool, attribute, &value);
    return value;
}

static bool
has(CUmemoryPool pool, size_t used_bytes, size_t reserved_bytes, const char *sentence)
{
    cuuint64_t used = figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    cuuint64_t reserved = figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    bool passed = ok(all_of(used == used_bytes, reserved == reserved_bytes), "%s", sentence);

    if (!passed)
        diag("used %llu, reserved %llu bytes", (unsigned long long)used, (unsigned long long)reserved);
    return passed;
}

static void
set_threshold(CUmemoryPool pool, cuuint64_t bytes)
{
    MUST(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
}

static void
test_without_context(void)
{
    CUmemoryPool pool = pool_of(0);
    CUdeviceptr address = 0;

    ok(figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0, "a pool is created and asked without a context");
    is_result(CU(cuMemAllocFromPoolAsync)(&address, 1, pool, NULL), CUDA_ERROR_INVALID_CONTEXT,
              "stream 0 of no context allocates nothing");
    is_result(CU(cuMemFreeAsync)(0x1000, NULL), CUDA_ERROR_INVALID_CONTEXT, "stream 0 of no context frees nothing");
    is_result(CU(cuMemFree)(0x1000), CUDA_ERROR_INVALID_VALUE,
              "cuMemFree without a context refuses an unknown address as an invalid value");
    is_result(CU(cuMemPoolTrimTo)(pool, 0), CUDA_SUCCESS, "a trim needs no context");
    is_result(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS, "the destruction of a pool needs no context");
}

static void
test_properties(void)
{
    static const struct {
        const char *sentence;
        CUmemAllocationType type;
        CUmemLocation location;
        CUmemAllocationHandleType handles;
        size_t maximum_bytes;
        CUresult wanted;
    } rows[] = {
        { "a device that is not there", CU_MEM_ALLOCATION_TYPE_PINNED, { CU_MEM_LOCATION_TYPE_DEVICE, 99 }, 0, 0, 1 },
        { "no allocation type", CU_MEM_ALLOCATION_TYPE_INVALID, { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, 0, 0, 1 },
        { "no location", CU_MEM_ALLOCATION_TYPE_PINNED, { CU_MEM_LOCATION_TYPE_INVALID, 0 }, 0, 0, 1 },
        { "a NUMA node that is not there",
          CU_MEM_ALLOCATION_TYPE_PINNED,
          { CU_MEM_LOCATION_TYPE_HOST_NUMA, 4711 },
          0,
          0,
          1 },
        { "NUMA node 0", CU_MEM_ALLOCATION_TYPE_PINNED, { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 }, 0, 64 * MIB, 0 },
        { "a Windows handle", CU_MEM_ALLOCATION_TYPE_PINNED, { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, 2, 0, 1 },
        { "a descriptor", CU_MEM_ALLOCATION_TYPE_PINNED, { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, 1, 0, 0 },
        { "a maximum of 1 byte", CU_MEM_ALLOCATION_TYPE_PINNED, { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, 0, 1, 0 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CUmemPoolProps properties = { .allocType = rows[i].type,
                                      .location = rows[i].location,
                                      .handleTypes = rows[i].handles,
                                      .maxSize = rows[i].maximum_bytes };
        CUmemoryPool pool = NULL;
        CUresult result = CU(cuMemPoolCreate)(&pool, &properties);

        is_result(result, rows[i].wanted, rows[i].sentence);
        if (result == CUDA_SUCCESS)
            MUST(cuMemPoolDestroy, pool);
    }
}

static void
test_figures(void)
{
    CUmemoryPool pool = pool_of(0);
    cuuint64_t value = 5;
    CUdeviceptr a, b;

    has(pool, 0, 0, "a new pool reserves nothing");
    a = taken(pool, 100, NULL);
    b = taken(pool, 33 * MIB, NULL);
    has(pool, 33 * MIB + 100, 64 * MIB,
        "a pool's used bytes are those requested, and its reserved bytes are steps of 32 MiB");
    is_result(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), CUDA_ERROR_INVALID_VALUE,
              "a pool's high figure cannot be set to 1");
    MUST(cuMemFreeAsync, b, NULL);
    has(pool, 100, 64 * MIB, "a freed block counts as used no more from the free on");
    MUST(cuMemPoolTrimTo, pool, 0);
    has(pool, 100, 64 * MIB, "a trim keeps memory whose free no synchronize has completed");
    value = 0;
    is_result(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), CUDA_SUCCESS,
              "a pool's high figure can be set to 0");
    ok(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 100, "a high figure that is set to 0 becomes the current figure");
    MUST(cuStreamSynchronize, NULL);
    has(pool, 100, 32 * MIB, "a synchronize releases memory over a threshold of 0");
    MUST(cuMemFree, a);
    has(pool, 100, 0, "cuMemFree releases the memory of a pool's block, but its bytes go on counting as used");
    MUST(cuMemPoolDestroy, pool);
}

static void
test_threshold(void)
{
    CUmemoryPool pool = pool_of(0);
    CUdeviceptr blocks[4];

    set_threshold(pool, 40 * MIB);
    for (int i = 0; i < 4; i++)
        blocks[i] = taken(pool, 32 * MIB, NULL);
    for (int i = 0; i < 4; i++)
        MUST(cuMemFreeAsync, blocks[i], NULL);
    MUST(cuCtxSynchronize);
    has(pool, 0, 32 * MIB, "a synchronize keeps as much as the threshold");
    MUST(cuMemPoolTrimTo, pool, 1);
    has(pool, 0, 32 * MIB, "a trim keeps as much as its argument");
    MUST(cuMemPoolTrimTo, pool, 0);
    has(pool, 0, 0, "a trim to 0 releases everything");
    blocks[0] = taken(pool, 48 * MIB, NULL);
    blocks[1] = taken(pool, 48 * MIB, NULL);
    has(pool, 96 * MIB, 96 * MIB, "the next block uses the rest of a step");
    MUST(cuMemFreeAsync, blocks[0], NULL);
    MUST(cuMemFreeAsync, blocks[1], NULL);
    is_result(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS, "a pool is destroyed while a free is under way");
}

static void
test_pointers(void)
{
    CUmemoryPool pool = pool_of(32 * MIB);
    CUdeviceptr address = taken(pool, MIB, NULL);
    CUdeviceptr other = 0;

    is_result(CU(cuMemFreeAsync)(address + 4096, NULL), CUDA_ERROR_INVALID_VALUE,
              "the free of an address inside of a block is refused");
    is_result(CU(cuMemFreeAsync)(0, NULL), CUDA_SUCCESS, "address 0 may be freed");
    is_result(CU(cuMemAllocFromPoolAsync)(&other, 0, pool, NULL), CUDA_SUCCESS, "0 bytes may be allocated");
    ok(other == 0, "an allocation of 0 bytes gives address 0");
    is_result(CU(cuMemAllocFromPoolAsync)(&other, 33 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY,
              "more than the maximum is refused");
    is_result(CU(cuMemFreeAsync)(address, NULL), CUDA_SUCCESS, "a block of a pool is freed");
    is_result(CU(cuMemFreeAsync)(address, NULL), CUDA_ERROR_INVALID_VALUE, "once");
    address = taken(pool, MIB, NULL);
    is_result(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS, "a pool with a block out is destroyed");
    is_result(CU(cuMemFreeAsync)(address, NULL), CUDA_SUCCESS, "a block is freed after its pool was destroyed");
    is_result(CU(cuMemPoolDestroy)(pool), CUDA_ERROR_INVALID_VALUE, "a destroyed pool is an invalid value");
    MUST(cuMemAllocManaged, &other, MIB, CU_MEM_ATTACH_GLOBAL);
    is_result(CU(cuMemFreeAsync)(other, NULL), CUDA_ERROR_NOT_SUPPORTED, "managed memory is not freed in stream order");
    is_result(CU(cuMemFree)(other), CUDA_SUCCESS, "managed memory is freed by cuMemFree");
}

static atomic_int held;

/* Hold the stream, at most for 5 s, so that a failing test does not hang. */
static void CUDA_CB
hold(void *unused)
{
    const struct timespec pause = { .tv_nsec = 1000000 };

    (void)unused;
    for (int i = 0; i < 5000 && atomic_load(&held); i++)
        nanosleep(&pause, NULL);
}

/* A block is freed on a stream that is held: which block does another stream get? */
struct reuse {
    const char *sentence;
    int follow, opportunistic, internal; /* the pool's policies */
    bool event;                          /* the other stream waits for an event after the free */
    bool done;                           /* the first stream has passed the free */
    bool full;                           /* the pool has no room for another block */
    enum { SAME, ANOTHER, NONE } wanted;
};

static void
test_reuse(const struct reuse *scene)
{
    CUmemoryPool pool = pool_of(scene->full ? 64 * MIB : 0);
    int policies[] = { scene->follow, scene->opportunistic, scene->internal };
    CUdeviceptr block, again = 0;
    CUstream first, second;
    CUevent event;
    CUresult result;

    MUST(cuStreamCreate, &first, CU_STREAM_NON_BLOCKING);
    MUST(cuStreamCreate, &second, CU_STREAM_NON_BLOCKING);
    MUST(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < 3; i++)
        MUST(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES + i),
             &policies[i]);
    block = taken(pool, 48 * MIB, first);
    MUST(cuStreamSynchronize, first);
    atomic_store(&held, 1);
    MUST(cuLaunchHostFunc, first, hold, NULL);
    MUST(cuMemFreeAsync, block, first);
    if (scene->event) {
        MUST(cuEventRecord, event, first);
        MUST(cuStreamWaitEvent, second, event, 0);
    }
    if (scene->done)
        atomic_store(&held, 0);
    while (scene->done && CU(cuStreamQuery)(first) == CUDA_ERROR_NOT_READY)
        continue;
    result = CU(cuMemAllocFromPoolAsync)(&again, 48 * MIB, pool, second);
    ok(scene->wanted == NONE ? result == CUDA_ERROR_OUT_OF_MEMORY
                             : result == CUDA_SUCCESS && (again == block) == (scene->wanted == SAME),
       "%s", scene->sentence);
    if (result == CUDA_SUCCESS)
        MUST(cuMemFreeAsync, again, second);
    ok(scene->wanted == SAME || taken(pool, 48 * MIB, first) == block,
       "%s: the stream of the freed block gets it at once", scene->sentence);
    atomic_store(&held, 0);
    MUST(cuCtxSynchronize);
    MUST(cuStreamDestroy, first);
    MUST(cuStreamDestroy, second);
    MUST(cuEventDestroy, event);
    MUST(cuMemPoolDestroy, pool);
}

static const struct reuse reuses[] = {
    { "with all policies a pool prefers growing to waiting", 1, 1, 1, false, false, false, ANOTHER },
    { "a pool that follows events gives the block to a stream behind an event", 1, 0, 0, true, false, false, SAME },
    { "a pool that does not follow events grows", 0, 0, 0, true, false, false, ANOTHER },
    { "an opportunistic pool gives a block whose work is done to any stream", 0, 1, 0, false, true, false, SAME },
    { "a pool that is not opportunistic grows", 0, 0, 0, false, true, false, ANOTHER },
    { "a full pool with internal dependencies makes the other stream wait", 0, 0, 1, false, false, true, SAME },
    { "a full pool without internal dependencies refuses the request", 0, 0, 0, false, false, true, NONE },
    { "a full pool that follows events gives the block to a stream behind an event", 1, 0, 0, true, false, true, SAME },
};

static void
test_legacy(void)
{
    CUstream blocking, other;

    MUST(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
    MUST(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
    atomic_store(&held, 1);
    MUST(cuLaunchHostFunc, blocking, hold, NULL);
    is_result(CU(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY, "stream 0 is behind a stream that blocks");
    is_result(CU(cuStreamQuery)(other), CUDA_SUCCESS, "a stream that does not block is not behind a blocking stream");
    atomic_store(&held, 0);
    MUST(cuCtxSynchronize);
    atomic_store(&held, 1);
    MUST(cuLaunchHostFunc, NULL, hold, NULL);
    is_result(CU(cuStreamQuery)(blocking), CUDA_SUCCESS, "a blocking stream without work does not wait for stream 0");
    MUST(cuLaunchHostFunc, blocking, hold, NULL);
    is_result(CU(cuStreamQuery)(blocking), CUDA_ERROR_NOT_READY,
              "the next work of a blocking stream waits for stream 0");
    atomic_store(&held, 0);
    MUST(cuCtxSynchronize);
    MUST(cuStreamDestroy, blocking);
    MUST(cuStreamDestroy, other);
}

static void
test_capture(void)
{
    CUmemoryPool pool = pool_of(0);
    CUdeviceptr address = 0, other = 0;
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphExec second = NULL;

    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    MUST(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    is_result(CU(cuMemAllocFromPoolAsync)(&other, MIB, pool, NULL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              "a global capture allows no allocation on another stream");
    is_result(CU(cuMemAllocFromPoolAsync)(&address, MIB, pool, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              "a global capture is invalidated by an allocation on another stream");
    is_result(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              "an invalidated capture ends without a graph");
    MUST(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    is_result(CU(cuMemAllocFromPoolAsync)(&other, MIB, pool, NULL), CUDA_SUCCESS,
              "a relaxed capture allows an allocation on another stream");
    is_result(CU(cuMemAllocFromPoolAsync)(&address, MIB, pool, stream), CUDA_SUCCESS,
              "a relaxed capture captures an allocation");
    ok(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MIB, "a captured allocation uses none of the pool's memory");
    is_result(CU(cuMemFreeAsync)(other, stream), CUDA_ERROR_INVALID_VALUE,
              "a capture refuses the free of memory allocated outside of it");
    MUST(cuStreamEndCapture, stream, &graph);
    is_result(CU(cuMemFreeAsync)(address, stream), CUDA_ERROR_INVALID_VALUE,
              "before the launch captured memory cannot be freed");
    MUST(cuGraphInstantiate, &exec, graph, 0);
    is_result(CU(cuGraphInstantiate)(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED,
              "a graph with memory has only one instance");
    is_result(CU(cuGraphLaunch)(exec, stream), CUDA_SUCCESS, "the launch of a graph allocates its memory");
    is_result(CU(cuGraphLaunch)(exec, stream), CUDA_ERROR_INVALID_VALUE, "a second launch before a free is refused");
    MUST(cuGraphExecDestroy, exec);
    MUST(cuGraphDestroy, graph);
    is_result(CU(cuMemFreeAsync)(address, stream), CUDA_SUCCESS, "memory left of a destroyed graph is freed");
    is_result(CU(cuMemFreeAsync)(address, stream), CUDA_ERROR_INVALID_VALUE, "once");
    MUST(cuMemFreeAsync, other, stream);
    MUST(cuStreamSynchronize, stream);
    MUST(cuDeviceGraphMemTrim, 0);
    MUST(cuStreamDestroy, stream);
    MUST(cuMemPoolDestroy, pool);
}

/* A second stream joins a capture through an event, and another event has to wait for it. */
static void
test_capture_of_two(void)
{
    CUgraph graph = NULL;
    CUstream first, second;
    CUevent event;

    MUST(cuStreamCreate, &first, CU_STREAM_NON_BLOCKING);
    MUST(cuStreamCreate, &second, CU_STREAM_NON_BLOCKING);
    MUST(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    for (int joined = 0; joined < 2; joined++) {
        MUST(cuStreamBeginCapture, first, CU_STREAM_CAPTURE_MODE_RELAXED);
        MUST(cuEventRecord, event, first);
        MUST(cuStreamWaitEvent, second, event, 0);
        MUST(cuLaunchHostFunc, second, hold, NULL);
        if (joined) {
            MUST(cuEventRecord, event, second);
            MUST(cuStreamWaitEvent, first, event, 0);
        }
        is_result(CU(cuStreamEndCapture)(first, &graph), joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                  joined ? "a stream that joined a capture, and is waited for, is in the graph"
                         : "without a wait for the joined stream the capture ends without a graph");
    }
    is_result(CU(cuStreamWaitEvent)(second, event, 0), CUDA_ERROR_INVALID_VALUE,
              "an event of a capture that has ended cannot be waited for");
    MUST(cuGraphDestroy, graph);
    MUST(cuStreamDestroy, first);
    MUST(cuStreamDestroy, second);
    MUST(cuEventDestroy, event);
}

/* A pool has to be exported before its pointers. */
static void
test_export(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr address = 0;
    int fd = -1;

    MUST(cuMemPoolCreate, &pool, &properties);
    address = taken(pool, MIB, NULL);
    is_result(CU(cuMemPoolExportPointer)(&data, address), CUDA_ERROR_INVALID_VALUE,
              "no pointer is exported before the handle of its pool");
    MUST(cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    is_result(CU(cuMemPoolExportPointer)(&data, address), CUDA_SUCCESS,
              "a pointer from before the export is exported after the handle of its pool");
    MUST(cuMemFreeAsync, address, NULL);
    MUST(cuMemPoolDestroy, pool);
    close(fd);
}

static void
test_released(void)
{
    CUmemoryPool pool = pool_of(0);
    CUdeviceptr address = taken(pool, MIB, NULL);
    CUcontext again = NULL;

    MUST(cuDevicePrimaryCtxReset, 0);
    is_result(CU(cuMemAllocFromPoolAsync)(&address, MIB, pool, NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED,
              "a context that was reset allocates nothing");
    ok(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == MIB, "the pool outlives the reset of the primary context");
    MUST(cuDevicePrimaryCtxRetain, &again, 0);
    ok(again == primary, "a primary context that comes back is at the same address");
    is_result(CU(cuMemFreeAsync)(address, NULL), CUDA_SUCCESS,
              "a primary context that comes back frees what was allocated before");
    MUST(cuMemPoolDestroy, pool);
    MUST(cuDevicePrimaryCtxRelease, 0);
}

#define REUSES (sizeof(reuses) / sizeof(reuses[0]))

int
main(void)
{
    const char *reason;

    gpu_lock(true);
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    /* Compute-sanitizer makes the driver wait at other places. */
    gpu_skip_sanitized("no test of ours, but of the driver, which conducts itself otherwise under compute-sanitizer");
    plan(66 + 2 * (int)REUSES);
    gpu_diag();
    test_without_context();
    MUST(cuDevicePrimaryCtxRetain, &primary, 0);
    MUST(cuCtxSetCurrent, primary);
    test_properties();
    test_figures();
    test_threshold();
    test_pointers();
    for (size_t i = 0; i < REUSES; i++)
        test_reuse(&reuses[i]);
    test_legacy();
    test_capture();
    test_capture_of_two();
    test_export();
    test_released();
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
