/* pool: takes large chunks from upstream, and serves requests with blocks of them, in stream order. */
#ifndef TIDEMARK_POOL_H
#define TIDEMARK_POOL_H

#include <tidemark/nvtx.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_pool_options {
    size_t struct_size;               /* TIDE_OPTIONS */
    uint64_t initial_bytes;           /* size of a chunk that is taken at creation and kept; 0: none */
    uint64_t maximum_bytes;           /* the most that is reserved from upstream at any time; 0: no bound */
    uint64_t growth_bytes;            /* the least that upstream is asked for at a time; 0: 2 MiB */
    uint64_t release_threshold_bytes; /* free chunks go back while more than this is reserved; 0: they are kept */
    uint64_t alignment;               /* power of two, 16 bytes to 2 MiB, of every address and size; 0: 256 */
    uint64_t cache_bytes;             /* upper bound of each thread's cache; 0: 64 MiB; TIDE_NONE: no cache */
    uint64_t decay_ms;                /* chunks that were not needed for so many ms go back, at least 8; 0: never */
    uint32_t nvtx;                    /* enum tide_nvtx */
    uint32_t reserved;                /* 0 */
};

/* What a pool holds and has done; see tide_pool_read. */
struct tide_pool_figures {
    size_t struct_size;           /* TIDE_FIGURES */
    uint64_t used_bytes;          /* requested, and not yet freed */
    uint64_t reserved_bytes;      /* of all chunks */
    uint64_t reserved_peak_bytes; /* the most that reserved_bytes has been */
    uint64_t cached_bytes;        /* free, in the caches of threads */
    uint64_t free_bytes;          /* free, in no cache */
    uint64_t largest_free_bytes;  /* size of the largest free block */
    uint64_t free_blocks;         /* number of free blocks, in caches or not */
    uint64_t chunks;              /* number of chunks now */
    uint64_t grown;               /* number of chunks that upstream has given so far */
    uint64_t returned;            /* number of chunks that went back to upstream so far */
    uint64_t taken_over;          /* number of blocks that went to a stream that had to wait for another one first */
    uint64_t orders;              /* number of waits that this took */
    uint64_t remapped;            /* of `returned`, chunks whose pages were needed at other addresses */
    uint64_t decayed;             /* of `returned`, chunks that were not needed for decay_ms */
    uint64_t waits;               /* requests that waited for work, so that upstream need not hold more than ever */
};

/*
 * Create a pool over `upstream`.
 *
 * A freed block merges with its free neighbours. It is reused at once on the stream that it was freed on. When another
 * stream gets it, that stream first waits for the former one (tide_order).
 *
 * Each thread caches small blocks (up to 256 KiB) that it freed, for its own next requests. A cached block may serve a
 * request that is smaller by up to a fifth. A thread may always cache 4 MiB. It may cache more, up to cache_bytes, as
 * long as all caches together stay below 1/64 of the reserved memory (1/4 while threads often wait for each other).
 *
 * If no free block fits, the pool takes a chunk of the size that is needed, rounded up to 2 MiB, and of at least
 * growth_bytes. If upstream refuses, the pool asks for half of that, down to what is needed. Wholly free chunks go back
 * to upstream, those that have been free for longest first: before the pool reserves more than ever before, before any
 * request fails, and, with a release threshold, as soon as more than that is reserved. TIDE_NONE as threshold gives
 * every free chunk back at once.
 *
 * With decay_ms, memory that was not needed for so long goes back, too. The pool keeps the most bytes that were in use
 * within decay_ms, and 1/16 more. Of the bytes above that, a half goes back at the end of each eighth of decay_ms. This
 * happens in allocations and deallocations that take the lock, with at most 32 chunks in a call. A load that comes
 * again within decay_ms finds its memory. Over bases without pages a chunk goes back only as a whole. So the chunks
 * with the least memory in use get no new blocks while there is room elsewhere, and the pool returns free chunks before
 * it asks for others up to its former peak.
 *
 * Over a base of pages (TIDE_QUERY_PAGE) the pool grows in place. It uses adjacent chunks as one, and asks upstream
 * only for what is missing beside free memory, in parts of 1/512 of the reserved bytes, from 2 MiB to 64 MiB, or in
 * parts of twice that size while chunks go back and forth all the time. Before the pool would reserve more than ever,
 * and more than 1/128 above what was ever in use, it returns free chunks between blocks, as many bytes as it asks for.
 * So the base can map the same pages where they are needed.
 *
 * Over a base that keeps freed memory in units (TIDE_QUERY_UNIT), as `driver` does, chunks are whole units of the base:
 * at least one unit, and two from eight units on, unless the maximum is below 4 units. Larger chunks, up to 16 units,
 * are multiples of half a unit. The memory that the base keeps may have no place for a new chunk. So before the base
 * would reserve more than the pool ever had in chunks, and 1/128 of that, the pool has it give back free memory
 * (tide_trim), but not what the base was told to keep (TIDE_QUERY_KEPT).
 *
 * The driver gives back only memory for whose work the host has waited. So if chunks were returned since, the thread of
 * the request waits for the work that was on their streams when they went back, at first for at most 50 ms. That work
 * may depend on this very thread: after a wait in vain the next wait is half as long, but no less than 1.56 ms, and
 * after a successful wait twice as long, up to 50 ms. A request may wait each time that it asks for a chunk, and it
 * asks again if the base refuses. No lock is held meanwhile, and no thread waits for a stream that is being captured.
 * If the base still has more, or if more than one chunk is exchanged for each 1,536 requests, chunks are cut up
 * instead. Memory that decays leaves the driver once a call that takes the lock finds the work of its streams done.
 * Such calls check this once in 1/128 of decay_ms, and no thread waits for it.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL; alignment; decay_ms; nvtx; initial_bytes or growth_bytes above the maximum, or no multiple
 * of the alignment; sizes above 2^47), TIDE_ENOMEM, and what upstream returns for the initial chunk.
 * Errors of its allocations: TIDE_ECAPACITY (the maximum is used up), TIDE_EINVAL (more than 2^47 bytes), TIDE_ENOMEM,
 * TIDE_EUPSTREAM (upstream gave out NULL, an unaligned address, or memory that is in use), and what upstream returns.
 * Of its deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread. Wait-free where the thread's cache serves the request, or keeps the freed block; else
 * takes a short lock. Over `driver` a request that grows the pool may wait for streams, as said above. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pool_create(struct tide_resource *upstream, const struct tide_pool_options *options,
                                              struct tide_resource **out);

/*
 * Give wholly free chunks back to upstream, those that have been free for longest first, while more than `keep_bytes`
 * are reserved. The caches of all threads are emptied before, and the initial chunk may go back, too. The host waits
 * until the device is idle, unless no more than that is reserved. tide_trim does the same for every layer of a stack.
 *
 * Errors: TIDE_EINVAL (not a pool resource), and what upstream returns. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pool_trim(struct tide_resource *pool, uint64_t keep_bytes);

/*
 * Read all figures at one moment. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a pool resource, NULL, struct_size).
 * Thread safety: any thread. Stops the caches of all threads for some microseconds. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_pool_read(struct tide_resource *pool, struct tide_pool_figures *out);

#ifdef __cplusplus
}
#endif
#endif
