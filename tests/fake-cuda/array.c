/*
 * Arrays of the fake driver: bytes of the device and a description, without addresses. As documented, the driver tells
 * the memory requirements only of an array with deferred mapping. Such an array takes no memory of its own, nor does a
 * sparse one.
 */
#include "tests/fake-cuda/memory.h"

#include <stdlib.h>

#define ARRAY_STEP_BYTES ((uint64_t)64 << 10)
#define ARRAY_FLAGS      0x1ffu

struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    CUmipmappedArray mipmap; /* of which it is a level; else NULL */
    CUcontext context;
    uint64_t bytes; /* that it takes of the device */
    bool alive;
    struct CUarray_st *next;
};

struct CUmipmappedArray_st {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    CUarray levels[32];
    unsigned level_count;
    CUcontext context;
    uint64_t bytes;
    bool alive;
    struct CUmipmappedArray_st *next;
};

static struct CUarray_st *array_all;
static struct CUmipmappedArray_st *array_mipmaps;

static bool
array_is(CUarray array)
{
    for (const struct CUarray_st *known = array_all; known != NULL; known = known->next) {
        if (known == array)
            return known->alive;
    }
    return false;
}

static bool
array_mipmap_is(CUmipmappedArray mipmap)
{
    for (const struct CUmipmappedArray_st *known = array_mipmaps; known != NULL; known = known->next) {
        if (known == mipmap)
            return known->alive;
    }
    return false;
}

/* The bytes of one channel; 0: none of the formats that the fake knows. */
static unsigned
array_format_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static uint64_t
array_at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

static uint64_t
array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    uint64_t bytes = descriptor->Width * array_at_least_one(descriptor->Height) *
                     array_at_least_one(descriptor->Depth) * descriptor->NumChannels *
                     array_format_bytes(descriptor->Format);

    return (bytes + ARRAY_STEP_BYTES - 1) / ARRAY_STEP_BYTES * ARRAY_STEP_BYTES;
}

static CUresult
array_check(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    unsigned channels;

    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    channels = descriptor->NumChannels;
    if (descriptor->Width == 0 || descriptor->Width > 1 << 17 || descriptor->Height > 1 << 17 ||
        descriptor->Depth > 1 << 14 || (channels != 1 && channels != 2 && channels != 4) ||
        array_format_bytes(descriptor->Format) == 0 || (descriptor->Flags & ~ARRAY_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Whether the array has memory from its creation on. */
static bool
array_is_backed(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
}

static CUresult
array_take(CUcontext context, uint64_t bytes)
{
    if (fake_device_take(context->device, bytes))
        return CUDA_SUCCESS;
    fake_pools_trim(context->device, NULL);
    return fake_device_take(context->device, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUarray
array_new(CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint64_t bytes)
{
    CUarray array = calloc(1, sizeof(*array));

    if (array == NULL)
        abort();
    *array = (struct CUarray_st){
        .descriptor = *descriptor, .context = context, .bytes = bytes, .alive = true, .next = array_all
    };
    array_all = array;
    return array;
}

static CUresult
do_cuArray3DCreate(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);
    uint64_t bytes;

    if (result == CUDA_SUCCESS)
        result = out == NULL ? CUDA_ERROR_INVALID_VALUE : array_check(descriptor);
    if (result != CUDA_SUCCESS)
        return result;
    bytes = array_is_backed(descriptor) ? array_bytes(descriptor) : 0;
    result = array_take(context, bytes);
    if (result == CUDA_SUCCESS)
        *out = array_new(context, descriptor, bytes);
    return result;
}

FAKE_API(3020, cuArray3DCreate, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor), (out, descriptor))

static CUresult
do_cuArrayCreate(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *flat)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor;

    if (flat == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    descriptor = (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = flat->Width, .Height = flat->Height, .Format = flat->Format, .NumChannels = flat->NumChannels
    };
    return do_cuArray3DCreate(out, &descriptor);
}

FAKE_API(3020, cuArrayCreate, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR *descriptor), (out, descriptor))

static CUresult
do_cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!array_is(array))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = array->descriptor;
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray array), (out, array))

static CUresult
do_cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *out, CUarray array)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!array_is(array))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUDA_ARRAY_DESCRIPTOR){ .Width = array->descriptor.Width,
                                    .Height = array->descriptor.Height,
                                    .Format = array->descriptor.Format,
                                    .NumChannels = array->descriptor.NumChannels };
    return CUDA_SUCCESS;
}

FAKE_API(3020, cuArrayGetDescriptor, (CUDA_ARRAY_DESCRIPTOR * out, CUarray array), (out, array))

static void
array_end(CUarray array)
{
    fake_device_give(array->context->device, array->bytes);
    array->bytes = 0;
    array->alive = false;
}

