/* Events of the fake driver, waits for them, and host functions in a stream. */
#include "tests/fake-cuda/fake.h"

#include <stdlib.h>
#include <time.h>

#include "tests/fake-cuda/capture.h"
#include "tests/fake-cuda/memory.h"

/* All events, destroyed ones included. */
static CUevent event_all;

CUevent
fake_events(void)
{
    return event_all;
}

static CUresult
do_cuEventCreate(CUevent *out, unsigned int flags)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        abort();
    (*out)->context = context;
    (*out)->flags = flags;
    (*out)->alive = true;
    (*out)->next = event_all;
    event_all = *out;
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuEventCreate, (CUevent * out, unsigned int flags), (out, flags))

static CUresult
do_cuEventDestroy(CUevent event)
{
    if (event == NULL || !event->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    event->alive = false;
    fake_clock_free(&event->known);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuEventDestroy, (CUevent event), (event))

static void
event_stamp(void *argument)
{
    struct timespec now;
    CUevent event = *(CUevent *)argument;

    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&fake_lock);
    event->ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    pthread_mutex_unlock(&fake_lock);
}

static CUresult
event_record(CUevent event, CUstream stream)
{
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_capture_record(event, stream);
    if (stream->capture != NULL)
        return CUDA_SUCCESS;
    event->recorded = true;
    fake_submit_now(stream, event->flags & CU_EVENT_DISABLE_TIMING ? NULL : event_stamp, &event, sizeof(event));
    event->point = (struct fake_point){ stream, stream->submitted };
    event->known.count = 0;
    fake_clock_merge(&event->known, &stream->known);
    return CUDA_SUCCESS;
}

static CUresult
do_cuEventRecord(CUevent event, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (event == NULL || !event->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    return event_record(event, stream);
}

FAKE_API_STREAM(2000, cuEventRecord, (CUevent event, CUstream handle), (event, handle))

static CUresult
do_cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : do_cuEventRecord(event, handle);
}

FAKE_API_STREAM(11010, cuEventRecordWithFlags, (CUevent event, CUstream handle, unsigned int flags),
                (event, handle, flags))

/* FAKE_CUDA_EVENTS_LIE=1: every event has passed. */
static CUresult
do_cuEventQuery(CUevent event)
{
    CUresult result = fake_capture_unsafe();

    if (event == NULL || !event->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS)
        return result;
    if (event->capture != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (fake_environment_bytes("FAKE_CUDA_EVENTS_LIE", 0))
        return CUDA_SUCCESS;
    return fake_point_is_done(event->point) ? event->context->error : CUDA_ERROR_NOT_READY;
}

FAKE_API(2000, cuEventQuery, (CUevent event), (event))

static CUresult
do_cuEventSynchronize(CUevent event)
{
    if (event == NULL || !event->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL)
        return CUDA_ERROR_CAPTURED_EVENT;
    fake_wait_point(event->point);
    fake_pools_synchronized(event->context->device);
    return event->context->error;
}

FAKE_API(2000, cuEventSynchronize, (CUevent event), (event))

static CUresult
do_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    if (start == NULL || end == NULL || !start->alive || !end->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!fake_point_is_done(start->point) || !fake_point_is_done(end->point))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(end->ns - start->ns) / 1e6);
    return CUDA_SUCCESS;
}

FAKE_API(12080, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end), (milliseconds, start, end))

/* A stream that waits for an event recorded in a capture joins that capture. */
static CUresult
do_cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    struct fake_clock waits = { 0 };
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (event == NULL || !event->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (event->capture != NULL)
        return fake_capture_join(stream, event);
    if (stream->capture != NULL && event->recorded)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    fake_clock_merge(&waits, &event->known);
    if (event->recorded)
        fake_clock_add(&waits, event->point);
    fake_submit_wait(stream, &waits);
    fake_clock_free(&waits);
    return CUDA_SUCCESS;
}

FAKE_API_STREAM(3020, cuStreamWaitEvent, (CUstream handle, CUevent event, unsigned int flags), (handle, event, flags))

struct event_host_call {
    CUhostFn function;
    void *argument;
};

static void
event_call_host(void *argument)
{
    const struct event_host_call *call = argument;

    call->function(call->argument);
}

static CUresult
do_cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
    struct event_host_call call = { function, argument };
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_submit(stream, CU_GRAPH_NODE_TYPE_HOST, event_call_host, &call, sizeof(call));
}

FAKE_API_STREAM(10000, cuLaunchHostFunc, (CUstream handle, CUhostFn function, void *argument),
                (handle, function, argument))
