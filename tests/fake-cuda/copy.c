/* Copies and fills of the fake driver: checked at once, run by the stream's thread. */
#include "tests/fake-cuda/fake.h"

#include <string.h>

#include "tests/fake-cuda/graph.h"

struct copy_work {
    uint64_t to, from;
    size_t bytes;
    uint32_t value;
    unsigned int width; /* of a fill; 0: a copy */
};

static void
copy_do(void *argument)
{
    const struct copy_work *work = argument;
    char *to = (char *)(uintptr_t)work->to;

    if (work->width == 0) {
        memmove(to, (const void *)(uintptr_t)work->from, work->bytes);
        return;
    }
    for (size_t i = 0; i < work->bytes; i += work->width)
        memcpy(to + i, &work->value, work->width);
}

/* Captured work may name memory that its graph is yet to allocate. */
static CUresult
copy_check(CUstream stream, uint64_t address, size_t bytes)
{
    if (stream->capture != NULL && fake_graph_memory_is(address))
        return CUDA_SUCCESS;
    return fake_place_check(stream->context, address, bytes);
}

/* The host address may also be memory of the fake driver. */
static CUresult
copy_submit(CUstream handle, struct copy_work work, bool to_device, bool from_device, bool wait)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result == CUDA_SUCCESS && work.bytes == 0)
        return CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && to_device)
        result = copy_check(stream, work.to, work.bytes);
    if (result == CUDA_SUCCESS && from_device)
        result = copy_check(stream, work.from, work.bytes);
    if (result == CUDA_SUCCESS)
        result = fake_submit(stream, work.width == 0 ? CU_GRAPH_NODE_TYPE_MEMCPY : CU_GRAPH_NODE_TYPE_MEMSET, copy_do,
                             &work, sizeof(work));
    if (result == CUDA_SUCCESS && wait) {
        fake_wait_point((struct fake_point){ stream, stream->submitted });
        result = stream->context->error;
    }
    return result;
}

static uint64_t
copy_host(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

static CUresult
do_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_submit(stream, (struct copy_work){ .to = copy_host(to), .from = from, .bytes = bytes }, false, true,
                       false);
}

FAKE_API_STREAM(3020, cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
                (to, from, bytes, stream))

static CUresult
do_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_submit(stream, (struct copy_work){ .to = to, .from = copy_host(from), .bytes = bytes }, true, false,
                       false);
}

FAKE_API_STREAM(3020, cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
                (to, from, bytes, stream))

static CUresult
do_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_submit(stream, (struct copy_work){ .to = to, .from = from, .bytes = bytes }, true, true, false);
}

FAKE_API_STREAM(3020, cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
                (to, from, bytes, stream))

/* The addresses tell which of the two is on the device. */
static CUresult
do_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    struct fake_place place;

    return copy_submit(stream, (struct copy_work){ .to = to, .from = from, .bytes = bytes },
                       fake_place_find(to, &place), fake_place_find(from, &place), false);
}

FAKE_API_STREAM(4000, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
                (to, from, bytes, stream))

static CUresult
do_cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_submit(NULL, (struct copy_work){ .to = copy_host(to), .from = from, .bytes = bytes }, false, true,
                       true);
}

FAKE_API_DEFAULT_STREAM(3020, cuMemcpyDtoH, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))

static CUresult
do_cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_submit(NULL, (struct copy_work){ .to = to, .from = copy_host(from), .bytes = bytes }, true, false,
                       true);
}

FAKE_API_DEFAULT_STREAM(3020, cuMemcpyHtoD, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))

static CUresult
do_cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_submit(NULL, (struct copy_work){ .to = to, .from = from, .bytes = bytes }, true, true, true);
}

FAKE_API_DEFAULT_STREAM(3020, cuMemcpyDtoD, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))

static CUresult
copy_fill(CUdeviceptr to, uint32_t value, size_t count, unsigned int width, CUstream stream, bool wait)
{
    if (count > SIZE_MAX / width || to % width != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_submit(stream, (struct copy_work){ .to = to, .bytes = count * width, .value = value, .width = width },
                       true, false, wait);
}

static CUresult
do_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return copy_fill(to, value, count, 1, stream, false);
}

FAKE_API_STREAM(3020, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),
                (to, value, count, stream))

static CUresult
do_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return copy_fill(to, value, count, 2, stream, false);
}

FAKE_API_STREAM(3020, cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
                (to, value, count, stream))

static CUresult
do_cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return copy_fill(to, value, count, 4, stream, false);
}

FAKE_API_STREAM(3020, cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),
                (to, value, count, stream))

static CUresult
do_cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
    return copy_fill(to, value, count, 1, NULL, true);
}

FAKE_API_DEFAULT_STREAM(3020, cuMemsetD8, (CUdeviceptr to, unsigned char value, size_t count), (to, value, count))

static CUresult
do_cuMemsetD32(CUdeviceptr to, unsigned int value, size_t count)
{
    return copy_fill(to, value, count, 4, NULL, true);
}

FAKE_API_DEFAULT_STREAM(3020, cuMemsetD32, (CUdeviceptr to, unsigned int value, size_t count), (to, value, count))
