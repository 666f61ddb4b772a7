/*
 * The base `driver`: memory from a stream-ordered pool of the CUDA driver (a CUmemoryPool); how to share such a pool
 * with other devices and processes; and what the CUDA devices of this machine can do.
 *
 * The functions with a parameter `driver` take the base itself. To find it in a stack that was made from text:
 *
 *     struct tide_resource *driver;
 *     enum tide_status status = tide_stack_find(stack, "driver", &driver);
 *
 * examples/streams.c shows what a program with several streams has to order, examples/share.c how it shares a pool with
 * another process.
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
    TIDE_DRIVER_MANAGED = 2,      /* managed memory, which moves to where it is used, first to the device; CUDA 13.0 */
};

/* How a pool can be shared with other processes; a set of bits. */
enum tide_driver_handle {
    TIDE_DRIVER_NO_HANDLE = 0,
    TIDE_DRIVER_POSIX_FD = 1, /* through a file descriptor, on this machine */
    TIDE_DRIVER_FABRIC = 2,   /* through a fabric handle, between machines of one NVLink fabric with IMEX; CUDA 12.4 */
};

/* Whether one of the driver's reuse policies is on. They say which freed memory another stream may get. */
enum tide_driver_reuse {
    TIDE_DRIVER_REUSE_UNSET = 0, /* the driver's own setting: on, unless other code has changed the default pool */
    TIDE_DRIVER_REUSE_ON = 1,
    TIDE_DRIVER_REUSE_OFF = 2,
};

/* maximum_bytes, location and handles are only for a pool of the base's own, not for the default pool. */
struct tide_driver_options {
    size_t struct_size; /* TIDE_OPTIONS */
    /*
     * How many bytes the pool keeps when a stream is synchronized; more than that goes back to the system. 0: the
     * driver's default, which is nothing for a new pool; TIDE_NONE: nothing; TIDE_UNLIMITED: everything.
     */
    uint64_t release_threshold_bytes;
    uint64_t maximum_bytes; /* the most the pool may grow to; 0: no bound */
    uint64_t initial_bytes; /* reserved at creation and kept: the release threshold is raised to it; 0: none */
    int32_t device;         /* CUDA ordinal */
    int32_t host_numa;      /* NUMA node, for TIDE_DRIVER_ON_HOST_NUMA */
    uint32_t location;      /* enum tide_driver_location */
    uint32_t handles;       /* bits of enum tide_driver_handle */
    /*
     * Each of the following is an enum tide_driver_reuse, for memory that was freed on another stream. It may be
     * reused if an event orders that stream before; if that stream is done; by making the new stream wait for it.
     */
    uint32_t reuse_event_dependencies;
    uint32_t reuse_opportunistic;
    uint32_t reuse_internal_dependencies;
    bool use_default_pool; /* use the device's default pool instead of a pool of its own */
    bool fallback_cuda;    /* where the device has no pools, create the base of tide_cuda_create instead */
    uint8_t reserved[2];   /* 0 */
};

