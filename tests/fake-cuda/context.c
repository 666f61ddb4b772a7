/* Contexts of the fake driver: primary ones with their references, an application's own, and each thread's stack. */
#include "tests/fake-cuda/fake.h"

#include <stdlib.h>

#include "tests/fake-cuda/capture.h"
#include "tests/fake-cuda/memory.h"

#define CONTEXT_MOST 64

static __thread CUcontext context_stack[CONTEXT_MOST];
static __thread int context_depth;
static uint32_t context_ids;

bool
fake_context_is(CUcontext context)
{
    for (struct CUctx_st *known = fake.contexts; known != NULL; known = known->next) {
        if (known == context)
            return true;
    }
    return false;
}

unsigned
fake_context_depth(void)
{
    return (unsigned)context_depth;
}

FAKE_EXPORT bool
fake_cuda_has_context(void)
{
    bool found = false;

    pthread_mutex_lock(&fake_lock);
    for (struct CUctx_st *known = fake.contexts; known != NULL; known = known->next)
        found = found || known->alive;
    pthread_mutex_unlock(&fake_lock);
    return found;
}

/* How deep the real driver's stack may be is not known: a test that needs more is not to run in another context. */
void
fake_context_push(CUcontext context)
{
    if (context_depth == CONTEXT_MOST)
        abort();
    context_stack[context_depth++] = context;
}

void
fake_context_pop(void)
{
    if (context_depth > 0)
        context_depth--;
}

CUcontext
fake_context_top(void)
{
    return context_depth > 0 ? context_stack[context_depth - 1] : NULL;
}

CUresult
fake_context_current(CUcontext *out)
{
    *out = fake_context_top();
    if (*out == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(*out)->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    /* As the manual has it, a green context is the primary one with less of the device. */
    if ((*out)->home != NULL)
        *out = (*out)->home;
    return (*out)->alive ? (*out)->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUcontext
context_new(int device, unsigned int flags, bool primary)
{
    CUcontext context = calloc(1, sizeof(*context));
    struct CUctx_st **link = &fake.contexts;

    if (context == NULL)
        abort();
    context->device = device;
    context->flags = flags;
    context->primary = primary;
    context->alive = true;
    context->id = ++context_ids;
    while (*link != NULL)
        link = &(*link)->next;
    *link = context;
    context->legacy = fake_stream_new(context, 0, 0);
    context->legacy->legacy = true;
    return context;
}

/* End a context once its streams have done their work, and destroy everything in it. */
static void
context_end(CUcontext context)
{
    fake_wait_context(context);
    fake_streams_end(context);
    fake_ipc_end(context);
    fake_memory_end(context);
    fake_arrays_end(context);
    context->alive = false;
    context->peers = 0;
}

/* A primary context that is retained again is at the same address. */
static CUresult
do_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    struct fake_device *entry;

    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    entry = &fake.devices[device];
    if (entry->primary == NULL) {
        entry->primary = context_new(device, entry->primary_flags, true);
    } else if (!entry->primary->alive) {
        entry->primary->alive = true;
        entry->primary->error = CUDA_SUCCESS;
        entry->primary->legacy = fake_stream_new(entry->primary, 0, 0);
        entry->primary->legacy->legacy = true;
    }
    entry->primary->references++;
    *out = entry->primary;
    return CUDA_SUCCESS;
}

FAKE_API(7000, cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device))

static CUresult
do_cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUcontext primary;

    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    primary = fake.devices[device].primary;
    if (primary == NULL || primary->references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->references == 0)
        context_end(primary);
    return CUDA_SUCCESS;
}

FAKE_API(11000, cuDevicePrimaryCtxRelease, (CUdevice device), (device))

/* A reset keeps the references. */
static CUresult
do_cuDevicePrimaryCtxReset(CUdevice device)
{
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (fake.devices[device].primary != NULL && fake.devices[device].primary->alive)
        context_end(fake.devices[device].primary);
    return CUDA_SUCCESS;
}

FAKE_API(11000, cuDevicePrimaryCtxReset, (CUdevice device), (device))

static CUresult
do_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = fake.devices[device].primary_flags;
    *active = fake.devices[device].primary != NULL && fake.devices[device].primary->alive;
    return CUDA_SUCCESS;
}

FAKE_API(7000, cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active), (device, flags, active))

static CUresult
do_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake.devices[device].primary_flags = flags;
    return CUDA_SUCCESS;
}

