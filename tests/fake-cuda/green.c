/*
 * Green contexts of the fake driver, as the manual has them: a green context holds a reference to the primary context
 * of its device, and what is allocated while it is current is the primary context's. All multiprocessors of a device
 * are one resource here, which any number of green contexts share.
 */
#include "tests/fake-cuda/fake.h"

#include <stdlib.h>

#define GREEN_PROCESSORS 16

struct CUgreenCtx_st {
    struct CUgreenCtx_st *next;
    CUcontext context; /* owned by the list of contexts */
    bool alive;
};

struct CUdevResourceDesc_st {
    unsigned count;
};

static struct CUgreenCtx_st *green_all;

static bool
green_is(CUgreenCtx green)
{
    CUgreenCtx known = green_all;

    while (known != NULL && known != green)
        known = known->next;
    return known != NULL && known->alive;
}

CUcontext
fake_green_context(CUgreenCtx green)
{
    return green->context;
}

CUgreenCtx
fake_green_of(CUcontext context)
{
    CUgreenCtx green = green_all;

    while (green != NULL && green->context != context)
        green = green->next;
    return green;
}

static CUresult
do_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    if (resource == NULL || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *resource = (CUdevResource){ .type = CU_DEV_RESOURCE_TYPE_SM };
    resource->sm.smCount = GREEN_PROCESSORS;
    return CUDA_SUCCESS;
}

FAKE_API(12040, cuDeviceGetDevResource, (CUdevice device, CUdevResource *resource, CUdevResourceType type),
         (device, resource, type))

static CUresult
do_cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources, unsigned int count)
{
    if (out == NULL || resources == NULL || count == 0 || resources[0].type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    *out = calloc(1, sizeof(**out)); /* there is no function that would end it */
    if (*out == NULL)
        abort();
    (*out)->count = count;
    return CUDA_SUCCESS;
}

FAKE_API(12040, cuDevResourceGenerateDesc, (CUdevResourceDesc * out, CUdevResource *resources, unsigned int count),
         (out, resources, count))

static CUresult
do_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc descriptor, CUdevice device, unsigned int flags)
{
    CUgreenCtx green;
    CUresult result;
    CUcontext context;

    if (out == NULL || descriptor == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    result = fake_context_green(device, &context);
    if (result != CUDA_SUCCESS)
        return result;
    green = calloc(1, sizeof(*green));
    if (green == NULL)
        abort();
    *green = (struct CUgreenCtx_st){ .next = green_all, .context = context, .alive = true };
    green_all = green;
    *out = green;
    return CUDA_SUCCESS;
}

FAKE_API(12040, cuGreenCtxCreate, (CUgreenCtx * out, CUdevResourceDesc descriptor, CUdevice device, unsigned int flags),
         (out, descriptor, device, flags))

static CUresult
do_cuGreenCtxDestroy(CUgreenCtx green)
{
    if (green == NULL || !green_is(green))
        return CUDA_ERROR_INVALID_CONTEXT;
    green->alive = false;
    fake_context_green_end(green->context);
    return CUDA_SUCCESS;
}

FAKE_API(12040, cuGreenCtxDestroy, (CUgreenCtx green), (green))

static CUresult
do_cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx green)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (green == NULL || !green_is(green))
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = green->context;
    return CUDA_SUCCESS;
}

FAKE_API(12040, cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx green), (out, green))

static CUresult
do_cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx green, unsigned int flags, int priority)
{
    if (out == NULL || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (green == NULL || !green_is(green))
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = fake_stream_new(green->context->home, flags, priority);
    (*out)->green = green;
    return CUDA_SUCCESS;
}

FAKE_API(12050, cuGreenCtxStreamCreate, (CUstream * out, CUgreenCtx green, unsigned int flags, int priority),
         (out, green, flags, priority))