/*
 * Create a base over the stream-ordered memory pool of a CUDA device. The base retains the device's primary context. It
 * works without a current context, with a context of the application's own, and on threads that have never used CUDA.
 *
 * Figures: TIDE_QUERY_BYTES_USED, TIDE_QUERY_BYTES_RESERVED and their highs are those of the pool. For the default pool
 * they include all other users of that pool in this process. When the base is destroyed, the default pool gets its
 * former threshold and policies back, unless other code has changed them meanwhile.
 *
 * Streams: a program that frees memory on another stream than it allocated it on, or uses it on several, has to order
 * these streams itself. tide_order with TIDE_STREAM_ALL blocks the host until the device's primary context and the
 * current context are idle; the program itself has to wait for streams of other contexts. It fails while one of these
 * streams is captured into a graph.
 *
 * Graphs: an allocation on a stream that is being captured becomes a node of the graph. Its memory comes from what the
 * device keeps for graphs, not from the pool. It is counted and traced once, when it is captured, not each time that
 * the graph is launched.
 *
 * Sizes: a pool reserves memory in steps (32 MiB with today's drivers), to which initial_bytes is rounded up. A request
 * to a pool of managed memory takes time in proportion to its size, and a long time if it exceeds the device's memory.
 *
 * Wrong frees: the base keeps no list of its blocks, so it detects only what the driver detects: an address that was
 * never allocated, an address inside of a block, a block that was freed already, and managed and pinned memory of other
 * bases. It frees memory of another pool or of cuMemAlloc like its own, and does not detect a wrong size. A `track`
 * above it detects these.
 *
 * With fallback_cuda, where the device has no pools, *out is a base of the kind "cuda". It has no maximum, location or
 * handles, so asking for one of them is TIDE_EUNSUPPORTED then. It ignores the threshold, initial_bytes and the reuse
 * policies.
 *
 * `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EUNSUPPORTED (this build has no CUDA; the machine has no driver; the device has no such pools; the
 * process may not use fabric handles; the error text says which), TIDE_EINVAL (NULL; no such device; options that
 * contradict each other), TIDE_ECAPACITY (initial_bytes), TIDE_EDRIVER, TIDE_ENOMEM.
 * Errors of its allocations: TIDE_ECAPACITY (CUDA_ERROR_OUT_OF_MEMORY), TIDE_EINVAL (an alignment over 256 bytes),
 * TIDE_EDRIVER. Of its deallocations: TIDE_EPOINTER (CUDA_ERROR_INVALID_VALUE), TIDE_EDRIVER.
 * Thread safety: any thread; the driver takes its own lock. Source: CUDA Driver API, stream ordered memory allocator.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out);

/*
 * Reset TIDE_QUERY_BYTES_USED_HIGH and TIDE_QUERY_BYTES_RESERVED_HIGH to what is used and reserved now. All users of
 * the default pool share its highs.
 * Errors: TIDE_EINVAL (not a driver resource), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_reset_highs(struct tide_resource *driver);

/* What a device may do with the memory of a pool. The numbers are those of CUmemAccess_flags. */
enum tide_driver_access {
    TIDE_DRIVER_NO_ACCESS = 0,
    TIDE_DRIVER_READ = 1,
    TIDE_DRIVER_READ_WRITE = 3,
};

/*
 * Set what the device `device` may do with all memory of the pool, also with blocks that are allocated already. *former
 * (may be NULL) is what it could do before. So a program gives access for some time:
 *
 *     status = tide_driver_access_set(driver, 1, TIDE_DRIVER_READ_WRITE, &former);
 *     ...
 *     tide_driver_access_set(driver, 1, former, NULL);
 *
 * Make the second call after the work that uses the access. If two threads do this for the same device, they have to
 * take turns. A device always has access to its own pool.
 *
 * Errors: TIDE_EINVAL (not a driver resource, no such device, no such access), TIDE_EUNSUPPORTED (the device cannot
 * reach that memory), TIDE_EDRIVER. On failure *former is TIDE_DRIVER_NO_ACCESS and nothing has changed.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_access_set(struct tide_resource *driver, int device,
                                                    enum tide_driver_access access, enum tide_driver_access *former);

/*
 * Read what the device `device` may do with the memory of the pool. On failure *out is TIDE_DRIVER_NO_ACCESS.
 * Errors: TIDE_EINVAL (not a driver resource, no such device, NULL), TIDE_EDRIVER. Thread safety: any thread.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_access_get(struct tide_resource *driver, int device,
                                                    enum tide_driver_access *out);

/*
 * Make a file descriptor of a pool that was created with TIDE_DRIVER_POSIX_FD, to be passed to another process through
 * a socket (SCM_RIGHTS). The caller owns it. On failure *fd is -1.
 * Errors: TIDE_EINVAL (not a driver resource, or one without that handle; NULL), TIDE_EUNSUPPORTED, TIDE_EDRIVER.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_export(struct tide_resource *driver, int *fd);

/* A pool's fabric handle: plain data, to be sent to another process in any way. Its size never changes. */
struct tide_driver_fabric {
    unsigned char data[64];
};

/*
 * Make a fabric handle of a pool that was created with TIDE_DRIVER_FABRIC. On failure *out is zeros.
 * Errors and thread safety: as tide_driver_export. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_export_fabric(struct tide_resource *driver, struct tide_driver_fabric *out);

struct tide_driver_import_options {
    size_t struct_size; /* TIDE_OPTIONS */
    int32_t device;     /* CUDA ordinal, in this process, of the device whose context frees what is imported */
    uint32_t reserved;  /* 0 */
};

