/*
 * The base `vmm`: physical pages of a CUDA device, mapped where they are needed.
 *
 * The base creates physical memory in handles (cuMemCreate) and maps them at addresses that it has reserved. It maps
 * freed memory at other addresses for requests of other sizes, so the memory does not fragment: the base holds no more
 * than was recently in use at one time. Each allocation has whole pages, of 2 MiB with today's devices; a `pool` or an
 * `arena` above cuts them into blocks.
 *
 * The functions with a parameter `vmm` take the base itself: tide_stack_find(stack, "vmm", &vmm).
 */
#ifndef TIDEMARK_VMM_H
#define TIDEMARK_VMM_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The base to create where the device has no virtual memory calls. */
enum tide_vmm_fallback {
    TIDE_VMM_NO_FALLBACK = 0,
    TIDE_VMM_FALLBACK_DRIVER = 1, /* as tide_driver_create does */
    TIDE_VMM_FALLBACK_CUDA = 2,   /* as tide_cuda_create does; without a maximum */
};

struct tide_vmm_options {
    size_t struct_size;     /* TIDE_OPTIONS */
    uint64_t maximum_bytes; /* the most bytes of pages in use; 0: the device's memory, which is the most it can be */
    uint64_t granularity_bytes; /* page size, a power of two, no less than the device's; 0: the device's */
    /*
     * Other devices that may read and write the memory: "all" for each device that can reach it, or CUDA ordinals such
     * as "1" or "1+3"; NULL: none. Copied.
     */
    const char *access;
    int32_t device;      /* CUDA ordinal */
    uint32_t fallback;   /* enum tide_vmm_fallback */
    uint32_t decay_ms;   /* for how many ms memory that is no longer in use is kept; see below; 0: 10000 */
    bool shareable;      /* blocks can be exported to other processes; each is one handle then, and is reused whole */
    bool stress;         /* for tests: give all memory other addresses as often as possible */
    uint8_t reserved[2]; /* 0 */
};

/*
 * Create a base over the physical memory of a CUDA device. The base retains the device's primary context. It works
 * without a current context, with a context of the application's own, and on threads that have never used CUDA.
 *
 * Streams: a freed block is pending until the work that was submitted to its stream is done. A request for the same
 * size on the same stream takes the block back as it is. For other requests the base maps the block's memory at other
 * addresses: on the same stream at once; on another stream once the work is done, or at once with that stream made to
 * wait for the work, if the base would otherwise hold more than was in use. The host waits only if the free memory has
 * the wrong sizes and all of it is needed. A program that frees memory on another stream than it allocated it on, or
 * uses it on several, has to order these streams itself. tide_order behind TIDE_STREAM_ALL works as tide_driver_create
 * says. A stream may be destroyed while memory that was freed on it is pending. With a driver of CUDA 12.0 or later, a
 * new stream that gets the same handle counts as another stream; with an older driver, the program has to wait for the
 * work of a stream before it destroys it.
 *
 * Decay: the base holds no more than was in use at any one moment in the current period of decay_ms and the period
 * before. The frees that follow release the rest, a part with each free. So the memory held follows the memory in use
 * when that falls, and a loop whose steps are shorter than a period keeps what each step needs. Without frees, only
 * tide_trim releases memory.
 *
 * Graphs: an allocation on a stream that is being captured is made at once, and stays outside of the graph. A block
 * that is freed there is handed out again only to requests for its size on that stream, until the base is destroyed:
 * the graph may be launched again.
 *
 * Figures: TIDE_QUERY_BYTES_USED are the requested bytes of live blocks, TIDE_QUERY_BYTES_RESERVED the bytes of all
 * handles. TIDE_QUERY_PAGE is the size of a page; allocations of whole pages that lie side by side may be used as one.
 *
 * The base knows its blocks, so it refuses to free pointers that are not its live blocks, and wrong sizes.
 *
 * With a fallback, where the device has no virtual memory calls, *out is a base of that kind, with the same device and
 * maximum. Neither base has `access` or `shareable`, nor `cuda` a maximum, so asking for one of them is
 * TIDE_EUNSUPPORTED then. They ignore granularity_bytes.
 *
 * `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EUNSUPPORTED (this build has no CUDA; the machine has no driver; the device has no virtual memory calls,
 * or no file descriptors for it; a device of `access` cannot reach the memory; the error text says which), TIDE_EINVAL
 * (NULL; no such device; a granularity that is no power of two or below the device's; a page above the maximum or the
 * device's memory), TIDE_ECAPACITY (too little address space), TIDE_EDRIVER, TIDE_ENOMEM. A maximum above the device's
 * memory means all of that memory, with a warning in the message sink. Memory that the driver does not take back when
 * the base is released is a warning, too.
 * Errors of its allocations: TIDE_ECAPACITY (above the maximum; CUDA_ERROR_OUT_OF_MEMORY), TIDE_EINVAL (an alignment
 * over a page), TIDE_EDRIVER, TIDE_ENOMEM. Of its deallocations: TIDE_EPOINTER, TIDE_EMISMATCH, TIDE_EDRIVER.
 * Thread safety: any thread; takes a lock. Source: CUDA Driver API, virtual memory management. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_vmm_create(const struct tide_vmm_options *options, struct tide_resource **out);

struct tide_vmm_figures {
    size_t struct_size;      /* TIDE_FIGURES */
    uint64_t page_bytes;     /* size of a page */
    uint64_t used_bytes;     /* of live blocks, as requested */
    uint64_t mapped_bytes;   /* of live blocks, in whole pages */
    uint64_t cached_bytes;   /* of memory that no live block has: pending, or free */
    uint64_t reserved_bytes; /* of all handles: mapped_bytes and cached_bytes */
    uint64_t handles;        /* handles that there are now */
    uint64_t created;        /* handles created so far */
    uint64_t released;       /* handles released so far */
    uint64_t kept;           /* requests that took a freed block back as it was */
    uint64_t remapped;       /* handles that were mapped at other addresses */
    uint64_t orders;         /* how often a stream was made to wait for freed memory of another one */
    uint64_t waits;          /* how often the host waited for freed memory */
};

