/* monotonic: hand out memory by moving a pointer, and take it back all at once. */
#ifndef TIDEMARK_MONOTONIC_H
#define TIDEMARK_MONOTONIC_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_monotonic_options {
    size_t struct_size;
    size_t chunk_bytes; /* what is taken from upstream at a time; 0: 32 MiB; a larger request gets a chunk of its own */
};

/*
 * Serve requests one behind the other out of chunks from upstream. Freeing a block is counted and frees nothing;
 * tide_monotonic_reset makes all of it free at once. A block taken on another stream than its chunk is ordered behind
 * that one once. Chunks go back to upstream in tide_trim, those that hold nothing, and at the end.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL), TIDE_ENOMEM. Its allocations: TIDE_EOVERFLOW, TIDE_EUPSTREAM, and what upstream returns
 * for a chunk; its deallocations: TIDE_EPOINTER (in none of its chunks), TIDE_EMISMATCH (more bytes than are out).
 * Thread safety: any thread; takes a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_monotonic_create(struct tide_resource *upstream,
                                                   const struct tide_monotonic_options *options,
                                                   struct tide_resource **out);

/*
 * Take back everything that was handed out; none of it may be used or freed from now on. It is handed out again once
 * the work submitted to `stream` is done, as if all had been freed there; with TIDE_STREAM_ALL, which may block the
 * host, that of all streams. The chunks are kept.
 *
 * Errors: TIDE_EINVAL (no monotonic resource), and what upstream returns where it cannot order behind all streams; then
 * nothing has changed. Thread safety: no other thread allocates from it meanwhile. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_monotonic_reset(struct tide_resource *monotonic, tide_stream stream);

#ifdef __cplusplus
}
#endif
#endif
