/* Fills and reads the memory of a resource, wherever it lies. */
#include "config.h"

#include "src/cuda/memory-io.h"

#include <string.h>

/* A figure of the memory; `otherwise` where it is unknown. */
static uint64_t
memory_io_query(struct tidei_memory_io *touch, enum tide_query what, uint64_t otherwise)
{
    struct tidei_error error;
    uint64_t figure;

    tidei_error_save(&error);
    if (touch->resource->ops->query(touch->resource, what, &figure) != TIDE_OK) {
        tidei_error_restore(&error);
        return otherwise;
    }
    return figure;
}

#ifdef HAVE_CUDA_H

static enum tide_status
memory_io_open_device(struct tidei_memory_io *touch, int ordinal)
{
    enum tide_status status = tidei_device_open(&touch->device, touch->subject, ordinal);
    const struct tidei_driver *cuda = touch->device.cuda;
    const char *lacks = NULL;

    if (status != TIDE_OK)
        return status;
    if (cuda->memset_d8_async == NULL)
        lacks = "cuMemsetD8Async";
    else if (cuda->memcpy_dtoh_async == NULL)
        lacks = "cuMemcpyDtoHAsync";
    else if (cuda->stream_synchronize == NULL)
        lacks = "cuStreamSynchronize";
    if (lacks == NULL)
        return TIDE_OK;
    status = tidei_device_lacks(&touch->device, lacks);
    tidei_device_close(&touch->device);
    return status;
}

void
tidei_memory_io_close(struct tidei_memory_io *touch)
{
    if (!touch->host)
        tidei_device_close(&touch->device);
}

enum tide_status
tidei_memory_io_fill(struct tidei_memory_io *touch, void *to, unsigned char value, size_t bytes, tide_stream stream)
{
    const struct tidei_driver *cuda = touch->device.cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)to;
    CUresult result;

    if (touch->host) {
        memset(to, value, bytes);
        return TIDE_OK;
    }
    result = cuda->memset_d8_async(address, value, bytes, (CUstream)stream);
    if (tidei_driver_enter(cuda, result, touch->device.context)) {
        result = cuda->memset_d8_async(address, value, bytes, (CUstream)stream);
        tidei_driver_leave(cuda);
    }
    return tidei_device_error(&touch->device, result, "cuMemsetD8Async");
}

enum tide_status
tidei_memory_io_wait(struct tidei_memory_io *touch, tide_stream stream)
{
    const struct tidei_driver *cuda = touch->device.cuda;
    CUresult result;

    if (touch->host)
        return touch->resource->ops->order(touch->resource, TIDE_STREAM_ALL, 0);
    result = cuda->stream_synchronize((CUstream)stream);
    if (tidei_driver_enter(cuda, result, touch->device.context)) {
        result = cuda->stream_synchronize((CUstream)stream);
        tidei_driver_leave(cuda);
    }
    return tidei_device_error(&touch->device, result, "cuStreamSynchronize");
}

enum tide_status
tidei_memory_io_read(struct tidei_memory_io *touch, void *to, const void *from, size_t bytes, tide_stream stream)
{
    const struct tidei_driver *cuda = touch->device.cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)from;
    CUresult result;

    if (touch->host) {
        memcpy(to, from, bytes);
        return TIDE_OK;
    }
    result = cuda->memcpy_dtoh_async(to, address, bytes, (CUstream)stream);
    if (tidei_driver_enter(cuda, result, touch->device.context)) {
        result = cuda->memcpy_dtoh_async(to, address, bytes, (CUstream)stream);
        tidei_driver_leave(cuda);
    }
    return tidei_device_error(&touch->device, result, "cuMemcpyDtoHAsync");
}

bool
tidei_memory_io_is_captured(struct tidei_memory_io *touch, tide_stream stream)
{
    const struct tidei_driver *cuda = touch->device.cuda;
    CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result;

    if (touch->host || cuda->stream_is_capturing == NULL)
        return false;
    result = cuda->stream_is_capturing((CUstream)stream, &captured);
    if (tidei_driver_enter(cuda, result, touch->device.context)) {
        result = cuda->stream_is_capturing((CUstream)stream, &captured);
        tidei_driver_leave(cuda);
    }
    /* The legacy stream cannot be asked while another stream is being captured. */
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && captured != CU_STREAM_CAPTURE_STATUS_NONE);
}

#else

static enum tide_status
memory_io_open_device(struct tidei_memory_io *touch, int ordinal)
{
    return tide_error_set(TIDE_EUNSUPPORTED, "%s: this build has no CUDA to reach the memory of device %d",
                          touch->subject, ordinal);
}

void
tidei_memory_io_close(struct tidei_memory_io *touch)
{
    (void)touch;
}

enum tide_status
tidei_memory_io_fill(struct tidei_memory_io *touch, void *to, unsigned char value, size_t bytes, tide_stream stream)
{
    (void)touch;
    (void)stream;
    memset(to, value, bytes);
    return TIDE_OK;
}

enum tide_status
tidei_memory_io_wait(struct tidei_memory_io *touch, tide_stream stream)
{
    (void)stream;
    return touch->resource->ops->order(touch->resource, TIDE_STREAM_ALL, 0);
}

enum tide_status
tidei_memory_io_read(struct tidei_memory_io *touch, void *to, const void *from, size_t bytes, tide_stream stream)
{
    (void)touch;
    (void)stream;
    memcpy(to, from, bytes);
    return TIDE_OK;
}

bool
tidei_memory_io_is_captured(struct tidei_memory_io *touch, tide_stream stream)
{
    (void)touch;
    (void)stream;
    return false;
}

#endif

enum tide_status
tidei_memory_io_open(struct tidei_memory_io *touch, const char *subject, struct tide_resource *resource)
{
    uint64_t device;
    bool ordered;

    memset(touch, 0, sizeof(*touch));
    touch->subject = subject;
    touch->resource = resource;
    device = memory_io_query(touch, TIDE_QUERY_DEVICE, UINT64_MAX);
    ordered = device != UINT64_MAX && memory_io_query(touch, TIDE_QUERY_STREAM_ORDERED, 0) != 0;
    touch->host = !ordered && memory_io_query(touch, TIDE_QUERY_HOST_ACCESS, 0) != 0;
    if (touch->host)
        return TIDE_OK;
    if (device == UINT64_MAX)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: the layers below have no memory that can be read", subject);
    return memory_io_open_device(touch, (int)device);
}
