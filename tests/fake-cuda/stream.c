/* Streams of the fake driver: each has a queue and a host thread, and the known order among streams. */
#include "tests/fake-cuda/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake-cuda/capture.h"
#include "tests/fake-cuda/memory.h"

static __thread CUstream stream_of_thread[FAKE_MOST_DEVICES];
static uint64_t stream_ids = 6; /* the first context's stream 0 is 7 */

void
fake_clock_add(struct fake_clock *clock, struct fake_point point)
{
    for (size_t i = 0; i < clock->count; i++) {
        if (clock->points[i].stream == point.stream) {
            if (clock->points[i].seq < point.seq)
                clock->points[i].seq = point.seq;
            return;
        }
    }
    if (clock->count == clock->capacity) {
        clock->capacity = clock->capacity == 0 ? 4 : clock->capacity * 2;
        clock->points = realloc(clock->points, clock->capacity * sizeof(clock->points[0]));
        if (clock->points == NULL)
            abort();
    }
    clock->points[clock->count++] = point;
}

void
fake_clock_merge(struct fake_clock *clock, const struct fake_clock *other)
{
    for (size_t i = 0; i < other->count; i++)
        fake_clock_add(clock, other->points[i]);
}

static bool
clock_is_done(const struct fake_clock *clock)
{
    for (size_t i = 0; i < clock->count; i++) {
        if (!fake_point_is_done(clock->points[i]))
            return false;
    }
    return true;
}

void
fake_clock_free(struct fake_clock *clock)
{
    free(clock->points);
    memset(clock, 0, sizeof(*clock));
}

bool
fake_point_is_done(struct fake_point point)
{
    return point.stream == NULL || point.stream->done >= point.seq;
}

/* The thread ends with its stream, after the last operation. */
static void *
stream_run(void *context)
{
    CUstream stream = context;

    fake_in_stream = true;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        struct fake_operation *operation = stream->first;

        if (operation == NULL && !stream->alive)
            break;
        if (operation == NULL || !clock_is_done(&operation->waits)) {
            pthread_cond_wait(&fake_progress, &fake_lock);
            continue;
        }
        if (operation->work != NULL) {
            pthread_mutex_unlock(&fake_lock);
            operation->work(operation->argument);
            pthread_mutex_lock(&fake_lock);
        }
        stream->first = operation->next;
        if (stream->first == NULL)
            stream->last = &stream->first;
        stream->done = operation->seq;
        fake_clock_free(&operation->waits);
        free(operation);
        pthread_cond_broadcast(&fake_progress);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

static void
stream_start(CUstream stream)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, stream_run, stream) != 0)
        abort();
    pthread_attr_destroy(&attributes);
    stream->started = true;
}

CUstream
fake_stream_new(CUcontext context, unsigned int flags, int priority)
{
    CUstream stream = calloc(1, sizeof(*stream));

    if (stream == NULL)
        abort();
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++stream_ids;
    stream->alive = true;
    stream->last = &stream->first;
    stream->next = fake.streams;
    fake.streams = stream;
    return stream;
}

/* End a stream, after the work that it was given. */
static void
stream_end(CUstream stream)
{
    stream->alive = false;
    pthread_cond_broadcast(&fake_progress);
}

void
fake_streams_end(CUcontext context)
{
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->context == context)
            stream_end(stream);
    }
}

/*
 * The real driver recognises a destroyed stream if its context is current; otherwise it reads freed memory and mostly
 * crashes.
 */
