/* Creates and configures the pool of a base `driver`, and gives it back. */
#include "src/bases/driver/pool.h"

#ifdef HAVE_CUDA_H

#include <unistd.h>

#include "src/resource/kind.h"

/* The driver's values of constants that headers of older CUDA versions lack. */
#define POOL_LOCATION_HOST_NUMA ((CUmemLocationType)3)   /* 12.2 */
#define POOL_TYPE_MANAGED       ((CUmemAllocationType)2) /* 13.0 */
#define POOL_HANDLE_TYPES       119
#define POOL_ON_NUMA            142
#define POOL_HOST_VERSION       12020
#define POOL_MAXIMUM_VERSION    12020
#define POOL_MANAGED_VERSION    13000

enum tide_status
tidei_mempool_possible(const struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;

    if (cuda->mem_pool_create == NULL || cuda->mem_pool_destroy == NULL || cuda->mem_pool_set_attribute == NULL ||
        cuda->mem_pool_get_attribute == NULL || cuda->device_get_default_mem_pool == NULL ||
        cuda->mem_alloc_from_pool_async == NULL || cuda->mem_free_async == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "driver: the NVIDIA driver has no memory pools (it is of CUDA %d.%d, expected 11.2): use "
                              "the base cuda, or driver(fallback=cuda)",
                              cuda->version / 1000, cuda->version % 1000 / 10);
    if (tidei_device_attribute(cuda, self->device.handle, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "driver: device %d has no memory pools: use the base cuda, or driver(fallback=cuda)",
                              self->device.ordinal);
    return TIDE_OK;
}

/* Check the driver's version: TIDE_EUNSUPPORTED where its CUDA is older than `version`. */
static enum tide_status
pool_wants(const struct driver *self, const char *what, int version)
{
    int found = self->device.cuda->version;

    if (found >= version)
        return TIDE_OK;
    return tide_error_set(TIDE_EUNSUPPORTED, "driver: %s needs an NVIDIA driver of CUDA %d.%d, this one is of %d.%d",
                          what, version / 1000, version % 1000 / 10, found / 1000, found % 1000 / 10);
}

/* The host's memory, the bound of a pool that does not lie on the device. */
static uint64_t
pool_host_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);

    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_C(1) << 47;
}

static enum tide_status
pool_locate(struct driver *self, CUmemPoolProps *properties)
{
    enum tide_status status = TIDE_OK;

    properties->allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties->location.id = self->device.handle;
    self->capacity_bytes = self->device.total_bytes;
    if (self->options.location == TIDE_DRIVER_MANAGED) {
        status = pool_wants(self, "a pool of managed memory", POOL_MANAGED_VERSION);
        properties->allocType = POOL_TYPE_MANAGED;
        self->capacity_bytes += pool_host_bytes();
    } else if (self->options.location == TIDE_DRIVER_ON_HOST_NUMA) {
        status = pool_wants(self, "a pool on the host", POOL_HOST_VERSION);
        if (status == TIDE_OK && tidei_device_attribute(self->device.cuda, self->device.handle, POOL_ON_NUMA) == 0)
            status = tide_error_set(TIDE_EUNSUPPORTED, "driver: device %d has no memory pools on the host",
                                    self->device.ordinal);
        properties->location.type = POOL_LOCATION_HOST_NUMA;
        properties->location.id = self->options.host_numa;
        self->capacity_bytes = pool_host_bytes();
    }
    return status;
}

/*
 * A maximum above all existing memory bounds nothing, and is not passed on: the driver never returns from creating a
 * pool of SIZE_MAX (seen on 580.159).
 */
