/* Wraps the functions that end contexts, and with them the memory that was allocated in them. */
#include "config.h"

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/process/held.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

/*
 * Before a call that ends a context: its blocks are taken out, so that nothing finds them meanwhile. Those of a stack
 * of the context's own go back to it, and its memory to the driver, while the context is there: afterwards nothing in
 * it may be touched. A call that then fails has found no such context, and so no blocks.
 */
static void
context_begin_end(struct tidei_process_gone *gone, CUcontext context)
{
    struct tidei_process_stack *stack = tidei_process_stack_retire(context);
    bool entered = stack != NULL && tidei_process_context_enter(context);

    tidei_process_gone_take(gone, context);
    tidei_process_gone_return(gone);
    tidei_process_stack_end(stack);
    if (entered)
        tidei_process_context_leave();
    tidei_process_contexts_lock();
    tidei_process_context_ends(context);
}

/* After it: they are gone, or put back where it failed. Returns its result. */
static CUresult
context_finish_end(struct tidei_process_gone *gone, CUresult result)
{
    tidei_process_contexts_changed();
    tidei_process_contexts_unlock();
    if (result == CUDA_SUCCESS)
        tidei_process_gone_forget(gone);
    else
        tidei_process_gone_put(gone);
    return result;
}

/*
 * After a call that ends a context only if nobody holds it any more, of which the driver tells afterwards: forget what
 * was in the context; NULL: none has ended. The lock of contexts is held, and is given back.
 */
static void
context_has_ended(CUcontext context)
{
    struct tidei_process_gone gone = { 0 };
    struct tidei_process_stack *stack;

    tidei_process_gone_take(&gone, context);
    if (context != NULL)
        tidei_process_context_ends(context);
    tidei_process_contexts_changed();
    tidei_process_contexts_unlock();
    stack = tidei_process_stack_retire(context);
    if (stack != NULL)
        tidei_process_held_forget(context, stack->device);
    tidei_process_gone_forget(&gone);
    tidei_process_stack_end(stack);
}

static CUresult
context_destroy(CUcontext context, CUresult(CUDAAPI *real)(CUcontext))
{
    struct tidei_process_gone gone;

    if (tidei_process_passes())
        return real(context);
    TIDEI_INSIDE(NULL);
    /* The driver refuses that, and nothing in it ends. */
    if (tidei_process_is_primary(context))
        return real(context);
    context_begin_end(&gone, context);
    return context_finish_end(&gone, real(context));
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

/* A context may be attached to more than once. It has ended if it is not current any more. */
CUresult CUDAAPI
tidei_process_cuCtxDetach(CUcontext context)
{
    CUresult result;

    if (tidei_process_passes())
        return TIDEI_REAL(cuCtxDetach)(context);
    TIDEI_INSIDE(NULL);
    tidei_process_contexts_lock();
    result = TIDEI_REAL(cuCtxDetach)(context);
    context_has_ended(result == CUDA_SUCCESS && !tidei_process_context_stays(context) ? context : NULL);
    return result;
}

/* The primary context is gone after a reset. */
static CUresult
primary_reset(CUdevice device, CUresult(CUDAAPI *real)(CUdevice))
{
    struct tidei_process_gone gone;

    if (tidei_process_passes())
        return real(device);
    TIDEI_INSIDE(NULL);
    context_begin_end(&gone, tidei_process_primary(device));
    return context_finish_end(&gone, real(device));
}

/*
 * After a release the primary context is gone only if nobody holds it any more. Programs retain and release it all the
 * time while other threads free its blocks, so these are looked for only where it has ended.
 */
static CUresult
primary_release(CUdevice device, CUresult(CUDAAPI *real)(CUdevice))
{
    CUcontext context;
    CUresult result;

    if (tidei_process_passes())
        return real(device);
    TIDEI_INSIDE(NULL);
    context = tidei_process_primary(device);
    tidei_process_contexts_lock();
    result = real(device);
    context_has_ended(result == CUDA_SUCCESS && tidei_process_primary(device) == NULL ? context : NULL);
    return result;
}

#if CUDA_VERSION >= 12040

/* A green context has no memory of its own. It holds the primary context of its device, which it does not tell. */
CUresult CUDAAPI
tidei_process_cuGreenCtxDestroy(CUgreenCtx green)
{
    CUcontext before[TIDEI_PROCESS_DEVICES], ended = NULL;
    CUresult result;
    int count = 0;

    if (tidei_process_passes())
        return TIDEI_REAL(cuGreenCtxDestroy)(green);
    TIDEI_INSIDE(NULL);
    for (; count < TIDEI_PROCESS_DEVICES && tidei_process_has_device(count); count++)
        before[count] = tidei_process_primary(tidei_process_handle(count));
    tidei_process_contexts_lock();
    result = TIDEI_REAL(cuGreenCtxDestroy)(green);
    for (int i = 0; ended == NULL && i < count; i++) {
        if (before[i] != NULL && tidei_process_primary(tidei_process_handle(i)) == NULL)
            ended = before[i];
    }
    context_has_ended(ended);
    return result;
}

#endif

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxReset(CUdevice device)
{
    return primary_reset(device, TIDEI_REAL(cuDevicePrimaryCtxReset));
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return primary_reset(device, TIDEI_REAL(cuDevicePrimaryCtxReset_v2));
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return primary_release(device, TIDEI_REAL(cuDevicePrimaryCtxRelease));
}

CUresult CUDAAPI
tidei_process_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return primary_release(device, TIDEI_REAL(cuDevicePrimaryCtxRelease_v2));
}

#endif
