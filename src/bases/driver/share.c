/* Lets other devices and other processes use the memory of a pool. */
#include "src/bases/driver/pool.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

#include <string.h>

_Static_assert(sizeof(((struct tide_driver_pointer *)NULL)->data) == sizeof(CUmemPoolPtrExportData),
               "a pointer's description has the driver's size");

/* Handles for other processes. */

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
    TIDEI_INSIDE(driver);
    int made = -1;
    enum tide_status status;

    if (fd == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of an address for the descriptor");
    status = share_export(driver, TIDE_DRIVER_POSIX_FD, TIDEI_POOL_POSIX_FD, &made);
    *fd = status == TIDE_OK ? made : -1;
    return status;
}

enum tide_status
tide_driver_export_fabric(struct tide_resource *driver, struct tide_driver_fabric *out)
{
    TIDEI_INSIDE(driver);
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of an address for the handle");
    memset(out, 0, sizeof(*out));
    status = share_export(driver, TIDE_DRIVER_FABRIC, TIDEI_POOL_FABRIC, out->data);
    if (status != TIDE_OK)
        memset(out, 0, sizeof(*out));
    return status;
}

enum tide_status
tide_driver_pointer_export(struct tide_resource *driver, void *pointer, uint64_t bytes, struct tide_driver_pointer *out)
{
    TIDEI_INSIDE(driver);
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

/* Access of other devices. */

/* Get the driver and the device that a call names. */
static enum tide_status
access_begin(struct tide_resource *resource, int device, struct driver **out, CUmemLocation *location)
{
    struct driver *self = *out = tidei_driver_of(resource);
    enum tide_status status;

    if (self == NULL)
        return TIDE_EINVAL;
    location->type = CU_MEM_LOCATION_TYPE_DEVICE;
    status = tidei_device_find(self->device.cuda, "driver", device, &location->id);
    if (status != TIDE_OK)
        return status;
    if (self->device.cuda->mem_pool_set_access == NULL)
        return tidei_device_lacks(&self->device, "cuMemPoolSetAccess");
    return self->device.cuda->mem_pool_get_access != NULL ? TIDE_OK
                                                          : tidei_device_lacks(&self->device, "cuMemPoolGetAccess");
}

static enum tide_status
access_get(struct driver *self, CUmemLocation *location, enum tide_driver_access *out)
{
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUresult result = self->device.cuda->mem_pool_get_access(&flags, self->pool, location);

    *out = result == CUDA_SUCCESS ? (enum tide_driver_access)flags : TIDE_DRIVER_NO_ACCESS;
    return tidei_device_error(&self->device, result, "cuMemPoolGetAccess");
}

/* Report the reason: no link joins the two devices, or the driver's error. */
static enum tide_status
access_refused(struct driver *self, int device, CUdevice handle, CUresult result)
{
    const struct tidei_driver *cuda = self->device.cuda;
    enum tide_status status;
    int can = 1;

    if (handle != self->device.handle && cuda->device_can_access_peer != NULL &&
        cuda->device_can_access_peer(&can, handle, self->device.handle) != CUDA_SUCCESS)
        can = 1;
    if (can != 0)
        return tidei_device_error(&self->device, result, "cuMemPoolSetAccess");
    status = tide_error_set(TIDE_EUNSUPPORTED,
                            "driver: device %d cannot reach the memory of device %d (cuMemPoolSetAccess: %s)", device,
                            self->device.ordinal, tidei_driver_error_name(cuda, result));
    tidei_error_driver_set((int)result);
    return status;
}

enum tide_status
tide_driver_access_get(struct tide_resource *driver, int device, enum tide_driver_access *out)
{
    TIDEI_INSIDE(driver);
    struct driver *self;
    CUmemLocation location;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver: NULL in place of an address for the access");
    *out = TIDE_DRIVER_NO_ACCESS;
    status = access_begin(driver, device, &self, &location);
    return status == TIDE_OK ? access_get(self, &location, out) : status;
}

enum tide_status
tide_driver_access_set(struct tide_resource *driver, int device, enum tide_driver_access access,
                       enum tide_driver_access *former)
{
    TIDEI_INSIDE(driver);
    enum tide_driver_access before = TIDE_DRIVER_NO_ACCESS;
    CUmemAccessDesc wanted;
    struct driver *self;
    enum tide_status status;

    if (former != NULL)
        *former = TIDE_DRIVER_NO_ACCESS;
    if (access != TIDE_DRIVER_NO_ACCESS && access != TIDE_DRIVER_READ && access != TIDE_DRIVER_READ_WRITE)
        return tide_error_set(TIDE_EINVAL, "driver: access %d is none of enum tide_driver_access", (int)access);
    status = access_begin(driver, device, &self, &wanted.location);
    if (status != TIDE_OK)
        return status;
    wanted.flags = (CUmemAccess_flags)access;
    tidei_lock_acquire(&self->access_lock);
    status = access_get(self, &wanted.location, &before);
    if (status == TIDE_OK && before != access) {
        CUresult result = self->device.cuda->mem_pool_set_access(self->pool, &wanted, 1);

        if (result != CUDA_SUCCESS)
            status = access_refused(self, device, wanted.location.id, result);
    }
    tidei_lock_release(&self->access_lock);
    if (status == TIDE_OK && former != NULL)
        *former = before;
    return status;
}

#endif
