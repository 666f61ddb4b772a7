/* Opens a CUDA device for a base, frees memory of its pools, and orders its streams. */
#include "src/cuda/device.h"

#ifdef HAVE_CUDA_H

#include <string.h>

enum tide_status
tidei_device_error(const struct tidei_device *self, CUresult result, const char *function)
{
    return tidei_driver_error(self->cuda, self->subject, result, function);
}

enum tide_status
tidei_device_lacks(const struct tidei_device *self, const char *function)
{
    return tide_error_set(TIDE_EUNSUPPORTED, "%s: the NVIDIA driver has no %s (it is of CUDA %d.%d)", self->subject,
                          function, self->cuda->version / 1000, self->cuda->version % 1000 / 10);
}

enum tide_status
tidei_device_find(const struct tidei_driver *cuda, const char *subject, int ordinal, CUdevice *out)
{
    int count = 0;
    enum tide_status status = tidei_driver_error(cuda, subject, cuda->device_get_count(&count), "cuDeviceGetCount");

    *out = 0;
    if (status != TIDE_OK)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return tide_error_set(TIDE_EINVAL, "%s: no device %d, this machine has %d (counted from 0)", subject, ordinal,
                              count);
    return tidei_driver_error(cuda, subject, cuda->device_get(out, ordinal), "cuDeviceGet");
}

enum tide_status
tidei_device_open(struct tidei_device *self, const char *subject, int ordinal)
{
    enum tide_status status;

    memset(self, 0, sizeof(*self));
    self->subject = subject;
    self->ordinal = ordinal;
    status = tidei_driver_get(subject, &self->cuda);
    if (status == TIDE_OK)
        status = tidei_device_find(self->cuda, subject, ordinal, &self->handle);
    if (status == TIDE_OK)
        status = tidei_device_error(self, self->cuda->device_total_mem(&self->total_bytes, self->handle),
                                    "cuDeviceTotalMem");
    if (status == TIDE_OK)
        status = tidei_device_error(self, self->cuda->primary_context_retain(&self->context, self->handle),
                                    "cuDevicePrimaryCtxRetain");
    if (status == TIDE_OK)
        tidei_lock_init(&self->event_lock);
    return status;
}

void
tidei_device_close(struct tidei_device *self)
{
    const struct tidei_driver *cuda = self->cuda;
    bool usable = tidei_driver_usable();
    bool pushed = usable && cuda->context_push(self->context) == CUDA_SUCCESS;

    for (size_t i = 0; usable && i < self->event_count; i++)
        cuda->event_destroy(self->events[i]);
    if (usable && self->bridge != NULL)
        cuda->stream_destroy(self->bridge);
    tidei_lock_fini(&self->event_lock);
    if (pushed)
        tidei_driver_leave(cuda);
    if (usable)
        cuda->primary_context_release(self->handle);
}

enum tide_status
tidei_device_free_error(const struct tidei_device *self, CUresult result, const void *pointer, const char *function)
{
    if (result == CUDA_ERROR_DEINITIALIZED)
        return TIDE_OK;
    if (result != CUDA_ERROR_INVALID_VALUE)
        return tidei_device_error(self, result, function);
    tidei_error_driver_set((int)result);
    return tide_error_set(TIDE_EPOINTER, "%s: %p is no live allocation (%s: %s)", self->subject, pointer, function,
                          tidei_driver_error_name(self->cuda, result));
}

