/*
 * Wraps the functions that tell what a device has, and what a pointer belongs to. A limit makes the device look as
 * small as it is; a block of a stack looks like an allocation of the driver's. The driver's call is made first, and its
 * failures are passed on: nothing fails here that would not fail without.
 */
#include "config.h"

#include <string.h>

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

CUresult CUDAAPI
tidei_process_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUresult result = TIDEI_REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
    uint64_t limit, used, left;
    CUcontext context;
    int device;

    if (result != CUDA_SUCCESS || tidei_process_passes())
        return result;
    TIDEI_INSIDE(NULL);
    if (!tidei_process_current(&context, &device) || !tidei_process_limit(device, &limit, &used))
        return result;
    left = limit > used ? limit - used : 0;
    if (total_bytes != NULL && *total_bytes > limit)
        *total_bytes = limit;
    if (free_bytes != NULL && *free_bytes > left)
        *free_bytes = left;
    return result;
}

CUresult CUDAAPI
tidei_process_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult result = TIDEI_REAL(cuDeviceTotalMem_v2)(bytes, device);
    uint64_t limit, used;
    int ordinal;

    if (result != CUDA_SUCCESS || bytes == NULL || tidei_process_passes())
        return result;
    TIDEI_INSIDE(NULL);
    ordinal = tidei_process_ordinal(device);
    if (ordinal >= 0 && tidei_process_limit(ordinal, &limit, &used) && *bytes > limit)
        *bytes = limit;
    return result;
}

/* The block of a stack of its own base that has the pointer in it. */
static bool
answers_redirected(CUdeviceptr pointer, uint64_t *start, struct tidei_process_block *block)
{
    return !tidei_process_passes() && tidei_process_redirects() && tidei_process_covering(pointer, start, block) &&
           block->redirected;
}

CUresult CUDAAPI
tidei_process_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    CUresult result = TIDEI_REAL(cuMemGetAddressRange_v2)(base, bytes, pointer);
    struct tidei_process_block block;
    uint64_t start;

    if (result != CUDA_SUCCESS || !answers_redirected(pointer, &start, &block))
        return result;
    if (base != NULL)
        *base = start;
    if (bytes != NULL)
        *bytes = block.bytes;
    return result;
}

/* Correct an attribute that the driver has answered for the memory out of which the block was cut. */
static void
answers_attribute(void *data, CUpointer_attribute attribute, uint64_t start, const struct tidei_process_block *block)
{
    CUdeviceptr address = start;
    size_t bytes = block->bytes;

    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        memcpy(data, &address, sizeof(address));
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        memcpy(data, &bytes, sizeof(bytes));
}

CUresult CUDAAPI
tidei_process_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    CUresult result = TIDEI_REAL(cuPointerGetAttribute)(data, attribute, pointer);
    struct tidei_process_block block;
    uint64_t start;

    if (result == CUDA_SUCCESS && data != NULL && answers_redirected(pointer, &start, &block))
        answers_attribute(data, attribute, start, &block);
    return result;
}

CUresult CUDAAPI
tidei_process_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                     CUdeviceptr pointer)
{
    CUresult result = TIDEI_REAL(cuPointerGetAttributes)(count, attributes, data, pointer);
    struct tidei_process_block block;
    uint64_t start;

    if (result != CUDA_SUCCESS || attributes == NULL || data == NULL || !answers_redirected(pointer, &start, &block))
        return result;
    for (unsigned i = 0; i < count; i++) {
        if (data[i] != NULL)
            answers_attribute(data[i], attributes[i], start, &block);
    }
    return result;
}

#endif
