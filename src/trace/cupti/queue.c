/* Keeps driver calls and events of memory until a writer takes them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "src/trace/ring/capture.h"
#include "src/trace/cupti/queue.h"

/* The open queues. A queue's own lock is taken while this one is held. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tidei_cupti_queue *queue_first;

void
tidei_cupti_queue_open(struct tidei_cupti_queue *queue)
{
    pthread_mutex_lock(&queue_lock);
    queue->next = queue_first;
    queue_first = queue;
    pthread_mutex_unlock(&queue_lock);
}

void
tidei_cupti_queue_shut(struct tidei_cupti_queue *queue)
{
    struct tidei_cupti_queue **link = &queue_first;

    pthread_mutex_lock(&queue_lock);
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    pthread_mutex_unlock(&queue_lock);
}

bool
tidei_cupti_queue_has_clock(bool tsc)
{
    bool has;

    pthread_mutex_lock(&queue_lock);
    has = queue_first != NULL && queue_first->tsc == tsc;
    pthread_mutex_unlock(&queue_lock);
    return has;
}

void
tidei_cupti_queue_put_call(const struct tidei_call_capture *slot, const struct tidei_call_part *part)
{
    struct tidei_call call = { .part = *part, .os_tid = slot->os_tid };

    pthread_mutex_lock(&queue_lock);
    for (struct tidei_cupti_queue *queue = queue_first; queue != NULL; queue = queue->next) {
        if (!queue->memory)
            continue;
        call.waits = tidei_call_capture_waits(slot, queue->session);
        pthread_mutex_lock(&queue->lock);
        if (tidei_grow(&queue->calls, &queue->call_capacity, queue->call_count, 1))
            queue->calls[queue->call_count++] = call;
        else
            queue->dropped++;
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&queue_lock);
}

void
tidei_cupti_queue_put_events(const struct tidei_device_event *events, size_t count)
{
    pthread_mutex_lock(&queue_lock);
    for (struct tidei_cupti_queue *queue = queue_first; queue != NULL; queue = queue->next) {
        if (!queue->memory)
            continue;
        pthread_mutex_lock(&queue->lock);
        if (tidei_grow(&queue->events, &queue->event_capacity, queue->event_count, count)) {
            memcpy(queue->events + queue->event_count, events, count * sizeof(*events));
            queue->event_count += count;
        } else {
            queue->dropped += count;
        }
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&queue_lock);
}

void
tidei_cupti_queue_put_dropped(size_t count)
{
    pthread_mutex_lock(&queue_lock);
    for (struct tidei_cupti_queue *queue = queue_first; queue != NULL; queue = queue->next) {
        pthread_mutex_lock(&queue->lock);
        queue->dropped += count;
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&queue_lock);
}
