/*
 * arena: a pool for programs in which many threads allocate at the same time.
 *
 * Each thread allocates from an arena, which has a lock of its own. All arenas take their memory from chunks that they
 * share.
 */
#ifndef TIDEMARK_ARENA_H
#define TIDEMARK_ARENA_H

#include <tidemark/nvtx.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_arena_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    uint64_t size_bytes; /* the most that is reserved from upstream at any time; 0: no bound */
    uint32_t nvtx;       /* enum tide_nvtx */
    uint32_t reserved;   /* 0 */
};

/*
 * Create a pool of arenas. There are as many arenas as processors; threads share them.
 *
 * Each arena takes 8 MiB at a time from chunks that all arenas share (less where size_bytes is below 512 MiB, but at
 * least 2 MiB), and gives back what is wholly free, except for one piece. The chunks come from `upstream`. A request
 * for more than a quarter of that piece size is served by an arena that is kept for large requests. A freed block is
 * reused across streams as in `pool`: at once on the stream that it was freed on, behind tide_order on another one.
 *
 * Before a request fails, all arenas give back what they do not use, and each is asked for room. If the request fails
 * all the same, every open trace gets a mark with the reserved, used and free bytes, the largest free block, and the
 * fragmentation: 1 minus the share of the free bytes that the largest free block has; 0 where nothing is free.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, nvtx, a size above 2^47), TIDE_ENOMEM.
 * Errors of its allocations: TIDE_ECAPACITY (size_bytes are used up), TIDE_EINVAL (more than 2^47 bytes), TIDE_ENOMEM,
 * TIDE_EUPSTREAM (upstream gave out NULL, an unaligned address, or memory that is in use), and what upstream returns.
 * Of its deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread. Takes a short lock, which is that of the thread's own arena where a thread frees what it
 * allocated. Over `driver` a request for which the shared chunks grow may wait for streams, as in `pool`. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_arena_create(struct tide_resource *upstream, const struct tide_arena_options *options,
                                               struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
