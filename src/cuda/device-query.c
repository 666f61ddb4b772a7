/* Answers queries about CUDA devices, with a resource and without. */
#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

#include <string.h>

#include <tidemark/driver.h>

/* Attributes and handle types by number: headers of older CUDA versions lack their names. */
#define DEVICE_POOLS         115
#define DEVICE_HANDLE_TYPES  119
#define DEVICE_NUMA_POOLS    142
#define DEVICE_HANDLE_FD     1
#define DEVICE_HANDLE_FABRIC 8

/* The number of peers for which a figure has bits. */
#define DEVICE_PEERS 64

#define DEVICE_MANAGED_POOLS_VERSION 13000

int
tidei_device_attribute(const struct tidei_driver *cuda, CUdevice device, int attribute)
{
    int value = 0;

    if (cuda->device_get_attribute(&value, (CUdevice_attribute)attribute, device) != CUDA_SUCCESS)
        value = 0;
    return value;
}

/* A bit for each other device whose memory `device` can reach. */
static uint64_t
query_peers(const struct tidei_driver *cuda, CUdevice device)
{
    uint64_t peers = 0;
    int count = 0;

    if (cuda->device_can_access_peer == NULL || cuda->device_get_count(&count) != CUDA_SUCCESS)
        return 0;
    for (int i = 0; i < count && i < DEVICE_PEERS; i++) {
        CUdevice peer;
        int can = 0;

        if (cuda->device_get(&peer, i) == CUDA_SUCCESS && peer != device &&
            cuda->device_can_access_peer(&can, device, peer) == CUDA_SUCCESS && can != 0)
            peers |= UINT64_C(1) << i;
    }
    return peers;
}

/* Answer queries that need no context. False for any other. */
static bool
query_capability(const struct tidei_driver *cuda, CUdevice device, enum tide_query what, uint64_t *out)
{
    bool pools = cuda->mem_pool_create != NULL && tidei_device_attribute(cuda, device, DEVICE_POOLS) != 0;
    int handles = pools ? tidei_device_attribute(cuda, device, DEVICE_HANDLE_TYPES) : 0;

    switch (what) {
    case TIDE_QUERY_POOLS:
        *out = pools;
        return true;
    case TIDE_QUERY_PEERS:
        *out = query_peers(cuda, device);
        return true;
    case TIDE_QUERY_IPC:
        *out = (handles & DEVICE_HANDLE_FD) != 0 && cuda->mem_pool_export != NULL && cuda->mem_pool_import != NULL;
        return true;
    case TIDE_QUERY_FABRIC:
        *out = (handles & DEVICE_HANDLE_FABRIC) != 0;
        return true;
    case TIDE_QUERY_MANAGED_POOLS: /* no attribute exists for it; the driver's documentation refers to this one */
        *out = pools && cuda->version >= DEVICE_MANAGED_POOLS_VERSION &&
               tidei_device_attribute(cuda, device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) != 0;
        return true;
    case TIDE_QUERY_HOST_POOLS:
        *out = pools && tidei_device_attribute(cuda, device, DEVICE_NUMA_POOLS) != 0;
        return true;
    default:
        return false;
    }
}

/* cuMemGetInfo answers for the device of the current context. */
static enum tide_status
query_free(struct tidei_device *self, uint64_t *out)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    enum tide_status status;

    if (self->cuda->mem_get_info == NULL)
        return tidei_device_lacks(self, "cuMemGetInfo");
    status = tidei_device_error(self, self->cuda->context_push(self->context), "cuCtxPushCurrent");
    if (status != TIDE_OK)
        return status;
    status = tidei_device_error(self, self->cuda->mem_get_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    tidei_driver_leave(self->cuda);
    *out = status == TIDE_OK ? free_bytes : 0;
    return status;
}

bool
tidei_device_query(struct tidei_device *self, enum tide_query what, uint64_t *out, enum tide_status *status)
{
    *out = 0;
    if (what == TIDE_QUERY_DEVICE_FREE) {
        *status = query_free(self, out);
        return true;
    }
    if (what == TIDE_QUERY_DEVICE_TOTAL)
        *out = self->total_bytes;
    else if (!query_capability(self->cuda, self->handle, what, out))
        return false;
    *status = TIDE_OK;
    return true;
}

enum tide_status
tide_device_count(int *count, int *driver_version)
{
    const struct tidei_driver *cuda;
    enum tide_status status;

    if (driver_version != NULL)
        *driver_version = 0;
    if (count == NULL)
        return tide_error_set(TIDE_EINVAL, "device: NULL in place of the count's address");
    *count = 0;
    status = tidei_driver_get("driver", &cuda);
    if (status != TIDE_OK)
        return status;
    if (driver_version != NULL)
        *driver_version = cuda->version;
    return tidei_driver_error(cuda, "device", cuda->device_get_count(count), "cuDeviceGetCount");
}

enum tide_status
tide_device_name(int device, char *name, size_t capacity)
{
    const struct tidei_driver *cuda;
    char full[256] = "";
    CUdevice handle;
    enum tide_status status;

    if (name == NULL || capacity == 0)
        return tide_error_set(TIDE_EINVAL, "device: no room for the name");
    name[0] = '\0';
    status = tidei_driver_get("driver", &cuda);
    if (status == TIDE_OK)
        status = tidei_device_find(cuda, "device", device, &handle);
    if (status != TIDE_OK)
        return status;
    if (cuda->device_get_name == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "device: the NVIDIA driver has no cuDeviceGetName");
    status = tidei_driver_error(cuda, "device", cuda->device_get_name(full, sizeof(full), handle), "cuDeviceGetName");
    if (status == TIDE_OK) {
        size_t length = strnlen(full, capacity - 1);

        memcpy(name, full, length);
        name[length] = '\0';
    }
    return status;
}

/* For a device without a resource; its context lives for the call. */
static enum tide_status
query_free_once(int ordinal, uint64_t *out)
{
    struct tidei_device device;
    enum tide_status status = tidei_device_open(&device, "device", ordinal);

    if (status != TIDE_OK)
        return status;
    status = query_free(&device, out);
    tidei_device_close(&device);
    return status;
}

enum tide_status
tide_device_query(int device, enum tide_query what, uint64_t *out)
{
    const struct tidei_driver *cuda;
    CUdevice handle;
    size_t total_bytes = 0;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "device: NULL in place of an address for the figure");
    *out = 0;
    if (what == TIDE_QUERY_DEVICE_FREE)
        return query_free_once(device, out);
    status = tidei_driver_get("driver", &cuda);
    if (status == TIDE_OK)
        status = tidei_device_find(cuda, "device", device, &handle);
    if (status != TIDE_OK)
        return status;
    if (what == TIDE_QUERY_DEVICE_TOTAL) {
        status = tidei_driver_error(cuda, "device", cuda->device_total_mem(&total_bytes, handle), "cuDeviceTotalMem");
        *out = total_bytes;
        return status;
    }
    if (!query_capability(cuda, handle, what, out))
        return tide_error_set(TIDE_EUNSUPPORTED, "device: figure %d is none of a device", (int)what);
    return TIDE_OK;
}

#endif
