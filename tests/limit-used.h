/* The outstanding bytes and allocations of a limit. */
#ifndef TESTS_LIMIT_USED_H
#define TESTS_LIMIT_USED_H

#include <tidemark/limit.h>

/* The bytes that count for the limit; UINT64_MAX if `resource` is not a limit. */
static inline uint64_t
limit_used(struct tide_resource *resource)
{
    struct tide_limit_figures figures = { TIDE_FIGURES(figures) };

    return tide_limit_read(resource, &figures) == TIDE_OK ? figures.used_bytes : UINT64_MAX;
}

/* The allocations that count for the limit; UINT64_MAX if `resource` is not a limit. */
static inline uint64_t
limit_used_count(struct tide_resource *resource)
{
    struct tide_limit_figures figures = { TIDE_FIGURES(figures) };

    return tide_limit_read(resource, &figures) == TIDE_OK ? figures.used_count : UINT64_MAX;
}

#endif