enum tide_status
tidei_device_free_async(struct tidei_device *self, void *pointer, size_t bytes, tide_stream stream)
{
    const struct tidei_driver *cuda = self->cuda;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    CUresult result;

    if (pointer == NULL)
        return bytes == 0
                   ? TIDE_OK
                   : tide_error_set(TIDE_EPOINTER, "%s: NULL is no allocation of %zu bytes", self->subject, bytes);
    stream = tidei_device_stream(self, stream);
    result = TIDEI_DRIVER_CALL(cuda, self->context, cuda->mem_free_async(address, (CUstream)stream));
    return result == CUDA_SUCCESS ? TIDE_OK : tidei_device_free_error(self, result, pointer, "cuMemFreeAsync");
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
order_event_take(struct tidei_device *self, CUcontext context, CUevent *out, const char **function)
{
    *out = NULL;
    if (context == self->context) {
        tidei_lock_acquire(&self->event_lock);
        if (self->event_count > 0)
            *out = self->events[--self->event_count];
        tidei_lock_release(&self->event_lock);
    }
    return *out != NULL ? CUDA_SUCCESS : order_event_create(self->cuda, context, out, function);
}

/* A wait refers to the event's state when it was submitted: the event may be recorded again, or destroyed, at once. */
static void
order_event_give(struct tidei_device *self, CUcontext context, CUevent event)
{
    bool kept = false;

    if (context == self->context) {
        tidei_lock_acquire(&self->event_lock);
        if (self->event_count < TIDEI_DEVICE_EVENTS) {
            self->events[self->event_count++] = event;
            kept = true;
        }
        tidei_lock_release(&self->event_lock);
    }
    if (!kept)
        self->cuda->event_destroy(event);
}

/* The event and the recorded stream must belong to one context, maybe the application's; a wait takes any event. */
static CUresult
order_streams(struct tidei_device *self, CUstream earlier, CUstream later, const char **function)
{
    const struct tidei_driver *cuda = self->cuda;
    CUcontext context = NULL;
    CUevent event;
    CUresult result;

    *function = "cuStreamGetCtx";
    result = cuda->stream_get_ctx(earlier, &context);
    if (result != CUDA_SUCCESS)
        return result;
    result = order_event_take(self, context, &event, function);
    if (result != CUDA_SUCCESS)
        return result;
    *function = "cuEventRecord";
    result = cuda->event_record(event, earlier);
    if (result == CUDA_SUCCESS) {
        *function = "cuStreamWaitEvent";
        result = cuda->stream_wait_event(later, event, 0);
    }
    order_event_give(self, context, event);
    return result;
}

static enum tide_status
order_one(struct tidei_device *self, CUstream earlier, CUstream later)
{
    const struct tidei_driver *cuda = self->cuda;
    const char *function;
    CUresult result;

    if (earlier == later)
        return TIDE_OK;
    if (cuda->stream_get_ctx == NULL || cuda->stream_wait_event == NULL || cuda->event_create == NULL ||
        cuda->event_destroy == NULL || cuda->event_record == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: the NVIDIA driver has no events to order streams with",
                              self->subject);
    result = TIDEI_DRIVER_CALL(cuda, self->context, order_streams(self, earlier, later, &function));
    return tidei_device_error(self, result, function);
}

/* At exit the driver's work is gone with it, and a thread without a context has no work. */
static bool
order_is_done(CUresult result)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/*
 * Wait on the host until all work submitted to any stream of the device's context, and of the current context, is done.
 * Destroyed streams are included: no handle is named, because the driver crashes on a destroyed one.
 */
static enum tide_status
order_all(struct tidei_device *self)
{
    const struct tidei_driver *cuda = self->cuda;
    const char *function = "cuCtxPushCurrent";
    CUresult result;

    if (!tidei_driver_usable())
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "%s: CUDA does not work after fork(): the parent process had started it", self->subject);
    /* The current context may be the application's own, whose streams get memory here, too. */
    result = cuda->context_synchronize();
    if (!order_is_done(result))
        return tidei_device_error(self, result, "cuCtxSynchronize");
    result = cuda->context_push(self->context);
    if (result == CUDA_SUCCESS) {
        function = "cuCtxSynchronize";
        result = cuda->context_synchronize();
        tidei_driver_leave(cuda);
    }
    return order_is_done(result) ? TIDE_OK : tidei_device_error(self, result, function);
}

/* Record an event of our own context behind the stream's work. CUDA_ERROR_INVALID_HANDLE: the stream is of another. */
static CUresult
mark_own(struct tidei_device *self, CUstream stream, CUevent *out, const char **function)
{
    CUresult result = order_event_take(self, self->context, out, function);

    if (result != CUDA_SUCCESS) {
        *out = NULL;
        return result;
    }
    *function = "cuEventRecord";
    result = self->cuda->event_record(*out, stream);
    if (result != CUDA_SUCCESS) {
        order_event_give(self, self->context, *out);
        *out = NULL;
    }
    return result;
}

