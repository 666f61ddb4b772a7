/* binning: sends each request to one of several resources, chosen by its size. */
#ifndef TIDEMARK_BINNING_H
#define TIDEMARK_BINNING_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_binning_options {
    size_t struct_size;               /* TIDE_OPTIONS */
    const struct tide_upstream *bins; /* in any order, only read during the call; NULL where bin_count is 0 */
    size_t bin_count;
    /*
     * Add a bin of `fixed` blocks over upstream for each power of two from smallest_bytes to largest_bytes. Both are
     * powers of two, or both are 0: no such bins.
     */
    uint64_t smallest_bytes;
    uint64_t largest_bytes;
};

/*
 * Create a layer that sends a request to the bin with the smallest limit_bytes that is not below its size, and every
 * larger request to `upstream`. A deallocation goes the same way, by the size that it gives.
 *
 * Holds a reference to `upstream` and to the resource of every bin. `options` may be NULL: no bins. On failure *out is
 * NULL.
 * Errors: TIDE_EINVAL (NULL; a limit of 0; two bins of one limit; a bin whose TIDE_QUERY_LARGEST_REQUEST is below its
 * limit; smallest_bytes and largest_bytes that are not powers of two or are in the wrong order), TIDE_ENOMEM, and those
 * of tide_fixed_create.
 * Thread safety: any thread; wait-free. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_binning_create(struct tide_resource *upstream,
                                                 const struct tide_binning_options *options,
                                                 struct tide_resource **out);

/*
 * Add a bin to a layer that is in use. From now on requests of up to `limit_bytes`, and of more than the next smaller
 * limit, go to `resource`.
 *
 * Blocks of these sizes that were allocated before go back to where they came from. For that, no two resources below
 * may hand out the same address at the same time. Memory never does; two `sim` bases would.
 *
 * Holds a reference to `resource` until the layer is destroyed. On failure nothing has changed.
 * Errors: TIDE_EINVAL (not a binning resource; NULL; a limit of 0; the limit of another bin; a limit above what
 * `resource` serves), TIDE_ENOMEM. Allocations from such a bin may return TIDE_ENOMEM (no host memory to note the
 * address).
 * Thread safety: any thread, also while others allocate. Allocations stay wait-free, except that those from this bin
 * take a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_binning_add(struct tide_resource *binning, uint64_t limit_bytes,
                                              struct tide_resource *resource);

#ifdef __cplusplus
}
#endif
#endif
