/* Parses CUPTI's records of memory and pools. */
#include "config.h"

#include "src/trace/cupti/activity.h"

#ifdef HAVE_CUPTI_H

#include <cupti.h>

/* MEMORY2 and MEMORY_POOL records have grown in CUDA 11.6: before, nothing is behind the size of the pool. */
#define ACTIVITY_USED_SIZE_VERSION 17

static bool
activity_memory(const CUpti_ActivityMemory4 *record, uint32_t version, struct tidei_device_event *event)
{
    if (record->memoryOperationType != CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION &&
        record->memoryOperationType != CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE)
        return false;
    *event = (struct tidei_device_event){ .ticks = record->timestamp,
                                          .address = record->address,
                                          .bytes = record->bytes,
                                          .correlation = record->correlationId,
                                          .device = record->deviceId,
                                          .context = record->contextId,
                                          .stream = record->streamId,
                                          .pid = record->processId,
                                          .kind = TIDEI_DEVICE_ALLOCATION,
                                          .memory_kind = (uint8_t)record->memoryKind };
    if (record->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE)
        event->kind = TIDEI_DEVICE_RELEASE;
    if (record->memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED) {
        event->pool = TIDEI_DEVICE_POOL_IMPORTED;
        event->pool_address = record->memoryPoolConfig.address;
        event->pool_pid = (uint32_t)record->memoryPoolConfig.pool.processId;
    } else if (record->memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL) {
        event->pool = TIDEI_DEVICE_POOL_LOCAL;
        event->pool_address = record->memoryPoolConfig.address;
        event->pool_bytes = record->memoryPoolConfig.pool.size;
        event->pool_threshold_bytes = record->memoryPoolConfig.releaseThreshold;
        event->pool_used_bytes =
            version >= ACTIVITY_USED_SIZE_VERSION ? record->memoryPoolConfig.utilizedSize : UINT64_MAX;
    }
    return true;
}

static bool
activity_pool(const CUpti_ActivityMemoryPool2 *record, uint32_t version, struct tidei_device_event *event)
{
    enum tidei_device_kind kind;

    if (record->memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED)
        kind = TIDEI_DEVICE_POOL_CREATED;
    else if (record->memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED)
        kind = TIDEI_DEVICE_POOL_DESTROYED;
    else if (record->memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED)
        kind = TIDEI_DEVICE_POOL_TRIMMED;
    else
        return false;
    *event = (struct tidei_device_event){ .ticks = record->timestamp,
                                          .bytes = kind == TIDEI_DEVICE_POOL_TRIMMED ? record->minBytesToKeep : 0,
                                          .pool_address = record->address,
                                          .correlation = record->correlationId,
                                          .device = record->deviceId,
                                          .context = TIDEI_NO_NUMBER,
                                          .stream = TIDEI_NO_NUMBER,
                                          .pid = record->processId,
                                          .kind = (uint8_t)kind,
                                          .pool = TIDEI_DEVICE_POOL_IMPORTED };
    if (record->memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL)
        return true;
    event->pool = TIDEI_DEVICE_POOL_LOCAL;
    event->pool_bytes = record->size;
    event->pool_threshold_bytes = record->releaseThreshold;
    event->pool_used_bytes = version >= ACTIVITY_USED_SIZE_VERSION ? record->utilizedSize : UINT64_MAX;
    return true;
}

bool
tidei_activity_parse(const void *record, uint32_t version, struct tidei_device_event *out)
{
    switch (((const CUpti_Activity *)record)->kind) {
    case CUPTI_ACTIVITY_KIND_MEMORY2:
        return activity_memory(record, version, out);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
        return activity_pool(record, version, out);
    default:
        return false;
    }
}

#endif
