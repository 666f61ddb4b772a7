/* Puts events behind frees, and has the host wait for those that have passed; see marks.h. */
#include "src/cuda/marks.h"

#ifdef HAVE_CUDA_H

#include <pthread.h>
#include <string.h>
#include <time.h>

/* Those that were late and those of a wish; at the end those that other threads have put back meanwhile, too. */
struct marks_call {
    struct tidei_device *device;
    struct tidei_mark marks[3 * TIDEI_MARKS_MOST];
    size_t count;
    uint64_t number; /* of the wish */
};

static uint64_t
marks_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void
tidei_marks_init(struct tidei_marks *marks)
{
    marks->count = 0;
    marks->wishes = 0;
    tidei_lock_init(&marks->lock);
}

void
tidei_marks_fini(struct tidei_marks *marks, struct tidei_device *device)
{
    for (size_t i = 0; i < marks->count && tidei_driver_usable(); i++)
        tidei_device_mark_end(device, marks->marks[i].event);
    tidei_lock_fini(&marks->lock);
}

/* Take the late marks out, so that no other thread looks at them meanwhile. */
static void
marks_take(struct tidei_marks *marks, struct marks_call *call)
{
    tidei_lock_acquire(&marks->lock);
    for (size_t i = 0; i < marks->count; i++)
        call->marks[i] = marks->marks[i];
    call->count = marks->count;
    call->number = ++marks->wishes;
    marks->count = 0;
    tidei_lock_release(&marks->lock);
}

/*
 * Whether the stream has a later mark. A stream that has the handle since counts as the same. The default stream of
 * each thread has one handle for many streams, of which none stands for another.
 */
static bool
marks_is_passed_over(const struct marks_call *call, const struct tidei_mark *mark)
{
    for (size_t i = 0; i < call->count && mark->stream != (tide_stream)CU_STREAM_PER_THREAD; i++) {
        if (call->marks[i].stream == mark->stream && call->marks[i].number > mark->number)
            return true;
    }
    return false;
}

/* Take out marks of streams that have later ones, as far as there are too many. The result is how many `out` has. */
static size_t
marks_thin(struct marks_call *call, CUevent *out)
{
    size_t count = 0;

    for (size_t i = 0; i < call->count && call->count > TIDEI_MARKS_MOST;) {
        if (!marks_is_passed_over(call, &call->marks[i])) {
            i++;
            continue;
        }
        out[count++] = call->marks[i].event;
        memmove(&call->marks[i], &call->marks[i + 1], (--call->count - i) * sizeof(call->marks[0]));
    }
    return count;
}

/*
 * Keep the marks for later wishes. Another thread may have put others back since these were taken, with later ones of
 * the same streams: those to be dropped are chosen among all.
 */
static void
marks_put(struct tidei_marks *marks, struct marks_call *call)
{
    CUevent dropped[3 * TIDEI_MARKS_MOST];
    size_t count;

    tidei_lock_acquire(&marks->lock);
    for (size_t i = 0; i < marks->count; i++)
        call->marks[call->count++] = marks->marks[i];
    count = marks_thin(call, dropped);
    while (call->count > TIDEI_MARKS_MOST)
        dropped[count++] = call->marks[--call->count].event;
    marks->count = call->count;
    for (size_t i = 0; i < call->count; i++)
        marks->marks[i] = call->marks[i];
    tidei_lock_release(&marks->lock);
    for (size_t i = 0; i < count; i++)
        tidei_device_mark_end(call->device, dropped[i]);
}

static void
marks_add(struct marks_call *call, tide_stream stream)
{
    const char *function;
    CUevent event;

    if (call->count < 2 * TIDEI_MARKS_MOST && !tidei_device_is_captured(call->device, stream) &&
        tidei_device_mark(call->device, stream, &event, &function) == CUDA_SUCCESS)
        call->marks[call->count++] = (struct tidei_mark){ .event = event, .stream = stream, .number = call->number };
}

/*
 * Whether the work before the event is done; then the host has waited for it. So it is where the event cannot be asked:
 * the context is gone, or the event was captured after all.
 */
static bool
marks_passed(const struct tidei_device *device, CUevent event)
{
    const struct tidei_driver *cuda = device->cuda;
    CUresult result = TIDEI_DRIVER_CALL(cuda, device->context, cuda->event_query(event));

    if (result == CUDA_ERROR_NOT_READY)
        return false;
    if (result == CUDA_SUCCESS)
        (void)TIDEI_DRIVER_CALL(cuda, device->context, cuda->event_synchronize(event));
    return true;
}

/* Drop the marks that have passed. The result is how many are left that no wish has waited for in vain. */
static size_t
marks_look(struct marks_call *call)
{
    size_t count = 0, hopeful = 0;

    for (size_t i = 0; i < call->count; i++) {
        if (marks_passed(call->device, call->marks[i].event)) {
            tidei_device_mark_end(call->device, call->marks[i].event);
            continue;
        }
        hopeful += !call->marks[i].vain;
        call->marks[count++] = call->marks[i];
    }
    call->count = count;
    return hopeful;
}

/* Look until all marks have passed that no wish has waited for in vain, or the time is over. */
static void
marks_wait(struct marks_call *call, struct tidei_await *await)
{
    uint64_t end_ns = await->most_ns != 0 ? marks_now_ns() + await->most_ns : 0;
    size_t hopeful = marks_look(call);
    unsigned looks = 0;

    await->waited = hopeful > 0 && await->most_ns != 0;
    while (hopeful > 0 && await->most_ns != 0 && marks_now_ns() < end_ns) {
        TIDEI_TEST_POINT("marks.waits");
        tidei_lock_pause(&looks);
        hopeful = marks_look(call);
    }
    await->vain = hopeful > 0;
    await->late = call->count > 0;
    for (size_t i = 0; i < call->count && await->most_ns != 0; i++)
        call->marks[i].vain = true;
}

void
tidei_marks_await(struct tidei_marks *marks, struct tidei_device *device, struct tidei_await *await)
{
    const struct tidei_driver *cuda = device->cuda;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct marks_call call = { .device = device };
    int cancel;

    if (!tidei_driver_usable() || cuda->event_create == NULL || cuda->event_destroy == NULL ||
        cuda->event_record == NULL || cuda->event_query == NULL || cuda->event_synchronize == NULL)
        return;
    /* No cancellation here: the layers above note what this thread has begun. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    /* A capture of another stream by this thread would be spoilt by a query. */
    if (cuda->thread_exchange_capture_mode != NULL)
        (void)cuda->thread_exchange_capture_mode(&mode);
    marks_take(marks, &call);
    for (size_t i = 0; i < await->count; i++)
        marks_add(&call, await->streams[i]);
    marks_wait(&call, await);
    marks_put(marks, &call);
    if (cuda->thread_exchange_capture_mode != NULL)
        (void)cuda->thread_exchange_capture_mode(&mode);
    pthread_setcancelstate(cancel, NULL);
}

#endif
