/* limit: refuse what would take the bytes outstanding past a bound. */
#ifndef TIDEMARK_LIMIT_H
#define TIDEMARK_LIMIT_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_limit_options {
    size_t struct_size;
    uint64_t limit_bytes; /* the most bytes outstanding; 0 lets requests of 0 bytes pass alone */
    uint64_t alignment;   /* power of two that each request counts rounded up to; 1: as requested; 0: 256, as RMM */
};

/*
 * Refuse what would take the bytes outstanding through `upstream` past options->limit_bytes.
 *
 * A refused request returns TIDE_ELIMIT and never reaches upstream.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (alignment, NULL), TIDE_ENOMEM (host memory). Its allocations: TIDE_ELIMIT, TIDE_EOVERFLOW.
 * Thread safety: any thread; lock-free, but that the second thread to come waits once for the first. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_limit_create(struct tide_resource *upstream, const struct tide_limit_options *options,
                                               struct tide_resource **out);

/* The bytes that count against the limit now. Errors: TIDE_EINVAL (not a limit). Since 0.1. */
TIDE_EXPORT enum tide_status tide_limit_used(struct tide_resource *limit, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
