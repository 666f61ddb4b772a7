/*
 * The base `driver`: memory from a stream-ordered pool of the CUDA driver (a CUmemoryPool), and what can be done with
 * such a pool beside allocating; and what the CUDA devices of this machine can do.
 *
 * The functions that take a driver take the base itself. Of a stack that was made from text:
 *
 *     struct tide_resource *driver;
 *     enum tide_status status = tide_stack_find(stack, "driver", &driver);
 *
 * What order the caller owes where several streams use the memory is shown in examples/streams.c, sharing a pool with
 * another process in examples/share.c.
 */
#ifndef TIDEMARK_DRIVER_H
#define TIDEMARK_DRIVER_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the memory of a pool lies. */
enum tide_driver_location {
    TIDE_DRIVER_ON_DEVICE = 0,
    TIDE_DRIVER_ON_HOST_NUMA = 1, /* on a NUMA node of the host, pinned; the device reads and writes it; CUDA 12.2 */
    TIDE_DRIVER_MANAGED = 2,      /* wherever it is used, the device first; CUDA 13.0 */
};

/* How a pool can be shared with other processes; a set of bits. */
enum tide_driver_handle {
    TIDE_DRIVER_NO_HANDLE = 0,
    TIDE_DRIVER_POSIX_FD = 1, /* as a file descriptor, on this machine */
    TIDE_DRIVER_FABRIC = 2,   /* as a fabric handle, on machines of one NVLink fabric, by IMEX channel; CUDA 12.4 */
};

/* One of the driver's policies: which freed memory another stream may get. */
enum tide_driver_reuse {
    TIDE_DRIVER_REUSE_UNSET = 0, /* as the driver has it: on, unless somebody has set the default pool otherwise */
    TIDE_DRIVER_REUSE_ON = 1,
    TIDE_DRIVER_REUSE_OFF = 2,
};

struct tide_driver_options {
    size_t struct_size;
    uint64_t release_threshold_bytes;     /* what a synchronize lets the pool keep; 0: the driver's own; TIDE_NONE; all:
                                         TIDE_UNLIMITED */
    uint64_t maximum_bytes;               /* the most the pool may grow to; 0: no bound; not for the default pool */
    uint64_t initial_bytes;               /* reserved at once, and kept: the threshold is raised to it */
    int32_t device;                       /* CUDA ordinal */
    int32_t host_numa;                    /* the node of TIDE_DRIVER_ON_HOST_NUMA */
    uint32_t location;                    /* of enum tide_driver_location, for a pool of its own */
    uint32_t handles;                     /* of enum tide_driver_handle, for a pool of its own */
    uint32_t reuse_event_dependencies;    /* of enum tide_driver_reuse: freed on a stream that events order before */
    uint32_t reuse_opportunistic;         /* the same: freed on any stream, once that is done */
    uint32_t reuse_internal_dependencies; /* the same, by making the new stream wait for it */
    bool use_default_pool;                /* the device's default pool instead of one of our own */
    bool fallback_cuda;                   /* where there are no pools, make the base of tide_cuda_create instead */
    uint8_t reserved[2];                  /* 0 */
};

