/* The bases, where a stack's memory comes from; the one over the driver's pools is in driver.h. */
#ifndef TIDEMARK_BASE_H
#define TIDEMARK_BASE_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* host: aligned host memory from the C library. */
struct tide_host_options {
    size_t struct_size;
    uint64_t capacity_bytes; /* the most requested bytes outstanding; 0: no bound */
};

/*
 * Create a base over the C library's aligned allocation.
 *
 * Errors: TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY (past the capacity, or the C library has none),
 * TIDE_EOVERFLOW. It does not know its pointers: a wrong size given back is not noticed.
 * Thread safety: any thread; the capacity is one atomic counter. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_host_create(const struct tide_host_options *options, struct tide_resource **out);

/* sim: addresses only, no memory behind them. */
struct tide_sim_options {
    size_t struct_size;
    uint64_t capacity_bytes;    /* the most bytes outstanding, rounded up to the granularity; 0: no bound */
    uint64_t granularity_bytes; /* power of two that each request counts rounded up to; 0: 1 */
};

/*
 * Create a base that hands out addresses with no memory behind them, for replays and planning on any machine.
 *
 * Live addresses never overlap, freed ones come back. It knows what it gave out.
 * Errors: TIDE_EINVAL (granularity), TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY, TIDE_EOVERFLOW, TIDE_ENOMEM; its
 * deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread; a short lock for each size class. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_sim_create(const struct tide_sim_options *options, struct tide_resource **out);

/* cuda: cuMemAlloc and cuMemFree. */
struct tide_cuda_options {
    size_t struct_size;
    int32_t device;    /* CUDA ordinal */
    uint32_t reserved; /* 0 */
};

/*
 * Create a base over the plain memory of a CUDA device: the way out where a device has no pools, and the measure for
 * those that have. Each call takes tens of microseconds, and a deallocation waits for all work of the device.
 *
 * The memory belongs to the context that is current where that is one of the device, as it does with cuMemAlloc, and
 * goes with it; else to the device's primary context, which this base retains. The stream of a call is not looked at:
 * memory is there when the call returns, and a deallocation comes behind all work, whatever its stream.
 *
 * It knows what it gave out: what another base of this kind, another kind or the application itself has allocated is
 * refused, though the driver would free it, and so is a block with another size or alignment than its own. The figures
 * never wrap. Memory that goes with its context counts as used until its address comes again.
 *
 * Errors: TIDE_EUNSUPPORTED (the build has no CUDA, the machine no driver), TIDE_EINVAL (no such device), TIDE_EDRIVER,
 * TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY (CUDA_ERROR_OUT_OF_MEMORY), TIDE_EINVAL (alignment over 256 bytes),
 * TIDE_EDRIVER, TIDE_ENOMEM; its deallocations: TIDE_EPOINTER (CUDA_ERROR_INVALID_VALUE), TIDE_EMISMATCH, TIDE_EDRIVER.
 * Thread safety: any thread; a short lock besides the driver's own. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_cuda_create(const struct tide_cuda_options *options, struct tide_resource **out);

/* Where managed memory is to be, as long as nobody touches it elsewhere. */
enum tide_managed_preferred {
    TIDE_MANAGED_ANYWHERE = 0, /* no advice */
    TIDE_MANAGED_DEVICE = 1,   /* on the device of the options */
    TIDE_MANAGED_HOST = 2,
};

/* managed: cuMemAllocManaged, memory that moves between host and devices. */
struct tide_managed_options {
    size_t struct_size;
    int32_t device;      /* CUDA ordinal */
    uint32_t preferred;  /* of enum tide_managed_preferred; advice that is given for each allocation */
    bool read_mostly;    /* the same: whoever reads gets a copy */
    bool attach_host;    /* CU_MEM_ATTACH_HOST: for the host until it is attached to a stream */
    uint8_t reserved[6]; /* 0 */
};

/*
 * Create a base over managed memory. Context, streams, errors and thread safety are those of tide_cuda_create; its
 * memory may exceed the device's, and the host may use it.
 *
 * Advice that the device cannot take (CUDA_ERROR_INVALID_DEVICE where it has no concurrent managed access) fails the
 * creation, not each allocation: TIDE_EUNSUPPORTED. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_managed_create(const struct tide_managed_options *options,
                                                 struct tide_resource **out);

/* pinned: cuMemHostAlloc, host memory that devices reach. */
struct tide_pinned_options {
    size_t struct_size;
    int32_t device;      /* CUDA ordinal of the device whose context it belongs to */
    bool portable;       /* CU_MEMHOSTALLOC_PORTABLE: pinned for every context, not for that one alone */
    bool mapped;         /* CU_MEMHOSTALLOC_DEVICEMAP: in the device's address space, at the host's address */
    bool write_combined; /* CU_MEMHOSTALLOC_WRITECOMBINED: fast for the device to read, slow for the host */
    uint8_t reserved[1]; /* 0 */
};

/*
 * Create a base over pinned host memory. Context, streams, errors and thread safety are those of tide_cuda_create; it
 * knows no TIDE_QUERY_DEVICE, as its memory lies on none. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pinned_create(const struct tide_pinned_options *options, struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
