/*
 * Tests which records CUPTI makes of the driver's memory calls, and their content, as observed with CUPTI 13.0 on an
 * H200. On the fake driver it tests that the fake CUPTI behaves alike.
 */
#include "tests/gpu/gpu.h"

#include <pthread.h>
#include <time.h>

#include "tests/gpu/call.h"
#include "tests/gpu/lock.h"

#ifdef HAVE_CUPTI_H

#include <cupti.h>

#define MIB          ((size_t)1 << 20)
#define BUFFER_BYTES ((size_t)64 << 10)

/* CUPTI's functions by name, like CU(). */
#define CUPTI(function) ((__typeof__(&(function)))cupti_symbol(#function))

static void *cupti_library;

static void *
cupti_symbol(const char *symbol)
{
    void *address = dlsym(cupti_library, symbol);

    if (address == NULL) {
        printf("Bail out! CUPTI has no %s\n", symbol);
        exit(99);
    }
    return address;
}

static bool
cupti_open(void)
{
    static const char *const names[] = { "libcupti.so.13", "/usr/local/cuda/lib64/libcupti.so.13",
                                         "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && cupti_library == NULL; i++)
        cupti_library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return cupti_library != NULL;
}

/* The records since the last flush, as text. Guarded by seen_lock: CUPTI delivers records on a thread of its own. */
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static char seen_text[2048];
static uint64_t seen_pool; /* the address of the latest pool; records of others are ignored */
static uint32_t seen_correlation;
static uint64_t seen_first_ns, seen_last_ns; /* the first and last time of the records of a call */
static bool seen_apart;                      /* a record does not belong to the call, or has a time outside of it */
static pthread_t seen_thread;

static void __attribute__((format(printf, 1, 2))) seen(const char *format, ...)
{
    size_t length = strlen(seen_text);
    va_list arguments;

    if (length > 0)
        length += (size_t)snprintf(seen_text + length, sizeof(seen_text) - length, "; ");
    va_start(arguments, format);
    vsnprintf(seen_text + length, sizeof(seen_text) - length, format, arguments);
    va_end(arguments);
}

static void
seen_within(uint32_t correlation, uint64_t ns)
{
    if (seen_correlation != 0 && seen_correlation != correlation)
        seen_apart = true;
    seen_correlation = correlation;
    if (seen_first_ns == 0)
        seen_first_ns = ns;
    seen_last_ns = ns;
}

static void
see_memory(const CUpti_ActivityMemory4 *record)
{
    static const char *const kinds[] = { "?", "pageable", "pinned", "device", "array", "managed" };
    bool allocated = record->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;

    seen("%s %llu %s", allocated ? "allocated" : "released", (unsigned long long)record->bytes,
         kinds[record->memoryKind % 6]);
    if (record->memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL) {
        size_t length = strlen(seen_text);

        snprintf(seen_text + length, sizeof(seen_text) - length, " %s of a pool of %llu MiB, %llu used",
                 record->isAsync ? "in order" : "at once", (unsigned long long)record->memoryPoolConfig.pool.size / MIB,
                 (unsigned long long)record->memoryPoolConfig.utilizedSize);
        seen_apart = seen_apart || record->memoryPoolConfig.address != seen_pool;
    }
    seen_within(record->correlationId, record->timestamp);
}

static void
see_pool(const CUpti_ActivityMemoryPool2 *record)
{
    bool created = record->memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED;
    bool trimmed = record->memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED;

    if (created)
        seen_pool = record->address;
    if (record->address != seen_pool)
        return;
    seen("pool %s, %llu MiB, %llu used",
         created   ? "created"
         : trimmed ? "trimmed"
                   : "destroyed",
         (unsigned long long)record->size / MIB, (unsigned long long)record->utilizedSize);
    seen_within(record->correlationId, record->timestamp);
}

static void
see_call(const CUpti_ActivityAPI *record)
{
    const char *name = "?";

    CUPTI(cuptiGetCallbackName)(CUPTI_CB_DOMAIN_DRIVER_API, record->cbid, &name);
    seen("%s = %u", name, record->returnValue);
    if (seen_correlation != 0 && seen_correlation != record->correlationId)
        seen_apart = true;
    if (seen_first_ns != 0 && (seen_first_ns < record->start || seen_last_ns > record->end))
        seen_apart = true;
    seen_correlation = 0;
    seen_first_ns = seen_last_ns = 0;
}

static void CUPTIAPI
buffer_requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(64, BUFFER_BYTES);
    *bytes = BUFFER_BYTES;
    *most_records = 0;
}

