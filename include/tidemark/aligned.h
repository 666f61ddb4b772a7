/*
 * aligned: alignments larger than the layer below gives.
 *
 * The driver's pools align every block to TIDE_DEFAULT_ALIGNMENT and refuse requests for more. `aligned` serves such
 * requests, and can give every large request an alignment that it did not ask for.
 */
#ifndef TIDEMARK_ALIGNED_H
#define TIDEMARK_ALIGNED_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest alignment that `aligned` serves, in bytes. */
#define TIDE_ALIGNED_MOST (UINT64_C(1) << 40)

struct tide_aligned_options {
    size_t struct_size;       /* TIDE_OPTIONS */
    uint64_t alignment_bytes; /* power of two; the least alignment of requests over above_bytes; 0: as requested */
    uint64_t above_bytes;     /* requests of up to this size keep the alignment they ask for; 0: none of them does */
};

/*
 * Create a layer that serves alignments of up to TIDE_ALIGNED_MOST over an upstream that gives TIDE_DEFAULT_ALIGNMENT.
 *
 * A block that needs a larger alignment takes (alignment - TIDE_DEFAULT_ALIGNMENT) more bytes from upstream.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL; an alignment that is not a power of two or is too large; above_bytes without
 * alignment_bytes), TIDE_ENOMEM.
 * Errors of its allocations: TIDE_EINVAL (the alignment is too large), TIDE_EOVERFLOW, TIDE_ENOMEM, TIDE_EUPSTREAM
 * (upstream aligned a block less than it was asked to). Of its deallocations: TIDE_EPOINTER.
 * Thread safety: any thread. Wait-free for alignments of up to TIDE_DEFAULT_ALIGNMENT, else takes a short lock.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_aligned_create(struct tide_resource *upstream,
                                                 const struct tide_aligned_options *options,
                                                 struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
