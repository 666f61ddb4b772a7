/*
 * The base `pinned`: page-locked memory of the host, which CUDA devices reach.
 *
 * Usage:       pinned(device=ORDINAL, portable=BOOL, mapped=BOOL, write_combined=BOOL)
 *              device, whose context it belongs to, is 0 unless given.
 * Example:     log(trace.db) | fixed(16MiB) | pinned(write_combined=true)
 * LIMITATIONS: those of `cuda`. The pages come from the host's memory, which they make smaller for all else.
 */
#include "src/bases/unpooled.h"

#include <limits.h>
#include <stdlib.h>

#include <tidemark/base.h>

#include "src/resource/kind.h"

#ifdef HAVE_CUDA_H

struct pinned {
    struct tidei_unpooled unpooled; /* first */
    struct tide_pinned_options options;
};

static CUresult
pinned_get(struct tidei_unpooled *unpooled, size_t bytes, void **out, const char **function)
{
    const struct tide_pinned_options *options = &((struct pinned *)unpooled)->options;
    unsigned flags = 0;

    if (options->portable)
        flags |= CU_MEMHOSTALLOC_PORTABLE;
    if (options->mapped)
        flags |= CU_MEMHOSTALLOC_DEVICEMAP;
    if (options->write_combined)
        flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
    *function = "cuMemHostAlloc";
    return unpooled->device.cuda->mem_host_alloc(out, bytes, flags);
}

static CUresult
pinned_give(struct tidei_unpooled *self, void *pointer, const char **function)
{
    *function = "cuMemFreeHost";
    return self->device.cuda->mem_free_host(pointer);
}

static const struct tidei_unpooled_calls pinned_calls = { .allocate = pinned_get, .deallocate = pinned_give };

static enum tide_status
pinned_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    if (what != TIDE_QUERY_HOST_ACCESS)
        return tidei_unpooled_query(resource, what, out);
    *out = 1;
    return TIDE_OK;
}

static void
pinned_describe(struct tide_resource *resource, struct tide_text *text)
{
    const struct tide_pinned_options *options = &((struct pinned *)resource)->options;
    const char *separator = "";

    if (options->device != 0) {
        tide_text_format(text, "device=%d", options->device);
        separator = ", ";
    }
    if (options->portable) {
        tide_text_format(text, "%sportable=true", separator);
        separator = ", ";
    }
    if (options->mapped) {
        tide_text_format(text, "%smapped=true", separator);
        separator = ", ";
    }
    if (options->write_combined)
        tide_text_format(text, "%swrite_combined=true", separator);
}

static const struct tide_resource_ops pinned_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "pinned",
    .allocate = tidei_unpooled_allocate,
    .deallocate = tidei_unpooled_deallocate,
    .order = tidei_unpooled_order,
    .trim = tide_base_trim,
    .query = pinned_query,
    .describe = pinned_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = tidei_unpooled_destroy,
};

enum tide_status
tide_pinned_create(const struct tide_pinned_options *options, struct tide_resource **out)
{
    struct tide_pinned_options known;
    struct pinned *self;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "pinned: NULL in place of the resource's address");
    *out = NULL;
    status = tidei_options_copy("pinned", options, &known, sizeof(known));
    if (status != TIDE_OK)
        return status;
    self = calloc(1, sizeof(*self));
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "pinned: no memory for a resource");
    self->options = known;
    status = tidei_unpooled_open(&self->unpooled, &pinned_ops, &pinned_calls, known.device);
    if (status != TIDE_OK) {
        free(self);
        return status;
    }
    if (self->unpooled.device.cuda->mem_host_alloc == NULL || self->unpooled.device.cuda->mem_free_host == NULL) {
        status = tidei_device_lacks(&self->unpooled.device, "cuMemHostAlloc");
        tidei_unpooled_destroy(&self->unpooled.base);
        return status;
    }
    *out = &self->unpooled.base;
    return TIDE_OK;
}

#endif

enum { PINNED_DEVICE, PINNED_PORTABLE, PINNED_MAPPED, PINNED_WRITE_COMBINED };

static const struct tidei_argument pinned_arguments[] = {
    [PINNED_DEVICE] = { .key = "device",
                        .type = TIDEI_ARGUMENT_COUNT,
                        .most = INT_MAX,
                        .expected = "a CUDA ordinal such as 0" },
    [PINNED_PORTABLE] = { .key = "portable", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
    [PINNED_MAPPED] = { .key = "mapped", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
    [PINNED_WRITE_COMBINED] = { .key = "write_combined", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
};

static enum tide_status
pinned_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *values = arguments->values;
    struct tide_pinned_options options = {
        TIDE_OPTIONS(options),
        .device = (int)values[PINNED_DEVICE].number,
        .portable = values[PINNED_PORTABLE].number != 0,
        .mapped = values[PINNED_MAPPED].number != 0,
        .write_combined = values[PINNED_WRITE_COMBINED].number != 0,
    };
    enum tide_status status;

    (void)upstream;
    *out = NULL;
    status = tide_pinned_create(&options, out);
    if (status == TIDE_EINVAL && values[PINNED_DEVICE].given)
        *arguments->error_column = values[PINNED_DEVICE].column;
    return status;
}

const struct tidei_kind tidei_pinned_kind = {
    .name = "pinned",
    .is_base = true,
    .arguments = pinned_arguments,
    .argument_count = TIDEI_COUNT_OF(pinned_arguments),
    .create = pinned_create,
};
