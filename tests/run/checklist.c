/*
 * What others that limit device memory by interposition got wrong, as tests: `tidemark run --limit 64MiB` runs this
 * program (tests/run-checklist-t.sh). In brackets stands what is known as HAMi-core's issue, pull request or line.
 */
#include "config.h"

#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/tap.h"

#define MIB   ((size_t)1 << 20)
#define LIMIT (64 * MIB)

static CUcontext contexts[2];

/* Free bytes of the current device, as the program is told. */
static size_t
free_bytes(void)
{
    size_t free = 0, total = 0;

    return cuMemGetInfo(&free, &total) == CUDA_SUCCESS && free <= total && total == LIMIT ? free : SIZE_MAX;
}

static void
test_sizes(void)
{
    size_t free = 0, total = 0;

    ok(cuMemGetInfo(NULL, NULL) == CUDA_SUCCESS, "cuMemGetInfo takes NULL twice, as the driver does (333, 234)");
    ok(all_of(cuMemGetInfo(&free, NULL) == CUDA_SUCCESS, cuMemGetInfo(NULL, &total) == CUDA_SUCCESS, free == LIMIT,
              total == LIMIT),
       "cuMemGetInfo with one NULL tells the other size");
    ok(all_of(cuDeviceTotalMem(&total, 0) == CUDA_SUCCESS, total == LIMIT), "the device has the size of the limit");
    ok(free_bytes() == LIMIT, "no constant is charged for a context");
}

static void
test_plain(void)
{
    CUdeviceptr whole = 0, more = 0;

    ok(cuMemAlloc(&more, LIMIT + 1) == CUDA_ERROR_OUT_OF_MEMORY, "a byte above the limit is out of memory (55)");
    ok(cuMemAlloc(&whole, LIMIT) == CUDA_SUCCESS, "the limit itself fits");
    ok(free_bytes() == 0, "with all of it taken, cuMemGetInfo succeeds and says 0 (181)");
    ok(cuMemAlloc(&more, 1) == CUDA_ERROR_OUT_OF_MEMORY, "one byte more is refused");
    ok(all_of(cuMemFree(whole) == CUDA_SUCCESS, free_bytes() == LIMIT), "what is freed can be had again");
    ok(cuMemFree(whole) == CUDA_ERROR_INVALID_VALUE, "a second free is the driver's error, not -1");
    ok(cuMemFree(0x7000) == CUDA_ERROR_INVALID_VALUE,
       "a foreign pointer's free is the driver's error, not -1 (93, 217)");
    ok(cuMemFree(0) == CUDA_SUCCESS, "NULL may be freed");
    ok(free_bytes() == LIMIT, "none of these changes what is used (200)");
}