/* The stream of our own context, which waits for streams of other contexts, and stands in for captured ones. */
static CUresult
mark_bridge(struct tidei_device *self, CUstream *out, const char **function)
{
    const struct tidei_driver *cuda = self->cuda;
    CUstream made = NULL;
    CUresult result;

    tidei_lock_acquire(&self->event_lock);
    *out = self->bridge;
    tidei_lock_release(&self->event_lock);
    if (*out != NULL)
        return CUDA_SUCCESS;
    *function = "cuCtxPushCurrent";
    result = cuda->context_push(self->context);
    if (result != CUDA_SUCCESS)
        return result;
    *function = "cuStreamCreate";
    result = cuda->stream_create(&made, CU_STREAM_NON_BLOCKING);
    tidei_driver_leave(cuda);
    if (result != CUDA_SUCCESS)
        return result;
    tidei_lock_acquire(&self->event_lock);
    if (self->bridge == NULL) {
        self->bridge = made;
        made = NULL;
    }
    *out = self->bridge;
    tidei_lock_release(&self->event_lock);
    if (made != NULL)
        cuda->stream_destroy(made);
    return CUDA_SUCCESS;
}

bool
tidei_device_is_captured(struct tidei_device *self, tide_stream stream)
{
    const struct tidei_driver *cuda = self->cuda;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result;

    if (cuda->stream_is_capturing == NULL || cuda->stream_create == NULL || cuda->stream_destroy == NULL)
        return false;
    result = TIDEI_DRIVER_CALL(cuda, self->context, cuda->stream_is_capturing((CUstream)stream, &status));
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

tide_stream
tidei_device_stream(struct tidei_device *self, tide_stream stream)
{
    const char *function;
    CUstream bridge;

    if (__builtin_expect(!tidei_thread->relaxed, 1) || !tidei_device_is_captured(self, stream) ||
        mark_bridge(self, &bridge, &function) != CUDA_SUCCESS)
        return stream;
    return (tide_stream)bridge;
}

enum tide_status
tidei_device_order(struct tidei_device *self, tide_stream earlier, tide_stream later)
{
    if (earlier == TIDE_STREAM_ALL && tidei_thread->relaxed) /* the driver would end the capture */
        return tide_error_set(TIDE_EUNSUPPORTED, "%s: no wait for all streams while a CUDA graph is captured",
                              self->subject);
    if (earlier == TIDE_STREAM_ALL)
        return order_all(self);
    if (tidei_device_stream(self, earlier) != earlier)
        return TIDE_OK; /* what came before the capture is done */
    return order_one(self, (CUstream)earlier, (CUstream)later);
}

/*
 * A stream of another context takes only events of that context, which may be destroyed with it before we ask. So a
 * stream of ours waits for such an event, and ours is recorded there.
 */
static CUresult
mark_stream(struct tidei_device *self, CUstream stream, CUevent *out, const char **function)
{
    const struct tidei_driver *cuda = self->cuda;
    CUresult result = mark_own(self, stream, out, function);
    CUstream bridge;

    if (result != CUDA_ERROR_INVALID_HANDLE || cuda->stream_get_ctx == NULL || cuda->stream_wait_event == NULL ||
        cuda->stream_create == NULL || cuda->stream_destroy == NULL)
        return result;
    result = mark_bridge(self, &bridge, function);
    if (result == CUDA_SUCCESS)
        result = order_streams(self, stream, bridge, function);
    return result == CUDA_SUCCESS ? mark_own(self, bridge, out, function) : result;
}

CUresult
tidei_device_mark(struct tidei_device *self, tide_stream stream, CUevent *out, const char **function)
{
    *out = NULL;
    stream = tidei_device_stream(self, stream);
    return TIDEI_DRIVER_CALL(self->cuda, self->context, mark_stream(self, (CUstream)stream, out, function));
}

void
tidei_device_mark_end(struct tidei_device *self, CUevent event)
{
    order_event_give(self, self->context, event);
}

#endif
