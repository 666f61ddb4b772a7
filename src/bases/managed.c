/*
 * The base `managed`: memory that moves between the host and CUDA devices, wherever it is used.
 *
 * Usage:       managed(device=ORDINAL, attach=global|host, preferred=none|device|host, read_mostly=BOOL)
 *              device is 0 unless given, attach is global, preferred is none.
 * Example:     log(trace.db) | managed(preferred=device)
 * LIMITATIONS: those of `cuda`. Advice is given for each allocation, on the device of the arguments.
 */
#include "src/bases/unpooled.h"

#include <limits.h>
#include <stdlib.h>

#include <tidemark/base.h>

#include "src/resource/kind.h"

static const char *const managed_attachments[] = { "global", "host", NULL };
/* The index is enum tide_managed_preferred. */
static const char *const managed_preferences[] = { "none", "device", "host", NULL };

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

static void
managed_describe(struct tide_resource *resource, struct tide_text *text)
{
    const struct tide_managed_options *options = &((struct managed *)resource)->options;
    const char *separator = "";

    if (options->device != 0) {
        tide_text_format(text, "device=%d", options->device);
        separator = ", ";
    }
    if (options->attach_host) {
        tide_text_format(text, "%sattach=host", separator);
        separator = ", ";
    }
    if (options->preferred != TIDE_MANAGED_ANYWHERE) {
        tide_text_format(text, "%spreferred=%s", separator, managed_preferences[options->preferred]);
        separator = ", ";
    }
    if (options->read_mostly)
        tide_text_format(text, "%sread_mostly=true", separator);
}

static const struct tide_resource_ops managed_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "managed",
    .allocate = tidei_unpooled_allocate,
    .deallocate = tidei_unpooled_deallocate,
    .order = tidei_unpooled_order,
    .trim = tide_base_trim,
    .query = managed_query,
    .describe = managed_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = tidei_unpooled_destroy,
};

/* Whether driver and device can do what was asked for. */
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

enum tide_status
tide_managed_create(const struct tide_managed_options *options, struct tide_resource **out)
{
    struct tide_managed_options known;
    struct managed *self;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "managed: NULL in place of the resource's address");
    *out = NULL;
    status = tidei_options_copy("managed", options, &known, sizeof(known));
    if (status != TIDE_OK)
        return status;
    if ((unsigned)known.preferred > TIDE_MANAGED_HOST)
        return tide_error_set(TIDE_EINVAL, "managed: preferred %d is none of enum tide_managed_preferred",
                              (int)known.preferred);
    self = calloc(1, sizeof(*self));
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "managed: no memory for a resource");
    self->options = known;
    status = tidei_unpooled_open(&self->unpooled, &managed_ops, &managed_calls, known.device);
    if (status != TIDE_OK) {
        free(self);
        return status;
    }
    status = managed_possible(self);
    if (status != TIDE_OK) {
        tidei_unpooled_destroy(&self->unpooled.base);
        return status;
    }
    *out = &self->unpooled.base;
    return TIDE_OK;
}

#endif

enum { MANAGED_DEVICE, MANAGED_ATTACH, MANAGED_PREFERRED, MANAGED_READ_MOSTLY };

static const struct tidei_argument managed_arguments[] = {
    [MANAGED_DEVICE] = { .key = "device",
                         .type = TIDEI_ARGUMENT_COUNT,
                         .most = INT_MAX,
                         .expected = "a CUDA ordinal such as 0" },
    [MANAGED_ATTACH] = { .key = "attach",
                         .type = TIDEI_ARGUMENT_CHOICE,
                         .choices = managed_attachments,
                         .expected = "global or host" },
    [MANAGED_PREFERRED] = { .key = "preferred",
                            .type = TIDEI_ARGUMENT_CHOICE,
                            .choices = managed_preferences,
                            .expected = "none, device or host" },
    [MANAGED_READ_MOSTLY] = { .key = "read_mostly", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
};

static enum tide_status
managed_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *values = arguments->values;
    struct tide_managed_options options = {
        TIDE_OPTIONS(options),
        .device = (int)values[MANAGED_DEVICE].number,
        .attach_host = values[MANAGED_ATTACH].number != 0,
        .preferred = (enum tide_managed_preferred)values[MANAGED_PREFERRED].number,
        .read_mostly = values[MANAGED_READ_MOSTLY].number != 0,
    };
    enum tide_status status;

    (void)upstream;
    *out = NULL;
    status = tide_managed_create(&options, out);
    if (status == TIDE_EINVAL && values[MANAGED_DEVICE].given)
        *arguments->error_column = values[MANAGED_DEVICE].column;
    return status;
}

const struct tidei_kind tidei_managed_kind = {
    .name = "managed",
    .is_base = true,
    .arguments = managed_arguments,
    .argument_count = TIDEI_COUNT_OF(managed_arguments),
    .create = managed_create,
};
