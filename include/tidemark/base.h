/*
 * The bases, which get memory from outside of Tidemark: `host`, `sim`, `cuda`, `managed` and `pinned`. driver.h has the
 * base over the CUDA driver's memory pools, vmm.h the base over physical pages, and callback.h the base over functions
 * of the application.
 */
#ifndef TIDEMARK_BASE_H
#define TIDEMARK_BASE_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* host: host memory from the C library. */
struct tide_host_options {
    size_t struct_size;      /* TIDE_OPTIONS */
    uint64_t capacity_bytes; /* the most requested bytes outstanding; 0: no bound */
};

/*
 * Create a base over the C library's posix_memalign and free.
 *
 * The base keeps no list of its blocks, so it does not detect a free with a wrong size or pointer.
 *
 * `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL), TIDE_ENOMEM.
 * Errors of its allocations: TIDE_ECAPACITY (over the capacity, or the C library has no more), TIDE_EOVERFLOW.
 * Thread safety: any thread. The capacity is one atomic counter. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_host_create(const struct tide_host_options *options, struct tide_resource **out);

/* Which base `sim` models. */
enum tide_sim_model {
    TIDE_SIM_PLAIN = 0,  /* addresses alone */
    TIDE_SIM_VMM = 1,    /* physical pages, which are mapped side by side as the base `vmm` maps them */
    TIDE_SIM_DRIVER = 2, /* units of 32 MiB, which requests are cut out of and which stay, as in a pool of the driver */
    TIDE_SIM_CUDA = 3,   /* units of 2 MiB, as cuMemAlloc hands them out */
};

/* sim: addresses with no memory behind them. */
struct tide_sim_options {
    size_t struct_size;         /* TIDE_OPTIONS */
    uint64_t capacity_bytes;    /* the most bytes reserved: those outstanding, as rounded up; 0: no bound */
    uint64_t granularity_bytes; /* power of two that each request is rounded up to; 0: 1; TIDE_SIM_PLAIN alone */
    uint32_t model;             /* enum tide_sim_model */
    uint32_t reserved;          /* 0 */
    uint64_t page_bytes;        /* of TIDE_SIM_VMM: size of a page, a power of two from 4 KiB to 1 GiB; 0: 2 MiB */
};

/*
 * Create a base that hands out addresses with no memory behind them, for replays and planning on any machine. Do not
 * read or write the memory.
 *
 * Addresses that are in use never overlap. Freed addresses are handed out again. The base knows its own blocks,
 * and refuses to free any other.
 *
 * With TIDE_SIM_VMM each request takes whole pages. Addresses are side by side. The base hands out an address again
 * only if a layer above proposes it. It answers TIDE_QUERY_PAGE, so a pool above uses adjacent chunks as one.
 *
 * With TIDE_SIM_DRIVER and TIDE_SIM_CUDA the reserved bytes are those that the base `driver` or the base `cuda` would
 * have of the device. How a pool of the driver places requests is not published. TIDE_SIM_DRIVER places them as an H200
 * did (driver 580.159), with a release threshold of 0, on streams whose work is done at once. What is free goes back
 * where the host waits, and in trims.
 *
 * `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL; granularity_bytes; model; page_bytes; a granularity or a page with another model),
 * TIDE_ENOMEM.
 * Errors of its allocations: TIDE_ECAPACITY, TIDE_EOVERFLOW, TIDE_ENOMEM. Of its deallocations: TIDE_EPOINTER,
 * TIDE_EMISMATCH.
 * Thread safety: any thread. Takes a short lock for each size class. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_sim_create(const struct tide_sim_options *options, struct tide_resource **out);

/*
 * Counts of the driver calls that the modelled base would have made so far; its time is estimated from them. With
 * TIDE_SIM_VMM the work on freed memory counts as done, and nothing decays. With TIDE_SIM_PLAIN all figures are 0 but
 * `orders`.
 */
struct tide_sim_figures {
    size_t struct_size;      /* TIDE_FIGURES */
    uint64_t grown;          /* how often memory was taken from the device: cuMemCreate; requests that got units */
    uint64_t grown_bytes;    /* how much that was */
    uint64_t returned;       /* how often memory went back to the device: cuMemRelease; waits and trims */
    uint64_t returned_bytes; /* how much that was */
    uint64_t high_bytes;     /* the most that was taken and not given back */
    uint64_t kept;           /* TIDE_SIM_VMM: requests that took a freed block back as it was */
    uint64_t mapped;         /* how often a handle was mapped; TIDE_SIM_DRIVER: how often a unit was mapped elsewhere */
    uint64_t unmapped;       /* TIDE_SIM_VMM: how often a mapping of a freed block ended */
    uint64_t trims;          /* TIDE_SIM_DRIVER: trims */
    uint64_t orders;         /* how often one stream was ordered behind another */
};