static void CUPTIAPI
buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    CUpti_Activity *record = NULL;

    (void)context;
    (void)stream;
    (void)bytes;
    pthread_mutex_lock(&seen_lock);
    seen_thread = pthread_self();
    while (CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
            see_memory((const CUpti_ActivityMemory4 *)record);
        else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY_POOL)
            see_pool((const CUpti_ActivityMemoryPool2 *)record);
        else if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER)
            see_call((const CUpti_ActivityAPI *)record);
    }
    pthread_mutex_unlock(&seen_lock);
    free(buffer);
}

static uint64_t CUPTIAPI
stamp(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void
forget_seen(void)
{
    seen_text[0] = '\0';
    seen_correlation = 0;
    seen_first_ns = seen_last_ns = 0;
}

static void
is_seen(const char *wanted)
{
    CUPTI(cuptiActivityFlushAll)(1);
    pthread_mutex_lock(&seen_lock);
    is_string(seen_text, wanted, wanted[0] != '\0' ? wanted : "CUPTI records nothing");
    forget_seen();
    pthread_mutex_unlock(&seen_lock);
}

static void CUPTIAPI
ignore(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId number, const void *data)
{
    (void)userdata;
    (void)domain;
    (void)number;
    (void)data;
}

/* Record only the driver's memory calls: all calls are switched on, and the others off again. */
static void
start(void)
{
    static const CUpti_CallbackId wanted[] = {
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync, CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync,
        CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2,           CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2,
        CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,       CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc,
        CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost,           CUPTI_DRIVER_TRACE_CBID_cuMemPoolCreate,
        CUPTI_DRIVER_TRACE_CBID_cuMemPoolDestroy,        CUPTI_DRIVER_TRACE_CBID_cuMemPoolTrimTo,
        CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
    };
    CUpti_SubscriberHandle subscriber, second;
    CUpti_CallbackId refused = 0;

    ok(CUPTI(cuptiSubscribe)(&subscriber, ignore, NULL) == CUPTI_SUCCESS, "one CUPTI subscriber is accepted");
    is_i64(CUPTI(cuptiSubscribe)(&second, ignore, NULL), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
           "a second CUPTI subscriber is refused");
    CUPTI(cuptiActivityRegisterTimestampCallback)(stamp);
    CUPTI(cuptiSetThreadIdType)(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    CUPTI(cuptiActivityRegisterCallbacks)(buffer_requested, buffer_completed);
    ok(all_of(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_MEMORY2) == CUPTI_SUCCESS,
              CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_MEMORY_POOL) == CUPTI_SUCCESS,
              CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_DRIVER) == CUPTI_SUCCESS),
       "records of memory, pools and driver calls are enabled");
    for (CUpti_CallbackId number = 1; number < CUPTI_DRIVER_TRACE_CBID_SIZE; number++) {
        if (CUPTI(cuptiActivityEnableDriverApi)(number, 0) != CUPTI_SUCCESS)
            refused = number;
    }
    is_i64(refused, 0, "each driver call can be left out of the records");
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        CUPTI(cuptiActivityEnableDriverApi)(wanted[i], 1);
}

static CUmemoryPool pool;
static CUstream stream;

/* Make the device's default pool first, which would otherwise be made during the test. */
static void
make_default_pool(void)
{
    CUmemoryPool unused;

    MUST(cuDeviceGetDefaultMemPool, &unused, 0);
    CUPTI(cuptiActivityFlushAll)(1);
    pthread_mutex_lock(&seen_lock);
    forget_seen();
    pthread_mutex_unlock(&seen_lock);
}

