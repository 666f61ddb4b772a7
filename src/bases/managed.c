/*
 * The base `managed`: memory that moves between the host and CUDA devices, to where it is used.
 *
 * Usage: managed(device=ORDINAL, attach=global|host, preferred=none|device|host, read_mostly=BOOL)
 *     device     0 unless given
 *     attach     global unless given
 *     preferred  none unless given
 *
 * Example: log(trace.db) | managed(preferred=device)
 *
 * LIMITATIONS
 *  - Those of `cuda`.
 *  - Advice is given for each allocation, and only for the device of the arguments.
 */
#include "src/bases/unpooled.h"

#include <limits.h>

#include <tidemark/base.h>

#include "src/resource/kind.h"

#ifdef HAVE_CUDA_H

struct managed {
    struct tidei_unpooled unpooled; /* first */
    struct tide_managed_options options;
};

static CUresult
managed_advise(struct managed *self, CUdeviceptr address, size_t bytes)
{
    const struct tidei_device *device = &self->unpooled.device;
    CUresult result = CUDA_SUCCESS;

    if (self->options.preferred != TIDE_MANAGED_ANYWHERE)
        result =
            device->cuda->mem_advise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                                     self->options.preferred == TIDE_MANAGED_HOST ? CU_DEVICE_CPU : device->handle);
    if (result == CUDA_SUCCESS && self->options.read_mostly)
        result = device->cuda->mem_advise(address, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device->handle);
    return result;
}

static CUresult
managed_get(struct tidei_unpooled *unpooled, size_t bytes, void **out, const char **function)
{
    struct managed *self = (struct managed *)unpooled;
    const struct tidei_driver *cuda = unpooled->device.cuda;
    CUdeviceptr address = 0;
    CUresult result;

    *function = "cuMemAllocManaged";
    result =
        cuda->mem_alloc_managed(&address, bytes, self->options.attach_host ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_GLOBAL);
    if (result != CUDA_SUCCESS)
        return result;
    *function = "cuMemAdvise";
    result = managed_advise(self, address, bytes);
    if (result != CUDA_SUCCESS)
        cuda->mem_free(address);
    *out = (void *)(uintptr_t)address;
    return result;
}

static CUresult
managed_give(struct tidei_unpooled *self, void *pointer, const char **function)
{
    *function = "cuMemFree";
    return self->device.cuda->mem_free((CUdeviceptr)(uintptr_t)pointer);
}

static const struct tidei_unpooled_calls managed_calls = { .allocate = managed_get, .deallocate = managed_give };

static enum tide_status
managed_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    switch (what) {
    case TIDE_QUERY_DEVICE:
        *out = (uint64_t)((struct tidei_unpooled *)resource)->device.ordinal;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = 1;
        return TIDE_OK;
    default:
        return tidei_unpooled_query(resource, what, out);
    }
}

/* Check that driver and device support the options. */
static enum tide_status
managed_possible(const struct managed *self)
{
    const struct tidei_device *device = &self->unpooled.device;

    if (device->cuda->mem_alloc_managed == NULL || device->cuda->mem_free == NULL)
        return tidei_device_lacks(device, "cuMemAllocManaged");
    if (tidei_device_attribute(device->cuda, device->handle, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "managed: device %d has no managed memory", device->ordinal);
    if (self->options.preferred == TIDE_MANAGED_ANYWHERE && !self->options.read_mostly)
        return TIDE_OK;
    if (device->cuda->mem_advise == NULL)
        return tidei_device_lacks(device, "cuMemAdvise");
    if (tidei_device_attribute(device->cuda, device->handle, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "managed: device %d takes no advice: it has no concurrent managed access",
                              device->ordinal);
    return TIDE_OK;
}

static enum tide_status
managed_init(struct tide_resource *resource, size_t *fault)
{
    struct managed *self = (struct managed *)resource;
    enum tide_status status = tidei_unpooled_open(&self->unpooled, &managed_calls, self->options.device, fault);

    if (status != TIDE_OK)
        return status;
    status = managed_possible(self);
    if (status != TIDE_OK)
        tidei_unpooled_close(resource);
    return status;
}

#endif

static const char *const managed_attachments[] = { "global", "host", NULL };
static const char *const managed_preferences[] = { "none", "device", "host", NULL };

static const struct tidei_argument managed_arguments[] = {
    { .key = "device",
      .type = TIDEI_ARGUMENT_COUNT,
      .most = INT_MAX,
      .expected = "a CUDA ordinal such as 0",
      TIDEI_FIELD(struct tide_managed_options, device) },
    { .key = "attach",
      .type = TIDEI_ARGUMENT_CHOICE,
      .choices = managed_attachments,
      .expected = "global or host",
      TIDEI_FIELD(struct tide_managed_options, attach_host) },
    { .key = "preferred",
      .type = TIDEI_ARGUMENT_CHOICE,
      .choices = managed_preferences,
      .expected = "none, device or host",
      TIDEI_FIELD(struct tide_managed_options, preferred) },
    TIDEI_FLAG("read_mostly", struct tide_managed_options, read_mostly),
};

const struct tidei_kind tidei_managed_kind = {
    .is_base = true,
    .arguments = managed_arguments,
    .argument_count = TIDEI_COUNT_OF(managed_arguments),
    .options_size = offsetof(struct tide_managed_options, reserved),
#ifdef HAVE_CUDA_H
    .ops = {
        .version = TIDE_RESOURCE_OPS_VERSION,
        .name = "managed",
        .allocate = tidei_unpooled_allocate,
        .deallocate = tidei_unpooled_deallocate,
        .order = tidei_unpooled_order,
        .trim = tide_base_trim,
        .query = managed_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
        .destroy = tidei_kind_destroy,
    },
    TIDEI_KIND_STRUCT(struct managed),
    .init = managed_init,
    .fini = tidei_unpooled_close,
#else
    .ops.name = "managed",
#endif
};

enum tide_status
tide_managed_create(const struct tide_managed_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_managed_kind, NULL, options, out);
}
