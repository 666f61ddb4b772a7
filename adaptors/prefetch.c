/*
 * prefetch: on allocation, move managed memory to the place where it will be used.
 *
 * Usage: prefetch(to=device|host, above=SIZE)
 *     to     the place; the device of the memory below unless given
 *     above  requests of up to SIZE are not moved
 *
 * Example: large blocks are on the device before the first kernel needs them there:
 *     prefetch(above=64KiB) | managed
 *
 * LIMITATIONS
 *  - Only managed memory can be moved. Over a pool of large blocks each block is moved whenever it is handed out, which
 *    costs little where it is there already.
 *  - The driver may move the memory away again; managed(preferred=device) asks it not to.
 */
#include <tidemark/prefetch.h>

#include "src/cuda/device.h"
#include "src/resource/kind.h"

#ifdef HAVE_CUDA_H

struct prefetch {
    struct tide_resource base;
    struct tidei_device device;
    CUdevice to;
    struct tide_prefetch_options options;
};

static enum tide_status
prefetch_move(struct prefetch *prefetch, void *pointer, size_t bytes, tide_stream stream)
{
    const struct tidei_driver *cuda = prefetch->device.cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    CUresult result = cuda->mem_prefetch_async(address, bytes, prefetch->to, (CUstream)stream);

    if (tidei_driver_enter(cuda, result, prefetch->device.context)) {
        result = cuda->mem_prefetch_async(address, bytes, prefetch->to, (CUstream)stream);
        tidei_driver_leave(cuda);
    }
    return tidei_device_error(&prefetch->device, result, "cuMemPrefetchAsync");
}

static enum tide_status
prefetch_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct prefetch *prefetch = (struct prefetch *)self;
    enum tide_status status = tidei_allocate(self->upstream, bytes, alignment, stream, out);

    if (status != TIDE_OK || bytes == 0 || bytes <= prefetch->options.above_bytes)
        return status;
    status = prefetch_move(prefetch, *out, bytes, stream);
    if (status == TIDE_OK)
        return TIDE_OK;
    tidei_deallocate_quietly(self->upstream, *out, bytes, alignment, stream);
    *out = NULL;
    return tidei_refused(self, status);
}

/* Only managed memory belongs to a device and to the host at once. cuMemPrefetchAsync refuses all other memory. */
static enum tide_status
prefetch_device_of(struct tide_resource *upstream, int *out)
{
    uint64_t device, host = 0;

    *out = 0;
    if (upstream->ops->query(upstream, TIDE_QUERY_DEVICE, &device) != TIDE_OK ||
        upstream->ops->query(upstream, TIDE_QUERY_HOST_ACCESS, &host) != TIDE_OK || host == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "prefetch: the layers below have no managed memory");
    *out = (int)device;
    return TIDE_OK;
}

static enum tide_status
prefetch_possible(const struct tidei_device *device)
{
    if (device->cuda->mem_prefetch_async == NULL)
        return tidei_device_lacks(device, "cuMemPrefetchAsync");
    if (tidei_device_attribute(device->cuda, device->handle, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "prefetch: device %d has no concurrent managed access",
                              device->ordinal);
    return TIDE_OK;
}

static enum tide_status
prefetch_init(struct tide_resource *self, size_t *fault)
{
    struct prefetch *prefetch = (struct prefetch *)self;
    enum tide_status status;
    int ordinal;

    (void)fault;
    status = prefetch_device_of(self->upstream, &ordinal);
    if (status == TIDE_OK)
        status = tidei_device_open(&prefetch->device, "prefetch", ordinal);
    if (status != TIDE_OK)
        return status;
    prefetch->to = prefetch->options.to_host ? CU_DEVICE_CPU : prefetch->device.handle;
    status = prefetch_possible(&prefetch->device);
    if (status != TIDE_OK)
        tidei_device_close(&prefetch->device);
    return status;
}

static void
prefetch_fini(struct tide_resource *self)
{
    tidei_device_close(&((struct prefetch *)self)->device);
}

#endif

static const char *const prefetch_places[] = { "device", "host", NULL };

static const struct tidei_argument prefetch_arguments[] = {
    TIDEI_ARGUMENT("to", CHOICE, struct tide_prefetch_options, to_host, "device or host", .choices = prefetch_places),
    TIDEI_ARGUMENT("above", SIZE, struct tide_prefetch_options, above_bytes, "a size such as 64KiB", .least = 1),
};

const struct tidei_kind tidei_prefetch_kind = {
    TIDEI_KIND_ARGUMENTS(prefetch_arguments),
    .options_size = offsetof(struct tide_prefetch_options, reserved),
#ifdef HAVE_CUDA_H
    .ops = {
        TIDEI_KIND_OPS("prefetch"),
        .allocate = prefetch_allocate,
        .deallocate = tide_pass_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    .asks_memory = true,
    TIDEI_KIND_STRUCT(struct prefetch),
    .init = prefetch_init,
    .fini = prefetch_fini,
#else
    .ops.name = "prefetch",
#endif
};

enum tide_status
tide_prefetch_create(struct tide_resource *upstream, const struct tide_prefetch_options *options,
                     struct tide_resource **out)
{
    return tidei_kind_create(&tidei_prefetch_kind, upstream, options, out);
}
