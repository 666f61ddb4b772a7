/* Passes on the calls that are not counted. */
#include "config.h"

#include "src/process/functions.h"

#ifdef HAVE_CUDA_H

CUresult CUDAAPI
tidei_process_cuMemAllocPitch_v2(CUdeviceptr * pointer, size_t *pitch, size_t width, size_t height, unsigned int element_bytes)
{
    return TIDEI_REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element_bytes);
}

CUresult CUDAAPI
tidei_process_cuMemAllocAsync(CUdeviceptr * pointer, size_t bytes, CUstream stream)
{
    return TIDEI_REAL(cuMemAllocAsync)(pointer, bytes, stream);
}

CUresult CUDAAPI
tidei_process_cuMemAllocAsync_ptsz(CUdeviceptr * pointer, size_t bytes, CUstream stream)
{
    return TIDEI_REAL(cuMemAllocAsync_ptsz)(pointer, bytes, stream);
}

CUresult CUDAAPI
tidei_process_cuMemAllocFromPoolAsync(CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return TIDEI_REAL(cuMemAllocFromPoolAsync)(pointer, bytes, pool, stream);
}

CUresult CUDAAPI
tidei_process_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return TIDEI_REAL(cuMemAllocFromPoolAsync_ptsz)(pointer, bytes, pool, stream);
}

CUresult CUDAAPI
tidei_process_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    return TIDEI_REAL(cuMemFreeAsync)(pointer, stream);
}

CUresult CUDAAPI
tidei_process_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return TIDEI_REAL(cuMemFreeAsync_ptsz)(pointer, stream);
}

CUresult CUDAAPI
tidei_process_cuMemPoolCreate(CUmemoryPool * pool, const CUmemPoolProps *properties)
{
    return TIDEI_REAL(cuMemPoolCreate)(pool, properties);
}

CUresult CUDAAPI
tidei_process_cuMemPoolDestroy(CUmemoryPool pool)
{
    return TIDEI_REAL(cuMemPoolDestroy)(pool);
}

CUresult CUDAAPI
tidei_process_cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return TIDEI_REAL(cuMemAllocHost_v2)(pointer, bytes);
}

CUresult CUDAAPI
tidei_process_cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    return TIDEI_REAL(cuMemHostAlloc)(pointer, bytes, flags);
}

CUresult CUDAAPI
tidei_process_cuMemFreeHost(void *pointer)
{
    return TIDEI_REAL(cuMemFreeHost)(pointer);
}

CUresult CUDAAPI
tidei_process_cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return TIDEI_REAL(cuMemHostRegister)(pointer, bytes, flags);
}

CUresult CUDAAPI
tidei_process_cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    return TIDEI_REAL(cuMemHostRegister_v2)(pointer, bytes, flags);
}

CUresult CUDAAPI
tidei_process_cuMemHostUnregister(void *pointer)
{
    return TIDEI_REAL(cuMemHostUnregister)(pointer);
}

CUresult CUDAAPI
tidei_process_cuMemCreate(CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties, unsigned long long flags)
{
    return TIDEI_REAL(cuMemCreate)(handle, bytes, properties, flags);
}

CUresult CUDAAPI
tidei_process_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return TIDEI_REAL(cuMemRelease)(handle);
}

CUresult CUDAAPI
tidei_process_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return TIDEI_REAL(cuMemMap)(pointer, bytes, offset, handle, flags);
}

CUresult CUDAAPI
tidei_process_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    return TIDEI_REAL(cuMemUnmap)(pointer, bytes);
}

CUresult CUDAAPI
tidei_process_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle * handle, void *pointer)
{
    return TIDEI_REAL(cuMemRetainAllocationHandle)(handle, pointer);
}

CUresult CUDAAPI
tidei_process_cuArrayCreate_v2(CUarray * array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    return TIDEI_REAL(cuArrayCreate_v2)(array, descriptor);
}

CUresult CUDAAPI
tidei_process_cuArray3DCreate_v2(CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return TIDEI_REAL(cuArray3DCreate_v2)(array, descriptor);
}

CUresult CUDAAPI
tidei_process_cuArrayDestroy(CUarray array)
{
    return TIDEI_REAL(cuArrayDestroy)(array);
}

CUresult CUDAAPI
tidei_process_cuMipmappedArrayCreate(CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels)
{
    return TIDEI_REAL(cuMipmappedArrayCreate)(array, descriptor, levels);
}

CUresult CUDAAPI
tidei_process_cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    return TIDEI_REAL(cuMipmappedArrayDestroy)(array);
}

CUresult CUDAAPI
tidei_process_cuIpcOpenMemHandle(CUdeviceptr * pointer, CUipcMemHandle handle, unsigned int flags)
{
    return TIDEI_REAL(cuIpcOpenMemHandle)(pointer, handle, flags);
}

CUresult CUDAAPI
tidei_process_cuIpcOpenMemHandle_v2(CUdeviceptr * pointer, CUipcMemHandle handle, unsigned int flags)
{
    return TIDEI_REAL(cuIpcOpenMemHandle_v2)(pointer, handle, flags);
}

CUresult CUDAAPI
tidei_process_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    return TIDEI_REAL(cuIpcCloseMemHandle)(pointer);
}

CUresult CUDAAPI
tidei_process_cuIpcGetMemHandle(CUipcMemHandle * handle, CUdeviceptr pointer)
{
    return TIDEI_REAL(cuIpcGetMemHandle)(handle, pointer);
}

CUresult CUDAAPI
tidei_process_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type)
{
    return TIDEI_REAL(cuMemImportFromShareableHandle)(handle, shared, type);
}

CUresult CUDAAPI
tidei_process_cuMemPoolImportPointer(CUdeviceptr * pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    return TIDEI_REAL(cuMemPoolImportPointer)(pointer, pool, data);
}

CUresult CUDAAPI
tidei_process_cuCtxDestroy(CUcontext context)
{
    return TIDEI_REAL(cuCtxDestroy)(context);
}

CUresult CUDAAPI
tidei_process_cuCtxDestroy_v2(CUcontext context)
{
    return TIDEI_REAL(cuCtxDestroy_v2)(context);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxReset(CUdevice device)
{
    return TIDEI_REAL(cuDevicePrimaryCtxReset)(device);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return TIDEI_REAL(cuDevicePrimaryCtxReset_v2)(device);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return TIDEI_REAL(cuDevicePrimaryCtxRelease)(device);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return TIDEI_REAL(cuDevicePrimaryCtxRelease_v2)(device);
}

CUresult CUDAAPI
tidei_process_cuMemGetInfo_v2(size_t * free_bytes, size_t *total_bytes)
{
    return TIDEI_REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
}

CUresult CUDAAPI
tidei_process_cuDeviceTotalMem_v2(size_t * bytes, CUdevice device)
{
    return TIDEI_REAL(cuDeviceTotalMem_v2)(bytes, device);
}

CUresult CUDAAPI
tidei_process_cuMemGetAddressRange_v2(CUdeviceptr * base, size_t *bytes, CUdeviceptr pointer)
{
    return TIDEI_REAL(cuMemGetAddressRange_v2)(base, bytes, pointer);
}

CUresult CUDAAPI
tidei_process_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    return TIDEI_REAL(cuPointerGetAttribute)(data, attribute, pointer);
}

CUresult CUDAAPI
tidei_process_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    return TIDEI_REAL(cuPointerGetAttributes)(count, attributes, data, pointer);
}

#endif
