/* fallback: what the first resource cannot serve, the second does. */
#ifndef TIDEMARK_FALLBACK_H
#define TIDEMARK_FALLBACK_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_fallback_options {
    size_t struct_size;
    bool any;            /* after any failure of the first, not only TIDE_ECAPACITY and TIDE_ELIMIT */
    uint8_t reserved[7]; /* 0 */
};

struct tide_fallback_figures {
    size_t struct_size;
    uint64_t served; /* allocations that `second` has served */
};

/*
 * Ask `first`, and `second` where `first` has no memory (TIDE_ECAPACITY, TIDE_ELIMIT). What `second` has served is
 * noted by address, so that deallocations find their way, as long as no two resources hand out the same address (memory
 * does not; two `sim` bases would). `first` may end in `second`, as a pool over the base that serves what the pool
 * cannot. `options` may be NULL.
 *
 * Streams are ordered through both. Where both have figures of their own, those that add up are added up; memory is
 * the host's, in stream order, or of a device where that of both is; device figures are those of `first`. Where `first`
 * ends in `second` figures are those of `second`.
 *
 * Holds a reference to each. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, both are one), TIDE_ENOMEM. Its allocations: what `second` returns, its words behind those
 * of `first`; TIDE_ENOMEM (no host memory to note an address).
 * Thread safety: any thread; wait-free but for what `second` serves, which takes a short lock, and deallocations while
 * any of that is out. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fallback_create(struct tide_resource *first, struct tide_resource *second,
                                                  const struct tide_fallback_options *options,
                                                  struct tide_resource **out);

/*
 * Read the figures. Errors: TIDE_EINVAL (not a fallback, NULL); then they are zeros.
 * Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fallback_read(struct tide_resource *fallback, struct tide_fallback_figures *out);

#ifdef __cplusplus
}
#endif
#endif
