/*
 * The base `driver`: memory from the CUDA driver's stream-ordered pool of a device, of its own or the default one.
 *
 * Usage:       driver(device=ORDINAL, release_threshold=SIZE, maximum=SIZE, default=true, initial=SIZE,
 *                     location=device|host_numa|managed, host_numa=NODE, handle=posix_fd|fabric,
 *                     reuse_event_dependencies=BOOL, reuse_opportunistic=BOOL, reuse_internal_dependencies=BOOL,
 *                     fallback=cuda)
 *              device is 0 unless given; a maximum, a location and handles are for a pool of its own; without
 *              default=true it has one.
 * Example:     statistics | limit(4GiB) | driver(device=1, release_threshold=1GiB)
 * LIMITATIONS: it keeps no list of what it gave out: a wrong size given back is not noticed, and memory of another
 *              pool is freed like its own. The default pool is shared with all else in the process: its figures count
 *              all of it, and a release threshold and policies hold for all (at the end those of before come back,
 *              unless somebody else has changed them since). The driver rounds a maximum to the steps in which it
 *              reserves. In a child of fork() nothing works, as in CUDA itself; releasing there leaves the driver
 *              alone. After a reset of the device's primary context all is refused with the driver's
 *              CUDA_ERROR_CONTEXT_IS_DESTROYED, until somebody retains the context again.
 *
 * Stream 0 is the legacy default stream of the context that is current, as everywhere in CUDA; where none is, that
 * of the device's primary context, which is current for the call alone; and so it is where the application has
 * destroyed the one that is current. The stream may be of another device. A stream must be there: the driver crashes
 * on the handle of one that was destroyed.
 * An order behind TIDE_STREAM_ALL names none, but waits for the primary context and the current one; see driver.h.
 */
#include "src/bases/driver/pool.h"

#ifdef HAVE_CUDA_H

#include <stdlib.h>

#include <tidemark/base.h>

#include "src/bases/driver/options.h"

static enum tide_status
driver_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->device.cuda;
    CUdeviceptr address = 0;
    CUresult result;

    *out = NULL;
    if (alignment > TIDEI_POOL_ALIGNMENT)
        return tide_error_set(TIDE_EINVAL, "driver: alignment %zu exceeds the 256 bytes of a pool", alignment);
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > self->capacity_bytes) /* near SIZE_MAX the driver must not get to round */
        return tidei_mempool_refuse(self, bytes);
    result = cuda->mem_alloc_from_pool_async(&address, bytes, self->pool, (CUstream)stream);
    if (tidei_driver_enter(cuda, result, self->device.context)) {
        result = cuda->mem_alloc_from_pool_async(&address, bytes, self->pool, (CUstream)stream);
        tidei_driver_leave(cuda);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return tidei_mempool_refuse(self, bytes);
    if (result != CUDA_SUCCESS)
        return tidei_device_error(&self->device, result, "cuMemAllocFromPoolAsync");
    *out = (void *)(uintptr_t)address;
    return TIDE_OK;
}

static enum tide_status
driver_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct driver *self = (struct driver *)resource;

    (void)alignment;
    return tidei_device_free_async(&self->device, pointer, bytes, stream);
}

static enum tide_status
driver_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    return tidei_device_order(&((struct driver *)resource)->device, earlier, later);
}

static enum tide_status
driver_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->device.cuda;
    CUresult result;

    if (cuda->mem_pool_trim_to == NULL)
        return TIDE_OK;
    result = cuda->mem_pool_trim_to(self->pool, (size_t)keep_bytes);
    if (tidei_driver_enter(cuda, result, self->device.context)) {
        result = cuda->mem_pool_trim_to(self->pool, (size_t)keep_bytes);
        tidei_driver_leave(cuda);
    }
    return tidei_device_error(&self->device, result, "cuMemPoolTrimTo");
}

static enum tide_status
driver_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct driver *self = (struct driver *)resource;
    enum tide_status status = TIDE_OK;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
        return tidei_mempool_figure(self, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, out);
    case TIDE_QUERY_BYTES_RESERVED:
        return tidei_mempool_figure(self, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, out);
    case TIDE_QUERY_BYTES_USED_HIGH:
        return tidei_mempool_figure(self, CU_MEMPOOL_ATTR_USED_MEM_HIGH, out);
    case TIDE_QUERY_BYTES_RESERVED_HIGH:
        return tidei_mempool_figure(self, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, out);
    case TIDE_QUERY_CAPACITY:
        *out = self->capacity_bytes;
        return TIDE_OK;
    case TIDE_QUERY_DEVICE:
        if (self->options.location == TIDE_DRIVER_ON_HOST_NUMA)
            return tide_base_query(resource, what, out);
        *out = (uint64_t)self->options.device;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = self->options.location != TIDE_DRIVER_ON_DEVICE;
        return TIDE_OK;
    case TIDE_QUERY_STREAM_ORDERED:
        *out = 1;
        return TIDE_OK;
    case TIDE_QUERY_ALIGNMENT:
        *out = TIDEI_POOL_ALIGNMENT;
        return TIDE_OK;
    default:
        return tidei_device_query(&self->device, what, out, &status) ? status : tide_base_query(resource, what, out);
    }
}