static void
test_async(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUresult (*alloc)(CUdeviceptr *, size_t, CUstream) = NULL;
    CUresult (*release)(CUdeviceptr, CUstream) = NULL;
    CUdeviceptr pointer = 0, more = 0;
    CUmemoryPool pool = NULL;

    cuGetProcAddress("cuMemAllocAsync", (void **)&alloc, 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL);
    cuGetProcAddress("cuMemFreeAsync", (void **)&release, 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL);
    ok(all_of(alloc != NULL, release != NULL, alloc(&pointer, 16 * MIB, NULL) == CUDA_SUCCESS,
              free_bytes() == LIMIT - 16 * MIB),
       "memory of the per-thread default stream counts (no _ptsz there)");
    ok(alloc(&more, 49 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY, "so it is limited");
    ok(all_of(release(pointer, NULL) == CUDA_SUCCESS, free_bytes() == LIMIT),
       "it is given back when it is freed, not when the pool shrinks (96, 306)");
    ok(all_of(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS,
              cuMemAllocFromPoolAsync(&pointer, 16 * MIB, pool, NULL) == CUDA_SUCCESS,
              free_bytes() == LIMIT - 16 * MIB),
       "memory of a pool of the program's counts (93, 217)");
    ok(cuMemAllocFromPoolAsync(&more, 49 * MIB, pool, NULL) == CUDA_ERROR_OUT_OF_MEMORY, "it is limited, too");
    ok(all_of(cuMemFreeAsync(pointer, NULL) == CUDA_SUCCESS, free_bytes() == LIMIT), "it is given back");
    cuMemPoolDestroy(pool);
}

static void
test_virtual(void)
{
    CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUmemAllocationProp on_host = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = { .type = CU_MEM_LOCATION_TYPE_HOST } };
    CUmemGenericAllocationHandle handle = 0, more = 0;
    CUdeviceptr address = 0;

    ok(all_of(cuMemCreate(&handle, 16 * MIB, &properties, 0) == CUDA_SUCCESS, free_bytes() == LIMIT - 16 * MIB),
       "physical memory counts (98)");
    ok(cuMemCreate(&more, 64 * MIB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY, "it is limited");
    ok(all_of(cuMemAddressReserve(&address, 128 * MIB, 0, 0, 0) == CUDA_SUCCESS, free_bytes() == LIMIT - 16 * MIB),
       "addresses are no memory");
    ok(all_of(cuMemMap(address, 16 * MIB, 0, handle, 0) == CUDA_SUCCESS, cuMemRelease(handle) == CUDA_SUCCESS,
              free_bytes() == LIMIT - 16 * MIB),
       "a handle that is released while it is mapped counts on");
    ok(all_of(cuMemUnmap(address, 16 * MIB) == CUDA_SUCCESS, free_bytes() == LIMIT), "it ends with its last mapping");
    cuMemAddressFree(address, 128 * MIB);
    if (cuMemCreate(&handle, 128 * MIB, &on_host, 0) == CUDA_SUCCESS) {
        ok(free_bytes() == LIMIT, "physical memory of the host is charged to no device (187)");
        cuMemRelease(handle);
    } else {
        skip(1, "this driver has no physical memory of the host");
    }
}

static void
test_others(void)
{
    CUDA_ARRAY_DESCRIPTOR descriptor = { 1024, 1024, CU_AD_FORMAT_FLOAT, 4 };
    CUarray array = NULL, more = NULL;
    CUdeviceptr managed = 0, plain = 0;
    unsigned int one = 0, other = 1;
    void *pinned = NULL;
    size_t pitch;

    ok(all_of(cuArrayCreate(&array, &descriptor) == CUDA_SUCCESS, free_bytes() <= LIMIT - 16 * MIB), "an array counts");
    descriptor.Height = 8192;
    ok(cuArrayCreate(&more, &descriptor) == CUDA_ERROR_OUT_OF_MEMORY, "it is limited");
    ok(all_of(cuArrayDestroy(array) == CUDA_SUCCESS, free_bytes() == LIMIT), "it is given back");
    ok(cuMemAllocPitch(&plain, &pitch, 1 << 16, 1 << 11, 4) == CUDA_ERROR_OUT_OF_MEMORY,
       "rows with a pitch are limited");
    ok(all_of(cuMemHostAlloc(&pinned, 128 * MIB, 0) == CUDA_SUCCESS, free_bytes() == LIMIT),
       "pinned memory is charged to no device");
    cuMemFreeHost(pinned);
    ok(all_of(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS,
              cuMemAlloc(&plain, MIB) == CUDA_SUCCESS,
              cuPointerGetAttribute(&one, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed) == CUDA_SUCCESS,
              cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_IS_MANAGED, plain) == CUDA_SUCCESS, one == 1,
              other == 0),
       "the attributes of pointers are the driver's");
    cuMemFree(managed);
    cuMemFree(plain);
}

static void
test_devices(void)
{
    CUdeviceptr pointer = 0;
    bool right;

    cuCtxSetCurrent(contexts[0]);
    right = cuMemAlloc(&pointer, 16 * MIB) == CUDA_SUCCESS && free_bytes() == LIMIT - 16 * MIB;
    cuCtxSetCurrent(contexts[1]);
    ok(all_of(right, free_bytes() == LIMIT), "a limit is of each device");
    ok(all_of(cuMemFree(pointer) == CUDA_SUCCESS, free_bytes() == LIMIT),
       "a free while another device is current is no more of that one's (311)");
    cuCtxSetCurrent(contexts[0]);
    ok(free_bytes() == LIMIT, "it is given back to the block's device (311)");
    right = cuMemAlloc(&pointer, 16 * MIB) == CUDA_SUCCESS && cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS;
    cuDevicePrimaryCtxRetain(&contexts[0], 0);
    cuCtxSetCurrent(contexts[0]);
    ok(all_of(right, free_bytes() == LIMIT),
       "after a reset of the device nothing is used, and nothing underflows (200)");
    ok(cuMemFree(pointer) == CUDA_ERROR_INVALID_VALUE, "what the reset has taken cannot be freed");
    ok(free_bytes() == LIMIT, "and is not given back twice");
}

static _Atomic size_t taken;

static void *
take(void *argument)
{
    CUdeviceptr pointer;

    cuCtxSetCurrent(contexts[0]);
    for (int i = 0; i < 16; i++)
        taken += cuMemAlloc(&pointer, MIB) == CUDA_SUCCESS;
    return argument;
}

/* Sixteen threads ask for four times the limit. */
static void
test_threads(void)
{
    pthread_t threads[16];

    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, take, NULL);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    ok(all_of(taken == 64, free_bytes() == 0), "threads at the limit get all of it, and nothing more");
}

int
main(void)
{
    plan(38);
    if (cuInit(0) != CUDA_SUCCESS)
        return 1;
    for (int device = 1; device >= 0; device--) {
        cuDevicePrimaryCtxRetain(&contexts[device], device);
        cuCtxSetCurrent(contexts[device]);
    }
    test_sizes();
    test_plain();
    test_async();
    test_virtual();
    test_others();
    test_devices();
    test_threads();
    return done();
}
