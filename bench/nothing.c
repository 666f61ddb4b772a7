/* Bases that do almost nothing, for measuring the layers above them. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "nothing.h"

#define THREADS_MOST      16
#define ADDRESSES_AT_ONCE 1024
#define BLOCK_ADDRESSES   256

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

/* The bytes that each thread has allocated, rounded up to 64 KiB for each block, on cache lines of their own. */
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

/* The addresses that one thread has freed, the latest last. */
struct returned {
    _Alignas(128) uintptr_t next; /* the first address that was never given out */
    void **pointers;              /* owned */
    size_t count;
    size_t capacity;
};

struct reusing {
    struct tide_resource base; /* first */
    struct returned threads[THREADS_MOST];
};

static enum tide_status
reusing_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct returned *mine = &((struct reusing *)self)->threads[stream];

    (void)bytes;
    (void)alignment;
    if (mine->count > 0) {
        *out = mine->pointers[--mine->count];
    } else {
        *out = (void *)(((uintptr_t)(stream + 1) << 40) + mine->next);
        mine->next += BLOCK_ADDRESSES;
    }
    return TIDE_OK;
}

static enum tide_status
reusing_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct returned *mine = &((struct reusing *)self)->threads[stream];

    (void)bytes;
    (void)alignment;
    if (mine->count == mine->capacity) {
        mine->capacity = mine->capacity == 0 ? ADDRESSES_AT_ONCE : 2 * mine->capacity;
        mine->pointers = realloc(mine->pointers, mine->capacity * sizeof(*mine->pointers));
        if (mine->pointers == NULL)
            bench_fail("no memory");
    }
    mine->pointers[mine->count++] = pointer;
    return TIDE_OK;
}

static void
reusing_destroy(struct tide_resource *self)
{
    for (unsigned i = 0; i < THREADS_MOST; i++)
        free(((struct reusing *)self)->threads[i].pointers);
    free(self);
}

static const struct tide_resource_ops reusing_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "reusing",
    .allocate = reusing_allocate,
    .deallocate = reusing_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = reusing_destroy,
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

struct tide_resource *
bench_reusing(void)
{
    struct reusing *base = aligned_alloc(_Alignof(struct reusing), sizeof(*base));

    if (base == NULL)
        bench_fail("base");
    memset(base, 0, sizeof(*base));
    if (tide_resource_init(&base->base, &reusing_ops, NULL) != TIDE_OK)
        bench_fail("base");
    return &base->base;
}