/* Undo what driver_open did, as far as it came. */
static void
driver_close(struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;

    if (tidei_driver_usable()) {
        bool pushed = cuda->context_push(self->device.context) == CUDA_SUCCESS;

        tidei_mempool_close(self);
        if (pushed)
            tidei_driver_leave(cuda);
    }
    tidei_device_close(&self->device);
    tidei_lock_fini(&self->access_lock);
}

static void
driver_destroy(struct tide_resource *resource)
{
    driver_close((struct driver *)resource);
    tide_resource_fini(resource);
    free(resource);
}

const struct tide_resource_ops tidei_driver_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "driver",
    .allocate = driver_allocate,
    .deallocate = driver_deallocate,
    .order = driver_order,
    .trim = driver_trim,
    .query = driver_query,
    .describe = tidei_driver_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = driver_destroy,
};

struct driver *
tidei_driver_of(struct tide_resource *resource)
{
    if (resource != NULL && resource->ops == &tidei_driver_ops)
        return (struct driver *)resource;
    tide_error_set(TIDE_EINVAL, "driver: '%s' is none; tide_stack_find finds the one that a stack ends in",
                   resource != NULL ? tide_resource_name(resource) : "NULL");
    return NULL;
}

/* Any thread may create: the pool is made with the primary context current, and that of the thread comes back. */
static enum tide_status
driver_open(struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    enum tide_status status =
        tidei_device_error(&self->device, cuda->context_push(self->device.context), "cuCtxPushCurrent");

    if (status == TIDE_OK) {
        status = tidei_mempool_open(self);
        tidei_driver_leave(cuda);
    }
    return status;
}

/* *no_pools says that it is pools that the machine lacks, and not something else. */
static enum tide_status
driver_make(const struct tide_driver_options *known, struct tide_resource **out, bool *no_pools)
{
    struct driver *self = calloc(1, sizeof(*self));
    enum tide_status status;

    *no_pools = false;
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "driver: no memory for a resource");
    self->options = *known;
    status = tidei_lock_init(&self->access_lock);
    if (status != TIDE_OK) {
        free(self);
        return status;
    }
    status = tidei_device_open(&self->device, "driver", known->device);
    if (status != TIDE_OK) {
        tidei_lock_fini(&self->access_lock);
        free(self);
        return status;
    }
    status = tidei_mempool_possible(self);
    *no_pools = status != TIDE_OK;
    if (status == TIDE_OK)
        status = driver_open(self);
    if (status == TIDE_OK)
        status = tide_resource_init(&self->base, &tidei_driver_ops, NULL);
    if (status != TIDE_OK) {
        struct tidei_error error;

        tidei_error_save(&error); /* giving a setting back may fail too */
        driver_close(self);
        tidei_error_restore(&error);
        free(self);
        return status;
    }
    tidei_resource_set_quick(&self->base);
    *out = &self->base;
    return TIDE_OK;
}

/* The base that needs no pools, unless more was asked for than it can do. */
static enum tide_status
driver_fall_back(const struct tide_driver_options *known, struct tide_resource **out)
{
    struct tide_cuda_options options = { TIDE_OPTIONS(options), .device = known->device };

    if (known->maximum_bytes != 0 || known->location != TIDE_DRIVER_ON_DEVICE || known->handles != 0)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "driver: device %d has no memory pools, and the base cuda no maximum, location or handle",
                              known->device);
    return tide_cuda_create(&options, out);
}

enum tide_status
tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out)
{
    struct tide_driver_options known;
    enum tidei_driver_option fault;
    bool no_pools;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of the resource's address");
    *out = NULL;
    status = tidei_options_copy("driver", options, &known, sizeof(known));
    if (status == TIDE_OK)
        status = tidei_driver_options_check(&known, &fault);
    if (status != TIDE_OK)
        return status;
    status = driver_make(&known, out, &no_pools);
    return no_pools && known.fallback_cuda ? driver_fall_back(&known, out) : status;
}

enum tide_status
tide_driver_reset_highs(struct tide_resource *driver)
{
    struct driver *self = tidei_driver_of(driver);
    enum tide_status status;

    if (self == NULL)
        return TIDE_EINVAL;
    status = tidei_mempool_figure_set(self, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    if (status == TIDE_OK)
        status = tidei_mempool_figure_set(self, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
    return status;
}

#endif
