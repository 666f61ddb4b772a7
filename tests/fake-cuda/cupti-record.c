/* The records of the fake CUPTI: which kinds are enabled, and how a driver event becomes a record. */
#include "tests/fake-cuda/cupti.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORD_NUMBERS CUPTI_DRIVER_TRACE_CBID_SIZE

static _Atomic bool record_memory, record_pools;
static _Atomic bool record_calls; /* the whole kind is enabled */
static _Atomic uint8_t record_wanted[RECORD_NUMBERS];
static _Atomic uint32_t record_correlation;
static _Atomic int record_thread_type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;

/* Records only grow: an older version's record is the beginning of a newer one's. */
size_t
fake_cupti_record_bytes(CUpti_ActivityKind kind)
{
    bool old = fake_cupti_version() < 130000;

    switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMORY2:
        return old ? offsetof(CUpti_ActivityMemory4, source) : sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
        return old ? offsetof(CUpti_ActivityMemoryPool3, isManagedPool) : sizeof(CUpti_ActivityMemoryPool3);
    default:
        return sizeof(CUpti_ActivityAPI);
    }
}

static uint32_t
record_thread(void)
{
    if (record_thread_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
        return (uint32_t)syscall(SYS_gettid);
    return (uint32_t)(uintptr_t)pthread_self();
}

static void
record_begin(int number, struct fake_traced_call *call)
{
    bool calls_back = fake_cupti_calls_back(number);

    if (number <= 0 || number >= (int)RECORD_NUMBERS || (!record_wanted[number] && !calls_back))
        return;
    call->correlation = ++record_correlation;
    if (calls_back)
        fake_cupti_call_back(number, CUPTI_API_ENTER, call->correlation, NULL);
    if (record_wanted[number])
        call->start = fake_cupti_now();
}

static void
record_end(int number, const struct fake_traced_call *call, int result)
{
    CUpti_ActivityAPI record = { .kind = CUPTI_ACTIVITY_KIND_DRIVER,
                                 .cbid = (CUpti_CallbackId)number,
                                 .start = call->start,
                                 .processId = (uint32_t)getpid(),
                                 .threadId = record_thread(),
                                 .correlationId = call->correlation,
                                 .returnValue = (uint32_t)result };

    if (call->start != 0) {
        record.end = fake_cupti_now();
        fake_cupti_put(&record, fake_cupti_record_bytes(record.kind));
    }
    if (call->correlation != 0 && fake_cupti_calls_back(number))
        fake_cupti_call_back(number, CUPTI_API_EXIT, call->correlation, &result);
}

static void
record_memory_event(const struct fake_traced_call *call, const struct fake_event *event)
{
    CUpti_ActivityMemory4 record = { .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
                                     .memoryOperationType = event->kind == FAKE_ALLOCATION
                                                                ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
                                                                : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
                                     .memoryKind = (CUpti_ActivityMemoryKind)event->memory_kind,
                                     .correlationId = call->correlation,
                                     .address = event->address,
                                     .bytes = event->bytes,
                                     .timestamp = fake_cupti_now(),
                                     .processId = (uint32_t)getpid(),
                                     .deviceId = event->device,
                                     .contextId = event->context,
                                     .streamId = event->stream,
                                     .isAsync = event->asynchronous };

    if (event->kind == FAKE_RELEASE && event->pool_type == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED) {
        fprintf(stderr,
                "fake-cuda: a pointer that was imported is freed while MEMORY2 is on: CUPTI 13.0 crashes here\n");
        abort();
    }
    if (event->pool_type != 0) {
        record.memoryPoolConfig.memoryPoolType = (CUpti_ActivityMemoryPoolType)event->pool_type;
        record.memoryPoolConfig.address = event->pool_address;
        record.memoryPoolConfig.releaseThreshold = event->pool_threshold_bytes;
        if (event->pool_type == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL)
            record.memoryPoolConfig.pool.size = event->pool_bytes;
        else
            record.memoryPoolConfig.pool.processId = event->pool_process;
        record.memoryPoolConfig.utilizedSize = event->pool_used_bytes;
    }
    fake_cupti_put(&record, fake_cupti_record_bytes(record.kind));
    /* FAKE_CUPTI_TWICE=1: the process has two contexts, and each reports the event. */
    if (getenv("FAKE_CUPTI_TWICE") != NULL) {
        record.contextId++;
        record.timestamp = fake_cupti_now();
        fake_cupti_put(&record, fake_cupti_record_bytes(record.kind));
    }
}

static void
record_pool_event(const struct fake_traced_call *call, const struct fake_event *event)
{
    CUpti_ActivityMemoryPool3 record = { .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
                                         .memoryPoolOperationType = event->kind == FAKE_POOL_CREATED     ? 1
                                                                    : event->kind == FAKE_POOL_DESTROYED ? 2
                                                                                                         : 3,
                                         .memoryPoolType = (CUpti_ActivityMemoryPoolType)event->pool_type,
                                         .correlationId = call->correlation,
                                         .processId = (uint32_t)getpid(),
                                         .deviceId = event->device,
                                         .minBytesToKeep = event->least_bytes,
                                         .address = event->pool_address,
                                         .size = event->pool_bytes,
                                         .releaseThreshold = event->pool_threshold_bytes,
                                         .timestamp = fake_cupti_now(),
                                         .utilizedSize = event->pool_used_bytes,
                                         .isManagedPool = event->managed };

    fake_cupti_put(&record, fake_cupti_record_bytes(record.kind));
}

/* In a call that is not recorded, events have the correlation id of the last recorded one. */
static void
record_event(const struct fake_traced_call *call, const struct fake_event *event)
{
    struct fake_traced_call known = *call;
    bool memory = event->kind == FAKE_ALLOCATION || event->kind == FAKE_RELEASE;

    if (memory ? !record_memory : !record_pools)
        return;
    if (known.correlation == 0)
        known.correlation = record_correlation;
    if (memory)
        record_memory_event(&known, event);
    else
        record_pool_event(&known, event);
}

const struct fake_tracer fake_cupti_tracer = {
    .number = fake_cupti_number,
    .begin = record_begin,
    .event = record_event,
    .end = record_end,
};

static CUptiResult
record_switch(CUpti_ActivityKind kind, bool on)
{
    if (!fake_cupti_listen())
        return CUPTI_ERROR_NOT_INITIALIZED;
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMORY2:
        record_memory = on;
        return CUPTI_SUCCESS;
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
        record_pools = on;
        return CUPTI_SUCCESS;
    case CUPTI_ACTIVITY_KIND_DRIVER:
        record_calls = on;
        for (size_t i = 0; i < RECORD_NUMBERS; i++)
            record_wanted[i] = on;
        return CUPTI_SUCCESS;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        return CUPTI_SUCCESS; /* there are none */
    default:
        return CUPTI_ERROR_NOT_COMPATIBLE;
    }
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnable(CUpti_ActivityKind kind)
{
    return record_switch(kind, true);
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityDisable(CUpti_ActivityKind kind)
{
    return record_switch(kind, false);
}

/*
 * If the whole kind is disabled, single functions that are enabled while there is a context are accepted and record
 * nothing, as observed.
 */
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableDriverApi(CUpti_CallbackId number, uint8_t enable)
{
    if (number == 0 || number >= RECORD_NUMBERS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!enable)
        record_wanted[number] = 0;
    else if (record_calls || !fake_cupti_has_context())
        record_wanted[number] = 1;
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableRuntimeApi(CUpti_CallbackId number, uint8_t enable)
{
    (void)number;
    (void)enable;
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableAllocationSource(uint8_t enable)
{
    (void)enable;
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    record_thread_type = (int)type;
    return CUPTI_SUCCESS;
}
