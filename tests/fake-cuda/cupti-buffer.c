/*
 * The buffers of the fake CUPTI: requested on the thread with the first record for one, and returned on a thread of
 * CUPTI's own when they are full or flushed.
 */
#include "tests/fake-cuda/cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    struct buffer *next;
    uint8_t *bytes;
    size_t size, used, records, most_records;
};

static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t buffer_changed = PTHREAD_COND_INITIALIZER;
static struct buffer *buffer_current;                              /* guarded by buffer_lock, like all below */
static struct buffer *buffer_first, **buffer_last = &buffer_first; /* to be returned */
static bool buffer_started, buffer_busy;
static pthread_t buffer_thread;
static CUpti_BuffersCallbackRequestFunc buffer_requested;
static CUpti_BuffersCallbackCompleteFunc buffer_completed;

/* Not guarded by the lock: the tool reads it while it handles a buffer. */
static _Atomic size_t buffer_dropped;
static _Atomic long buffer_to_drop;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

/* FAKE_CUPTI_DROP=n: the first n records are dropped. */
static void
buffer_read_environment(void)
{
    const char *text = getenv("FAKE_CUPTI_DROP");

    buffer_to_drop = text != NULL ? strtol(text, NULL, 10) : 0;
}

static void *
buffer_give_back(void *unused)
{
    pthread_mutex_lock(&buffer_lock);
    for (;;) {
        struct buffer *buffer = buffer_first;

        if (buffer == NULL) {
            buffer_busy = false;
            pthread_cond_broadcast(&buffer_changed);
            pthread_cond_wait(&buffer_changed, &buffer_lock);
            continue;
        }
        buffer_first = buffer->next;
        if (buffer_first == NULL)
            buffer_last = &buffer_first;
        buffer_busy = true;
        pthread_mutex_unlock(&buffer_lock);
        buffer_completed(NULL, 0, buffer->bytes, buffer->size, buffer->used);
        free(buffer);
        pthread_mutex_lock(&buffer_lock);
    }
    return unused;
}

static void
buffer_start(void)
{
    if (buffer_started || pthread_create(&buffer_thread, NULL, buffer_give_back, NULL) != 0)
        return;
    pthread_detach(buffer_thread);
    buffer_started = true;
}

static void
buffer_complete(void)
{
    buffer_current->next = NULL;
    *buffer_last = buffer_current;
    buffer_last = &buffer_current->next;
    buffer_current = NULL;
    buffer_start();
    pthread_cond_broadcast(&buffer_changed);
}

static bool
buffer_fits(size_t bytes)
{
    return buffer_current != NULL && buffer_current->size - buffer_current->used >= bytes &&
           (buffer_current->most_records == 0 || buffer_current->records < buffer_current->most_records);
}

static void
buffer_request(void)
{
    struct buffer *buffer = calloc(1, sizeof(*buffer));

    if (buffer == NULL)
        abort();
    if (buffer_requested != NULL)
        buffer_requested(&buffer->bytes, &buffer->size, &buffer->most_records);
    if (buffer->bytes != NULL && buffer->size > 0)
        buffer_current = buffer;
    else
        free(buffer);
}

void
fake_cupti_put(const void *record, size_t bytes)
{
    pthread_once(&buffer_once, buffer_read_environment);
    if (buffer_to_drop > 0 && buffer_to_drop-- > 0) {
        buffer_dropped++;
        return;
    }
    pthread_mutex_lock(&buffer_lock);
    if (buffer_current != NULL && !buffer_fits(bytes))
        buffer_complete();
    if (buffer_current == NULL)
        buffer_request();
    if (buffer_fits(bytes)) {
        memcpy(buffer_current->bytes + buffer_current->used, record, bytes);
        buffer_current->used += bytes;
        buffer_current->records++;
    } else {
        buffer_dropped++;
    }
    pthread_mutex_unlock(&buffer_lock);
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested, CUpti_BuffersCallbackCompleteFunc completed)
{
    if (requested == NULL || completed == NULL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&buffer_lock);
    buffer_requested = requested;
    buffer_completed = completed;
    pthread_mutex_unlock(&buffer_lock);
    return CUPTI_SUCCESS;
}

/* Returns when the tool has handled every buffer. */
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    pthread_mutex_lock(&buffer_lock);
    if (buffer_current != NULL && buffer_current->used > 0)
        buffer_complete();
    while (buffer_started && !pthread_equal(buffer_thread, pthread_self()) && (buffer_busy || buffer_first != NULL))
        pthread_cond_wait(&buffer_changed, &buffer_lock);
    pthread_mutex_unlock(&buffer_lock);
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityFlushPeriod(uint32_t milliseconds)
{
    (void)milliseconds;
    return CUPTI_SUCCESS;
}

/* The number of records dropped since the last call. */
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    if (dropped == NULL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = atomic_exchange_explicit(&buffer_dropped, 0, memory_order_relaxed);
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
    uint8_t *next = buffer;

    if (buffer == NULL || record == NULL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (*record != NULL)
        next = (uint8_t *)*record + fake_cupti_record_bytes((*record)->kind);
    if (next >= buffer + valid_bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
    (void)attribute;
    return bytes == NULL || value == NULL ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}
