/* Pinned memory of the fake driver: its own, and memory of the program that is registered. */
#include "tests/fake-cuda/memory.h"

/* Whether pinned memory outside of pools begins at the address. */
static bool
pinned_find(const void *address, struct fake_place *out)
{
    return fake_place_find((uint64_t)(uintptr_t)address, out) && out->kind == FAKE_HOST && out->pool == NULL &&
           out->start == (uint64_t)(uintptr_t)address;
}

static CUresult
pinned_allocate(void **out, size_t bytes)
{
    CUdeviceptr address = 0;
    CUresult result = fake_memory_allocate(&address, bytes, FAKE_HOST);

    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)address;
    return result;
}

static CUresult
do_cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    if (flags > 7 || out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if (bytes == 0)
        return CUDA_SUCCESS;
    return pinned_allocate(out, bytes);
}

FAKE_API(2020, cuMemHostAlloc, (void **out, size_t bytes, unsigned int flags), (out, bytes, flags))

static CUresult
do_cuMemAllocHost(void **out, size_t bytes)
{
    return out == NULL ? CUDA_ERROR_INVALID_VALUE : pinned_allocate(out, bytes);
}

FAKE_API(3020, cuMemAllocHost, (void **out, size_t bytes), (out, bytes))

static CUresult
do_cuMemFreeHost(void *address)
{
    struct fake_place place;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (address == NULL)
        return CUDA_SUCCESS;
    if (!pinned_find(address, &place) || place.borrowed)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_memory_release((uint64_t)(uintptr_t)address);
}

FAKE_API(2000, cuMemFreeHost, (void *address), (address))

static CUresult
do_cuMemHostGetDevicePointer(CUdeviceptr *out, void *address, unsigned int flags)
{
    struct fake_place place;

    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_place_find((uint64_t)(uintptr_t)address, &place) || place.kind != FAKE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuMemHostGetDevicePointer, (CUdeviceptr * out, void *address, unsigned int flags), (out, address, flags))

static CUresult
do_cuMemHostGetFlags(unsigned int *flags, void *address)
{
    struct fake_place place;

    if (flags == NULL || !fake_place_find((uint64_t)(uintptr_t)address, &place) || place.kind != FAKE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

FAKE_API(2030, cuMemHostGetFlags, (unsigned int *flags, void *address), (flags, address))

static CUresult
do_cuMemHostRegister(void *address, size_t bytes, unsigned int flags)
{
    uint64_t start = (uint64_t)(uintptr_t)address;
    struct fake_place place;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (address == NULL || bytes == 0 || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_place_find(start, &place) || fake_place_find(start + bytes - 1, &place))
        return place.kind == FAKE_HOST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    fake_memory_borrow(context, address, bytes, FAKE_HOST);
    return CUDA_SUCCESS;
}

FAKE_API(6050, cuMemHostRegister, (void *address, size_t bytes, unsigned int flags), (address, bytes, flags))

static CUresult
do_cuMemHostUnregister(void *address)
{
    struct fake_place place;
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pinned_find(address, &place))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (!place.borrowed) /* as observed: the driver's own */
        return CUDA_ERROR_INVALID_VALUE;
    fake_wait_context(context);
    fake_memory_forget((uint64_t)(uintptr_t)address);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuMemHostUnregister, (void *address), (address))
