/* aligned: larger alignments than upstream gives. */
#ifndef TIDEMARK_ALIGNED_H
#define TIDEMARK_ALIGNED_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest alignment that there is. */
#define TIDE_ALIGNED_MOST (UINT64_C(1) << 40)

struct tide_aligned_options {
    size_t struct_size;
    uint64_t alignment_bytes; /* power of two, of all requests over above_bytes; 0: as each request asks for */
    uint64_t above_bytes;     /* requests of no more than that get the alignment that they ask for alone; 0: all */
};

/*
 * Serve every alignment up to TIDE_ALIGNED_MOST over an upstream that gives TIDE_DEFAULT_ALIGNMENT, as the driver does;
 * and give requests an alignment that they did not ask for. What needs more than TIDE_DEFAULT_ALIGNMENT takes
 * alignment - TIDE_DEFAULT_ALIGNMENT bytes more from upstream. `options` may be NULL.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, an alignment that is no power of two or too large, above_bytes without an alignment),
 * TIDE_ENOMEM. Its allocations: TIDE_EINVAL (too large an alignment), TIDE_EUPSTREAM (less than it was asked for),
 * TIDE_EOVERFLOW, TIDE_ENOMEM; its deallocations: TIDE_EPOINTER.
 * Thread safety: any thread; wait-free, but a short lock for what needs more than TIDE_DEFAULT_ALIGNMENT. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_aligned_create(struct tide_resource *upstream,
                                                 const struct tide_aligned_options *options,
                                                 struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
