/* Captures of the fake driver's streams: what is submitted to one becomes a node of its graph. */
#include "tests/fake-cuda/capture.h"

bool
fake_context_captures(CUcontext context)
{
    (void)context;
    return false;
}

CUresult
fake_capture_spoil(CUstream stream)
{
    (void)stream;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult
fake_capture_add(struct fake_capture *capture, fake_work work, const void *argument, size_t bytes)
{
    (void)capture;
    (void)work;
    (void)argument;
    (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
fake_capture_allocate(CUstream stream, size_t bytes, CUdeviceptr *out)
{
    (void)stream;
    (void)bytes;
    (void)out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
fake_capture_free(CUstream stream, CUdeviceptr address)
{
    (void)stream;
    (void)address;
    return CUDA_ERROR_NOT_SUPPORTED;
}
