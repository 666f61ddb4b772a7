/*
 * Hands out host memory from the C library.
 *
 * Usage:       host(capacity=SIZE)
 * Example:     log(trace.db) | limit(1GiB) | host
 * LIMITATIONS: it does not know its pointers, so that a wrong size given back is not noticed; it has no streams, so
 *              that memory is free for anybody as soon as it is deallocated.
 */
#include <stdlib.h>

#include <tidemark/base.h>

#include "src/resource/kind.h"
#include "src/resource/resource.h"

struct host {
    struct tide_resource base;
    _Atomic uint64_t used;   /* requested bytes outstanding, of all threads */
    uint64_t capacity_bytes; /* UINT64_MAX where there is no bound */
};

/* Reserve before the C library is asked, so that no interleaving passes the capacity. */
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
        alignment = sizeof(void *); /* posix_memalign wants no less */
    if (!tidei_round_up(bytes, alignment, &rounded))
        return tide_error_set(TIDE_EOVERFLOW, "host: %zu bytes overflow when rounded up to %zu", bytes, alignment);
    if (!tidei_bounded_add(&host->used, bytes, host->capacity_bytes, &used))
        return tide_error_set(TIDE_ECAPACITY, "host: %s request exceeds %s capacity (%s in use)",
                              tidei_size_text(bytes), tidei_size_text(host->capacity_bytes), tidei_size_text(used));
    /* no object is larger than PTRDIFF_MAX: the C library refuses it too, but a sanitizer's ends the program */
    if (bytes > PTRDIFF_MAX || posix_memalign(out, alignment, bytes) != 0) {
        *out = NULL;
        atomic_fetch_sub_explicit(&host->used, bytes, memory_order_relaxed); /* as tidei_bounded_add */
        return tide_error_set(TIDE_ECAPACITY, "host: the C library has no %s at a multiple of %s left",
                              tidei_size_text(bytes), tidei_size_text(alignment));
    }
    return TIDE_OK;
}

static enum tide_status
host_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct host *host = (struct host *)self;

    (void)alignment;
    (void)stream;
    if ((pointer == NULL) != (bytes == 0))
        return tide_error_set(pointer == NULL ? TIDE_EPOINTER : TIDE_EMISMATCH, "host: %zu bytes given back at %p",
                              bytes, pointer);
    free(pointer);
    atomic_fetch_sub_explicit(&host->used, bytes, memory_order_relaxed); /* as tidei_bounded_add */
    return TIDE_OK;
}

static enum tide_status
host_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct host *host = (struct host *)self;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
        *out = atomic_load_explicit(&host->used, memory_order_relaxed); /* a figure of its own, orders nothing */
        return TIDE_OK;
    case TIDE_QUERY_CAPACITY:
        if (host->capacity_bytes == UINT64_MAX)
            break;
        *out = host->capacity_bytes;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = 1;
        return TIDE_OK;
    case TIDE_QUERY_STREAM_ORDERED:
        *out = 0;
        return TIDE_OK;
    case TIDE_QUERY_ALIGNMENT:
        *out = sizeof(void *);
        return TIDE_OK;
    default:
        break;
    }
    return tide_base_query(self, what, out);
}

static void
host_describe(struct tide_resource *self, struct tide_text *text)
{
    struct host *host = (struct host *)self;

    if (host->capacity_bytes == UINT64_MAX)
        return;
    tide_text_format(text, "capacity=");
    tide_text_size(text, host->capacity_bytes);
}

static void
host_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops host_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "host",
    .allocate = host_allocate,
    .deallocate = host_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = host_query,
    .describe = host_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = host_destroy,
};

enum tide_status
tide_host_create(const struct tide_host_options *options, struct tide_resource **out)
{
    struct tide_host_options known;
    struct host *host;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "host: NULL in place of the resource's address");
    *out = NULL;
    status = tidei_options_copy("host", options, &known, sizeof(known));
    if (status != TIDE_OK)
        return status;
    host = calloc(1, sizeof(*host));
    if (host == NULL)
        return tide_error_set(TIDE_ENOMEM, "host: no memory for a resource");
    host->capacity_bytes = known.capacity_bytes != 0 ? known.capacity_bytes : UINT64_MAX;
    status = tide_resource_init(&host->base, &host_ops, NULL);
    if (status != TIDE_OK) {
        free(host);
        return status;
    }
    *out = &host->base;
    return TIDE_OK;
}

static const struct tidei_argument host_arguments[] = {
    { .key = "capacity", .type = TIDEI_ARGUMENT_SIZE, .least = 1, .expected = "a size such as 1GiB" },
};

static enum tide_status
host_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_host_options options = { TIDE_OPTIONS(options), .capacity_bytes = arguments->values[0].number };

    (void)upstream;
    *out = NULL;
    return tide_host_create(&options, out);
}

const struct tidei_kind tidei_host_kind = {
    .name = "host",
    .is_base = true,
    .arguments = host_arguments,
    .argument_count = TIDEI_COUNT_OF(host_arguments),
    .create = host_create,
};
