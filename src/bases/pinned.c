/*
 * The base `pinned`: page-locked host memory that CUDA devices can access.
 *
 * Usage: pinned(device=ORDINAL, portable=BOOL, mapped=BOOL, write_combined=BOOL)
 *     device  the device whose context owns the memory; 0 unless given
 *
 * Example: log(trace.db) | fixed(16MiB) | pinned(write_combined=true)
 *
 * LIMITATIONS
 *  - Those of `cuda`.
 *  - Locked pages reduce the host memory that is left for everything else.
 */
#include "src/bases/unpooled.h"

#include <limits.h>

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

static enum tide_status
pinned_init(struct tide_resource *resource, size_t *fault)
{
    struct pinned *self = (struct pinned *)resource;
    struct tidei_device *device = &self->unpooled.device;
    enum tide_status status = tidei_unpooled_open(&self->unpooled, &pinned_calls, self->options.device, fault);

    if (status != TIDE_OK)
        return status;
    if (device->cuda->mem_host_alloc != NULL && device->cuda->mem_free_host != NULL)
        return TIDE_OK;
    status = tidei_device_lacks(device, "cuMemHostAlloc");
    tidei_unpooled_close(resource);
    return status;
}

#endif

static const struct tidei_argument pinned_arguments[] = {
    { .key = "device",
      .type = TIDEI_ARGUMENT_COUNT,
      .most = INT_MAX,
      .expected = "a CUDA ordinal such as 0",
      TIDEI_FIELD(struct tide_pinned_options, device) },
    TIDEI_FLAG("portable", struct tide_pinned_options, portable),
    TIDEI_FLAG("mapped", struct tide_pinned_options, mapped),
    TIDEI_FLAG("write_combined", struct tide_pinned_options, write_combined),
};

const struct tidei_kind tidei_pinned_kind = {
    .is_base = true,
    .arguments = pinned_arguments,
    .argument_count = TIDEI_COUNT_OF(pinned_arguments),
    .options_size = offsetof(struct tide_pinned_options, reserved),
#ifdef HAVE_CUDA_H
    .ops = {
        .version = TIDE_RESOURCE_OPS_VERSION,
        .name = "pinned",
        .allocate = tidei_unpooled_allocate,
        .deallocate = tidei_unpooled_deallocate,
        .order = tidei_unpooled_order,
        .trim = tide_base_trim,
        .query = pinned_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
        .destroy = tidei_kind_destroy,
    },
    TIDEI_KIND_STRUCT(struct pinned),
    .init = pinned_init,
    .fini = tidei_unpooled_close,
#else
    .ops.name = "pinned",
#endif
};

enum tide_status
tide_pinned_create(const struct tide_pinned_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_pinned_kind, NULL, options, out);
}
