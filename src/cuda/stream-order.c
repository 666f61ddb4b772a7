/* Orders one CUDA stream behind another, with events that are kept for reuse. */
#include "src/cuda/stream-order.h"

#ifdef HAVE_CUDA_H

void
tidei_driver_events_init(struct tidei_driver_events *events, const struct tidei_driver *cuda, const char *subject,
                         CUcontext context)
{
    events->cuda = cuda;
    events->subject = subject;
    events->context = context;
    events->count = 0;
    tidei_lock_init(&events->lock);
}

void
tidei_driver_events_fini(struct tidei_driver_events *events, bool touch_driver)
{
    for (size_t i = 0; touch_driver && i < events->count; i++)
        events->cuda->event_destroy(events->idle[i]);
    events->count = 0;
    tidei_lock_fini(&events->lock);
}

/* An event belongs to the context that is current where it is created. */
static CUresult
order_event_create(const struct tidei_driver *cuda, CUcontext context, CUevent *out, const char **function)
{
    CUresult result;

    *function = "cuCtxPushCurrent";
    result = cuda->context_push(context);
    if (result != CUDA_SUCCESS)
        return result;
    *function = "cuEventCreate";
    result = cuda->event_create(out, CU_EVENT_DISABLE_TIMING);
    tidei_driver_leave(cuda);
    return result;
}

/* Keep only events of our own context: an application's context may be destroyed before us. */
static CUresult
order_event_take(struct tidei_driver_events *events, CUcontext context, CUevent *out, const char **function)
{
    *out = NULL;
    if (context == events->context) {
        tidei_lock_acquire(&events->lock);
        if (events->count > 0)
            *out = events->idle[--events->count];
        tidei_lock_release(&events->lock);
    }
    return *out != NULL ? CUDA_SUCCESS : order_event_create(events->cuda, context, out, function);
}

/* A wait refers to the event's state when it was submitted: the event may be recorded again, or destroyed, at once. */
static void
order_event_give(struct tidei_driver_events *events, CUcontext context, CUevent event)
{
    bool kept = false;

    if (context == events->context) {
        tidei_lock_acquire(&events->lock);
        if (events->count < TIDEI_DRIVER_EVENTS) {
            events->idle[events->count++] = event;
            kept = true;
        }
        tidei_lock_release(&events->lock);
    }
    if (!kept)
        events->cuda->event_destroy(event);
}

/* The event and the recorded stream must belong to one context, maybe the application's; a wait takes any event. */
static CUresult
order_streams(struct tidei_driver_events *events, CUstream earlier, CUstream later, const char **function)
{
    const struct tidei_driver *cuda = events->cuda;
    CUcontext context = NULL;
    CUevent event;
    CUresult result;

    *function = "cuStreamGetCtx";
    result = cuda->stream_get_ctx(earlier, &context);
    if (result != CUDA_SUCCESS)
        return result;
    result = order_event_take(events, context, &event, function);
    if (result != CUDA_SUCCESS)
        return result;
    *function = "cuEventRecord";
    result = cuda->event_record(event, earlier);
    if (result == CUDA_SUCCESS) {
        *function = "cuStreamWaitEvent";
        result = cuda->stream_wait_event(later, event, 0);
    }
    order_event_give(events, context, event);
    return result;
}

enum tide_status
tidei_driver_order(struct tidei_driver_events *events, CUstream earlier, CUstream later)
{
    const struct tidei_driver *cuda = events->cuda;
    const char *function;
    CUresult result;

    if (earlier == later)
        return TIDE_OK;
    if (cuda->stream_get_ctx == NULL || cuda->stream_wait_event == NULL || cuda->event_create == NULL ||
        cuda->event_destroy == NULL || cuda->event_record == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: the NVIDIA driver has no events to order streams with",
                              events->subject);
    result = TIDEI_DRIVER_CALL(cuda, events->context, order_streams(events, earlier, later, &function));
    return tidei_driver_error(cuda, events->subject, result, function);
}

/* At exit the driver's work is gone with it, and a thread without a context has no work. */
static bool
order_is_done(CUresult result)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

enum tide_status
tidei_driver_order_all(struct tidei_driver_events *events)
{
    const struct tidei_driver *cuda = events->cuda;
    const char *function = "cuCtxPushCurrent";
    CUresult result;

    if (!tidei_driver_usable())
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "%s: CUDA does not work after fork(): the parent process had started it",
                              events->subject);
    /* The current context may be the application's own, whose streams get memory here, too. */
    result = cuda->context_synchronize();
    if (!order_is_done(result))
        return tidei_driver_error(cuda, events->subject, result, "cuCtxSynchronize");
    result = cuda->context_push(events->context);
    if (result == CUDA_SUCCESS) {
        function = "cuCtxSynchronize";
        result = cuda->context_synchronize();
        tidei_driver_leave(cuda);
    }
    return order_is_done(result) ? TIDE_OK : tidei_driver_error(cuda, events->subject, result, function);
}

#endif
