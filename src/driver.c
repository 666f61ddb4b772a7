/*
 * The base `driver`: memory from the CUDA driver's stream-ordered pool of a device, of its own or the default one.
 *
 * Usage:       driver(device=ORDINAL, release_threshold=SIZE, maximum=SIZE, default=true)
 *              device is 0 unless given; a maximum is for a pool of its own; without default=true it has one.
 * Example:     statistics | limit(4GiB) | driver(device=1, release_threshold=1GiB)
 * LIMITATIONS: it keeps no list of what it gave out: a wrong size given back is not noticed, and memory of another
 *              pool is freed like its own. The default pool is shared with all else in the process: its figures count
 *              all of it, and a release threshold holds for all (at the end the one of before comes back, unless
 *              somebody else has changed it since). The driver rounds a maximum to the steps in which it reserves.
 *              In a child of fork() nothing works, as in CUDA itself; releasing there leaves the driver alone. After
 *              a reset of the device's primary context only releasing is allowed.
 *
 * Stream 0 is the legacy default stream of the context that is current, as everywhere in CUDA; where none is, that
 * of the device's primary context, which is current for the call alone. The stream may be of another device. A stream
 * must be there: the driver crashes on the handle of one that was destroyed. An order behind TIDE_STREAM_ALL names
 * none, but waits for the primary context and the current one; see base.h.
 */
#include "driver-table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include <tidemark/driver.h>

#include "driver-order.h"
#include "kind.h"

/* What can be checked with and without CUDA: copies what the caller knows of the options, and *out is NULL. */
static enum tide_status
driver_options(const struct tide_driver_options *options, struct tide_driver_options *known, struct tide_resource **out)
{
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of the resource's address");
    *out = NULL;
    status = tidei_options_copy("driver", options, known, sizeof(*known));
    if (status != TIDE_OK)
        return status;
    if (known->use_default_pool && known->maximum_bytes != 0)
        return tide_error_set(TIDE_EINVAL, "driver: a maximum is for a pool of its own, not for the default pool");
    if (known->maximum_bytes > SIZE_MAX)
        return tide_error_set(TIDE_EINVAL, "driver: maximum of %" PRIu64 " bytes exceeds the address space",
                              known->maximum_bytes);
    return TIDE_OK;
}

#ifdef HAVE_CUDA_H

/* Every address of a pool is a multiple of this: CUDA Programming Guide, device memory accesses. */
#define DRIVER_ALIGNMENT ((size_t)256)

struct driver {
    struct tide_resource base;
    const struct tidei_driver *cuda; /* static */
    CUmemoryPool pool;               /* owned, but for the default pool */
    CUcontext context;               /* the device's primary; holds a reference */
    CUdevice device;
    size_t total_bytes; /* of the device */
    struct tide_driver_options options;
    uint64_t threshold_before_bytes; /* of the default pool */
    struct tidei_driver_events events;
};

static enum tide_status
driver_figure(struct driver *self, CUmemPool_attribute attribute, uint64_t *out)
{
    const struct tidei_driver *cuda = self->cuda;
    cuuint64_t value = 0;
    CUresult result = cuda->mem_pool_get_attribute(self->pool, attribute, &value);

    if (tidei_driver_enter(cuda, result, self->context)) {
        result = cuda->mem_pool_get_attribute(self->pool, attribute, &value);
        tidei_driver_leave(cuda);
    }
    *out = result == CUDA_SUCCESS ? value : 0;
    return tidei_driver_error(cuda, result, "cuMemPoolGetAttribute");
}

static enum tide_status
driver_allocate_refused(struct driver *self, size_t bytes)
{
    uint64_t capacity_bytes = self->options.maximum_bytes != 0 ? self->options.maximum_bytes : self->total_bytes;
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    enum tide_status status;

    (void)driver_figure(self, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes);
    (void)driver_figure(self, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes);
    status = tide_error_set(
        TIDE_ECAPACITY, "driver: %s request finds no room in the pool of device %d (%s used, %s reserved, %s %s)",
        tidei_size_text(bytes), self->options.device, tidei_size_text(used_bytes), tidei_size_text(reserved_bytes),
        self->options.maximum_bytes != 0 ? "maximum" : "device memory", tidei_size_text(capacity_bytes));
    tidei_error_driver_set(CUDA_ERROR_OUT_OF_MEMORY);
    return status;
}