/*
 * Create a base over the stream-ordered memory pool of a CUDA device. Retains the device's primary context, and
 * works with no current context, with the application's own, and from threads that never touched CUDA.
 *
 * TIDE_QUERY_BYTES_USED, TIDE_QUERY_BYTES_RESERVED and the highs of both are the pool's: for the default pool they
 * count everybody who uses it, in this process also those who know nothing of Tidemark. The default pool gets back,
 * at the end, the threshold and the policies of before, where ours still stand. Memory that is freed on another
 * stream than the one it was allocated on, or used on several, is the caller's to order; see examples/streams.c.
 *
 * An order behind TIDE_STREAM_ALL waits, on the host, for the device's primary context and for the context that is
 * current: streams of the application's other contexts are the application's to wait for. It fails while a stream
 * there is captured into a graph.
 *
 * While a stream is captured, an allocation on it becomes a node of the graph, served by the memory that the device
 * keeps for graphs and not by the pool: it counts, and is traced, once, when it is captured, and not when the graph
 * is launched, and a trace that ends with it live says that the address stood reserved.
 *
 * A pool reserves in steps (of 32 MiB on today's drivers); an initial size is rounded up to them. A request to a pool
 * of managed memory takes time by its size, and one past the device's memory a long time.
 *
 * It keeps no list of what it gave out, and notices of a wrong deallocation what the driver does: an address of nobody,
 * one inside of a block, a block twice, managed and pinned memory of other bases. Memory of another pool or of
 * cuMemAlloc is freed like its own, and a wrong size is not seen; `track` above it knows both.
 *
 * With `fallback_cuda`, and no pools, *out is a base of the kind "cuda", which has no maximum, location, handles:
 * asking for these too is TIDE_EUNSUPPORTED then; threshold, initial and policies mean nothing to it.
 *
 * Errors: TIDE_EUNSUPPORTED (the build has no CUDA, the machine no driver, the device no pools or not such ones, the
 * process no permission for a fabric handle; the text says which), TIDE_EINVAL (no such device; a maximum, location or
 * handles for the default pool; an initial size or a threshold that contradict the maximum or each other),
 * TIDE_ECAPACITY (the initial size), TIDE_EDRIVER, TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY
 * (CUDA_ERROR_OUT_OF_MEMORY), TIDE_EINVAL (alignment over 256 bytes), TIDE_EDRIVER; its deallocations: TIDE_EPOINTER
 * (CUDA_ERROR_INVALID_VALUE), TIDE_EDRIVER.
 * Thread safety: any thread; the driver takes its own lock. Source: CUDA Driver API, stream ordered memory
 * allocator. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out);

/*
 * Start TIDE_QUERY_BYTES_USED_HIGH and TIDE_QUERY_BYTES_RESERVED_HIGH again from what is used and reserved now. Of the
 * default pool that is everybody's.
 * Errors: TIDE_EINVAL (no driver), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_reset_highs(struct tide_resource *driver);

/* What a device may do with the memory of a pool; the numbers are those of CUmemAccess_flags. */
enum tide_driver_access {
    TIDE_DRIVER_NO_ACCESS = 0,
    TIDE_DRIVER_READ = 1,
    TIDE_DRIVER_READ_WRITE = 3,
};

/*
 * Let the device `device` use all memory of the pool in this way, also what is handed out already. *former (may be
 * NULL) is what it could do before, so that access for a scope is
 *
 *     status = tide_driver_access_set(driver, 1, TIDE_DRIVER_READ_WRITE, &former);
 *     ...
 *     tide_driver_access_set(driver, 1, former, NULL);
 *
 * once the work that uses it is done. Scopes for the same device that overlap without nesting, as two threads may
 * have them, are the caller's to keep apart. A device always has access to its own pool.
 *
 * Errors: TIDE_EINVAL (no driver, no such device, no access), TIDE_EUNSUPPORTED (the device cannot reach that memory;
 * the text has the driver's error, tide_error_driver its number), TIDE_EDRIVER. On failure *former is
 * TIDE_DRIVER_NO_ACCESS and nothing has changed.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_access_set(struct tide_resource *driver, int device,
                                                    enum tide_driver_access access, enum tide_driver_access *former);

/* What the device `device` may do with the memory of the pool. Errors: as above. Since 0.1. */
TIDE_EXPORT enum tide_status tide_driver_access_get(struct tide_resource *driver, int device,
                                                    enum tide_driver_access *out);

/*
 * Make a file descriptor of a pool that was created with TIDE_DRIVER_POSIX_FD, to be handed to another process over a
 * socket (SCM_RIGHTS). The caller owns it. *fd is -1 on failure.
 * Errors: TIDE_EINVAL (no driver, or one without that handle), TIDE_EUNSUPPORTED, TIDE_EDRIVER.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_export(struct tide_resource *driver, int *fd);

/* A pool's fabric handle: plain data, for any way to another process. */
struct tide_driver_fabric {
    unsigned char data[64];
};

/* The same for TIDE_DRIVER_FABRIC. Since 0.1. */
TIDE_EXPORT enum tide_status tide_driver_export_fabric(struct tide_resource *driver, struct tide_driver_fabric *out);

