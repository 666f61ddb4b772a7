/*
 * Wraps the functions of memory whose size the driver chooses: arrays, and rows at a pitch.
 *
 * How much it is shows only when it is there. So a limit is asked first for what it will be at least, and the account
 * gets it afterwards, as it is; what does not fit then goes back before the program has seen it.
 */
#include "config.h"

#include <string.h>

#include "src/process/account.h"
#include "src/process/devices.h"

#ifdef HAVE_CUDA_H

#define ARRAY_ROW ((size_t)512) /* the least multiple of which a pitch has been so far */

struct made_call {
    struct tidei_process_call call; /* first */
    uint64_t key;
    CUresult (*destroy)(uint64_t key);
    bool destroyed;
};

static CUresult
made_make(struct tidei_process_call *call, uint64_t *key)
{
    *key = ((struct made_call *)call)->key;
    return CUDA_SUCCESS;
}

static CUresult
made_give(struct tidei_process_call *call, uint64_t key)
{
    struct made_call *made = (struct made_call *)call;

    made->destroyed = true;
    return made->destroy(key);
}

static CUresult
made_refuse(struct tidei_process_call *call, uint64_t *key)
{
    (void)call;
    *key = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Whether a limit refuses already what the block will be at least. The refusal is recorded. */
static bool
made_refused(const char *function, size_t least, const struct tidei_process_what *what)
{
    struct tidei_process_call call = {
        .make = made_refuse, .give = NULL, .function = function, .bytes = least, .stream = 0
    };
    uint64_t limit, used;
    CUcontext context;
    int device;

    if (!tidei_process_current(&context, &device) || !tidei_process_limit(device, &limit, &used) ||
        (used <= limit && least <= limit - used))
        return false;
    return tidei_process_allocate(&call, what) != CUDA_SUCCESS;
}

/* Take what the driver has made into the account; where it does not fit, it is destroyed. */
static CUresult
made_count(const char *function, uint64_t key, size_t bytes, CUresult (*destroy)(uint64_t),
           const struct tidei_process_what *what)
{
    struct made_call made = {
        .call = { .make = made_make, .give = made_give, .function = function, .bytes = bytes },
        .key = key,
        .destroy = destroy,
    };
    CUresult result = bytes != 0 ? tidei_process_allocate(&made.call, what) : CUDA_SUCCESS;

    if (result != CUDA_SUCCESS && !made.destroyed)
        (void)destroy(key);
    return result;
}

/* Rows at a pitch. */

static CUresult
pitch_destroy(uint64_t key)
{
    return TIDEI_REAL(cuMemFree_v2)(key);
}

CUresult CUDAAPI
tidei_process_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                 unsigned int element_bytes)
{
    /* Where plain memory comes from a base that knows no pitch, this does not. */
    const struct tidei_process_what what = { .kind =
                                                 tidei_process_redirects() ? TIDEI_PROCESS_ARRAY : TIDEI_PROCESS_PLAIN,
                                             .device = -1 };
    CUdeviceptr made = 0;
    CUresult result;
    uint64_t row;

    if (tidei_process_passes() || pointer == NULL || pitch == NULL || !tidei_round_up(width, ARRAY_ROW, &row) ||
        (height != 0 && row > SIZE_MAX / height))
        return TIDEI_REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element_bytes);
    if (made_refused("cuMemAllocPitch", (size_t)row * height, &what))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = TIDEI_REAL(cuMemAllocPitch_v2)(&made, pitch, width, height, element_bytes);
    if (result == CUDA_SUCCESS)
        result = made_count("cuMemAllocPitch", made, *pitch * height, pitch_destroy, &what);
    if (result == CUDA_SUCCESS)
        *pointer = made;
    return result;
}

/* Arrays. */

/* The bytes of a channel; of a format that this does not know, those of the widest plain one. */
static size_t
format_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