static enum tide_status
driver_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->cuda;
    CUdeviceptr address = 0;
    CUresult result;

    *out = NULL;
    if (alignment > DRIVER_ALIGNMENT)
        return tide_error_set(TIDE_EINVAL, "driver: alignment %zu exceeds the 256 bytes of a pool", alignment);
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > self->total_bytes) /* near SIZE_MAX the driver must not get to round */
        return driver_allocate_refused(self, bytes);
    result = cuda->mem_alloc_from_pool_async(&address, bytes, self->pool, (CUstream)stream);
    if (tidei_driver_enter(cuda, result, self->context)) {
        result = cuda->mem_alloc_from_pool_async(&address, bytes, self->pool, (CUstream)stream);
        tidei_driver_leave(cuda);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return driver_allocate_refused(self, bytes);
    if (result != CUDA_SUCCESS)
        return tidei_driver_error(cuda, result, "cuMemAllocFromPoolAsync");
    *out = (void *)(uintptr_t)address;
    return TIDE_OK;
}

static enum tide_status
driver_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct driver *self = (struct driver *)resource;
    const struct tidei_driver *cuda = self->cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    CUresult result;

    (void)alignment;
    if (pointer == NULL)
        return bytes == 0 ? TIDE_OK
                          : tide_error_set(TIDE_EPOINTER, "driver: NULL is no allocation of %zu bytes", bytes);
    result = cuda->mem_free_async(address, (CUstream)stream);
    if (tidei_driver_enter(cuda, result, self->context)) {
        result = cuda->mem_free_async(address, (CUstream)stream);
        tidei_driver_leave(cuda);
    }
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) /* at exit the driver's memory has gone with it */
        return TIDE_OK;
    if (result == CUDA_ERROR_INVALID_VALUE) {
        tidei_error_driver_set((int)result);
        return tide_error_set(TIDE_EPOINTER, "driver: %p is no allocation of a pool (cuMemFreeAsync: %s)", pointer,
                              tidei_driver_error_name(cuda, result));
    }
    return tidei_driver_error(cuda, result, "cuMemFreeAsync");
}

static enum tide_status
driver_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    struct driver *self = (struct driver *)resource;

    if (earlier == TIDE_STREAM_ALL)
        return tidei_driver_order_all(&self->events);
    return tidei_driver_order(&self->events, (CUstream)earlier, (CUstream)later);
}

static enum tide_status
driver_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    struct driver *self = (struct driver *)resource;

    if (self->cuda->mem_pool_trim_to == NULL)
        return TIDE_OK;
    return tidei_driver_error(self->cuda, self->cuda->mem_pool_trim_to(self->pool, (size_t)keep_bytes),
                              "cuMemPoolTrimTo");
}

static enum tide_status
driver_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct driver *self = (struct driver *)resource;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
        return driver_figure(self, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, out);
    case TIDE_QUERY_BYTES_RESERVED:
        return driver_figure(self, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, out);
    case TIDE_QUERY_CAPACITY:
        *out = self->options.maximum_bytes != 0 ? self->options.maximum_bytes : self->total_bytes;
        return TIDE_OK;
    case TIDE_QUERY_DEVICE:
        *out = (uint64_t)self->options.device;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = 0;
        return TIDE_OK;
    case TIDE_QUERY_STREAM_ORDERED:
        *out = 1;
        return TIDE_OK;
    case TIDE_QUERY_ALIGNMENT:
        *out = DRIVER_ALIGNMENT;
        return TIDE_OK;
    default:
        return tide_base_query(resource, what, out);
    }
}

static void
driver_describe(struct tide_resource *resource, struct tide_text *text)
{
    struct driver *self = (struct driver *)resource;
    const char *separator = "";

    if (self->options.device != 0) {
        tide_text_format(text, "device=%d", self->options.device);
        separator = ", ";
    }
    if (self->options.set_release_threshold) {
        tide_text_format(text, "%srelease_threshold=", separator);
        tide_text_size(text, self->options.release_threshold_bytes);
        separator = ", ";
    }
    if (self->options.maximum_bytes != 0) {
        tide_text_format(text, "%smaximum=", separator);
        tide_text_size(text, self->options.maximum_bytes);
        separator = ", ";
    }
    if (self->options.use_default_pool)
        tide_text_format(text, "%sdefault=true", separator);
}

