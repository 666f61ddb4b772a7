/* Wraps the functions that end contexts, and with them the memory that was allocated in them. */
#include "config.h"

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

static CUresult
context_destroy(CUcontext context, CUresult(CUDAAPI *real)(CUcontext))
{
    struct tidei_process_gone gone;
    CUresult result;

    if (tidei_process_passes())
        return real(context);
    TIDEI_INSIDE(NULL);
    tidei_process_gone_take(&gone, context);
    tidei_process_contexts_lock();
    result = real(context);
    tidei_process_contexts_changed();
    tidei_process_contexts_unlock();
    if (result == CUDA_SUCCESS)
        tidei_process_gone_forget(&gone);
    else
        tidei_process_gone_put(&gone);
    return result;
}

CUresult CUDAAPI
tidei_process_cuCtxDestroy(CUcontext context)
{
    return context_destroy(context, TIDEI_REAL(cuCtxDestroy));
}

CUresult CUDAAPI
tidei_process_cuCtxDestroy_v2(CUcontext context)
{
    return context_destroy(context, TIDEI_REAL(cuCtxDestroy_v2));
}

/* The primary context is gone after a reset, and after a release if nobody holds it any more. */
static CUresult
primary_end(CUdevice device, CUresult(CUDAAPI *real)(CUdevice), bool reset)
{
    struct tidei_process_gone gone;
    CUcontext context;
    CUresult result;
    bool ended;

    if (tidei_process_passes())
        return real(device);
    TIDEI_INSIDE(NULL);
    context = tidei_process_primary(device);
    tidei_process_gone_take(&gone, context);
    tidei_process_contexts_lock();
    result = real(device);
    ended = result == CUDA_SUCCESS && (reset || tidei_process_primary(device) == NULL);
    tidei_process_contexts_changed();
    tidei_process_contexts_unlock();
    if (ended)
        tidei_process_gone_forget(&gone);
    else
        tidei_process_gone_put(&gone);
    return result;
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxReset(CUdevice device)
{
    return primary_end(device, TIDEI_REAL(cuDevicePrimaryCtxReset), true);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return primary_end(device, TIDEI_REAL(cuDevicePrimaryCtxReset_v2), true);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return primary_end(device, TIDEI_REAL(cuDevicePrimaryCtxRelease), false);
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return primary_end(device, TIDEI_REAL(cuDevicePrimaryCtxRelease_v2), false);
}

#endif