/* The elements' bytes, of all levels. 0 where the array has no memory of its own, or the sum overflows. */
static size_t
array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    size_t width = descriptor->Width, height = descriptor->Height, depth = descriptor->Depth, bytes = 0;
    bool layered = (descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;

    if ((descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0)
        return 0;
    for (unsigned level = 0; level < levels; level++) {
        unsigned __int128 more = (unsigned __int128)(width != 0 ? width : 1) * (height != 0 ? height : 1);

        more = more * (depth != 0 ? depth : 1) * (format_bytes(descriptor->Format) * descriptor->NumChannels);
        if (more > SIZE_MAX / 2 - bytes)
            return 0;
        bytes += (size_t)more;
        if (width <= 1 && height <= 1 && (layered || depth <= 1))
            break;
        width /= 2;
        height /= 2;
        depth = layered ? depth : depth / 2;
    }
    return bytes;
}

static CUresult
array_destroy(uint64_t key)
{
    return TIDEI_REAL(cuArrayDestroy)((CUarray)(uintptr_t)key);
}

static CUresult
mipmapped_destroy(uint64_t key)
{
    return TIDEI_REAL(cuMipmappedArrayDestroy)((CUmipmappedArray)(uintptr_t)key);
}

static const struct tidei_process_what array_what = { .kind = TIDEI_PROCESS_ARRAY,
                                                      .names = TIDEI_PROCESS_ARRAYS,
                                                      .device = -1 };
static const struct tidei_process_what mipmapped_what = { .kind = TIDEI_PROCESS_ARRAY,
                                                          .names = TIDEI_PROCESS_MIPMAPPED,
                                                          .device = -1 };

/* What the driver says that the array takes; where it does not say it, the elements' bytes. */
static size_t
array_measure(CUarray array, CUmipmappedArray mipmapped, size_t least)
{
    const struct tidei_driver *cuda = tidei_process_driver();
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = { 0 };
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    CUdevice device;

    if (least == 0 || cuda->context_get_device(&device) != CUDA_SUCCESS)
        return least;
    if (array != NULL && cuda->array_get_memory_requirements != NULL)
        result = cuda->array_get_memory_requirements(&needs, array, device);
    else if (mipmapped != NULL && cuda->mipmapped_array_get_memory_requirements != NULL)
        result = cuda->mipmapped_array_get_memory_requirements(&needs, mipmapped, device);
    return result == CUDA_SUCCESS && needs.size > least ? needs.size : least;
}

CUresult CUDAAPI
tidei_process_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    CUDA_ARRAY3D_DESCRIPTOR full = { 0 };
    CUarray made = NULL;
    CUresult result;
    size_t bytes;

    if (tidei_process_passes() || array == NULL || descriptor == NULL)
        return TIDEI_REAL(cuArrayCreate_v2)(array, descriptor);
    full.Width = descriptor->Width;
    full.Height = descriptor->Height;
    full.Format = descriptor->Format;
    full.NumChannels = descriptor->NumChannels;
    bytes = array_bytes(&full, 1);
    if (made_refused("cuArrayCreate", bytes, &array_what))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = TIDEI_REAL(cuArrayCreate_v2)(&made, descriptor);
    if (result == CUDA_SUCCESS)
        result =
            made_count("cuArrayCreate", (uintptr_t)made, array_measure(made, NULL, bytes), array_destroy, &array_what);
    if (result == CUDA_SUCCESS)
        *array = made;
    return result;
}

CUresult CUDAAPI
tidei_process_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    CUarray made = NULL;
    CUresult result;
    size_t bytes;

    if (tidei_process_passes() || array == NULL || descriptor == NULL)
        return TIDEI_REAL(cuArray3DCreate_v2)(array, descriptor);
    bytes = array_bytes(descriptor, 1);
    if (made_refused("cuArray3DCreate", bytes, &array_what))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = TIDEI_REAL(cuArray3DCreate_v2)(&made, descriptor);
    if (result == CUDA_SUCCESS)
        result = made_count("cuArray3DCreate", (uintptr_t)made, array_measure(made, NULL, bytes), array_destroy,
                            &array_what);
    if (result == CUDA_SUCCESS)
        *array = made;
    return result;
}

CUresult CUDAAPI
tidei_process_cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                     unsigned int levels)
{
    CUmipmappedArray made = NULL;
    CUresult result;
    size_t bytes;

    if (tidei_process_passes() || array == NULL || descriptor == NULL)
        return TIDEI_REAL(cuMipmappedArrayCreate)(array, descriptor, levels);
    bytes = array_bytes(descriptor, levels);
    if (made_refused("cuMipmappedArrayCreate", bytes, &mipmapped_what))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = TIDEI_REAL(cuMipmappedArrayCreate)(&made, descriptor, levels);
    if (result == CUDA_SUCCESS)
        result = made_count("cuMipmappedArrayCreate", (uintptr_t)made, array_measure(NULL, made, bytes),
                            mipmapped_destroy, &mipmapped_what);
    if (result == CUDA_SUCCESS)
        *array = made;
    return result;
}

CUresult CUDAAPI
tidei_process_cuArrayDestroy(CUarray array)
{
    struct made_call made = { .call = { .give = made_give, .function = "cuArrayDestroy" }, .destroy = array_destroy };

    return tidei_process_free(&made.call, TIDEI_PROCESS_ARRAYS, (uintptr_t)array);
}

CUresult CUDAAPI
tidei_process_cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    struct made_call made = { .call = { .give = made_give, .function = "cuMipmappedArrayDestroy" },
                              .destroy = mipmapped_destroy };

    return tidei_process_free(&made.call, TIDEI_PROCESS_MIPMAPPED, (uintptr_t)array);
}

#endif
