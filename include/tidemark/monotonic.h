/* monotonic: hands out memory by moving a pointer forward, and takes all of it back at once. */
#ifndef TIDEMARK_MONOTONIC_H
#define TIDEMARK_MONOTONIC_H

#include <tidemark/nvtx.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_monotonic_options {
    size_t struct_size; /* TIDE_OPTIONS */
    size_t chunk_bytes; /* size of the chunks from upstream; 0: 32 MiB; a larger request gets a chunk of its own */
    uint32_t nvtx;      /* enum tide_nvtx */
    uint32_t reserved;  /* 0 */
};

/*
 * Create a layer that cuts requests, one after the other, from chunks of upstream.
 *
 * Freeing a block counts it and frees nothing. tide_monotonic_reset makes all memory free at once. Where a block is
 * allocated on another stream than its chunk was, that stream first waits for the chunk's stream (tide_order), once.
 * Chunks that hold no block go back to upstream in tide_trim, all others at the end.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, nvtx), TIDE_ENOMEM.
 * Errors of its allocations: TIDE_EOVERFLOW, TIDE_EUPSTREAM (upstream gave out NULL, an unaligned address, or memory
 * that is in use), and what upstream returns for a chunk. Of its deallocations: TIDE_EPOINTER (the pointer is in none
 * of its chunks), TIDE_EMISMATCH (more bytes than are outstanding).
 * Thread safety: any thread. Takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_monotonic_create(struct tide_resource *upstream,
                                                   const struct tide_monotonic_options *options,
                                                   struct tide_resource **out);

/*
 * Take back everything that was handed out. From now on none of it may be used or freed. The chunks are kept.
 *
 * The memory is handed out again after the work submitted to `stream`, as if every block had been freed there. With
 * TIDE_STREAM_ALL it is handed out after the work of all streams, for which the host may have to wait.
 *
 * Errors: TIDE_EINVAL (not a monotonic resource), and what upstream returns where it cannot order behind all streams.
 * On failure nothing has changed.
 * Thread safety: no other thread may allocate from the resource meanwhile. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_monotonic_reset(struct tide_resource *monotonic, tide_stream stream);

#ifdef __cplusplus
}
#endif
#endif
