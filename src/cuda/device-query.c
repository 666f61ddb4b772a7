/* Answers queries about CUDA devices, with a resource and without, and lists the devices as text. */
#include "src/cuda/device.h"
#include "src/sync/inside.h"

#include <inttypes.h>
#include <stdio.h>

#include <tidemark/driver.h>
#include <tidemark/text.h>

#ifdef HAVE_CUDA_H

/* Attributes and handle types by number: headers of older CUDA versions lack their names. */
#define DEVICE_VIRTUAL_MEMORY 102
#define DEVICE_POOLS          115
#define DEVICE_HANDLE_TYPES   119
#define DEVICE_NUMA_POOLS     142
#define DEVICE_HANDLE_FD      1
#define DEVICE_HANDLE_FABRIC  8

/* TIDE_QUERY_PEERS has a bit for each of so many devices. */
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
    case TIDE_QUERY_VIRTUAL_MEMORY:
        *out = cuda->mem_create != NULL && tidei_device_attribute(cuda, device, DEVICE_VIRTUAL_MEMORY) != 0;
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

/* Find a device for which there is no resource. */
static enum tide_status
query_find(int ordinal, const struct tidei_driver **cuda, CUdevice *out)
{
    enum tide_status status = tidei_driver_get("driver", cuda);

    return status == TIDE_OK ? tidei_device_find(*cuda, "device", ordinal, out) : status;
}

enum tide_status
tide_device_count(int *count, int *driver_version)
{
    TIDEI_INSIDE(NULL);
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
    TIDEI_INSIDE(NULL);
    const struct tidei_driver *cuda;
    char full[256] = "";
    CUdevice handle;
    enum tide_status status;

    if (name == NULL || capacity == 0)
        return tide_error_set(TIDE_EINVAL, "device: no room for the name");
    name[0] = '\0';
    status = query_find(device, &cuda, &handle);
    if (status != TIDE_OK)
        return status;
    if (cuda->device_get_name == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "device: the NVIDIA driver has no cuDeviceGetName");
    status = tidei_driver_error(cuda, "device", cuda->device_get_name(full, sizeof(full), handle), "cuDeviceGetName");
    if (status == TIDE_OK)
        snprintf(name, capacity, "%s", full);
    return status;
}

enum tide_status
tide_device_query(int device, enum tide_query what, uint64_t *out)
{
    TIDEI_INSIDE(NULL);
    const struct tidei_driver *cuda;
    struct tidei_device opened;
    CUdevice handle;
    size_t total_bytes = 0;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "device: NULL in place of an address for the figure");
    *out = 0;
    if (what == TIDE_QUERY_DEVICE_FREE) {
        status = tidei_device_open(&opened, "device", device);
        if (status == TIDE_OK) {
            status = query_free(&opened, out);
            tidei_device_close(&opened);
        }
        return status;
    }
    status = query_find(device, &cuda, &handle);
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

/* Drivers have put only ASCII into names so far; other characters would have to be valid UTF-8 here. */
static void
list_name(struct tide_text *text, const char *name)
{
    tide_text_format(text, "\"");
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            tide_text_format(text, "\\%c", *c);
        else
            tide_text_format(text, "%c", *c < ' ' || *c > '~' ? '?' : *c);
    }
    tide_text_format(text, "\"");
}

static void
list_device(struct tide_text *text, int device)
{
    char name[256];
    uint64_t total_bytes;

    tide_text_format(text, "%s{\"device\":%d,\"name\":", device > 0 ? "," : "", device);
    if (tide_device_name(device, name, sizeof(name)) == TIDE_OK)
        list_name(text, name);
    else
        tide_text_format(text, "null");
    if (tide_device_query(device, TIDE_QUERY_DEVICE_TOTAL, &total_bytes) == TIDE_OK)
        tide_text_format(text, ",\"total_bytes\":%" PRIu64 "}", total_bytes);
    else
        tide_text_format(text, ",\"total_bytes\":null}");
}

void
tidei_device_list(char *out, size_t capacity)
{
    struct tide_text text = { .data = out, .capacity = capacity };
    int count;

    if (tide_device_count(&count, NULL) != TIDE_OK)
        count = 0;
    tide_text_format(&text, "[");
    for (int i = 0; i < count; i++) {
        char data[512] = "";
        struct tide_text device = { .data = data, .capacity = sizeof(data) };

        list_device(&device, i);
        if (device.length >= sizeof(data) || text.length + device.length + sizeof("]") > capacity)
            break;
        tide_text_format(&text, "%s", data);
    }
    tide_text_format(&text, "]");
}
