/* fixed: hands out blocks of one size, and keeps freed ones for reuse. */
#ifndef TIDEMARK_FIXED_H
#define TIDEMARK_FIXED_H

#include <tidemark/nvtx.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_fixed_options {
    size_t struct_size;   /* TIDE_OPTIONS */
    size_t block_bytes;   /* size of every block, at least 1 */
    uint64_t preallocate; /* number of blocks to take from upstream at creation; 0: none */
    uint32_t nvtx;        /* enum tide_nvtx */
    uint32_t reserved;    /* 0 */
};

/*
 * Create a layer that serves every request of up to block_bytes with a block of that size.
 *
 * Freed blocks are kept. They are reused at once on the stream that they were freed on, and behind tide_order on
 * another one. Blocks go back to upstream when upstream has no more memory, before any request fails, and when the
 * layer is destroyed. At the end they are freed on stream 0 behind TIDE_STREAM_ALL, so the streams that they were freed
 * on may be gone by then. Before you destroy a stream earlier than the layer, call tide_order(fixed, TIDE_STREAM_ALL,
 * 0): after that the layer uses no handle of a stream that it was given before.
 *
 * Holds a reference to `upstream`. `options` is required. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, nvtx, block_bytes of 0), TIDE_EOVERFLOW, TIDE_ENOMEM, and what upstream returns for the
 * preallocated blocks.
 * Errors of its allocations: TIDE_EINVAL (more than block_bytes; an alignment over 256 bytes), TIDE_ENOMEM,
 * TIDE_EUPSTREAM (upstream gave out NULL, an unaligned address, or memory that is in use), and what upstream returns.
 * Of its deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread. Takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fixed_create(struct tide_resource *upstream, const struct tide_fixed_options *options,
                                               struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