static enum tide_status
pool_bound(struct driver *self, CUmemPoolProps *properties)
{
    enum tide_status status = TIDE_OK;

    if (self->options.maximum_bytes == 0 || self->options.maximum_bytes >= self->capacity_bytes)
        return TIDE_OK;
#if CUDA_VERSION >= 12020
    status = pool_wants(self, "a maximum", POOL_MAXIMUM_VERSION);
    properties->maxSize = (size_t)self->options.maximum_bytes;
    self->capacity_bytes = self->options.maximum_bytes;
#else
    (void)properties;
    status = tide_error_set(TIDE_EUNSUPPORTED, "driver: a maximum needs a build with CUDA 12.2, this one has %d.%d",
                            CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
#endif
    return status;
}

static enum tide_status
pool_handles(const struct driver *self, CUmemPoolProps *properties)
{
    int supported = tidei_device_attribute(self->device.cuda, self->device.handle, POOL_HANDLE_TYPES);
    int wanted = 0;

    if ((self->options.handles & TIDE_DRIVER_POSIX_FD) != 0)
        wanted |= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if ((self->options.handles & TIDE_DRIVER_FABRIC) != 0)
        wanted |= TIDEI_POOL_FABRIC;
    if ((wanted & ~supported) != 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "driver: device %d shares no pools by a %s", self->device.ordinal,
                              (wanted & ~supported & TIDEI_POOL_FABRIC) != 0 ? "fabric handle" : "file descriptor");
    properties->handleTypes = (CUmemAllocationHandleType)wanted;
    return TIDE_OK;
}

/*
 * Check that a fabric handle can be exported. A device that supports fabric handles refuses a process without an IMEX
 * channel only when the handle is requested. Asking here reports that before any memory exists. After the refusal the
 * pool is leaked: the driver 580.159 crashes when such a pool is destroyed or its memory is used.
 */
static enum tide_status
pool_permitted(struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    unsigned char handle[sizeof(struct tide_driver_fabric)];
    enum tide_status status;
    CUresult result;

    if ((self->options.handles & TIDE_DRIVER_FABRIC) == 0 || cuda->mem_pool_export == NULL)
        return TIDE_OK;
    result = cuda->mem_pool_export(handle, self->pool, (CUmemAllocationHandleType)TIDEI_POOL_FABRIC, 0);
    if (result == CUDA_SUCCESS)
        return TIDE_OK;
    self->pool = NULL;
    status = tide_error_set(TIDE_EUNSUPPORTED,
                            "driver: no fabric handle for a pool of device %d (cuMemPoolExportToShareableHandle: %s): "
                            "the process needs an IMEX channel",
                            self->device.ordinal, tidei_driver_error_name(cuda, result));
    tidei_error_driver_set((int)result);
    return status;
}

/* A pool of pinned host memory is at first accessible to the host only. */
static enum tide_status
pool_reach(struct driver *self)
{
    CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = self->device.handle },
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

    if (self->device.cuda->mem_pool_set_access == NULL)
        return tidei_device_lacks(&self->device, "cuMemPoolSetAccess");
    return tidei_device_error(&self->device, self->device.cuda->mem_pool_set_access(self->pool, &access, 1),
                              "cuMemPoolSetAccess");
}

static enum tide_status
pool_create(struct driver *self)
{
    CUmemPoolProps properties = { .handleTypes = CU_MEM_HANDLE_TYPE_NONE };
    enum tide_status status = pool_locate(self, &properties);
    CUresult result;

    if (status == TIDE_OK)
        status = pool_bound(self, &properties);
    if (status == TIDE_OK)
        status = pool_handles(self, &properties);
    if (status != TIDE_OK)
        return status;
    result = self->device.cuda->mem_pool_create(&self->pool, &properties);
    if (result != CUDA_SUCCESS)
        self->pool = NULL;
    if (result == CUDA_ERROR_INVALID_VALUE && self->options.location == TIDE_DRIVER_ON_HOST_NUMA) {
        tidei_error_driver_set((int)result);
        return tide_error_set(TIDE_EINVAL, "driver: no pool on NUMA node %d (cuMemPoolCreate: %s)",
                              self->options.host_numa, tidei_driver_error_name(self->device.cuda, result));
    }
    status = tidei_device_error(&self->device, result, "cuMemPoolCreate");
    if (status == TIDE_OK)
        status = pool_permitted(self);
    if (status == TIDE_OK && self->options.location == TIDE_DRIVER_ON_HOST_NUMA)
        status = pool_reach(self);
    return status;
}

