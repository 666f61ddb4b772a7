/* Advice and prefetches of the fake driver: managed memory never moves, so they are only checked. */
#include "tests/fake-cuda/memory.h"

/* The signatures before CUDA 12.2, which cuda.h no longer declares and programs still ask for. */
#undef cuMemAdvise
#undef cuMemPrefetchAsync
CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream handle);

static CUresult
managed_check(CUdeviceptr address, size_t bytes, CUmemLocation location)
{
    struct fake_place place;

    if (!fake_place_find(address, &place) || place.kind != FAKE_MANAGED ||
        bytes > place.bytes - (address - place.start))
        return CUDA_ERROR_INVALID_VALUE;
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !fake_device_is(location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

/* In them the host is device -1. */
static CUmemLocation
managed_location(CUdevice device)
{
    if (device == CU_DEVICE_CPU)
        return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
    return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
}

static CUresult
do_cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
        location.type = CU_MEM_LOCATION_TYPE_HOST; /* any NUMA node */
    return managed_check(address, bytes, location);
}

FAKE_API(12020, cuMemAdvise_v2, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location),
         (address, bytes, advice, location))

static CUresult
do_cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
    return do_cuMemAdvise_v2(address, bytes, advice, managed_location(device));
}

FAKE_API(8000, cuMemAdvise, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device),
         (address, bytes, advice, device))

static CUresult
do_cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : managed_check(address, bytes, location);
}

FAKE_API_STREAM(12020, cuMemPrefetchAsync_v2,
                (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags, CUstream handle),
                (address, bytes, location, flags, handle))

static CUresult
do_cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream handle)
{
    return do_cuMemPrefetchAsync_v2(address, bytes, managed_location(device), 0, handle);
}

FAKE_API_STREAM(8000, cuMemPrefetchAsync, (CUdeviceptr address, size_t bytes, CUdevice device, CUstream handle),
                (address, bytes, device, handle))
