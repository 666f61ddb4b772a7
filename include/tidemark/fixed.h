/* fixed: blocks of one size, kept for reuse. */
#ifndef TIDEMARK_FIXED_H
#define TIDEMARK_FIXED_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_fixed_options {
    size_t struct_size;
    size_t block_bytes;   /* the size of every block; at least 1 */
    uint64_t preallocate; /* blocks to take from upstream at creation; 0 unless asked for */
};

/*
 * Serve requests of up to block_bytes with blocks of just that size, which are kept when they are freed: reused
 * at once on the stream they were freed on, on another one behind tide_order. Blocks go back to upstream when
 * upstream has no more to give, before any request fails, and at the end: on stream 0, behind TIDE_STREAM_ALL, so that
 * the streams that they were freed on may be gone by then. A stream that is destroyed earlier must be told before
 * another one asks for a block: tide_order(fixed, TIDE_STREAM_ALL, 0), after which no stream of before is named again.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, block_bytes), TIDE_EOVERFLOW, TIDE_ENOMEM, what upstream returns for preallocated
 * blocks. Its allocations: TIDE_EINVAL (more than block_bytes, alignment over 256 bytes), TIDE_ENOMEM, TIDE_EUPSTREAM
 * (memory that upstream cannot have meant), and what upstream returns for a block.
 * Thread safety: any thread; takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fixed_create(struct tide_resource *upstream, const struct tide_fixed_options *options,
                                               struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
