/* The bases that every adaptor's tests run over. */
#ifndef TESTS_BASES_H
#define TESTS_BASES_H

#include <stdlib.h>

#include <tidemark/tidemark.h>

struct base_maker {
    const char *name;
    struct tide_resource *(*create)(uint64_t capacity_bytes); /* 0: no bound */
};

static inline struct tide_resource *
base_host(uint64_t capacity_bytes)
{
    struct tide_host_options options = { TIDE_OPTIONS(options), .capacity_bytes = capacity_bytes };
    struct tide_resource *base;

    if (tide_host_create(&options, &base) != TIDE_OK)
        abort();
    return base;
}

static inline struct tide_resource *
base_sim(uint64_t capacity_bytes)
{
    struct tide_sim_options options = { TIDE_OPTIONS(options), .capacity_bytes = capacity_bytes };
    struct tide_resource *base;

    if (tide_sim_create(&options, &base) != TIDE_OK)
        abort();
    return base;
}

#define BASE_COUNT 2

static const struct base_maker bases[BASE_COUNT] = { { "host", base_host }, { "sim", base_sim } };

#endif
