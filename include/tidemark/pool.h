/* pool: big chunks from upstream, cut into blocks and merged again, in stream order. */
#ifndef TIDEMARK_POOL_H
#define TIDEMARK_POOL_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_pool_options {
    size_t struct_size;
    uint64_t initial_bytes;           /* one chunk, taken at creation and kept; 0: none */
    uint64_t maximum_bytes;           /* the most that is reserved at a time; 0: no bound */
    uint64_t growth_bytes;            /* the least that upstream is asked for at a time; 0: 2 MiB */
    uint64_t release_threshold_bytes; /* see tide_pool_create; 0: the most that was ever reserved; TIDE_NONE */
    uint64_t alignment;               /* power of two that every address and size is a multiple of; 0: 256 */
    uint64_t cache_bytes;             /* the most that each thread keeps for itself; 0: 64 MiB; TIDE_NONE */
};

/* What a pool has done and holds; see tide_pool_read. Numbers but for those in bytes. */
struct tide_pool_figures {
    size_t struct_size;
    uint64_t used_bytes;          /* asked for, and not given back */
    uint64_t reserved_bytes;      /* of all chunks */
    uint64_t reserved_peak_bytes; /* the most that this has been */
    uint64_t cached_bytes;        /* free, in the caches of threads */
    uint64_t free_bytes;          /* free otherwise */
    uint64_t largest_free_bytes;  /* of one free block */
    uint64_t free_blocks;         /* those in caches included */
    uint64_t chunks;
    uint64_t grown;      /* chunks that upstream has given */
    uint64_t returned;   /* chunks that went back to it */
    uint64_t taken_over; /* blocks that a stream got which had to wait for another one before */
    uint64_t orders;     /* waits that this took */
};

/*
 * Serve requests with blocks of chunks that come from `upstream`. A block that is freed merges with free neighbours and
 * is reused at once on its stream; on another one behind tide_order, which is called when that stream gets it. Each
 * thread keeps some small blocks (up to 256 KiB) that it freed for its own next requests, also for such as are smaller
 * by a fifth: up to 4 MiB, and up to cache_bytes where all threads together keep no more than a 64th of what is
 * reserved, or no more than a quarter while threads wait for each other often.
 *
 * A chunk is taken where no free block fits: of the size that is needed, rounded up to 2 MiB, and at least
 * growth_bytes; where upstream refuses, of half of that, down to what is needed. Before the pool reserves more than
 * ever, and before any request fails, what is free goes back: chunks that are free throughout, those that have been so
 * for longest first. With a release threshold they go back as soon as more than that is reserved.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, alignment, an initial size above the maximum, sizes above 2^47), TIDE_ENOMEM, what
 * upstream returns for the initial chunk. Its allocations: TIDE_ECAPACITY (the maximum), TIDE_EINVAL (more than 2^47
 * bytes), TIDE_ENOMEM, TIDE_EUPSTREAM (memory that upstream cannot have meant), and what upstream returns. Its
 * deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread. Wait-free where a thread has a block for a request, or room for one that it frees; else it
 * takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pool_create(struct tide_resource *upstream, const struct tide_pool_options *options,
                                              struct tide_resource **out);

/*
 * Give chunks that are free throughout back to upstream, those that have been so for longest first, as long as
 * `keep_bytes` stay reserved; the caches of all threads and the initial chunk are given back, too. Waits until the
 * device is idle. What tide_trim does, for this
 * layer alone.
 * Errors: TIDE_EINVAL (no pool), what upstream returns. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pool_trim(struct tide_resource *resource, uint64_t keep_bytes);

/*
 * Read all figures, as they are at one moment.
 * Errors: TIDE_EINVAL (no pool, NULL); then *out is zeros. Thread safety: any thread; stops the caches of all threads
 * for some microseconds. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pool_read(struct tide_resource *resource, struct tide_pool_figures *out);

#ifdef __cplusplus
}
#endif
#endif
