/* Shares a pool, and allocations from it, with other processes. */
#include "src/bases/driver/pool.h"

#ifdef HAVE_CUDA_H

#include <string.h>

#include "src/bases/driver/share.h"

_Static_assert(sizeof(((struct tide_driver_pointer *)NULL)->data) == sizeof(CUmemPoolPtrExportData),
               "a pointer's description has the driver's size");

static enum tide_status
share_export(struct tide_resource *resource, enum tide_driver_handle handle, int type, void *out)
{
    struct driver *self = tidei_driver_of(resource);

    if (self == NULL)
        return TIDE_EINVAL;
    if ((self->options.handles & (unsigned)handle) == 0)
        return tide_error_set(TIDE_EINVAL, "driver: the pool was created without handle=%s",
                              handle == TIDE_DRIVER_FABRIC ? "fabric" : "posix_fd");
    if (self->device.cuda->mem_pool_export == NULL)
        return tidei_device_lacks(&self->device, "cuMemPoolExportToShareableHandle");
    return tidei_device_error(&self->device,
                              self->device.cuda->mem_pool_export(out, self->pool, (CUmemAllocationHandleType)type, 0),
                              "cuMemPoolExportToShareableHandle");
}

enum tide_status
tide_driver_export(struct tide_resource *driver, int *fd)
{
    int made = -1;
    enum tide_status status;

    if (fd == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of an address for the descriptor");
    status = share_export(driver, TIDE_DRIVER_POSIX_FD, TIDEI_SHARE_POSIX_FD, &made);
    *fd = status == TIDE_OK ? made : -1;
    return status;
}

enum tide_status
tide_driver_export_fabric(struct tide_resource *driver, struct tide_driver_fabric *out)
{
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of an address for the handle");
    memset(out, 0, sizeof(*out));
    status = share_export(driver, TIDE_DRIVER_FABRIC, TIDEI_SHARE_FABRIC, out->data);
    if (status != TIDE_OK)
        memset(out, 0, sizeof(*out));
    return status;
}

enum tide_status
tide_driver_pointer_export(struct tide_resource *driver, void *pointer, uint64_t bytes, struct tide_driver_pointer *out)
{
    struct driver *self = tidei_driver_of(driver);
    CUmemPoolPtrExportData data;
    CUresult result;
    enum tide_status status;

    if (self == NULL)
        return TIDE_EINVAL;
    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of an address for the description");
    memset(out, 0, sizeof(*out));
    if (self->device.cuda->mem_pool_export_pointer == NULL)
        return tidei_device_lacks(&self->device, "cuMemPoolExportPointer");
    result = self->device.cuda->mem_pool_export_pointer(&data, (CUdeviceptr)(uintptr_t)pointer);
    if (result == CUDA_ERROR_INVALID_VALUE) {
        status = tide_error_set(TIDE_EPOINTER, "driver: %p is no allocation of a pool that was exported (%s: %s)",
                                pointer, "cuMemPoolExportPointer", tidei_driver_error_name(self->device.cuda, result));
        tidei_error_driver_set((int)result);
        return status;
    }
    status = tidei_device_error(&self->device, result, "cuMemPoolExportPointer");
    if (status != TIDE_OK)
        return status;
    memcpy(out->data, &data, sizeof(out->data));
    out->bytes = bytes;
    return TIDE_OK;
}

#endif
