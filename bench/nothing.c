/* Bases that do next to nothing. */
#include <stdlib.h>

#include "bench.h"
#include "nothing.h"

/* Hands out one address and takes it back. */
static enum tide_status
nothing_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)self;
    (void)bytes;
    (void)alignment;
    *out = (void *)(uintptr_t)(0x100000 + (stream << 12));
    return TIDE_OK;
}

static enum tide_status
nothing_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)self;
    (void)pointer;
    (void)bytes;
    (void)alignment;
    (void)stream;
    return TIDE_OK;
}

static void
nothing_destroy(struct tide_resource *self)
{
    free(self);
}

static const struct tide_resource_ops nothing_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "nothing",
    .allocate = nothing_allocate,
    .deallocate = nothing_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = nothing_destroy,
};

/* What each thread has given out, rounded up to 64 KiB each; on lines of their own. */
static struct {
    _Alignas(128) uintptr_t bytes;
} addresses[16];

static enum tide_status
addresses_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)self;
    (void)alignment;
    *out = (void *)(((uintptr_t)(stream + 1) << 58) + addresses[stream].bytes);
    addresses[stream].bytes += ((bytes - 1) | 0xffff) + 1;
    return TIDE_OK;
}

static const struct tide_resource_ops addresses_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "addresses",
    .allocate = addresses_allocate,
    .deallocate = nothing_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = nothing_destroy,
};

static struct tide_resource *
make(const struct tide_resource_ops *ops)
{
    struct tide_resource *base = calloc(1, sizeof(*base));

    if (base == NULL || tide_resource_init(base, ops, NULL) != TIDE_OK)
        bench_fail("base");
    return base;
}

struct tide_resource *
bench_nothing(void)
{
    return make(&nothing_ops);
}

struct tide_resource *
bench_addresses(void)
{
    return make(&addresses_ops);
}
