/* Memory of the fake driver, inside and outside of pools. All of it is guarded by fake_lock. */
#ifndef TESTS_FAKE_CUDA_MEMORY_H
#define TESTS_FAKE_CUDA_MEMORY_H

#include "tests/fake-cuda/fake.h"

#define FAKE_SLAB_BYTES   (32 * FAKE_MIB) /* a pool reserves in steps of this */
#define FAKE_POOL_BUCKETS 1024
#define FAKE_GRANULE      512             /* every address of a pool is a multiple of this */
#define FAKE_OWN_BYTES    (32 * FAKE_MIB) /* a device's memory that the driver keeps for itself */

enum fake_memory_kind { FAKE_DEVICE, FAKE_MANAGED, FAKE_HOST };

/* A part of a pool's reserved memory, in use or free. A pool's blocks are a list in the order of their addresses. */
struct fake_block {
    struct fake_block *before, *after;
    struct fake_block *chain; /* if live: the next in its bucket */
    struct fake_block *free_before, *free_after;
    uint64_t offset, bytes;
    uint64_t requested_bytes;
    uint64_t id;
    bool live;
    bool retired;            /* free, and the host knows that the free was reached */
    struct fake_point freed; /* if free: the point of the free */
    CUcontext context;       /* if live: the context that allocated it */
};

struct CUmemPoolHandle_st {
    struct CUmemPoolHandle_st *next;
    CUmemPoolProps properties;
    bool alive, is_default, imported;
    bool exported; /* its handle was exported: before that its pointers cannot be */
    bool refused;  /* its handle was refused: from then on the real driver crashes when it is used */
    int device;    /* -1: on the host */
    enum fake_memory_kind kind;
    char *base;
    uint64_t span_bytes, most_bytes;
    bool *slabs; /* which slabs are reserved */
    size_t slab_count;
    int fd; /* of its memory, if it can be shared; else -1 */
    uint64_t reserved_bytes, reserved_high_bytes, used_bytes, used_high_bytes;
    /* The used bytes that CUPTI reports: a synchronize reduces them, and a free by cuMemFree never does. */
    uint64_t told_used_bytes, told_freed_bytes;
    bool frees_since_trim;
    uint64_t threshold_bytes;
    int follow_events, opportunistic, internal_dependencies;
    CUmemAccess_flags access[FAKE_MOST_DEVICES];
    size_t live_count;
    struct fake_block *first;
    struct fake_block *first_free;
    struct fake_block *buckets[FAKE_POOL_BUCKETS];
};

/* What is at an address. */
struct fake_place {
    uint64_t start, bytes, id;
    enum fake_memory_kind kind;
    int device;        /* -1: on the host */
    CUcontext context; /* NULL: memory of a pool */
    CUmemoryPool pool; /* NULL: not memory of a pool */
    struct fake_block *block;
    const struct fake_mapping *mapping; /* NULL: not virtual memory */
    bool of_graph;
    bool borrowed; /* registered memory of the program, or another process' */
};

bool fake_place_find(uint64_t address, struct fake_place *out);
/* Whether `bytes` from `address` on are memory that the context may touch. */
CUresult fake_place_check(CUcontext context, uint64_t address, uint64_t bytes);
uint64_t fake_memory_id(void);
/* CUPTI's number of a memory kind. */
int fake_memory_number(enum fake_memory_kind kind);

/* Take bytes of the device's memory. False if there are not enough. */
bool fake_device_take(int device, uint64_t bytes);
void fake_device_give(int device, uint64_t bytes);

/* Virtual memory; see virtual.c. */
bool fake_virtual_place(uint64_t address, struct fake_place *out);
/* Whether all of `bytes` from `address` on are mapped and the device has access. */
bool fake_virtual_check(int device, uint64_t address, uint64_t bytes);
void fake_virtual_count(struct fake_count *out);

/* The number of blocks outside of pools. */
unsigned fake_memory_count(void);

CUresult fake_memory_allocate(CUdeviceptr *out, size_t bytes, enum fake_memory_kind kind);
CUresult fake_memory_release(uint64_t address);
/* Memory that the driver has not made, but knows from here on; and forget it. False if it knows of none. */
void fake_memory_borrow(CUcontext context, void *address, uint64_t bytes, enum fake_memory_kind kind);
bool fake_memory_forget(uint64_t address);
/* The descriptor of cuMemAlloc's memory that starts there, for other processes; -1 if there is none. */
int fake_memory_share(uint64_t address);

/* Destroy the context's memory outside of pools; its arrays (array.c); forget what it has opened (ipc.c). */
void fake_memory_end(CUcontext context);
void fake_arrays_end(CUcontext context);
void fake_ipc_end(CUcontext context);
CUresult fake_memory_free(uint64_t address, CUstream stream);

/* The blocks of a pool; see pool-blocks.c. */
bool fake_pool_map(CUmemoryPool pool, int protection);
void fake_pool_import_block(CUmemoryPool pool, uint64_t offset, uint64_t bytes);
CUresult fake_pool_allocate(CUmemoryPool pool, size_t bytes, CUstream stream, CUdeviceptr *out);
void fake_pool_free(CUmemoryPool pool, struct fake_block *block, struct fake_point point);
struct fake_block *fake_pool_block(CUmemoryPool pool, uint64_t address);
/* Release free memory until at most `most_bytes` are left. Returns how much was released. */
uint64_t fake_pool_trim(CUmemoryPool pool, uint64_t most_bytes);
/* Make the freed blocks available to all streams whose free their stream has reached. */
void fake_pool_retire(CUmemoryPool pool);
/* Whether a stream has yet to reach a free. */
bool fake_pool_waits(CUmemoryPool pool);

/* The pools; see pool.c. */
CUmemoryPool fake_pools(void);
bool fake_pool_is(CUmemoryPool pool);
/* Crash if a handle of the pool was refused, as the real driver does in the end. */
void fake_pool_refused(CUmemoryPool pool);
CUmemoryPool fake_pool_new(const CUmemPoolProps *properties, int device);
CUmemoryPool fake_pool_new_imported(const CUmemPoolProps *properties, uint64_t span_bytes, int fd);
CUmemoryPool fake_pool_default(int device);
/* See share.c. */
bool fake_pool_make_shareable(CUmemoryPool pool);
void fake_pool_drop(CUmemoryPool pool);
void fake_pools_synchronized(int device);
/* Release free memory over the threshold of each pool of the device except `but`. */
void fake_pools_trim(int device, CUmemoryPool but);
void fake_pool_trace(CUmemoryPool pool, enum fake_event_kind kind, uint64_t least_bytes);
void fake_block_trace(CUmemoryPool pool, const struct fake_block *block, enum fake_event_kind kind, CUstream stream);

#endif
