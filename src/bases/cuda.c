/*
 * The base `cuda`: plain memory of a CUDA device, one driver call for each allocation.
 *
 * Usage: cuda(device=ORDINAL)
 *     device  0 unless given
 *
 * Example: statistics | pool(maximum=25%) | cuda
 *
 * LIMITATIONS
 *  - Each call takes tens of microseconds, and a deallocation blocks the host.
 *  - While a stream is captured into a graph, both calls fail and invalidate the capture, as cuMemAlloc does.
 *  - When the application destroys the context or resets the device, its memory is gone. It counts as used until its
 *    address is handed out again.
 */
#include "src/bases/unpooled.h"

#include <limits.h>

#include <tidemark/base.h>

#include "src/resource/kind.h"

#ifdef HAVE_CUDA_H

struct cuda {
    struct tidei_unpooled unpooled; /* first */
    struct tide_cuda_options options;
};

static CUresult
cuda_get(struct tidei_unpooled *self, size_t bytes, void **out, const char **function)
{
    CUdeviceptr address = 0;
    CUresult result = self->device.cuda->mem_alloc(&address, bytes);

    *function = "cuMemAlloc";
    *out = (void *)(uintptr_t)address;
    return result;
}

static CUresult
cuda_give(struct tidei_unpooled *self, void *pointer, const char **function)
{
    *function = "cuMemFree";
    return self->device.cuda->mem_free((CUdeviceptr)(uintptr_t)pointer);
}

static const struct tidei_unpooled_calls cuda_calls = { .allocate = cuda_get, .deallocate = cuda_give };

static enum tide_status
cuda_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct tidei_unpooled *self = (struct tidei_unpooled *)resource;

    switch (what) {
    case TIDE_QUERY_CAPACITY:
        *out = self->device.total_bytes;
        return TIDE_OK;
    case TIDE_QUERY_DEVICE:
        *out = (uint64_t)self->device.ordinal;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = 0;
        return TIDE_OK;
    default:
        return tidei_unpooled_query(resource, what, out);
    }
}

static enum tide_status
cuda_init(struct tide_resource *resource, size_t *fault)
{
    struct tidei_unpooled *self = (struct tidei_unpooled *)resource;
    enum tide_status status = tidei_unpooled_open(self, &cuda_calls, ((struct cuda *)self)->options.device, fault);

    if (status != TIDE_OK)
        return status;
    self->largest_bytes = self->device.total_bytes;
    if (self->device.cuda->mem_alloc != NULL && self->device.cuda->mem_free != NULL)
        return TIDE_OK;
    status = tidei_device_lacks(&self->device, "cuMemAlloc");
    tidei_unpooled_close(resource);
    return status;
}

#endif

static const struct tidei_argument cuda_arguments[] = {
    { .key = "device",
      .type = TIDEI_ARGUMENT_COUNT,
      .most = INT_MAX,
      .expected = "a CUDA ordinal such as 0",
      TIDEI_FIELD(struct tide_cuda_options, device) },
};

const struct tidei_kind tidei_cuda_kind = {
    .is_base = true,
    .arguments = cuda_arguments,
    .argument_count = TIDEI_COUNT_OF(cuda_arguments),
    .options_size = offsetof(struct tide_cuda_options, reserved),
#ifdef HAVE_CUDA_H
    .ops = {
        .version = TIDE_RESOURCE_OPS_VERSION,
        .name = "cuda",
        .allocate = tidei_unpooled_allocate,
        .deallocate = tidei_unpooled_deallocate,
        .order = tidei_unpooled_order,
        .trim = tide_base_trim,
        .query = cuda_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
        .destroy = tidei_kind_destroy,
    },
    TIDEI_KIND_STRUCT(struct cuda),
    .init = cuda_init,
    .fini = tidei_unpooled_close,
#else
    .ops.name = "cuda",
#endif
};

enum tide_status
tide_cuda_create(const struct tide_cuda_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_cuda_kind, NULL, options, out);
}