static CUresult
do_cuArrayDestroy(CUarray array)
{
    if (!array_is(array) || array->mipmap != NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_wait_context(array->context);
    array_end(array);
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuArrayDestroy, (CUarray array), (array))

static size_t
array_half(size_t count)
{
    return count > 1 ? count / 2 : count;
}

static bool
array_is_smallest(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return descriptor->Width <= 1 && descriptor->Height <= 1 && descriptor->Depth <= 1;
}

/* More levels than the array has are as many as it has. */
static CUresult
do_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int level_count)
{
    struct CUmipmappedArray_st made = { .alive = true, .next = array_mipmaps };
    CUDA_ARRAY3D_DESCRIPTOR level;
    CUmipmappedArray mipmap;
    CUresult result = fake_context_current(&made.context);

    if (result == CUDA_SUCCESS)
        result = out == NULL || level_count == 0 ? CUDA_ERROR_INVALID_VALUE : array_check(descriptor);
    if (result != CUDA_SUCCESS)
        return result;
    made.descriptor = level = *descriptor;
    for (unsigned i = 0; i < level_count && i < 32; i++) {
        made.bytes += array_is_backed(descriptor) ? array_bytes(&level) : 0;
        made.level_count++;
        if (array_is_smallest(&level))
            break;
        level.Width = array_half(level.Width);
        level.Height = array_half(level.Height);
        level.Depth = array_half(level.Depth);
    }
    result = array_take(made.context, made.bytes);
    if (result != CUDA_SUCCESS)
        return result;
    mipmap = calloc(1, sizeof(*mipmap));
    if (mipmap == NULL)
        abort();
    *mipmap = made;
    *out = array_mipmaps = mipmap;
    return CUDA_SUCCESS;
}

FAKE_API(5000, cuMipmappedArrayCreate,
         (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int level_count),
         (out, descriptor, level_count))

static CUresult
do_cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray mipmap, unsigned int number)
{
    CUDA_ARRAY3D_DESCRIPTOR level;

    if (!array_mipmap_is(mipmap))
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || number >= mipmap->level_count)
        return CUDA_ERROR_INVALID_VALUE;
    if (mipmap->levels[number] == NULL) {
        level = mipmap->descriptor;
        for (unsigned i = 0; i < number; i++) {
            level.Width = array_half(level.Width);
            level.Height = array_half(level.Height);
            level.Depth = array_half(level.Depth);
        }
        mipmap->levels[number] = array_new(mipmap->context, &level, 0);
        mipmap->levels[number]->mipmap = mipmap;
    }
    *out = mipmap->levels[number];
    return CUDA_SUCCESS;
}

FAKE_API(5000, cuMipmappedArrayGetLevel, (CUarray * out, CUmipmappedArray mipmap, unsigned int number),
         (out, mipmap, number))

static void
array_mipmap_end(CUmipmappedArray mipmap)
{
    for (unsigned i = 0; i < mipmap->level_count; i++) {
        if (mipmap->levels[i] != NULL)
            array_end(mipmap->levels[i]);
    }
    fake_device_give(mipmap->context->device, mipmap->bytes);
    mipmap->bytes = 0;
    mipmap->alive = false;
}

static CUresult
do_cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
    if (!array_mipmap_is(mipmap))
        return CUDA_ERROR_INVALID_HANDLE;
    fake_wait_context(mipmap->context);
    array_mipmap_end(mipmap);
    return CUDA_SUCCESS;
}

FAKE_API(5000, cuMipmappedArrayDestroy, (CUmipmappedArray mipmap), (mipmap))

void
fake_arrays_end(CUcontext context)
{
    for (CUarray array = array_all; array != NULL; array = array->next) {
        if (array->alive && array->context == context)
            array_end(array);
    }
    for (CUmipmappedArray mipmap = array_mipmaps; mipmap != NULL; mipmap = mipmap->next) {
        if (mipmap->alive && mipmap->context == context)
            array_mipmap_end(mipmap);
    }
}

static CUresult
array_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint64_t bytes,
                   CUdevice device)
{
    if (out == NULL || (descriptor->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){ .size = (size_t)bytes, .alignment = (size_t)ARRAY_STEP_BYTES };
    return CUDA_SUCCESS;
}

static CUresult
do_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array, CUdevice device)
{
    if (!array_is(array))
        return CUDA_ERROR_INVALID_HANDLE;
    return array_requirements(out, &array->descriptor, array_bytes(&array->descriptor), device);
}

FAKE_API(11060, cuArrayGetMemoryRequirements, (CUDA_ARRAY_MEMORY_REQUIREMENTS * out, CUarray array, CUdevice device),
         (out, array, device))

static CUresult
do_cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray mipmap, CUdevice device)
{
    CUDA_ARRAY3D_DESCRIPTOR level;
    uint64_t bytes = 0;

    if (!array_mipmap_is(mipmap))
        return CUDA_ERROR_INVALID_HANDLE;
    level = mipmap->descriptor;
    for (unsigned i = 0; i < mipmap->level_count; i++) {
        bytes += array_bytes(&level);
        level.Width = array_half(level.Width);
        level.Height = array_half(level.Height);
        level.Depth = array_half(level.Depth);
    }
    return array_requirements(out, &mipmap->descriptor, bytes, device);
}

FAKE_API(11060, cuMipmappedArrayGetMemoryRequirements,
         (CUDA_ARRAY_MEMORY_REQUIREMENTS * out, CUmipmappedArray mipmap, CUdevice device), (out, mipmap, device))
