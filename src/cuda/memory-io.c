/* Fills and reads the memory of a resource, wherever it lies. */
#include "config.h"

#include "src/cuda/memory-io.h"

#include <string.h>

/* A figure of the memory; `otherwise` where it is unknown. */
static uint64_t
memory_io_query(struct tidei_memory_io *io, enum tide_query what, uint64_t otherwise)
{
    struct tidei_error error;
    uint64_t figure;

    tidei_error_save(&error);
    if (io->resource->ops->query(io->resource, what, &figure) != TIDE_OK) {
        tidei_error_restore(&error);
        return otherwise;
    }
    return figure;
}

#ifdef HAVE_CUDA_H

static enum tide_status
memory_io_open_device(struct tidei_memory_io *io, int ordinal)
{
    enum tide_status status = tidei_device_open(&io->device, io->subject, ordinal);
    const struct tidei_driver *cuda = io->device.cuda;
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
    status = tidei_device_lacks(&io->device, lacks);
    tidei_device_close(&io->device);
    return status;
}

/* The status of a call of the driver, which is evaluated again where the thread has no context. */
#define MEMORY_IO_CALL(io, stream, function, call)                                                                     \
    tidei_device_error(&(io)->device, TIDEI_DRIVER_CALL((io)->device.cuda, (io)->device.context, call), function)

#else

static enum tide_status
memory_io_open_device(struct tidei_memory_io *io, int ordinal)
{
    return tide_error_set(TIDE_EUNSUPPORTED, "%s: this build has no CUDA to reach the memory of device %d", io->subject,
                          ordinal);
}

/* Without CUDA, all memory that can be opened is the host's. */
#define MEMORY_IO_CALL(io, stream, function, call) ((void)(stream), TIDE_EUNSUPPORTED)

#endif

void
tidei_memory_io_close(struct tidei_memory_io *io)
{
#ifdef HAVE_CUDA_H
    if (!io->host)
        tidei_device_close(&io->device);
#else
    (void)io;
#endif
}

enum tide_status
tidei_memory_io_fill(struct tidei_memory_io *io, void *to, unsigned char value, size_t bytes, tide_stream stream)
{
    if (io->host) {
        memset(to, value, bytes);
        return TIDE_OK;
    }
    return MEMORY_IO_CALL(io, stream, "cuMemsetD8Async",
                          io->device.cuda->memset_d8_async((CUdeviceptr)(uintptr_t)to, value, bytes, (CUstream)stream));
}

enum tide_status
tidei_memory_io_wait(struct tidei_memory_io *io, tide_stream stream)
{
    if (io->host)
        return io->resource->ops->order(io->resource, TIDE_STREAM_ALL, 0);
    return MEMORY_IO_CALL(io, stream, "cuStreamSynchronize", io->device.cuda->stream_synchronize((CUstream)stream));
}

enum tide_status
tidei_memory_io_read(struct tidei_memory_io *io, void *to, const void *from, size_t bytes, tide_stream stream)
{
    if (io->host) {
        memcpy(to, from, bytes);
        return TIDE_OK;
    }
    return MEMORY_IO_CALL(
        io, stream, "cuMemcpyDtoHAsync",
        io->device.cuda->memcpy_dtoh_async(to, (CUdeviceptr)(uintptr_t)from, bytes, (CUstream)stream));
}

bool
tidei_memory_io_is_captured(struct tidei_memory_io *io, tide_stream stream)
{
#ifdef HAVE_CUDA_H
    const struct tidei_driver *cuda = io->device.cuda;
    CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result;

    if (io->host || cuda->stream_is_capturing == NULL)
        return false;
    result = TIDEI_DRIVER_CALL(cuda, io->device.context, cuda->stream_is_capturing((CUstream)stream, &captured));
    /* The legacy stream cannot be asked while another stream is being captured. */
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && captured != CU_STREAM_CAPTURE_STATUS_NONE);
#else
    (void)io, (void)stream;
    return false;
#endif
}

enum tide_status
tidei_memory_io_open(struct tidei_memory_io *io, const char *subject, struct tide_resource *resource)
{
    uint64_t device;
    bool ordered;

    memset(io, 0, sizeof(*io));
    io->subject = subject;
    io->resource = resource;
    device = memory_io_query(io, TIDE_QUERY_DEVICE, UINT64_MAX);
    ordered = device != UINT64_MAX && memory_io_query(io, TIDE_QUERY_STREAM_ORDERED, 0) != 0;
    io->host = !ordered && memory_io_query(io, TIDE_QUERY_HOST_ACCESS, 0) != 0;
    if (io->host)
        return TIDE_OK;
    if (device == UINT64_MAX)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: the layers below have no memory that can be read", subject);
    return memory_io_open_device(io, (int)device);
}
