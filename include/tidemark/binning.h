/* binning: send each request to the smallest bin that fits. */
#ifndef TIDEMARK_BINNING_H
#define TIDEMARK_BINNING_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_binning_options {
    size_t struct_size;
    const struct tide_upstream *bins; /* in any order; read during the call alone; NULL where there are none */
    size_t bin_count;
    uint64_t smallest_bytes; /* a bin of `fixed` blocks for each power of two from here to largest_bytes, both powers */
    uint64_t largest_bytes;  /* of two; both 0: none */
};

/*
 * Send a request of up to a bin's limit_bytes to the smallest bin that fits, everything else to `upstream`.
 * Deallocation goes the same way, by the size it names. `options` may be NULL: no bins.
 *
 * Holds a reference to `upstream` and to every bin's resource. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, a limit of 0, two bins of one limit, a resource whose TIDE_QUERY_LARGEST_REQUEST is less
 * than its bin's limit, a range of no powers of two or that falls), TIDE_ENOMEM, and those of tide_fixed_create for a
 * range.
 * Thread safety: any thread; wait-free. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_binning_create(struct tide_resource *upstream,
                                                 const struct tide_binning_options *options,
                                                 struct tide_resource **out);

/*
 * Add a bin: from now on requests of more than the next smaller limit and up to `limit_bytes` go to `resource`. What is
 * out of these sizes goes back to where it came from, as long as no two resources hand out the same address (memory
 * does not; two `sim` bases would).
 *
 * Holds a reference to `resource`, until the binning is destroyed. On failure nothing has changed.
 * Errors: TIDE_EINVAL (not a binning, NULL, a limit of 0, of another bin, or over what the resource serves),
 * TIDE_ENOMEM. The allocations of such a bin: TIDE_ENOMEM (no host memory to note the address).
 * Thread safety: any thread, also beside allocations, which stay wait-free but for those that the bin serves: they take
 * a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_binning_add(struct tide_resource *binning, uint64_t limit_bytes,
                                              struct tide_resource *resource);

#ifdef __cplusplus
}
#endif
#endif