/*
 * Create a base of the kind "driver_import" over the pool of another process. `fd` is borrowed for the call.
 *
 * The pool still belongs to the other process, which allocates from it and exports each block with
 * tide_driver_pointer_export. This process imports the block with tide_driver_pointer_import, and frees it before the
 * other process does. tide_allocate is TIDE_EUNSUPPORTED here: only the process that made a pool allocates from it.
 *
 * Layers can be put over it as over any base: an imported block counts, is limited, and is traced like an allocation,
 * and tide_deallocate gives it back. Its figures count the imported blocks, not the pool. Freeing more bytes than are
 * imported is TIDE_EPOINTER. Like tide_driver_create, it does not detect the free of another allocator's memory.
 *
 * `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EUNSUPPORTED (no CUDA, no driver, no sharing), TIDE_EINVAL (NULL, no such device), TIDE_EDRIVER (the
 * descriptor is not a pool: the driver returns CUDA_ERROR_UNKNOWN), TIDE_ENOMEM.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_import(int fd, const struct tide_driver_import_options *options,
                                                struct tide_resource **out);

/*
 * Create a base over the pool of another process from a fabric handle, as tide_driver_import does from a descriptor.
 * Errors and thread safety: as tide_driver_import; TIDE_EDRIVER with CUDA_ERROR_NOT_PERMITTED: the two processes share
 * no IMEX channel. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_import_fabric(const struct tide_driver_fabric *handle,
                                                       const struct tide_driver_import_options *options,
                                                       struct tide_resource **out);

/* An exported block of a shared pool: plain data, to be sent to another process in any way. Its size never changes. */
struct tide_driver_pointer {
    unsigned char data[64];
    uint64_t bytes; /* size of the block */
};

/*
 * Describe the block of `bytes` bytes at `pointer`, allocated from `driver`, for a process that has imported the pool.
 * Export the pool itself first. The other process may use the block after the work of the allocation's stream is done,
 * or after an event that both processes share. On failure *out is zeros.
 *
 * Errors: TIDE_EINVAL (not a driver resource, NULL), TIDE_EPOINTER (not a block of a pool that was exported),
 * TIDE_EUNSUPPORTED (the driver cannot export blocks), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_pointer_export(struct tide_resource *driver, void *pointer, uint64_t bytes,
                                                        struct tide_driver_pointer *out);

/*
 * Import a block of another process through all layers of `stack`, whose base was made by tide_driver_import. To the
 * layers it is an allocation of from->bytes bytes on `stream`. Free it with
 * tide_deallocate(stack, *out, from->bytes, TIDE_DEFAULT_ALIGNMENT, stream) before the other process does. On failure
 * *out is NULL.
 *
 * Errors: TIDE_EINVAL (NULL, the base is not an imported pool, `from` describes no block, TIDE_STREAM_ALL),
 * TIDE_EUNSUPPORTED (a layer serves requests from memory of its own, such as pool or fixed), TIDE_EDRIVER (a block of
 * another pool, or one that was freed), TIDE_ENOMEM, and all that the layers return. Thread safety: any thread. Since
 * 0.1.
 */
TIDE_EXPORT enum tide_status tide_driver_pointer_import(struct tide_resource *stack,
                                                        const struct tide_driver_pointer *from, tide_stream stream,
                                                        void **out);

/*
 * Count the CUDA devices. *driver_version (may be NULL) is the CUDA version of the driver, 13000 for 13.0. On failure
 * both are 0.
 * Errors: TIDE_EINVAL (NULL in place of `count`), TIDE_EUNSUPPORTED (this build has no CUDA; the machine has no driver
 * or no device; the error text says which), TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_device_count(int *count, int *driver_version);

/*
 * Copy the name of a device, such as "NVIDIA H200", into `name`. What exceeds `capacity` - 1 bytes is cut. On failure
 * the name is empty.
 * Errors: TIDE_EINVAL (no such device, NULL, a capacity of 0), TIDE_EUNSUPPORTED (no CUDA, no driver), TIDE_EDRIVER.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_device_name(int device, char *name, size_t capacity);

/*
 * Ask for a figure or a capability of a device, without a resource: TIDE_QUERY_DEVICE_FREE to TIDE_QUERY_HOST_POOLS,
 * and TIDE_QUERY_VIRTUAL_MEMORY. On failure *out is 0.
 *
 * TIDE_QUERY_DEVICE_FREE needs the device's primary context. Where there is none, it is created for the time of the
 * call, which takes up to a second and some of the device's memory.
 * Errors: TIDE_EINVAL (no such device, NULL), TIDE_EUNSUPPORTED (not a figure of a device; no CUDA, no driver),
 * TIDE_EDRIVER.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_device_query(int device, enum tide_query what, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
