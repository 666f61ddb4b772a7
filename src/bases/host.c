/*
 * The base `host`: host memory from the C library.
 *
 * Usage: host(capacity=SIZE)
 *
 * Example: log(trace.db) | limit(1GiB) | host
 *
 * LIMITATIONS
 *  - It does not know its pointers, so it does not detect a wrong size.
 *  - It has no streams: freed memory may be reused at once.
 */
#include <stdlib.h>

#include <tidemark/base.h>

#include "src/bases/figures.h"
#include "src/resource/kind.h"

struct host {
    struct tide_resource base;
    _Atomic uint64_t used; /* requested bytes outstanding, of all threads */
    _Atomic uint64_t high; /* the most that this was */
    struct tide_host_options options;
};

/* Reserve before calling the C library, so that no interleaving passes the capacity. */
static enum tide_status
host_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct host *host = (struct host *)self;
    uint64_t rounded;
    uint64_t used;

    (void)stream;
    *out = NULL;
    if (bytes == 0)
        return TIDE_OK;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *); /* the smallest that posix_memalign accepts */
    if (!tidei_round_up(bytes, alignment, &rounded))
        return tidei_refused(
            self, tide_error_set(TIDE_EOVERFLOW, "host: %zu bytes overflow when rounded up to %zu", bytes, alignment));
    if (!tidei_bounded_add(&host->used, bytes, host->options.capacity_bytes, &used))
        return tidei_refused(self, tide_error_set(TIDE_ECAPACITY, "host: %s request exceeds %s capacity (%s in use)",
                                                  tidei_size_text(bytes), tidei_size_text(host->options.capacity_bytes),
                                                  tidei_size_text(used)));
    /* no object is larger than PTRDIFF_MAX: the C library refuses it, but a sanitizer's library ends the program */
    if (bytes > PTRDIFF_MAX || posix_memalign(out, alignment, bytes) != 0) {
        *out = NULL;
        atomic_fetch_sub_explicit(&host->used, bytes, memory_order_relaxed); /* as tidei_bounded_add */
        return tidei_refused(self,
                             tide_error_set(TIDE_ECAPACITY, "host: the C library has no %s at a multiple of %s left",
                                            tidei_size_text(bytes), tidei_size_text(alignment)));
    }
    tidei_figure_raise(&host->high, used + bytes);
    return TIDE_OK;
}

static enum tide_status
host_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct host *host = (struct host *)self;

    (void)alignment;
    (void)stream;
    if (__builtin_expect(pointer == NULL, 0) ? bytes != 0 : __builtin_expect(bytes == 0, 0))
        return tide_error_set(pointer == NULL ? TIDE_EPOINTER : TIDE_EMISMATCH, "host: %zu bytes given back at %p",
                              bytes, pointer);
    free(pointer);
    atomic_fetch_sub_explicit(&host->used, bytes, memory_order_relaxed); /* as tidei_bounded_add */
    return TIDE_OK;
}

static enum tide_status
host_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct host *host = (const struct host *)self;
    uint64_t used = atomic_load_explicit(&host->used, memory_order_relaxed); /* a figure of its own, orders nothing */
    const struct tidei_figure figures[] = {
        { TIDE_QUERY_BYTES_USED, used },
        { TIDE_QUERY_BYTES_RESERVED, used },
        { TIDE_QUERY_BYTES_USED_HIGH, tidei_figure_get(&host->high) },
        { TIDE_QUERY_BYTES_RESERVED_HIGH, tidei_figure_get(&host->high) },
        { TIDE_QUERY_CAPACITY, host->options.capacity_bytes },
        { TIDE_QUERY_HOST_ACCESS, 1 },
        { TIDE_QUERY_STREAM_ORDERED, 0 },
        { TIDE_QUERY_ALIGNMENT, sizeof(void *) },
    };

    return tidei_figures_find(figures, TIDEI_COUNT_OF(figures), what, out) ? TIDE_OK : tide_base_query(self, what, out);
}

static const struct tidei_argument host_arguments[] = {
    TIDEI_ARGUMENT("capacity", SIZE, struct tide_host_options, capacity_bytes, "a size such as 1GiB", .least = 1,
                   .default_value = UINT64_MAX),
};

const struct tidei_kind tidei_host_kind = {
    .ops = {
        TIDEI_KIND_OPS("host"),
        .allocate = host_allocate,
        .deallocate = host_deallocate,
        .order = tide_base_order,
        .trim = tide_base_trim,
        .query = host_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
    },
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(host_arguments),
    .options_size = sizeof(struct tide_host_options),
    TIDEI_KIND_STRUCT(struct host),
};

enum tide_status
tide_host_create(const struct tide_host_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_host_kind, NULL, options, out);
}