struct tide_driver_import_options {
    size_t struct_size;
    int32_t device;    /* CUDA ordinal, in this process, of the device whose context frees what is imported */
    uint32_t reserved; /* 0 */
};

/*
 * Create a base, of the kind "driver_import", over the pool of another process. `fd` is borrowed: close it when you
 * like. The pool stays the other process's: it allocates there, hands over each address with
 * tide_driver_pointer_export, and frees what was freed here first.
 *
 * Put layers over it as over any base: what is imported through them counts, is limited and traced as an allocation,
 * and tide_deallocate gives it back. Its figures are what this base has imported, not the pool's. A plain
 * tide_allocate is TIDE_EUNSUPPORTED: only the process that made a pool allocates from it.
 * A deallocation of more bytes than are imported is TIDE_EPOINTER, so that the figures never wrap; what else the driver
 * frees of others' memory is told as little as by tide_driver_create.
 *
 * Errors: TIDE_EUNSUPPORTED (no CUDA, no driver, no sharing), TIDE_EINVAL (no such device), TIDE_EDRIVER (a descriptor
 * that is no pool: the driver says CUDA_ERROR_UNKNOWN), TIDE_ENOMEM. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_import(int fd, const struct tide_driver_import_options *options,
                                                struct tide_resource **out);

/* The same for a fabric handle. CUDA_ERROR_NOT_PERMITTED: no IMEX channel in common. Since 0.1. */
TIDE_EXPORT enum tide_status tide_driver_import_fabric(const struct tide_driver_fabric *handle,
                                                       const struct tide_driver_import_options *options,
                                                       struct tide_resource **out);

/* An allocation of a shared pool: plain data, for any way to another process. */
struct tide_driver_pointer {
    unsigned char data[64];
    uint64_t bytes; /* of the allocation */
};

/*
 * Describe `pointer`, an allocation of `bytes` bytes from `driver`, for the process that has imported the pool; export
 * the pool itself first. What the allocation's stream holds must be done before the other process uses it, or be
 * ordered by an event that both share.
 * Errors: TIDE_EINVAL (no driver), TIDE_EPOINTER (no allocation of a pool that was exported), TIDE_EDRIVER. Thread
 * safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_pointer_export(struct tide_resource *driver, void *pointer, uint64_t bytes,
                                                        struct tide_driver_pointer *out);

/*
 * Have an allocation of another process, through all layers of `stack`, which ends in a base of tide_driver_import:
 * to them it is an allocation of that many bytes on `stream`. Give it back with
 * tide_deallocate(stack, *out, from->bytes, TIDE_DEFAULT_ALIGNMENT, stream), before the other process frees it. On
 * failure *out is NULL.
 *
 * Layers that serve requests from memory of their own (pool, fixed) have no place in such a stack: TIDE_EUNSUPPORTED.
 * Errors: TIDE_EINVAL (no imported pool below), TIDE_EDRIVER (an allocation of another pool, or freed), and all that
 * the layers return. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_pointer_import(struct tide_resource *stack,
                                                        const struct tide_driver_pointer *from, tide_stream stream,
                                                        void **out);

/*
 * How many CUDA devices there are, and the CUDA version of the driver, 13000 for 13.0 (may be NULL). Both are 0 on
 * failure. Errors: TIDE_EUNSUPPORTED (the build has no CUDA, the machine no driver or no device; the text says which).
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_device_count(int *count, int *driver_version);

/*
 * The name of a device, such as "NVIDIA H200", cut to `capacity` - 1 bytes. Errors: TIDE_EINVAL (no such device),
 * TIDE_EUNSUPPORTED, TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_device_name(int device, char *name, size_t capacity);

/*
 * Ask for a figure or a capability of a device, without a resource: TIDE_QUERY_DEVICE_FREE to TIDE_QUERY_HOST_POOLS.
 * *out is 0 on failure. TIDE_QUERY_DEVICE_FREE makes the device's primary context for the time of the call, where
 * there is none, which takes some of the memory and up to a second.
 * Errors: TIDE_EINVAL (no such device), TIDE_EUNSUPPORTED (no figure of a device), TIDE_EDRIVER. Thread safety: any
 * thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_device_query(int device, enum tide_query what, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
