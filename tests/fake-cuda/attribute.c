/* The fake driver's attributes of an address. */
#include "tests/fake-cuda/fake.h"

#include <string.h>

#include "tests/fake-cuda/memory.h"

static unsigned int
attribute_memory_type(const struct fake_place *place)
{
    return place->kind == FAKE_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* Whether it is memory of cuMemAlloc. */
static bool
attribute_is_plain(const struct fake_place *place)
{
    return place->kind == FAKE_DEVICE && place->pool == NULL && place->mapping == NULL && !place->of_graph;
}

#define ATTRIBUTE_PUT(type, figure)                                                                                    \
    do {                                                                                                               \
        type put = (type)(figure);                                                                                     \
        memcpy(value, &put, sizeof(put));                                                                              \
        return CUDA_SUCCESS;                                                                                           \
    } while (0)

static CUresult
attribute_get(void *value, CUpointer_attribute attribute, const struct fake_place *place)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        ATTRIBUTE_PUT(CUcontext, place->pool != NULL ? NULL : place->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        ATTRIBUTE_PUT(unsigned int, attribute_memory_type(place));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        ATTRIBUTE_PUT(CUdeviceptr, place->start);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (place->kind == FAKE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        ATTRIBUTE_PUT(void *, (uintptr_t)place->start);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        ATTRIBUTE_PUT(unsigned long long, place->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ATTRIBUTE_PUT(unsigned int, place->kind == FAKE_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ATTRIBUTE_PUT(int, place->device >= 0 ? place->device : 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        ATTRIBUTE_PUT(unsigned int, attribute_is_plain(place));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        ATTRIBUTE_PUT(size_t, place->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        ATTRIBUTE_PUT(unsigned int, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        ATTRIBUTE_PUT(unsigned int, place->pool != NULL ? place->pool->properties.handleTypes : 0);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        ATTRIBUTE_PUT(CUmemoryPool, place->pool);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult
do_cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct fake_place place;

    if (value == NULL || !fake_place_find(address, &place))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_get(value, attribute, &place);
}

FAKE_API(4000, cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr address),
         (value, attribute, address))

/* An unknown attribute is 0, and no error. */
static CUresult
do_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr address)
{
    struct fake_place place;
    bool found = fake_place_find(address, &place);

    if (attributes == NULL || values == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (!found || attribute_get(values[i], attributes[i], &place) != CUDA_SUCCESS)
            memset(values[i], 0, sizeof(int));
    }
    return CUDA_SUCCESS;
}

FAKE_API(7000, cuPointerGetAttributes,
         (unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr address),
         (count, attributes, values, address))