static void
test_pool(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    cuuint64_t all = UINT64_MAX;
    CUdeviceptr first, second, none;

    MUST(cuMemPoolCreate, &pool, &properties);
    is_seen("pool created, 32 MiB, 0 used; cuMemPoolCreate = 0");
    MUST(cuMemAllocFromPoolAsync, &first, MIB, pool, stream);
    is_seen("allocated 1048576 device in order of a pool of 32 MiB, 1048576 used; cuMemAllocFromPoolAsync = 0");
    MUST(cuMemAllocFromPoolAsync, &second, 100, pool, stream);
    is_seen("allocated 100 device in order of a pool of 32 MiB, 1048676 used; cuMemAllocFromPoolAsync = 0");
    CU(cuMemAllocFromPoolAsync)(&none, (size_t)1 << 40, pool, stream);
    is_seen("cuMemAllocFromPoolAsync = 2");
    MUST(cuMemFreeAsync, first, stream);
    is_seen("released 1048576 device in order of a pool of 32 MiB, 1048676 used; cuMemFreeAsync = 0");
    MUST(cuStreamSynchronize, stream);
    is_seen("pool trimmed, 32 MiB, 100 used; cuStreamSynchronize = 0");
    MUST(cuMemFreeAsync, second, stream);
    is_seen("released 100 device in order of a pool of 32 MiB, 100 used; cuMemFreeAsync = 0");
    MUST(cuStreamSynchronize, stream);
    is_seen("pool trimmed, 0 MiB, 0 used; cuStreamSynchronize = 0");
    MUST(cuStreamSynchronize, stream);
    is_seen("cuStreamSynchronize = 0");
    MUST(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    is_seen("");
    MUST(cuMemAllocFromPoolAsync, &first, MIB, pool, stream);
    MUST(cuMemFree, first);
    is_seen("allocated 1048576 device in order of a pool of 32 MiB, 1048576 used; cuMemAllocFromPoolAsync = 0; "
            "released 1048576 device at once of a pool of 32 MiB, 1048576 used; cuMemFree_v2 = 0");
    MUST(cuMemPoolTrimTo, pool, 0);
    is_seen("pool trimmed, 0 MiB, 1048576 used; cuMemPoolTrimTo = 0");
    MUST(cuMemPoolDestroy, pool);
    is_seen("pool destroyed, 0 MiB, 1048576 used; cuMemPoolDestroy = 0");
}

static void
test_memory(void)
{
    CUdeviceptr address;
    void *host;

    MUST(cuMemAlloc, &address, 5000);
    MUST(cuMemFree, address);
    is_seen("allocated 5000 device; cuMemAlloc_v2 = 0; released 5000 device; cuMemFree_v2 = 0");
    CU(cuMemFree)(address);
    is_seen("cuMemFree_v2 = 1");
    MUST(cuMemAllocManaged, &address, 5000, CU_MEM_ATTACH_GLOBAL);
    MUST(cuMemFree, address);
    is_seen("allocated 5000 managed; cuMemAllocManaged = 0; released 5000 managed; cuMemFree_v2 = 0");
    MUST(cuMemHostAlloc, &host, 5000, 0);
    MUST(cuMemFreeHost, host);
    is_seen("allocated 5000 pinned; cuMemHostAlloc = 0; released 5000 pinned; cuMemFreeHost = 0");
}

/* Only the context tells the records of the two contexts apart. */
static void
test_two_contexts(void)
{
    CUcontext second;
    CUdeviceptr address;

    MUST(cuCtxCreate, &second, NULL, 0, 0);
    MUST(cuMemAlloc, &address, 5000);
    MUST(cuMemFree, address);
    is_seen("allocated 5000 device; allocated 5000 device; cuMemAlloc_v2 = 0; "
            "released 5000 device; released 5000 device; cuMemFree_v2 = 0");
    MUST(cuCtxDestroy, second);
}

/* Blocks left of a destroyed pool are freed without a record. */
static void
test_destroyed(void)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    CUdeviceptr address;

    MUST(cuMemPoolCreate, &pool, &properties);
    MUST(cuMemAllocFromPoolAsync, &address, MIB, pool, stream);
    MUST(cuMemPoolDestroy, pool);
    MUST(cuMemFreeAsync, address, stream);
    is_seen("pool created, 32 MiB, 0 used; cuMemPoolCreate = 0; "
            "allocated 1048576 device in order of a pool of 32 MiB, 1048576 used; cuMemAllocFromPoolAsync = 0; "
            "pool destroyed, 32 MiB, 1048576 used; cuMemPoolDestroy = 0; cuMemFreeAsync = 0");
    MUST(cuStreamSynchronize, stream);
    is_seen("cuStreamSynchronize = 0");
}

int
main(void)
{
    const char *reason;
    CUcontext primary;
    uint32_t version = 0;

    gpu_lock(true);
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    gpu_skip_sanitized("compute-sanitizer takes the place of CUPTI");
    if (!cupti_open())
        skip_all("no CUPTI 13");
    CUPTI(cuptiGetVersion)(&version);
    if (version < 130000)
        skip_all("this CUPTI is not of 13.0 or later");
    plan(28);
    gpu_diag();
    start();
    MUST(cuDevicePrimaryCtxRetain, &primary, 0);
    MUST(cuCtxSetCurrent, primary);
    MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    is_seen("");
    make_default_pool();
    test_pool();
    test_memory();
    test_two_contexts();
    test_destroyed();
    ok(!seen_apart, "every record has the correlation of its call, and a time within it");
    ok(!pthread_equal(seen_thread, pthread_self()), "buffers are completed on a thread of CUPTI's own");
    MUST(cuMemPoolCreate, &pool,
         &(CUmemPoolProps){ .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } });
    CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
    CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_DRIVER);
    MUST(cuMemPoolDestroy, pool);
    is_seen("pool created, 32 MiB, 0 used; cuMemPoolCreate = 0");
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUPTI");
}

#endif