/* The default pool outlives us: it gets its threshold back where ours still stands. */
static void
driver_threshold_restore(struct driver *self)
{
    cuuint64_t before = self->threshold_before_bytes;
    cuuint64_t now = 0;

    if (self->cuda->mem_pool_get_attribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &now) == CUDA_SUCCESS &&
        now == self->options.release_threshold_bytes)
        self->cuda->mem_pool_set_attribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before);
}

/*
 * Undo what driver_open did, as far as it came. No result is looked at: at exit the driver may have gone before us,
 * and says so to every call. A pool that still has memory out goes when that is freed.
 */
static void
driver_close(struct driver *self)
{
    const struct tidei_driver *cuda = self->cuda;
    bool usable = tidei_driver_usable();
    bool pushed = usable && self->context != NULL && cuda->context_push(self->context) == CUDA_SUCCESS;

    tidei_driver_events_fini(&self->events, usable);
    if (!usable)
        return;
    if (self->pool != NULL && !self->options.use_default_pool)
        cuda->mem_pool_destroy(self->pool);
    else if (self->pool != NULL && self->options.set_release_threshold)
        driver_threshold_restore(self);
    if (pushed)
        tidei_driver_leave(cuda);
    if (self->context != NULL)
        cuda->primary_context_release(self->device);
}

static void
driver_destroy(struct tide_resource *resource)
{
    driver_close((struct driver *)resource);
    tide_resource_fini(resource);
    free(resource);
}

static const struct tide_resource_ops driver_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "driver",
    .allocate = driver_allocate,
    .deallocate = driver_deallocate,
    .order = driver_order,
    .trim = driver_trim,
    .query = driver_query,
    .describe = driver_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = driver_destroy,
};

/* Find the device, and whether it and the driver have pools. */
static enum tide_status
driver_open_device(struct driver *self)
{
    const struct tidei_driver *cuda = self->cuda;
    int ordinal = self->options.device;
    int supported = 0;
    int count = 0;
    enum tide_status status = tidei_driver_error(cuda, cuda->device_get_count(&count), "cuDeviceGetCount");

    if (status != TIDE_OK)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return tide_error_set(TIDE_EINVAL, "driver: no device %d, this machine has %d (counted from 0)", ordinal,
                              count);
    if (cuda->mem_pool_create == NULL || cuda->mem_pool_destroy == NULL || cuda->mem_pool_set_attribute == NULL ||
        cuda->mem_pool_get_attribute == NULL || cuda->device_get_default_mem_pool == NULL ||
        cuda->mem_alloc_from_pool_async == NULL || cuda->mem_free_async == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "driver: the NVIDIA driver has no memory pools (it is of CUDA %d.%d, expected 11.2)",
                              cuda->version / 1000, cuda->version % 1000 / 10);
    status = tidei_driver_error(cuda, cuda->device_get(&self->device, ordinal), "cuDeviceGet");
    if (status == TIDE_OK)
        status = tidei_driver_error(
            cuda, cuda->device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, self->device),
            "cuDeviceGetAttribute");
    if (status == TIDE_OK && !supported)
        status = tide_error_set(TIDE_EUNSUPPORTED, "driver: device %d has no memory pools", ordinal);
    if (status == TIDE_OK)
        status = tidei_driver_error(cuda, cuda->device_total_mem(&self->total_bytes, self->device), "cuDeviceTotalMem");
    return status;
}

static enum tide_status
driver_open_own_pool(struct driver *self)
{
    CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = self->device } };

    if (self->options.maximum_bytes != 0) {
#if CUDA_VERSION >= 12020
        if (self->cuda->version < 12020)
            return tide_error_set(TIDE_EUNSUPPORTED,
                                  "driver: a maximum needs an NVIDIA driver of CUDA 12.2, this one is of %d.%d",
                                  self->cuda->version / 1000, self->cuda->version % 1000 / 10);
        properties.maxSize = (size_t)self->options.maximum_bytes;
#else
        return tide_error_set(TIDE_EUNSUPPORTED, "driver: a maximum needs a build with CUDA 12.2, this one has %d.%d",
                              CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
#endif
    }
    return tidei_driver_error(self->cuda, self->cuda->mem_pool_create(&self->pool, &properties), "cuMemPoolCreate");
}

static enum tide_status
driver_open_threshold(struct driver *self)
{
    cuuint64_t threshold_bytes = self->options.release_threshold_bytes;
    enum tide_status status = driver_figure(self, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &self->threshold_before_bytes);

    if (status != TIDE_OK)
        return status;
    return tidei_driver_error(
        self->cuda, self->cuda->mem_pool_set_attribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold_bytes),
        "cuMemPoolSetAttribute");
}

