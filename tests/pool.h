/* What tests of pools share. */
#ifndef TESTS_POOL_H
#define TESTS_POOL_H

#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "tap.h"

#define MIB ((size_t)1 << 20)

/* A pool over `upstream`. Takes over the reference. */
static inline struct tide_resource *
over(struct tide_resource *upstream, const struct tide_pool_options *options)
{
    struct tide_resource *pool;

    if (tide_pool_create(upstream, options, &pool) != TIDE_OK) {
        diag("%s", tide_error_text());
        abort();
    }
    tide_resource_release(upstream);
    return pool;
}

static inline void *
take(struct tide_resource *pool, size_t bytes)
{
    void *pointer = NULL;

    return tide_allocate(pool, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &pointer) == TIDE_OK ? pointer : NULL;
}

static inline enum tide_status
give(struct tide_resource *pool, void *pointer, size_t bytes)
{
    return tide_deallocate(pool, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

static inline struct tide_pool_figures
figures_of(struct tide_resource *pool)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };

    tide_pool_read(pool, &figures);
    return figures;
}

static inline uint64_t
query(struct tide_resource *pool, enum tide_query what)
{
    uint64_t figure;

    return tide_query(pool, what, &figure) == TIDE_OK ? figure : UINT64_MAX;
}

#endif