static CUresult
stream_gone(CUstream stream)
{
    if (!stream->context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    fprintf(stderr, "fake-cuda: a stream was used after it was destroyed\n");
    abort();
}

static bool
stream_is_default(CUstream handle)
{
    return handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

CUresult
fake_stream_find(CUstream handle, CUstream *out)
{
    CUcontext context;
    CUresult result;

    *out = NULL;
    if (!stream_is_default(handle)) {
        *out = handle;
        if (!handle->alive)
            return stream_gone(handle);
        return handle->context->error;
    }
    result = fake_context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    *out = context->legacy;
    if (handle == CU_STREAM_PER_THREAD || (handle == NULL && fake_call_is_per_thread())) {
        CUstream *own = &stream_of_thread[context->device];

        if (*own == NULL || (*own)->context != context || !(*own)->alive)
            *own = fake_stream_new(context, CU_STREAM_DEFAULT, 0);
        *out = *own;
    }
    return CUDA_SUCCESS;
}

/* The legacy stream and the blocking streams of its context wait for each other. */
static void
stream_legacy_waits(CUstream stream, struct fake_clock *waits)
{
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return;
    if (!stream->legacy) {
        CUstream legacy = stream->context->legacy;
        struct fake_point point = { legacy, legacy->submitted };

        if (!fake_point_is_done(point))
            fake_clock_add(waits, point);
        return;
    }
    for (CUstream other = fake.streams; other != NULL; other = other->next) {
        struct fake_point point = { other, other->submitted };

        if (other != stream && other->context == stream->context && !(other->flags & CU_STREAM_NON_BLOCKING) &&
            !fake_point_is_done(point))
            fake_clock_add(waits, point);
    }
}

void
fake_stream_order_legacy(CUstream stream)
{
    stream_legacy_waits(stream, &stream->known);
}

static void
stream_put(CUstream stream, fake_work work, const void *argument, size_t bytes, const struct fake_clock *waits)
{
    struct fake_operation *operation = calloc(1, sizeof(*operation) + bytes);

    if (operation == NULL)
        abort();
    operation->work = work;
    operation->bytes = bytes;
    if (bytes > 0)
        memcpy(operation->argument, argument, bytes);
    if (waits != NULL)
        fake_clock_merge(&operation->waits, waits);
    stream_legacy_waits(stream, &operation->waits);
    fake_clock_merge(&stream->known, &operation->waits);
    operation->seq = ++stream->submitted;
    *stream->last = operation;
    stream->last = &operation->next;
    if (!stream->started)
        stream_start(stream);
    pthread_cond_broadcast(&fake_progress);
}

CUresult
fake_submit_now(CUstream stream, fake_work work, const void *argument, size_t bytes)
{
    stream_put(stream, work, argument, bytes, NULL);
    return CUDA_SUCCESS;
}

CUresult
fake_submit(CUstream stream, CUgraphNodeType type, fake_work work, const void *argument, size_t bytes)
{
    if (stream->capture != NULL)
        return fake_capture_add(stream, type, work, argument, bytes);
    return fake_submit_now(stream, work, argument, bytes);
}

void
fake_submit_wait(CUstream stream, const struct fake_clock *waits)
{
    fake_clock_merge(&stream->known, waits);
    if (!clock_is_done(waits))
        stream_put(stream, NULL, NULL, 0, waits);
}

bool
fake_stream_knows(CUstream stream, struct fake_point point)
{
    if (point.stream == NULL || point.stream == stream)
        return true;
    for (size_t i = 0; i < stream->known.count; i++) {
        if (stream->known.points[i].stream == point.stream)
            return stream->known.points[i].seq >= point.seq;
    }
    return false;
}

/* An operation that runs is still in its queue. */
bool
fake_work_names(uint64_t start, uint64_t end)
{
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next) {
        for (const struct fake_operation *operation = stream->first; operation != NULL; operation = operation->next) {
            const char *argument = (const char *)operation->argument;

            for (size_t i = 0; i + sizeof(uint64_t) <= operation->bytes; i += sizeof(uint64_t)) {
                uint64_t word;

                memcpy(&word, argument + i, sizeof(word));
                if (word >= start && word < end)
                    return true;
            }
        }
    }
    return false;
}

void
fake_wait_point(struct fake_point point)
{
    while (!fake_point_is_done(point))
        pthread_cond_wait(&fake_progress, &fake_lock);
}

void
fake_wait_context(CUcontext context)
{
    for (CUstream stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->context == context)
            fake_wait_point((struct fake_point){ stream, stream->submitted });
    }
}

/*
 * A stream that was destroyed and still works, where a test asks that its handle be used again. The new stream has its
 * thread: its work comes late, but by nothing that the driver knows of.
 */