static enum tide_status
driver_open_pool(struct driver *self)
{
    const struct tidei_driver *cuda = self->cuda;
    enum tide_status status;

    if (self->options.use_default_pool)
        status = tidei_driver_error(cuda, cuda->device_get_default_mem_pool(&self->pool, self->device),
                                    "cuDeviceGetDefaultMemPool");
    else
        status = driver_open_own_pool(self);
    if (status == TIDE_OK && self->options.set_release_threshold)
        status = driver_open_threshold(self);
    return status;
}

/* Any thread may create: the pool is made with the primary context current, and that of the thread comes back. */
static enum tide_status
driver_open(struct driver *self)
{
    const struct tidei_driver *cuda = self->cuda;
    enum tide_status status = driver_open_device(self);

    if (status == TIDE_OK)
        status = tidei_driver_error(cuda, cuda->primary_context_retain(&self->context, self->device),
                                    "cuDevicePrimaryCtxRetain");
    if (status != TIDE_OK)
        return status;
    self->events.context = self->context;
    status = tidei_driver_error(cuda, cuda->context_push(self->context), "cuCtxPushCurrent");
    if (status == TIDE_OK) {
        status = driver_open_pool(self);
        tidei_driver_leave(cuda);
    }
    return status;
}

enum tide_status
tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out)
{
    struct tide_driver_options known;
    const struct tidei_driver *cuda;
    struct driver *self;
    enum tide_status status = driver_options(options, &known, out);

    if (status == TIDE_OK)
        status = tidei_driver_get(&cuda);
    if (status != TIDE_OK)
        return status;
    self = calloc(1, sizeof(*self));
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "driver: no memory for a resource");
    self->cuda = cuda;
    self->options = known;
    status = tidei_driver_events_init(&self->events, cuda, NULL);
    if (status != TIDE_OK) {
        free(self);
        return status;
    }
    status = driver_open(self);
    if (status == TIDE_OK)
        status = tide_resource_init(&self->base, &driver_ops, NULL);
    if (status != TIDE_OK) {
        driver_close(self);
        free(self);
        return status;
    }
    *out = &self->base;
    return TIDE_OK;
}

#else

enum tide_status
tide_driver_create(const struct tide_driver_options *options, struct tide_resource **out)
{
    struct tide_driver_options known;
    enum tide_status status = driver_options(options, &known, out);

    if (status == TIDE_OK)
        status = tide_error_set(TIDE_EUNSUPPORTED, "driver: this build has no CUDA (configure found no cuda.h)");
    return status;
}

#endif

enum { DRIVER_DEVICE, DRIVER_RELEASE_THRESHOLD, DRIVER_MAXIMUM, DRIVER_DEFAULT };

static const struct tidei_argument driver_arguments[] = {
    [DRIVER_DEVICE] = { .key = "device",
                        .type = TIDEI_ARGUMENT_COUNT,
                        .most = INT_MAX,
                        .expected = "a CUDA ordinal such as 0" },
    [DRIVER_RELEASE_THRESHOLD] = { .key = "release_threshold",
                                   .type = TIDEI_ARGUMENT_SIZE,
                                   .expected = "a size such as 1GiB" },
    [DRIVER_MAXIMUM] = { .key = "maximum", .type = TIDEI_ARGUMENT_SIZE, .least = 1, .expected = "a size such as 8GiB" },
    [DRIVER_DEFAULT] = { .key = "default", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
};

static enum tide_status
driver_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *values = arguments->values;
    struct tide_driver_options options = { TIDE_OPTIONS(options) };

    (void)upstream;
    *out = NULL;
    options.device = (int)values[DRIVER_DEVICE].number;
    options.set_release_threshold = values[DRIVER_RELEASE_THRESHOLD].given;
    options.release_threshold_bytes = values[DRIVER_RELEASE_THRESHOLD].number;
    options.maximum_bytes = values[DRIVER_MAXIMUM].number;
    options.use_default_pool = values[DRIVER_DEFAULT].number != 0;
    return tide_driver_create(&options, out);
}

const struct tidei_kind tidei_driver_kind = {
    .name = "driver",
    .is_base = true,
    .arguments = driver_arguments,
    .argument_count = TIDEI_COUNT_OF(driver_arguments),
    .create = driver_create,
};
