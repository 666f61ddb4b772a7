/* fallback: serves requests from a second resource if the first one has no memory. */
#ifndef TIDEMARK_FALLBACK_H
#define TIDEMARK_FALLBACK_H

#include <stdbool.h>

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_fallback_options {
    size_t struct_size;  /* TIDE_OPTIONS */
    bool any;            /* ask `second` after any failure of `first`, not only TIDE_ECAPACITY and TIDE_ELIMIT */
    uint8_t reserved[7]; /* 0 */
};

struct tide_fallback_figures {
    size_t struct_size; /* TIDE_FIGURES */
    uint64_t served;    /* number of allocations that `second` has served so far */
};

/*
 * Create a layer that asks `first`, and then `second` if `first` fails with TIDE_ECAPACITY or TIDE_ELIMIT.
 *
 * It notes the addresses that `second` gave out, so that deallocations find their way. For that the two must not hand
 * out the same address at the same time. Memory never does; two `sim` bases would.
 *
 * `first` may be a stack that ends in `second`: with a pool over a base as `first` and that base as `second`, the base
 * serves what the pool cannot.
 *
 * tide_order goes to both. tide_query answers for both together: figures that can be added, such as bytes used, are
 * added; host access and stream order are 1 if both resources have them; the device is known if both are on the same
 * one; figures of the device are those of `first`. If `first` ends in `second`, all figures are those of `second`.
 *
 * Holds a reference to each. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, `first` is `second`), TIDE_ENOMEM.
 * Errors of its allocations: what `second` returns, with the error texts of both; TIDE_ENOMEM (no host memory to note
 * an address).
 * Thread safety: any thread. Wait-free, except that allocations that `second` serves, and deallocations while any of
 * them is outstanding, may take a short lock. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fallback_create(struct tide_resource *first, struct tide_resource *second,
                                                  const struct tide_fallback_options *options,
                                                  struct tide_resource **out);

/*
 * Read the figures of a fallback resource. On failure they are zeros.
 * Errors: TIDE_EINVAL (not a fallback resource, NULL, struct_size). Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_fallback_read(struct tide_resource *fallback, struct tide_fallback_figures *out);

#ifdef __cplusplus
}
#endif
#endif
