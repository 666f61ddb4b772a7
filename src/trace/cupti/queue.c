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
tidei_cupti_list_put(struct tidei_cupti_list *list, const void *items, size_t count, size_t bytes, uint64_t *dropped)
{
    if (count == 0)
        return;
    if (!tidei_grow_items(&list->items, bytes, &list->capacity, list->count, count)) {
        *dropped += count;
        return;
    }
    memcpy((char *)list->items + list->count * bytes, items, count * bytes);
    list->count += count;
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
        tidei_cupti_list_put(&queue->calls, &call, 1, sizeof(call), &queue->dropped);
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&queue_lock);
}

void
tidei_cupti_queue_put_events(const struct tidei_device_event *events, size_t count, size_t dropped)
{
    pthread_mutex_lock(&queue_lock);
    for (struct tidei_cupti_queue *queue = queue_first; queue != NULL; queue = queue->next) {
        pthread_mutex_lock(&queue->lock);
        if (queue->memory)
            tidei_cupti_list_put(&queue->events, events, count, sizeof(*events), &queue->dropped);
        queue->dropped += dropped;
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&queue_lock);
}