static CUstream
stream_again(CUcontext context)
{
    CUstream stream = fake_environment_bytes("FAKE_CUDA_REUSE_STREAMS", 0) != 0 ? fake.streams : NULL;

    while (stream != NULL && (stream->alive || stream->legacy || stream->context != context || !stream->started ||
                              stream->submitted == stream->done))
        stream = stream->next;
    if (stream == NULL)
        return NULL;
    stream->alive = true;
    stream->id = ++stream_ids;
    return stream;
}

static CUresult
do_cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stream_again(context);
    if (*out == NULL)
        *out = fake_stream_new(context, flags, priority);
    return CUDA_SUCCESS;
}

FAKE_API(5050, cuStreamCreateWithPriority, (CUstream * out, unsigned int flags, int priority), (out, flags, priority))

static CUresult
do_cuStreamCreate(CUstream *out, unsigned int flags)
{
    return do_cuStreamCreateWithPriority(out, flags, 0);
}

FAKE_API(2000, cuStreamCreate, (CUstream * out, unsigned int flags), (out, flags))

static CUresult
do_cuStreamDestroy(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !stream->alive)
        return CUDA_ERROR_INVALID_HANDLE;
    stream_end(stream);
    return CUDA_SUCCESS;
}

FAKE_API(4000, cuStreamDestroy, (CUstream stream), (stream))

static CUresult
do_cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result == CUDA_SUCCESS)
        *flags = stream->flags;
    return result;
}

FAKE_API_STREAM(5050, cuStreamGetFlags, (CUstream handle, unsigned int *flags), (handle, flags))

static CUresult
do_cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result == CUDA_SUCCESS)
        *id = stream->id;
    return result;
}

FAKE_API_STREAM(12000, cuStreamGetId, (CUstream handle, unsigned long long *id), (handle, id))

static CUresult
do_cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream_is_default(handle))
        *context = fake_context_top();
    else
        *context = stream->green != NULL ? fake_green_context(stream->green) : stream->context;
    return CUDA_SUCCESS;
}

FAKE_API_STREAM(9020, cuStreamGetCtx, (CUstream handle, CUcontext *context), (handle, context))

/* The handles of default streams stand for the current context, which may be a green one. */
static CUresult
do_cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
    CUgreenCtx current = fake_green_of(fake_context_top());
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (handle == CU_STREAM_PER_THREAD && current != NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *context = stream->context;
    *green = stream_is_default(handle) ? current : stream->green;
    return CUDA_SUCCESS;
}

FAKE_API_STREAM(12050, cuStreamGetCtx_v2, (CUstream handle, CUcontext *context, CUgreenCtx *green),
                (handle, context, green))

/*
 * A clock of everything that the stream was given; for the legacy stream also of the blocking streams' work. The caller
 * frees the clock.
 */
static struct fake_clock
stream_end_of(CUstream stream)
{
    struct fake_clock clock = { 0 };

    fake_clock_add(&clock, (struct fake_point){ stream, stream->submitted });
    if (stream->legacy)
        stream_legacy_waits(stream, &clock);
    return clock;
}

static CUresult
do_cuStreamQuery(CUstream handle)
{
    struct fake_clock end;
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL)
        return fake_capture_spoil(stream);
    end = stream_end_of(stream);
    result = clock_is_done(&end) ? stream->context->error : CUDA_ERROR_NOT_READY;
    fake_clock_free(&end);
    return result;
}

FAKE_API_STREAM(2000, cuStreamQuery, (CUstream handle), (handle))

static CUresult
do_cuStreamSynchronize(CUstream handle)
{
    struct fake_clock end;
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL)
        return fake_capture_spoil(stream);
    end = stream_end_of(stream);
    for (size_t i = 0; i < end.count; i++)
        fake_wait_point(end.points[i]);
    fake_clock_free(&end);
    fake_pools_synchronized(stream->context->device);
    return stream->context->error;
}

FAKE_API_STREAM(2000, cuStreamSynchronize, (CUstream handle), (handle))
