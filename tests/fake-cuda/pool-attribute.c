/* Attributes of the fake driver's pools, and their trimming. */
#include "tests/fake-cuda/memory.h"

#include <string.h>

/* The attribute's field, if it is a flag for reuse. */
static int *
attribute_flag(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        return &pool->follow_events;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        return &pool->opportunistic;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return &pool->internal_dependencies;
    default:
        return NULL;
    }
}

static uint64_t *
attribute_figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high_bytes;
    default:
        return NULL;
    }
}

static CUresult
do_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!fake_pool_is(pool) || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute_flag(pool, attribute) != NULL)
        memcpy(value, attribute_flag(pool, attribute), sizeof(int));
    else if (attribute_figure(pool, attribute) != NULL && !pool->imported)
        memcpy(value, attribute_figure(pool, attribute), sizeof(cuuint64_t));
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
         (pool, attribute, value))

/* A high figure can only be reset to the current one, by setting it to 0. */
static CUresult
attribute_set_figure(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value)
{
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        pool->threshold_bytes = value;
        pool->frees_since_trim = true; /* the next synchronize looks again */
        return CUDA_SUCCESS;
    }
    if (value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high_bytes = pool->reserved_bytes;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        pool->used_high_bytes = pool->used_bytes;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult
do_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    int flag;
    uint64_t figure;

    if (!fake_pool_is(pool) || value == NULL || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute_flag(pool, attribute) != NULL) {
        memcpy(&flag, value, sizeof(flag));
        *attribute_flag(pool, attribute) = flag != 0;
        return CUDA_SUCCESS;
    }
    if (attribute_figure(pool, attribute) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&figure, value, sizeof(figure));
    return attribute_set_figure(pool, attribute, figure);
}

FAKE_API(11020, cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
         (pool, attribute, value))

static CUresult
do_cuMemPoolTrimTo(CUmemoryPool pool, size_t least_bytes)
{
    if (!fake_pool_is(pool) || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    least_bytes = least_bytes > pool->reserved_bytes
                      ? pool->reserved_bytes
                      : (least_bytes + FAKE_SLAB_BYTES - 1) / FAKE_SLAB_BYTES * FAKE_SLAB_BYTES;
    fake_pool_trace(pool, FAKE_POOL_TRIMMED, fake_pool_trim(pool, least_bytes) > 0);
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolTrimTo, (CUmemoryPool pool, size_t least_bytes), (pool, least_bytes))