FAKE_API(11000, cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned int flags), (device, flags))

static CUresult
context_create(CUcontext *out, unsigned int flags, CUdevice device)
{
    if (out == NULL || flags > 0xff)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = context_new(device, flags, false);
    (*out)->users = 1;
    fake_context_push(*out);
    return CUDA_SUCCESS;
}

/* cuda.h of 13.0 does not declare it any more; older programs call it, and so do tests. */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device);

static CUresult
do_cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return context_create(out, flags, device);
}

FAKE_API(3020, cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice device), (out, flags, device))

static CUresult
do_cuCtxCreate(CUcontext *out, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    (void)parameters;
    return context_create(out, flags, device);
}

FAKE_API(12050, cuCtxCreate, (CUcontext * out, CUctxCreateParams *parameters, unsigned int flags, CUdevice device),
         (out, parameters, flags, device))

static CUresult
do_cuCtxDestroy(CUcontext context)
{
    if (context == NULL || !fake_context_is(context))
        return CUDA_ERROR_INVALID_VALUE;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context->primary || context->home != NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    context_end(context);
    if (fake_context_top() == context)
        fake_context_pop();
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxDestroy, (CUcontext context), (context))

/* The next two as the manual has them, which advises against them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static CUresult
do_cuCtxAttach(CUcontext *out, unsigned int flags)
{
    CUcontext context = fake_context_top();

    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (context == NULL || !context->alive || context->users == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    context->users++;
    *out = context;
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuCtxAttach, (CUcontext * out, unsigned int flags), (out, flags))

static CUresult
do_cuCtxDetach(CUcontext context)
{
    if (context == NULL || context != fake_context_top() || !context->alive || context->users == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    return --context->users == 0 ? do_cuCtxDestroy(context) : CUDA_SUCCESS;
}

FAKE_API(2000, cuCtxDetach, (CUcontext context), (context))

#pragma GCC diagnostic pop

CUresult
fake_context_green(CUdevice device, CUcontext *out)
{
    CUcontext primary;
    CUresult result = do_cuDevicePrimaryCtxRetain(&primary, device);

    if (result != CUDA_SUCCESS)
        return result;
    *out = context_new(device, 0, false);
    (*out)->home = primary;
    return CUDA_SUCCESS;
}

void
fake_context_green_end(CUcontext context)
{
    context_end(context);
    (void)do_cuDevicePrimaryCtxRelease(context->device);
}

static CUresult
do_cuCtxPushCurrent(CUcontext context)
{
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_context_is(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context_depth == CONTEXT_MOST)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_context_push(context);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxPushCurrent, (CUcontext context), (context))

static CUresult
do_cuCtxPopCurrent(CUcontext *out)
{
    CUcontext top = fake_context_top();

    if (top == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out != NULL)
        *out = top;
    fake_context_pop();
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxPopCurrent, (CUcontext * out), (out))

static CUresult
do_cuCtxSetCurrent(CUcontext context)
{
    if (context != NULL && !fake_context_is(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context != NULL && !context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    fake_context_pop();
    if (context != NULL)
        fake_context_push(context);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxSetCurrent, (CUcontext context), (context))

static CUresult
do_cuCtxGetCurrent(CUcontext *out)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = fake_context_top();
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxGetCurrent, (CUcontext * out), (out))

static CUresult
do_cuCtxGetDevice(CUdevice *device)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result == CUDA_SUCCESS)
        *device = context->device;
    return result;
}

FAKE_API(2000, cuCtxGetDevice, (CUdevice * device), (device))

static CUresult
do_cuCtxSynchronize(void)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    result = fake_capture_refuses(context);
    if (result != CUDA_SUCCESS)
        return result;
    fake_wait_context(context);
    fake_pools_synchronized(context->device);
    return context->error;
}

FAKE_API(2000, cuCtxSynchronize, (void), ())

static CUresult
do_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

FAKE_API(5050, cuCtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))

static CUresult
do_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer == NULL || !fake_context_is(peer) || !peer->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == context->device)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (fake_environment_bytes("FAKE_CUDA_NO_PEERS", 0))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (context->peers & 1u << peer->device)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= 1u << peer->device;
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags))

static CUresult
do_cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (peer == NULL || !fake_context_is(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(context->peers & 1u << peer->device))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(1u << peer->device);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuCtxDisablePeerAccess, (CUcontext peer), (peer))