/*
 * Read all figures at one moment. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a vmm resource, NULL, struct_size). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_vmm_read(struct tide_resource *vmm, struct tide_vmm_figures *out);

/*
 * Find the live block in which `pointer` lies: its begin, and its size in bytes, as requested. A layer above, such as a
 * pool, cuts blocks into smaller ones. To share memory of such a layer, export the block of this base with
 * tide_vmm_export, and send the offset along. An allocation of a pool may span several adjacent blocks: find and export
 * each of them. A block stays as long as an allocation above is live in it. On failure *block is NULL and *bytes is 0.
 * Errors: TIDE_EINVAL (not a vmm resource, NULL), TIDE_EPOINTER (in no live block). Thread safety: any thread. Since
 * 0.1.
 */
TIDE_EXPORT enum tide_status tide_vmm_find_block(struct tide_resource *vmm, const void *pointer, void **block,
                                                 uint64_t *bytes);

/*
 * Make a file descriptor of the live block at `pointer`, to be passed to another process through a socket (SCM_RIGHTS).
 * The base must have been created with `shareable`. The caller owns the descriptor. The other process may use the block
 * after the work of the allocation's stream is done, and must stop using it before this process frees it. On failure
 * *fd is -1.
 * Errors: TIDE_EINVAL (not a vmm resource, or not shareable; NULL), TIDE_EPOINTER (not a live block),
 * TIDE_EUNSUPPORTED, TIDE_EDRIVER. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_vmm_export(struct tide_resource *vmm, void *pointer, int *fd);

/*
 * Map a block of another process, which has `bytes` bytes there, into this process. `fd` is borrowed for the call. Both
 * bases must have the same page size. Free the block with tide_deallocate(vmm, *out, bytes, TIDE_DEFAULT_ALIGNMENT,
 * stream). The block counts as used, and not as reserved: the other process holds the memory. On failure *out is NULL.
 * Errors: TIDE_EINVAL (not a vmm resource, NULL, 0 bytes or more than a block can have), TIDE_EUNSUPPORTED,
 * TIDE_EDRIVER (not a block's descriptor, or another size), TIDE_ENOMEM, TIDE_ECAPACITY (addresses). Thread safety: any
 * thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_vmm_import(struct tide_resource *vmm, int fd, uint64_t bytes, void **out);

#ifdef __cplusplus
}
#endif
#endif
