/* Wraps the functions that end contexts, and with them the memory that was allocated in them. */
#include "config.h"

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/process/held.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

/* What ends with a context. */
struct context_end {
    struct tidei_process_gone gone;
    struct tidei_process_stack *stack; /* its own, out of use; NULL: it has none */
    struct tidei_process_ending ending;
};

/*
 * Before a call that ends a context: its blocks are taken out, so that nothing finds them meanwhile. Those of a stack
 * of the context's own go back to it, and its memory to the driver, while the context is there: afterwards nothing in
 * it may be touched. A call that then fails has found no such context, and so no blocks. A thread that allocates in the
 * context still makes no other stack meanwhile: what that has could not be given back without the context.
 */
static void
context_begin_end(struct context_end *end, CUcontext context)
{
    struct tidei_process_stack *stack;
    bool entered;

    *end = (struct context_end){ .stack = NULL };
    tidei_process_stacks_ending(&end->ending, context);
    tidei_process_contexts_lock();
    stack = tidei_process_stack_take(context);
    tidei_process_contexts_unlock();
    tidei_process_gone_take(&end->gone, context, stack);
    tidei_process_gone_empty(&end->gone, stack);
    entered = stack != NULL && tidei_process_context_enter(context);
    if (entered)
        tidei_process_context_wait();
    tidei_process_gone_return(&end->gone);
    tidei_process_stack_end(stack);
    if (entered)
        tidei_process_context_leave();
    tidei_process_contexts_lock();
    end->stack = tidei_process_stack_take(context);
    tidei_process_context_ends(context);
}

/*
 * A context has ended (NULL: its blocks are taken out already, or none has): forget what was in it, and in its stack.
 * The lock of contexts is held, and is given back first: those of tables are newer. Of what the stack has nothing is
 * known any more before all else, as the driver may give others the same addresses.
 */
static void
context_forget(struct context_end *end, CUcontext context)
{
    tidei_process_contexts_changed();
    tidei_process_contexts_unlock();
    if (end->stack != NULL)
        tidei_process_held_forget(end->stack->top);
    tidei_process_gone_take(&end->gone, context, end->stack);
    tidei_process_gone_empty(&end->gone, end->stack);
    if (end->stack != NULL)
        tidei_process_held_forget(end->stack->top);
    tidei_process_gone_forget(&end->gone);
    tidei_process_stack_end(end->stack);
}

/* After the call: all is gone, or put back where it failed. Returns its result. */
static CUresult
context_finish_end(struct context_end *end, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        context_forget(end, NULL);
        tidei_process_stacks_over(&end->ending);
        return result;
    }
    tidei_process_stack_put(end->stack);
    tidei_process_contexts_changed();
    tidei_process_contexts_unlock();
    tidei_process_gone_put(&end->gone);
    tidei_process_stacks_over(&end->ending);
    return result;
}

/*
 * After a call that ends a context only if nobody holds it any more, of which the driver tells afterwards: forget what
 * was in the context, and in the stack, which was taken out before; NULL: none has ended. The lock of contexts is held,
 * and is given back.
 */
static void
context_has_ended(CUcontext context, struct tidei_process_stack *stack)
{
    struct context_end end = { .stack = context != NULL ? stack : NULL };

    if (context != NULL)
        tidei_process_context_ends(context);
    else
        tidei_process_stack_put(stack);
    context_forget(&end, context);
}

static CUresult
context_destroy(CUcontext context, CUresult(CUDAAPI *real)(CUcontext))
{
    struct context_end end;

    if (tidei_process_passes())
        return real(context);
    TIDEI_INSIDE(NULL);
    /* The driver refuses that, and nothing in it ends. */
    if (tidei_process_is_primary(context))
        return real(context);
    context_begin_end(&end, context);
    return context_finish_end(&end, real(context));
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
    struct tidei_process_stack *stack;
    CUresult result;

    if (tidei_process_passes())
        return TIDEI_REAL(cuCtxDetach)(context);
    TIDEI_INSIDE(NULL);
    tidei_process_contexts_lock();
    /* Out of use first: at once after the end, another context may have the same handle. */
    stack = tidei_process_stack_take(context);
    result = TIDEI_REAL(cuCtxDetach)(context);
    context_has_ended(result == CUDA_SUCCESS && !tidei_process_context_stays(context) ? context : NULL, stack);
    return result;
}

/* The primary context is gone after a reset. */
static CUresult
primary_reset(CUdevice device, CUresult(CUDAAPI *real)(CUdevice))
{
    struct context_end end;
    CUcontext context;

    if (tidei_process_passes())
        return real(device);
    TIDEI_INSIDE(NULL);
    tidei_process_contexts_lock();
    context = tidei_process_primary(device);
    tidei_process_contexts_unlock();
    context_begin_end(&end, context);
    return context_finish_end(&end, real(device));
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
    tidei_process_contexts_lock();
    context = tidei_process_primary(device);
    result = real(device);
    if (result != CUDA_SUCCESS || tidei_process_primary(device) != NULL)
        context = NULL;
    context_has_ended(context, tidei_process_stack_take(context));
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
    tidei_process_contexts_lock();
    for (; count < TIDEI_PROCESS_DEVICES && tidei_process_has_device(count); count++)
        before[count] = tidei_process_primary(tidei_process_handle(count));
    result = TIDEI_REAL(cuGreenCtxDestroy)(green);
    for (int i = 0; ended == NULL && i < count; i++) {
        if (before[i] != NULL && tidei_process_primary(tidei_process_handle(i)) == NULL)
            ended = before[i];
    }
    context_has_ended(ended, tidei_process_stack_take(ended));
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
