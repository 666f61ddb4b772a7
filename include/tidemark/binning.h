/* binning: send each request to the smallest bin that fits. */
#ifndef TIDEMARK_BINNING_H
#define TIDEMARK_BINNING_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Send a request of up to a bin's limit_bytes to the smallest bin that fits, everything else to `upstream`.
 * Deallocation goes the same way, by the size it names. `bins` (any order; copied) may be empty.
 *
 * Holds a reference to `upstream` and to every bin's resource. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, a limit of 0, two bins of one limit), TIDE_ENOMEM.
 * Thread safety: any thread; wait-free. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_binning_create(struct tide_resource *upstream, const struct tide_upstream *bins,
                                                 size_t bin_count, struct tide_resource **out);

/*
 * Binning with a `fixed` bin over `upstream` for each power of two from `smallest_bytes` to `largest_bytes` (both
 * powers of two).
 *
 * Errors: TIDE_EINVAL (no power of two, smallest over largest), TIDE_ENOMEM, and those of tide_fixed_create.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_binning_create_range(struct tide_resource *upstream, uint64_t smallest_bytes,
                                                       uint64_t largest_bytes, struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
