/*
 * Tests the account of all device memory of a process: the wrappers are called as a program does, on the fake driver.
 */
#include "tests/fake-cuda/account.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/process/functions.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define MIB ((size_t)1 << 20)

static int
test_plain(void *unused)
{
    CUdeviceptr a = 0, b = 0;

    (void)unused;
    if (!account_begin("plain", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 3 * MIB) == CUDA_SUCCESS && a != 0);
    CHECK(account.w_cuMemAlloc_v2(&b, 5 * MIB) == CUDA_SUCCESS && b != 0);
    CHECK(account_used("plain", 0) == 8 * MIB);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account_used("plain", 0) == 5 * MIB);
    CHECK(account.w_cuMemFree_v2(0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemAlloc_v2(&a, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account_used("plain", 0) == 5 * MIB);
    account_flush();
    return account_failures;
}

/* The number of rows of a kind of memory, and the sum of their bytes, in a trace. */
#define ROWS(name, kind, condition)                                                                                    \
    sql_number(account_trace(name),                                                                                    \
               "SELECT count(*) FROM allocation JOIN layer AS log USING (layer_id) JOIN layer AS base ON "             \
               "base.layer_id = log.upstream_layer_id WHERE base.config LIKE 'kind=" kind ",%%' AND " condition)

static int
test_async(void *unused)
{
    CUdeviceptr a = 0, b = 0, c = 0;
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemoryPool pool = NULL, first;
    CUstream stream;

    (void)unused;
    if (!account_begin("async", NULL, NULL))
        return 1;
    CHECK(account.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&a, 3 * MIB, stream) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync_ptsz(&b, MIB, NULL) == CUDA_SUCCESS);
    CHECK(account_used("async", 0) == 4 * MIB);
    CHECK(account.w_cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocFromPoolAsync(&c, 2 * MIB, pool, stream) == CUDA_SUCCESS);
    CHECK(account_used("pool", 0) == 2 * MIB && account_used("async", 0) == 4 * MIB);
    CHECK(account.w_cuMemFreeAsync(a, stream) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    CHECK(account_used("async", 0) == 0);
    CHECK(account.w_cuMemFreeAsync_ptsz(c, stream) == CUDA_SUCCESS);
    CHECK(account_used("pool", 0) == 0);
    CHECK(account.default_pool(&first, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocFromPoolAsync_ptsz(&c, 2 * MIB, first, NULL) == CUDA_SUCCESS);
    CHECK(account_used("pool", 0) == 2 * MIB);
    account_flush();
    return account_failures;
}

/* What the driver has reserved in a pool. */
static uint64_t
pool_reserved(CUmemoryPool pool)
{
    cuuint64_t bytes = 0;

    CHECK(account.pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS);
    return bytes;
}

/* Whether all that is reserved counts once, in one of the two kinds. */
static bool
counts_pools(CUmemoryPool first, CUmemoryPool second)
{
    uint64_t reserved = pool_reserved(first) + (second != NULL ? pool_reserved(second) : 0);
    uint64_t counted = account_reserved("async", 0) + account_reserved("pool", 0);

    if (counted != reserved)
        diag("counted %llu, reserved %llu", (unsigned long long)counted, (unsigned long long)reserved);
    return counted == reserved;
}

/* Each pool is allocated from by both functions, and keeps what is freed. */
static int
test_pools(void *unused)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemoryPool own = NULL, first = NULL;
    cuuint64_t all = UINT64_MAX;
    CUdeviceptr a = 0, b = 0, c = 0, d = 0;

    (void)unused;
    if (!account_begin("pools", NULL, NULL))
        return 1;
    CHECK(account.default_pool(&first, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemPoolCreate(&own, &properties) == CUDA_SUCCESS);
    CHECK(account.set_pool_attribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
    CHECK(account.set_pool_attribute(first, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocFromPoolAsync(&a, 5 * MIB, first, NULL) == CUDA_SUCCESS);
    CHECK(counts_pools(first, own)); /* the default pool, and no cuMemAllocAsync yet */
    CHECK(account.set_pool(0, own) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, 40 * MIB, NULL) == CUDA_SUCCESS); /* from the program's own pool */
    CHECK(counts_pools(first, own));
    CHECK(account.w_cuMemAllocFromPoolAsync(&c, 3 * MIB, own, NULL) == CUDA_SUCCESS);
    CHECK(account.set_pool(0, first) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&d, 70 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(counts_pools(first, own));
    CHECK(account.w_cuMemFreeAsync(b, NULL) == CUDA_SUCCESS && account.w_cuMemFreeAsync(d, NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS && account.w_cuMemFreeAsync(c, NULL) == CUDA_SUCCESS);
    CHECK(counts_pools(first, own)); /* whether the driver has seen the frees or not */
    CHECK(account.context_synchronize() == CUDA_SUCCESS);
    CHECK(account_used("async", 0) + account_used("pool", 0) == 0);
    CHECK(pool_reserved(first) >= 70 * MIB && counts_pools(first, own));
    CHECK(account_reserved("pool", 0) > 0);
    CHECK(account.w_cuMemPoolDestroy(own) == CUDA_SUCCESS && counts_pools(first, NULL));
    CHECK(account_reserved("pool", 0) == 0);
    return account_failures;
}

/* What another thread sees in the middle of a free: the driver has done it, and the account not yet. */
static CUresult(CUDAAPI *moment_real)(CUdeviceptr, CUstream);
static uint64_t moment_counted;

static void *
moment_look(void *unused)
{
    (void)unused;
    moment_counted = account_reserved("async", 0) + account_reserved("pool", 0);
    return NULL;
}

static CUresult CUDAAPI
moment_free(CUdeviceptr pointer, CUstream stream)
{
    CUresult result = moment_real(pointer, stream);
    pthread_t thread;

    CHECK(account.context_synchronize() == CUDA_SUCCESS);
    pthread_create(&thread, NULL, moment_look, NULL);
    pthread_join(thread, NULL);
    return result;
}

static int
test_pool_moment(void *unused)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemoryPool own = NULL, first = NULL;
    cuuint64_t all = UINT64_MAX;
    CUdeviceptr a = 0, b = 0;

    (void)unused;
    if (!account_begin("moment", NULL, NULL))
        return 1;
    moment_real = tidei_process_functions.real_cuMemFreeAsync;
    CHECK(account.default_pool(&first, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemPoolCreate(&own, &properties) == CUDA_SUCCESS);
    CHECK(account.set_pool_attribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
    CHECK(account.set_pool_attribute(first, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&a, 40 * MIB, NULL) == CUDA_SUCCESS);
    tidei_process_functions.real_cuMemFreeAsync = moment_free;
    CHECK(account.w_cuMemFreeAsync(a, NULL) == CUDA_SUCCESS && moment_counted == pool_reserved(first));
    tidei_process_functions.real_cuMemFreeAsync = moment_real;
    CHECK(account.w_cuMemAllocAsync(&a, 40 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocFromPoolAsync(&b, 70 * MIB, own, NULL) == CUDA_SUCCESS);
    tidei_process_functions.real_cuMemFreeAsync = moment_free;
    CHECK(account.w_cuMemFreeAsync(b, NULL) == CUDA_SUCCESS);
    CHECK(moment_counted == pool_reserved(first) + pool_reserved(own));
    tidei_process_functions.real_cuMemFreeAsync = moment_real;
    CHECK(counts_pools(first, own));
    return account_failures;
}

/* A pool of the program's is made the current one of the device: no other kind has anything. */
static int
test_current_pool(void *unused)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemoryPool own = NULL;
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("current-pool", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemPoolCreate(&own, &properties) == CUDA_SUCCESS);
    CHECK(account.set_pool(0, own) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&a, 3 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(account_used("async", 0) == 3 * MIB && account_reserved("async", 0) == pool_reserved(own));
    CHECK(pool_reserved(own) > 3 * MIB);
    return account_failures;
}

static int
test_capture(void *unused)
{
    CUdeviceptr a = 0, b = 0;
    CUgraph graph;
    CUstream stream;

    (void)unused;
    if (!account_begin("capture", NULL, NULL))
        return 1;
    CHECK(account.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&a, MIB, stream) == CUDA_SUCCESS);
    CHECK(account.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, 4 * MIB, stream) == CUDA_SUCCESS);
    CHECK(account_used("async", 0) == MIB);
    CHECK(account.w_cuMemFreeAsync(b, stream) == CUDA_SUCCESS);
    CHECK(account.stream_end_capture(stream, &graph) == CUDA_SUCCESS);
    CHECK(account_used("async", 0) == MIB);
    return account_failures;
}

static int
test_pinned(void *unused)
{
    static char own[1 << 16] __attribute__((aligned(4096)));
    void *a = NULL, *b = NULL;

    (void)unused;
    if (!account_begin("pinned", NULL, "1MiB"))
        return 1;
    CHECK(account.w_cuMemHostAlloc(&a, 4 * MIB, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocHost_v2(&b, 2 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemHostRegister_v2(own, sizeof(own), 0) == CUDA_SUCCESS);
    CHECK(account_used("pinned", 0) == 6 * MIB + sizeof(own));
    CHECK(account.w_cuMemHostUnregister(own) == CUDA_SUCCESS);
    CHECK(account.w_cuMemHostUnregister(own) != CUDA_SUCCESS);
    CHECK(account.w_cuMemFreeHost(a) == CUDA_SUCCESS && account.w_cuMemFreeHost(b) == CUDA_SUCCESS);
    CHECK(account_used("pinned", 0) == 0);
    account_flush();
    return account_failures;
}

static int
test_managed(void *unused)
{
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("managed", NULL, "1MiB"))
        return 1;
    CHECK(account.w_cuMemAllocManaged(&a, 4 * MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    CHECK(account_used("managed", 0) == 4 * MIB);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account_used("managed", 0) == 0);
    return account_failures;
}

static CUresult
create(CUmemGenericAllocationHandle *handle, size_t bytes, CUmemLocationType type)
{
    const CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { type, 0 } };

    return account.w_cuMemCreate(handle, bytes, &properties, 0);
}

/* Handles and mappings, each ended in another order. */
static int
test_virtual(void *unused)
{
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr at = 0;

    (void)unused;
    if (!account_begin("virtual", NULL, NULL))
        return 1;
    CHECK(account.address_reserve(&at, 16 * MIB, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(create(&handle, 4 * MIB, CU_MEM_LOCATION_TYPE_DEVICE) == CUDA_SUCCESS);
    CHECK(account_used("virtual", 0) == 4 * MIB);
    CHECK(account.w_cuMemMap(at, 4 * MIB, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemRelease(handle) == CUDA_SUCCESS); /* as JAX does: the mapping holds it */
    CHECK(account_used("virtual", 0) == 4 * MIB);
    CHECK(account.w_cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + MIB)) == CUDA_SUCCESS);
    CHECK(account.w_cuMemUnmap(at, 4 * MIB) == CUDA_SUCCESS);
    CHECK(account_used("virtual", 0) == 4 * MIB); /* the handle that was retained holds it */
    CHECK(account.w_cuMemRelease(again) == CUDA_SUCCESS);
    CHECK(account_used("virtual", 0) == 0);
    CHECK(account.w_cuMemRelease(again) != CUDA_SUCCESS);
    CHECK(create(&handle, 2 * MIB, CU_MEM_LOCATION_TYPE_DEVICE) == CUDA_SUCCESS);
    CHECK(account.w_cuMemMap(at, 2 * MIB, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemUnmap(at, 2 * MIB) == CUDA_SUCCESS);
    CHECK(account_used("virtual", 0) == 2 * MIB);
    CHECK(account.w_cuMemRelease(handle) == CUDA_SUCCESS);
    CHECK(account_used("virtual", 0) == 0);
    CHECK(create(&handle, UINT64_C(1) << 50, CU_MEM_LOCATION_TYPE_DEVICE) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account_used("virtual", 0) == 0);
    account_flush();
    return account_failures;
}

static int
test_host_location(void *unused)
{
    CUmemGenericAllocationHandle handle = 0;

    (void)unused;
    if (!account_begin("host-location", NULL, "1MiB"))
        return 1;
    if (create(&handle, 4 * MIB, CU_MEM_LOCATION_TYPE_HOST) == CUDA_SUCCESS) {
        CHECK(account_used("virtual", 0) == 0 && account_used("pinned", 0) == 4 * MIB);
        CHECK(account.w_cuMemRelease(handle) == CUDA_SUCCESS);
    }
    CHECK(account_used("pinned", 0) == 0);
    return account_failures;
}

static int
test_arrays(void *unused)
{
    const CUDA_ARRAY_DESCRIPTOR flat = { .Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2 };
    const CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 64, .Height = 64, .Depth = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4
    };
    const CUDA_ARRAY3D_DESCRIPTOR sparse = {
        .Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = CUDA_ARRAY3D_SPARSE
    };
    CUarray a = NULL, b = NULL, c = NULL;
    CUmipmappedArray m = NULL;
    CUdeviceptr rows = 0;
    size_t pitch = 0;

    (void)unused;
    if (!account_begin("arrays", NULL, NULL))
        return 1;
    CHECK(account.w_cuArrayCreate_v2(&a, &flat) == CUDA_SUCCESS && account_used("array", 0) == 4 * MIB);
    CHECK(account.w_cuArray3DCreate_v2(&b, &deep) == CUDA_SUCCESS && account_used("array", 0) == 5 * MIB);
    CHECK(account.w_cuMipmappedArrayCreate(&m, &deep, 2) == CUDA_SUCCESS);
    CHECK(account_used("array", 0) == 6 * MIB + MIB / 8);
    if (account.w_cuArray3DCreate_v2(&c, &sparse) == CUDA_SUCCESS)
        CHECK(account_used("array", 0) == 6 * MIB + MIB / 8 && account.w_cuArrayDestroy(c) == CUDA_SUCCESS);
    CHECK(account.w_cuArrayDestroy(a) == CUDA_SUCCESS && account.w_cuArrayDestroy(b) == CUDA_SUCCESS);
    CHECK(account.w_cuMipmappedArrayDestroy(m) == CUDA_SUCCESS);
    CHECK(account_used("array", 0) == 0);
    CHECK(account.w_cuMemAllocPitch_v2(&rows, &pitch, 1000, 100, 4) == CUDA_SUCCESS && pitch >= 1000);
    CHECK(account_used("plain", 0) == pitch * 100);
    CHECK(account.w_cuMemFree_v2(rows) == CUDA_SUCCESS && account_used("plain", 0) == 0);
    account_flush();
    return account_failures;
}

/* Each kind that counts is refused at the same limit, before the driver is asked; the sum is of all of them. */
static int
test_limit(void *unused)
{
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
    };
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr a = 0, b = 0, untouched = 42;
    CUarray array = NULL;
    size_t free_bytes = 0, total_bytes = 0, pitch;

    (void)unused;
    if (!account_begin("limit", NULL, "8MiB"))
        return 1;
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
    CHECK(free_bytes == 8 * MIB && total_bytes == 8 * MIB);
    CHECK(scratch_count("limit") == 0); /* nobody has allocated yet */
    CHECK(account.w_cuDeviceTotalMem_v2(&total_bytes, 0) == CUDA_SUCCESS && total_bytes == 8 * MIB);
    CHECK(account.w_cuMemAlloc_v2(&a, 4 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, 3 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&untouched, MIB + 1) == CUDA_ERROR_OUT_OF_MEMORY && untouched == 42);
    CHECK(account.w_cuMemAllocAsync(&untouched, 2 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY && untouched == 42);
    CHECK(create(&handle, 2 * MIB, CU_MEM_LOCATION_TYPE_DEVICE) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuArrayCreate_v2(&array, &flat) == CUDA_ERROR_OUT_OF_MEMORY && array == NULL);
    CHECK(account.w_cuMemAllocPitch_v2(&untouched, &pitch, 1024, 4096, 4) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS || free_bytes <= MIB);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && free_bytes == MIB);
    CHECK(account.w_cuMemAlloc_v2(&untouched, MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && free_bytes == 0);
    CHECK(account.w_cuMemFree_v2(untouched) == CUDA_SUCCESS && account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && free_bytes == 8 * MIB);
    account_flush();
    return account_failures;
}

static int
test_share(void *unused)
{
    size_t free_bytes = 0, total_bytes = 0, real_free, real_total;
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("share", "log | statistics | limit(50%)", NULL))
        return 1;
    CHECK(account.real_get_info(&real_free, &real_total) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && total_bytes == real_total / 2);
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
    CHECK(total_bytes == real_total / 2 && free_bytes <= real_total / 2 - MIB);
    CHECK(account.w_cuMemAllocAsync(&a, real_total / 2, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    return account_failures;
}

/* What was allocated before, or by ways that are not seen, is the driver's. */
static int
test_foreign(void *unused)
{
    CUdeviceptr a = 0, b = 0;
    CUcontext context;

    (void)unused;
    if (!account_begin("foreign", NULL, NULL))
        return 1;
    CHECK(account.real_alloc(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(0xdead0000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.real_free(a) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&b, MIB) == CUDA_SUCCESS); /* may be at the same place */
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    CHECK(account_used("plain", 0) == (a == b ? 0 : MIB));
    CHECK(account.primary_retain(&context, 0) == CUDA_SUCCESS && account.context_set(NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(account.context_set(context) == CUDA_SUCCESS);
    return account_failures;
}

static int
test_redirected(void *unused)
{
    CUdeviceptr a = 0, b = 0, base = 0, range = 0;
    size_t bytes = 0;
    CUdeviceptr c = 0;
    CUipcMemHandle shared;

    (void)unused;
    if (!account_begin("redirected", "log | pool | cuda", "16MiB"))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&b, 200000) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&c, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemAlloc_v2(&c, 32 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuMemGetAddressRange_v2(&base, &bytes, b + 1000) == CUDA_SUCCESS);
    CHECK(base == b && bytes == 200000);
    CHECK(account.w_cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 5) == CUDA_SUCCESS);
    CHECK(range == a);
    CHECK(account.w_cuIpcGetMemHandle(&shared, b) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemFree_v2(b + 256) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemAllocAsync(&c, MIB, NULL) == CUDA_SUCCESS && account_used("async", 0) == MIB);
    CHECK(account.w_cuMemFree_v2(c) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS && account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(b) == CUDA_ERROR_INVALID_VALUE);
    return account_failures;
}

/* What stands over the stack's own base stands over the other kinds of memory, too. */
static int
test_redirected_layers(void *unused)
{
    CUdeviceptr a = 0, b = 0, c = 0;

    (void)unused;
    if (!account_begin("layers", "log | limit(16MiB) | statistics | pool | log | cuda", NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 10 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, 20 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuMemAllocAsync(&b, 6 * MIB, NULL) == CUDA_SUCCESS && account_used("async", 0) == 6 * MIB);
    CHECK(account.w_cuMemAlloc_v2(&c, MIB) == CUDA_ERROR_OUT_OF_MEMORY); /* one limit for all kinds */
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&c, MIB) == CUDA_SUCCESS);
    account_flush();
    return account_failures;
}

/* A block that begins where the pool's memory does: to the driver it is all of that. */
static int
test_freed_twice(void *unused)
{
    CUdeviceptr a = 0, b = 0, base = 0, foreign = 0;
    size_t bytes = 0;

    (void)unused;
    if (!account_begin("twice", "log | pool | cuda", NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetAddressRange_v2(&base, &bytes, a) == CUDA_SUCCESS && base == a);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemFreeAsync(a, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemGetAddressRange_v2(&base, &bytes, b) == CUDA_SUCCESS && base == b); /* its memory is there */
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS && account.w_cuMemFree_v2(b) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.real_alloc(&foreign, MIB) == CUDA_SUCCESS && account.w_cuMemFree_v2(foreign) == CUDA_SUCCESS);
    return account_failures;
}

/* What the limit of the options refuses is in the trace, of memory that is redirected and of that which is not. */
static int
refused(const char *name, const char *stack)
{
    CUdeviceptr a = 0;

    if (!account_begin(name, stack, "16MiB"))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, 32 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuMemAllocAsync(&a, 15 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&a, 33 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    account_flush();
    return account_failures;
}

static int
test_redirected_refusals(void *unused)
{
    (void)unused;
    return refused("refusals", "limit(1GiB) | log | pool | cuda");
}

static int
test_refusals_below(void *unused)
{
    (void)unused;
    return refused("refusals-below", "pool | log | cuda");
}

/* A limit of the options and one of the stack are the same two for all kinds. */
static int
test_redirected_limits(void *unused)
{
    CUdeviceptr a = 0, b = 0;

    (void)unused;
    if (!account_begin("two-limits", "log | limit(32MiB) | statistics | cuda", "64MiB"))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 30 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, 3 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuMemAllocAsync(&b, 2 * MIB, NULL) == CUDA_SUCCESS && account_used("async", 0) == 2 * MIB);
    return account_failures;
}

static char messages[4096];

static void
keep_message(void *context, enum tide_severity severity, const char *text)
{
    size_t length = strlen(messages);

    (void)context;
    (void)severity;
    snprintf(messages + length, sizeof(messages) - length, "%s\n", text);
}

/* No stack can be made, as the trace has no folder. Each kind and device is told of for itself. */
static int
test_no_stack(void *unused)
{
    size_t free_bytes = 0, total_bytes = 0;
    CUcontext second;
    CUdeviceptr a = 0;

    (void)unused;
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    if (!account_begin("no-%p/t", NULL, "8MiB"))
        return 1;
    tide_message_sink_set(keep_message, NULL);
    CHECK(account.w_cuMemAllocManaged(&a, MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    CHECK(strstr(messages, "goes on without its account") != NULL && strstr(messages, "no memory") == NULL);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && free_bytes == 8 * MIB);
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(strstr(messages, "device 0 gets no memory") != NULL);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && free_bytes == 0);
    CHECK(account.primary_retain(&second, 1) == CUDA_SUCCESS && account.context_set(second) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && free_bytes == 8 * MIB);
    tide_message_sink_set(NULL, NULL);
    return account_failures;
}

/* Another process has memory, whose handle it writes, and lives until it is killed. */
static void
imported_other(int ready)
{
    CUipcMemHandle shared = { 0 };
    CUcontext context;
    CUdeviceptr a = 0;

    if (account.init(0) != CUDA_SUCCESS || account.primary_retain(&context, 0) != CUDA_SUCCESS ||
        account.context_set(context) != CUDA_SUCCESS || account.real_alloc(&a, 8 * MIB) != CUDA_SUCCESS ||
        account.ipc_get(&shared, a) != CUDA_SUCCESS)
        _exit(1);
    (void)!write(ready, &shared, sizeof(shared));
    for (;;)
        pause();
}

static int
test_imported(void *unused)
{
    CUdeviceptr a = 0, b = 0, again = 0;
    CUipcMemHandle shared;
    int ready[2];
    pid_t pid;

    (void)unused;
    CHECK(pipe(ready) == 0);
    pid = fork();
    if (pid == 0)
        imported_other(ready[1]);
    close(ready[1]);
    if (!CHECK(read(ready[0], &shared, sizeof(shared)) == (ssize_t)sizeof(shared)) ||
        !account_begin("imported", NULL, "9MiB"))
        return 1;
    CHECK(account.w_cuIpcOpenMemHandle_v2(&a, shared, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    CHECK(account_used("imported", 0) == 8 * MIB && account_used("plain", 0) == 0);
    CHECK(account.w_cuIpcOpenMemHandle_v2(&again, shared, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
    CHECK(again == a && account_used("imported", 0) == 8 * MIB); /* once, however often it is opened */
    CHECK(account.w_cuMemAlloc_v2(&b, 9 * MIB) == CUDA_SUCCESS); /* no limit counts it */
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    CHECK(account.w_cuIpcCloseMemHandle(a) == CUDA_SUCCESS && account_used("imported", 0) == 8 * MIB);
    CHECK(account.w_cuIpcCloseMemHandle(a) == CUDA_SUCCESS && account_used("imported", 0) == 0);
    CHECK(account.w_cuIpcCloseMemHandle(a) == CUDA_ERROR_INVALID_VALUE);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    account_flush();
    return account_failures;
}

/* A block of a pool that is imported, as from another process. */
static int
test_imported_pool(void *unused)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL, import = NULL;
    CUdeviceptr a = 0, b = 0;
    int fd = -1;

    (void)unused;
    if (!account_begin("imported-pool", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocFromPoolAsync(&a, 3 * MIB, pool, NULL) == CUDA_SUCCESS);
    CHECK(account.pool_export(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
    CHECK(account.export_pointer(&data, a) == CUDA_SUCCESS);
    CHECK(account.pool_import(&import, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS);
    CHECK(account.w_cuMemPoolImportPointer(&b, import, &data) == CUDA_SUCCESS && b != a);
    CHECK(account_used("imported", 0) == 3 * MIB && account_used("pool", 0) == 3 * MIB);
    CHECK(counts_pools(pool, NULL)); /* what is imported is of the other process */
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS && account_used("imported", 0) == 0);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS && account_used("pool", 0) == 0);
    return account_failures;
}

/* A graph's nodes allocate when it is launched, and the device keeps their memory until it is trimmed. */
static int
test_graph(void *unused)
{
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                             .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
                                              .bytesize = 40 * MIB };
    CUgraphNode alloc = NULL, release = NULL;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUdeviceptr a = 0;
    CUstream stream;

    (void)unused;
    if (!account_begin("graph", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS && account_reserved("graph", 0) == 0);
    CHECK(account.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(account.graph_create(&graph, 0) == CUDA_SUCCESS);
    CHECK(account.graph_add_alloc(&alloc, graph, NULL, 0, &parameters) == CUDA_SUCCESS);
    CHECK(account.graph_add_free(&release, graph, &alloc, 1, parameters.dptr) == CUDA_SUCCESS);
    CHECK(account.graph_instantiate(&exec, graph, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(account.graph_launch(exec, stream) == CUDA_SUCCESS && account.stream_synchronize(stream) == CUDA_SUCCESS);
    CHECK(account_reserved("graph", 0) >= 40 * MIB && account_used("plain", 0) == MIB && account_used("async", 0) == 0);
    CHECK(account.graph_trim(0) == CUDA_SUCCESS && account_reserved("graph", 0) == 0);
    return account_failures;
}

/* Each device has an account, a limit and pools of its own. */
static int
test_devices(void *unused)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
    CUmemAllocationProp physical = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 1 } };
    CUmemGenericAllocationHandle handle = 0;
    CUcontext first = NULL, second = NULL;
    CUdeviceptr a = 0, b = 0, c = 0, d = 0;
    CUmemoryPool pool = NULL;
    CUstream stream = NULL;

    (void)unused;
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    if (!account_begin("devices", NULL, "16MiB"))
        return 1;
    CHECK(account.primary_retain(&first, 0) == CUDA_SUCCESS && account.primary_retain(&second, 1) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, 10 * MIB) == CUDA_SUCCESS);
    CHECK(account.context_set(second) == CUDA_SUCCESS && account.stream_create(&stream, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&b, 12 * MIB) == CUDA_SUCCESS); /* the limit is each device's */
    CHECK(account_used("plain", 0) == 10 * MIB && account_used("plain", 1) == 12 * MIB);
    CHECK(account.context_set(first) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&c, 5 * MIB, stream) == CUDA_ERROR_OUT_OF_MEMORY); /* of the stream's device */
    CHECK(account.w_cuMemAllocAsync(&c, MIB, stream) == CUDA_SUCCESS && account_used("async", 1) == MIB);
    CHECK(account.w_cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocFromPoolAsync(&d, MIB, pool, stream) == CUDA_SUCCESS && account_used("pool", 1) == MIB);
    CHECK(account_reserved("pool", 1) + account_reserved("async", 1) > 32 * MIB && account_used("pool", 0) == 0);
    CHECK(account.w_cuMemCreate(&handle, 2 * MIB, &physical, 0) == CUDA_SUCCESS);
    CHECK(account_used("virtual", 1) == 2 * MIB && account.w_cuMemRelease(handle) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS); /* on the other device's context: the block's device counts */
    CHECK(account_used("plain", 0) == 10 * MIB && account_used("plain", 1) == 0);
    CHECK(account.w_cuDevicePrimaryCtxReset_v2(1) == CUDA_SUCCESS && account_used("plain", 0) == 10 * MIB);
    account_flush();
    return account_failures;
}

/* Another process holds a part of the budget until it is killed. */
static void
budget_other(const struct tide_process_options *options, int ready)
{
    CUdeviceptr a = 0;
    char byte = 0;

    if (!account_start(options) || account.w_cuMemAlloc_v2(&a, 6 * MIB) != CUDA_SUCCESS)
        byte = 1;
    (void)!write(ready, &byte, 1);
    for (;;)
        pause();
}

static int
test_budget(void *unused)
{
    struct tide_process_options options = { TIDE_OPTIONS(options), .trace = account_trace("budget") }, other;
    size_t free_bytes = 0, total_bytes = 0;
    CUdeviceptr a = 0;
    char budget[4096], folder[2048] = "", byte = 1;
    int ready[2];
    pid_t pid;

    (void)unused;
    CHECK(getcwd(folder, sizeof(folder)) != NULL);
    snprintf(budget, sizeof(budget), "%s/%s=8MiB", folder, scratch("budget"));
    options.budget = budget;
    other = options;
    other.trace = account_trace("budget-other");
    CHECK(pipe(ready) == 0);
    pid = fork();
    if (pid == 0)
        budget_other(&other, ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 0);
    CHECK(account_start(&options));
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
    CHECK(free_bytes == 2 * MIB && total_bytes == 8 * MIB);
    CHECK(account.w_cuMemAlloc_v2(&a, 4 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuMemAlloc_v2(&a, 2 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&a, MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(account.w_cuMemAllocAsync(&a, 6 * MIB, NULL) == CUDA_SUCCESS); /* those of the killed one are back */
    CHECK(account.w_cuMemAlloc_v2(&a, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    return account_failures;
}

static int
test_wrong(void *unused)
{
    const struct tide_process_function *functions;
    size_t count;
    static const struct {
        struct tide_process_options options;
        const char *words;
    } wrong[] = {
        { { .stack = "log | pool" }, "pool" },        { { .stack = "log |" }, "column" },
        { { .limit = "8Gib" }, "limit 8Gib: " },      { { .budget = "16GiB" }, "job=16GiB" },
        { { .stack = "log(cupti=maybe)" }, "cupti" },
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tide_process_options options = wrong[i].options;

        options.struct_size = sizeof(options);
        CHECK(tide_process_start(&options, &functions, &count) != TIDE_OK && functions == NULL && count == 0);
        if (!CHECK(strstr(tide_error_text(), wrong[i].words) != NULL))
            diag("%s", tide_error_text());
    }
    CHECK(tide_process_start(NULL, NULL, &count) == TIDE_EINVAL);
    CHECK(account_begin("wrong", NULL, NULL)); /* and afterwards it can be started */
    return account_failures;
}

/* A process that execs itself has its number on, and finds the trace of before. */
static int
test_second_trace(void *unused)
{
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("plain", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    account_flush();
    return account_failures;
}

static int
test_forked(void *unused)
{
    CUdeviceptr a = 0;
    int status = 0;
    pid_t pid;

    (void)unused;
    if (!account_begin("forked", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    pid = fork();
    if (pid == 0)
        _exit(account.w_cuMemAlloc_v2(&a, MIB) != account.real_alloc(&a, MIB)); /* as without */
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(account_used("plain", 0) == MIB);
    return account_failures;
}

static atomic_bool calls_stop;

static void *
calls_run(void *context)
{
    CUdeviceptr a = 0;

    account.context_set(context);
    while (!atomic_load(&calls_stop)) {
        if (account.real_alloc(&a, MIB) == CUDA_SUCCESS)
            account.real_free(a);
    }
    return NULL;
}

/* The fake driver: threads are within calls at the time of a fork; the child's calls fail as those of the real one. */
static int
test_forked_calls(void *unused)
{
    CUdeviceptr a = 0;
    pthread_t threads[3];
    CUcontext context;
    int status;

    (void)unused;
    CHECK(account.init(0) == CUDA_SUCCESS && account.primary_retain(&context, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, calls_run, context);
    for (int i = 0; i < 60 && account_failures == 0; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            alarm(30);
            _exit(account.init(0) != CUDA_ERROR_NOT_INITIALIZED ||
                  account.real_alloc(&a, MIB) != CUDA_ERROR_NOT_INITIALIZED);
        }
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&calls_stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return account_failures;
}

int
main(void)
{
    if (!account_find())
        skip_all("there is no fake driver");
    if (!CHILDREN_MAY_RECORD)
        skip_all("children record nothing here");
    plan(39);
    (void)scratch("here"); /* the folder is made before the first child */
    ok(account_passes(test_plain), "plain memory is counted, and the driver's codes come through");
    account_recover("plain");
    ok(sql_number(account_trace("plain"), "SELECT sum(size) FROM allocation WHERE status = 0") == 8 * (int64_t)MIB &&
           sql_number(account_trace("plain"), "SELECT count(*) FROM allocation WHERE free_ns IS NULL") == 1,
       "a killed process leaves a row for each of its blocks");
    ok(sql_number(account_trace("plain"), "SELECT count(*) FROM layer WHERE kind = 'process' AND config = 'kind=plain, "
                                          "device=0'") == 1,
       "the base of a row's stack says what kind of memory it is");
    ok(account_passes(test_second_trace) && scratch_count("plain-2.db") != 0,
       "a process that finds its trace there already takes another name");
    ok(account_passes(test_async), "stream-ordered memory is counted, of the default pool and of the program's");
    account_recover("async");
    ok(ROWS("async", "async", "size IN (3145728, 1048576)") == 2 && ROWS("async", "pool", "size = 2097152") == 2 &&
           sql_number(account_trace("async"), "SELECT count(*) FROM stream WHERE handle = 2") >= 1,
       "rows of stream-ordered memory have their kind, and the thread's own default stream as a stream");
    ok(account_passes(test_pools),
       "what pools have reserved counts once, whichever function allocates from which pool");
    ok(account_passes(test_current_pool),
       "what the current pool of a device has reserved counts, where that is the program's own");
    ok(account_passes(test_pool_moment), "a block that the driver has freed, and the account not yet, counts once");
    ok(account_passes(test_capture), "what is allocated in a capture is the graph's, and passes");
    ok(account_passes(test_pinned), "page-locked memory is counted apart, and no limit of a device holds for it");
    account_recover("pinned");
    ok(ROWS("pinned", "pinned", "1") == 3 &&
           sql_number(account_trace("pinned"),
                      "SELECT count(*) FROM layer WHERE config LIKE 'kind=pinned%%' AND device IS "
                      "NOT NULL") == 0,
       "page-locked memory is on no device in the trace");
    ok(account_passes(test_managed), "managed memory is counted apart, and no limit of a device holds for it");
    ok(account_passes(test_virtual), "physical memory is counted until neither a handle nor a mapping holds it");
    account_recover("virtual");
    ok(ROWS("virtual", "virtual", "status = 0 AND free_ns IS NOT NULL") == 2 &&
           ROWS("virtual", "virtual", "status != 0") == 1,
       "physical memory has a row for each creation, also for the one that the driver refused");
    ok(account_passes(test_host_location),
       "physical memory of the host is counted as page-locked, and never a device's");
    ok(account_passes(test_arrays), "arrays, mipmapped arrays and rows at a pitch are counted, sparse arrays are not");
    ok(account_passes(test_limit), "a limit holds for the sum of all kinds, and the device looks as small as it");
    account_recover("limit");
    ok(sql_number(account_trace("limit"), "SELECT count(*) FROM refusal WHERE text LIKE 'limit:%%'") == 5,
       "each refusal is in the trace with the limit's words, of every kind");
    ok(account_passes(test_share), "a limit may be a share of the device, in a stack text of the user's");
    ok(account_passes(test_foreign), "what the account does not know goes to the driver unchanged");
    ok(account_passes(test_redirected),
       "plain memory may come from a stack: blocks look like the driver's, others pass");
    ok(account_passes(test_redirected_layers),
       "with a base in the stack, other kinds of memory have its layers that change no request");
    account_recover("layers");
    ok(ROWS("layers", "async", "status = 0") == 0 &&
           sql_number(account_trace("layers"), "SELECT count(*) FROM allocation WHERE size = 6291456") == 1,
       "of several logs of the stack the others have one");
    ok(account_passes(test_freed_twice),
       "a redirected block that is freed twice is an error, and its pool keeps its memory");
    ok(account_passes(test_redirected_refusals), "a limit of the options refuses redirected and other memory");
    account_recover("refusals");
    ok(sql_number(account_trace("refusals"),
                  "SELECT count(*) FROM refusal JOIN allocation USING (allocation_id) WHERE text "
                  "LIKE 'limit:%%' AND size IN (33554432, 34603008)") == 2,
       "the log of a stack with a base has the refusals of the options' limit, of each kind of memory");
    ok(account_passes(test_refusals_below), "a limit of the options stands above a pool that has the log below it");
    account_recover("refusals-below");
    ok(sql_number(account_trace("refusals-below"), "SELECT count(*) FROM refusal JOIN allocation USING (allocation_id) "
                                                   "WHERE text LIKE 'limit:%%' AND size = 34603008") == 1,
       "a log below a pool has the refusals of the memory that the pool has no part in");
    ok(account_passes(test_redirected_limits),
       "a limit of the options and one of a stack with a base hold for all kinds");
    ok(account_passes(test_no_stack),
       "where no stack can be made, only limited memory is refused, of the devices that it is of");
    ok(account_passes(test_imported), "memory of another process counts once until its last close, and in no limit");
    ok(account_passes(test_imported_pool), "a block of another process's pool is marked, and its pool is not counted");
    ok(account_passes(test_graph), "what graphs have reserved is polled, of nodes that were added by hand, too");
    ok(account_passes(test_devices), "each device has its own account, limit and pools, whichever context is current");
    ok(account_passes(test_budget), "a budget holds for several processes, and gets back what a killed one had");
    ok(account_passes(test_wrong), "wrong options are errors that name what is wrong");
    ok(account_passes(test_forked_calls), "a child of fork() waits for no thread that was within the fake driver");
    ok(account_passes(test_forked), "a child of fork() gets the driver's own answers");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