static enum tide_status
pool_set(struct driver *self, CUmemPool_attribute attribute, uint64_t value)
{
    struct driver_setting *setting = &self->settings[self->setting_count];
    enum tide_status status = tidei_mempool_figure(self, attribute, &setting->before);

    if (status == TIDE_OK)
        status = tidei_mempool_figure_set(self, attribute, value);
    if (status != TIDE_OK)
        return status;
    setting->attribute = attribute;
    setting->value = value;
    self->setting_count++;
    return TIDE_OK;
}

static enum tide_status
pool_set_all(struct driver *self)
{
    const struct tide_driver_options *options = &self->options;
    const struct {
        CUmemPool_attribute attribute;
        uint32_t reuse;
    } policies[] = {
        { CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, options->reuse_event_dependencies },
        { CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, options->reuse_opportunistic },
        { CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, options->reuse_internal_dependencies },
    };
    enum tide_status status = TIDE_OK;

    if (options->release_threshold_bytes != 0)
        status =
            pool_set(self, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, tidei_none_to_zero(options->release_threshold_bytes));
    for (size_t i = 0; i < TIDEI_COUNT_OF(policies) && status == TIDE_OK; i++) {
        if (policies[i].reuse != TIDE_DRIVER_REUSE_UNSET)
            status = pool_set(self, policies[i].attribute, policies[i].reuse == TIDE_DRIVER_REUSE_ON);
    }
    return status;
}

/* The driver reserves in steps of 32 MiB. A threshold between two steps would make it return the upper one. */
static enum tide_status
pool_raise_threshold(struct driver *self)
{
    uint64_t threshold_bytes;
    uint64_t reserved_bytes;
    enum tide_status status = tidei_mempool_figure(self, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold_bytes);

    if (status == TIDE_OK)
        status = tidei_mempool_figure(self, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes);
    if (status == TIDE_OK && threshold_bytes < reserved_bytes)
        status = pool_set(self, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, reserved_bytes);
    return status;
}

static enum tide_status
pool_prime_on(struct driver *self, CUstream stream)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUdeviceptr address = 0;
    CUresult result;
    enum tide_status status;

    if (self->options.initial_bytes > self->capacity_bytes)
        return tidei_mempool_refuse(self, self->options.initial_bytes);
    result = cuda->mem_alloc_from_pool_async(&address, (size_t)self->options.initial_bytes, self->pool, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return tidei_mempool_refuse(self, self->options.initial_bytes);
    status = tidei_device_error(&self->device, result, "cuMemAllocFromPoolAsync");
    if (status != TIDE_OK)
        return status;
    status = pool_raise_threshold(self);
    result = cuda->mem_free_async(address, stream);
    if (status == TIDE_OK)
        status = tidei_device_error(&self->device, result, "cuMemFreeAsync");
    if (status == TIDE_OK)
        status = tidei_device_error(&self->device, cuda->stream_synchronize(stream), "cuStreamSynchronize");
    return status;
}