/*
 * Read the figures of a sim resource. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a sim resource, NULL, struct_size). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_sim_read(struct tide_resource *sim, struct tide_sim_figures *out);

/* What a base would have the driver do, as it comes; the amount is in brackets. */
enum tide_sim_event {
    TIDE_SIM_ALLOCATES = 0, /* a request (bytes) */
    TIDE_SIM_FREES = 1,     /* a deallocation (bytes) */
    TIDE_SIM_GROWS = 2,     /* memory is taken from the device (bytes) */
    TIDE_SIM_RETURNS = 3,   /* memory goes back to it (bytes) */
    TIDE_SIM_MAPS = 4,      /* TIDE_SIM_VMM: handles are mapped; TIDE_SIM_DRIVER: units, elsewhere (their number) */
    TIDE_SIM_UNMAPS = 5,    /* TIDE_SIM_VMM: mappings end (their number) */
    TIDE_SIM_ENDS = 6,      /* a request, or a deallocation, has been served or refused (bytes) */
};

typedef void (*tide_sim_watcher)(void *context, enum tide_sim_event event, uint64_t amount);

/*
 * Have `watcher` called with `context` for each event of a sim resource from now on, within the call that causes it;
 * NULL ends that. It must not call the resource. The models `vmm`, `driver` and `cuda` have all events, and plain
 * memory has requests and deallocations, and their ends.
 *
 * Errors: TIDE_EINVAL (not a sim resource, NULL). Thread safety: while nobody else uses the resource; `watcher` is
 * called by the threads that do. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_sim_watch(struct tide_resource *sim, tide_sim_watcher watcher, void *context);

/* cuda: device memory from cuMemAlloc. */
struct tide_cuda_options {
    size_t struct_size; /* TIDE_OPTIONS */
    int32_t device;     /* CUDA ordinal */
    uint32_t reserved;  /* 0 */
};

/*
 * Create a base over cuMemAlloc and cuMemFree. Use it if a device has no memory pools, or for comparisons with other
 * bases. Each call takes tens of microseconds, and a deallocation waits until the device has done all its work.
 *
 * The memory belongs to the current context if that is one of the device, and goes away with it. Otherwise it belongs
 * to the device's primary context, which this base retains. Streams have no meaning here: memory is usable when the
 * call returns, and a deallocation comes after all work of every stream.
 *
 * The base knows its own blocks. It refuses to free blocks that it did not allocate, although the driver would free
 * them, and blocks that are freed with another size or alignment. Blocks that went away with their context count as
 * used until the driver hands out their address again.
 *
 * `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EUNSUPPORTED (this build has no CUDA, or the machine has no driver), TIDE_EINVAL (NULL, no such device),
 * TIDE_EDRIVER, TIDE_ENOMEM.
 * Errors of its allocations: TIDE_ECAPACITY (CUDA_ERROR_OUT_OF_MEMORY), TIDE_EINVAL (an alignment over 256 bytes),
 * TIDE_EDRIVER, TIDE_ENOMEM. Of its deallocations: TIDE_EPOINTER (tide_error_driver is CUDA_ERROR_INVALID_VALUE then),
 * TIDE_EMISMATCH, TIDE_EDRIVER.
 * Thread safety: any thread. Takes a short lock besides the driver's own. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_cuda_create(const struct tide_cuda_options *options, struct tide_resource **out);

/* Where managed memory should lie while nobody uses it from elsewhere (CU_MEM_ADVISE_SET_PREFERRED_LOCATION). */
enum tide_managed_preferred {
    TIDE_MANAGED_ANYWHERE = 0, /* gives no advice */
    TIDE_MANAGED_DEVICE = 1,   /* on the device of the options */
    TIDE_MANAGED_HOST = 2,
};

/* managed: memory that moves between the host and the devices, from cuMemAllocManaged. */
struct tide_managed_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    int32_t device;      /* CUDA ordinal */
    uint32_t preferred;  /* enum tide_managed_preferred: advice that is given for each allocation */
    bool read_mostly;    /* give the advice that each reader gets a copy (CU_MEM_ADVISE_SET_READ_MOSTLY) */
    bool attach_host;    /* only the host may use the memory until it is attached to a stream (CU_MEM_ATTACH_HOST) */
    uint8_t reserved[6]; /* 0 */
};

/*
 * Create a base over managed memory. It can hand out more memory than the device has, and the host can use the memory.
 *
 * Contexts, streams, errors and thread safety are those of tide_cuda_create. In addition, creation fails with
 * TIDE_EUNSUPPORTED where the device cannot take the advice (it has no concurrent managed access). Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_managed_create(const struct tide_managed_options *options,
                                                 struct tide_resource **out);

/* pinned: host memory that devices can reach, from cuMemHostAlloc. */
struct tide_pinned_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    int32_t device;      /* CUDA ordinal of the device whose context the memory belongs to */
    bool portable;       /* pinned for every context, not only for that one (CU_MEMHOSTALLOC_PORTABLE) */
    bool mapped;         /* in the device's address space, at the host's address (CU_MEMHOSTALLOC_DEVICEMAP) */
    bool write_combined; /* fast for the device to read, slow for the host to read (CU_MEMHOSTALLOC_WRITECOMBINED) */
    uint8_t reserved[1]; /* 0 */
};

/*
 * Create a base over pinned host memory. Contexts, streams, errors and thread safety are those of tide_cuda_create. It
 * does not answer TIDE_QUERY_DEVICE, because its memory lies on no device. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pinned_create(const struct tide_pinned_options *options, struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
