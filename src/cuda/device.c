/* Opens a CUDA device for a base, and orders streams on it. */
#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

#include <string.h>

enum tide_status
tidei_device_error(const struct tidei_device *self, CUresult result, const char *function)
{
    return tidei_driver_error(self->cuda, self->subject, result, function);
}

enum tide_status
tidei_device_lacks(const struct tidei_device *self, const char *function)
{
    return tide_error_set(TIDE_EUNSUPPORTED, "%s: the NVIDIA driver has no %s (it is of CUDA %d.%d)", self->subject,
                          function, self->cuda->version / 1000, self->cuda->version % 1000 / 10);
}

enum tide_status
tidei_device_find(const struct tidei_driver *cuda, const char *subject, int ordinal, CUdevice *out)
{
    int count = 0;
    enum tide_status status = tidei_driver_error(cuda, subject, cuda->device_get_count(&count), "cuDeviceGetCount");

    *out = 0;
    if (status != TIDE_OK)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return tide_error_set(TIDE_EINVAL, "%s: no device %d, this machine has %d (counted from 0)", subject, ordinal,
                              count);
    return tidei_driver_error(cuda, subject, cuda->device_get(out, ordinal), "cuDeviceGet");
}

enum tide_status
tidei_device_open(struct tidei_device *self, const char *subject, int ordinal)
{
    const struct tidei_driver *cuda;
    enum tide_status status;

    memset(self, 0, sizeof(*self));
    self->subject = subject;
    self->ordinal = ordinal;
    status = tidei_driver_get(subject, &cuda);
    if (status != TIDE_OK)
        return status;
    self->cuda = cuda;
    status = tidei_device_find(cuda, subject, ordinal, &self->handle);
    if (status == TIDE_OK)
        status = tidei_device_error(self, cuda->device_total_mem(&self->total_bytes, self->handle), "cuDeviceTotalMem");
    if (status != TIDE_OK)
        return status;
    tidei_driver_events_init(&self->events, cuda, subject, NULL);
    status = tidei_device_error(self, cuda->primary_context_retain(&self->context, self->handle),
                                "cuDevicePrimaryCtxRetain");
    self->events.context = self->context;
    if (status != TIDE_OK)
        tidei_driver_events_fini(&self->events, false);
    return status;
}

void
tidei_device_close(struct tidei_device *self)
{
    const struct tidei_driver *cuda = self->cuda;
    bool usable = tidei_driver_usable();
    bool pushed = usable && cuda->context_push(self->context) == CUDA_SUCCESS;

    tidei_driver_events_fini(&self->events, usable);
    if (pushed)
        tidei_driver_leave(cuda);
    if (usable)
        cuda->primary_context_release(self->handle);
}

enum tide_status
tidei_device_free_error(const struct tidei_device *self, CUresult result, const void *pointer, const char *function)
{
    enum tide_status status;

    if (result == CUDA_ERROR_DEINITIALIZED)
        return TIDE_OK;
    if (result != CUDA_ERROR_INVALID_VALUE)
        return tidei_device_error(self, result, function);
    status = tide_error_set(TIDE_EPOINTER, "%s: %p is no live allocation (%s: %s)", self->subject, pointer, function,
                            tidei_driver_error_name(self->cuda, result));
    tidei_error_driver_set((int)result);
    return status;
}

enum tide_status
tidei_device_free_async(struct tidei_device *self, void *pointer, size_t bytes, tide_stream stream)
{
    const struct tidei_driver *cuda = self->cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    CUresult result;

    if (pointer == NULL)
        return bytes == 0
                   ? TIDE_OK
                   : tide_error_set(TIDE_EPOINTER, "%s: NULL is no allocation of %zu bytes", self->subject, bytes);
    result = TIDEI_DRIVER_CALL(cuda, self->context, cuda->mem_free_async(address, (CUstream)stream));
    return result == CUDA_SUCCESS ? TIDE_OK : tidei_device_free_error(self, result, pointer, "cuMemFreeAsync");
}

enum tide_status
tidei_device_order(struct tidei_device *self, tide_stream earlier, tide_stream later)
{
    if (earlier == TIDE_STREAM_ALL)
        return tidei_driver_order_all(&self->events);
    return tidei_driver_order(&self->events, (CUstream)earlier, (CUstream)later);
}

#endif
