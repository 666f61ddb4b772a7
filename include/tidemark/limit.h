/* limit: refuse what would take the bytes outstanding past a bound. */
#ifndef TIDEMARK_LIMIT_H
#define TIDEMARK_LIMIT_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Refuse what would take the bytes outstanding through `upstream` past `limit_bytes`.
 *
 * A refused request returns TIDE_ELIMIT and never reaches upstream. Each request counts rounded up to
 * `alignment` (power of two; 1 counts requested bytes, 256 is RMM's).
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (alignment, NULL), TIDE_ENOMEM (host memory). Its allocations: TIDE_ELIMIT, TIDE_EOVERFLOW.
 * Thread safety: any thread; lock-free, but that the second thread to come waits once for the first. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_limit_create(struct tide_resource *upstream, uint64_t limit_bytes, uint64_t alignment,
                                               struct tide_resource **out);

/* The bytes that count against the limit now. Errors: TIDE_EINVAL (not a limit). Since 0.1. */
TIDE_EXPORT enum tide_status tide_limit_used(struct tide_resource *limit, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