/* Uses a stream of its own, so that it waits for no work of the application. The peaks start from 0 again. */
static enum tide_status
pool_prime(struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUstream stream = NULL;
    enum tide_status status;

    if (self->options.initial_bytes == 0)
        return TIDE_OK;
    if (cuda->stream_create == NULL || cuda->stream_destroy == NULL || cuda->stream_synchronize == NULL)
        return tidei_device_lacks(&self->device, "cuStreamCreate");
    status = tidei_device_error(&self->device, cuda->stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status != TIDE_OK)
        return status;
    status = pool_prime_on(self, stream);
    cuda->stream_destroy(stream);
    if (status == TIDE_OK && !self->options.use_default_pool)
        status = tidei_mempool_figure_set(self, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    return status;
}

enum tide_status
tidei_mempool_open(struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    enum tide_status status;

    self->capacity_bytes = self->device.total_bytes;
    if (self->options.use_default_pool)
        status = tidei_device_error(&self->device, cuda->device_get_default_mem_pool(&self->pool, self->device.handle),
                                    "cuDeviceGetDefaultMemPool");
    else
        status = pool_create(self);
    if (status == TIDE_OK)
        status = pool_set_all(self);
    if (status == TIDE_OK)
        status = pool_prime(self);
    return status;
}

/*
 * The default pool outlives the base: restore each setting that still has our value. Results are ignored, because at
 * exit the driver may have shut down first. A pool of its own with live memory goes away when that is freed.
 */
void
tidei_mempool_close(struct driver *self)
{
    const struct tidei_driver *cuda = self->device.cuda;

    if (self->pool == NULL)
        return;
    if (!self->options.use_default_pool) {
        cuda->mem_pool_destroy(self->pool);
        return;
    }
    while (self->setting_count > 0) {
        const struct driver_setting *setting = &self->settings[--self->setting_count];
        uint64_t now;

        if (tidei_mempool_figure(self, setting->attribute, &now) == TIDE_OK && now == setting->value)
            (void)tidei_mempool_figure_set(self, setting->attribute, setting->before);
    }
}

/* The three policies are ints in the driver's interface; all other attributes have 64 bits. */
static bool
pool_is_policy(CUmemPool_attribute attribute)
{
    return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

union pool_value {
    int policy;
    cuuint64_t bytes;
};

enum tide_status
tidei_mempool_figure(struct driver *self, CUmemPool_attribute attribute, uint64_t *out)
{
    const struct tidei_driver *cuda = self->device.cuda;
    union pool_value value = { .bytes = 0 };
    CUresult result =
        TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_pool_get_attribute(self->pool, attribute, &value));

    if (result != CUDA_SUCCESS)
        *out = 0;
    else
        *out = pool_is_policy(attribute) ? (uint64_t)value.policy : value.bytes;
    return tidei_device_error(&self->device, result, "cuMemPoolGetAttribute");
}

enum tide_status
tidei_mempool_figure_set(struct driver *self, CUmemPool_attribute attribute, uint64_t figure)
{
    const struct tidei_driver *cuda = self->device.cuda;
    union pool_value value = { .bytes = figure };
    CUresult result;

    if (pool_is_policy(attribute))
        value.policy = figure != 0;
    result = TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_pool_set_attribute(self->pool, attribute, &value));
    return tidei_device_error(&self->device, result, "cuMemPoolSetAttribute");
}

enum tide_status
tidei_mempool_refuse(struct driver *self, uint64_t bytes)
{
    bool bounded = self->options.maximum_bytes != 0 && self->capacity_bytes == self->options.maximum_bytes;
    const char *what = bounded                                              ? "maximum"
                       : self->options.location == TIDE_DRIVER_ON_DEVICE    ? "device memory"
                       : self->options.location == TIDE_DRIVER_ON_HOST_NUMA ? "host memory"
                                                                            : "device and host memory";
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    enum tide_status status;

    (void)tidei_mempool_figure(self, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes);
    (void)tidei_mempool_figure(self, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes);
    status = tide_error_set(TIDE_ECAPACITY,
                            "driver: %s request finds no room in the pool of device %d: CUDA_ERROR_OUT_OF_MEMORY "
                            "(%s used, %s reserved, %s %s)",
                            tidei_size_text(bytes), self->device.ordinal, tidei_size_text(used_bytes),
                            tidei_size_text(reserved_bytes), what, tidei_size_text(self->capacity_bytes));
    tidei_error_driver_set(CUDA_ERROR_OUT_OF_MEMORY);
    return tidei_refused(&self->base, status);
}

#endif
