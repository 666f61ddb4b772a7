/* Parses CUPTI's records of memory and pools. Calls no CUPTI function. */
#ifndef TIDEI_TRACE_CUPTI_ACTIVITY_H
#define TIDEI_TRACE_CUPTI_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

enum tidei_device_kind {
    TIDEI_DEVICE_ALLOCATION = 0,
    TIDEI_DEVICE_RELEASE = 1,
    TIDEI_DEVICE_POOL_CREATED = 2,
    TIDEI_DEVICE_POOL_DESTROYED = 3,
    TIDEI_DEVICE_POOL_TRIMMED = 4,
};

enum tidei_device_pool {
    TIDEI_DEVICE_POOL_NONE = 0,
    TIDEI_DEVICE_POOL_LOCAL = 1,
    TIDEI_DEVICE_POOL_IMPORTED = 2,
};

#define TIDEI_NO_NUMBER UINT32_MAX /* no context or stream */

/* An event of memory or of a pool, from a MEMORY2 or MEMORY_POOL record. */
struct tidei_device_event {
    uint64_t ticks;
    uint64_t address;              /* of the memory; 0 for a pool event */
    uint64_t bytes;                /* of the memory; for a trim, the bytes to keep */
    uint64_t pool_address;         /* 0: no pool */
    uint64_t pool_bytes;           /* this and the next two: of a pool of this process */
    uint64_t pool_used_bytes;      /* UINT64_MAX: not reported by this CUPTI */
    uint64_t pool_threshold_bytes; /* UINT64_MAX: never releases memory */
    uint32_t pool_pid;             /* of an imported pool: its owner */
    uint32_t correlation;
    uint32_t device;
    uint32_t context;
    uint32_t stream;
    uint32_t pid;
    uint8_t kind;        /* enum tidei_device_kind */
    uint8_t memory_kind; /* CUpti_ActivityMemoryKind */
    uint8_t pool;        /* enum tidei_device_pool */
};

/*
 * Parse one record (a CUpti_Activity) of CUPTI version `version`; fields that this version does not have are not read.
 * False if it is not a record of memory or of a pool.
 */
bool tidei_activity_parse(const void *record, uint32_t version, struct tidei_device_event *out);

#endif
