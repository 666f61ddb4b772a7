/* Keeps calls and events of memory until they are fetched. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/trace/ring/capture.h"
#include "src/trace/cupti/queue.h"

/* The open ones. An inbox's own lock is taken within this one. */
static pthread_mutex_t inbox_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tidei_inbox *inbox_first;

void
tidei_inbox_open(struct tidei_inbox *inbox)
{
    pthread_mutex_lock(&inbox_lock);
    inbox->next = inbox_first;
    inbox_first = inbox;
    pthread_mutex_unlock(&inbox_lock);
}

void
tidei_inbox_shut(struct tidei_inbox *inbox)
{
    struct tidei_inbox **link = &inbox_first;

    pthread_mutex_lock(&inbox_lock);
    while (*link != inbox)
        link = &(*link)->next;
    *link = inbox->next;
    pthread_mutex_unlock(&inbox_lock);
}

bool
tidei_inbox_has_clock(bool tsc)
{
    bool has;

    pthread_mutex_lock(&inbox_lock);
    has = inbox_first != NULL && inbox_first->tsc == tsc;
    pthread_mutex_unlock(&inbox_lock);
    return has;
}

/* Room for `more` items behind `count`; false where host memory is short. */
static bool
inbox_reserve(void **items, size_t count, size_t more, size_t *capacity, size_t bytes)
{
    size_t larger = *capacity == 0 ? 4096 : *capacity;
    void *moved;

    while (larger < count + more)
        larger *= 2;
    if (larger == *capacity)
        return true;
    moved = realloc(*items, larger * bytes);
    if (moved == NULL)
        return false;
    *items = moved;
    *capacity = larger;
    return true;
}

void
tidei_inbox_put_call(const struct tidei_call_slot *slot, const struct tidei_call_part *part)
{
    struct tidei_call call = { .part = *part, .os_tid = slot->os_tid };

    pthread_mutex_lock(&inbox_lock);
    for (struct tidei_inbox *inbox = inbox_first; inbox != NULL; inbox = inbox->next) {
        if (!inbox->memory)
            continue;
        call.waits = tidei_call_slot_waits(slot, inbox->recorder);
        pthread_mutex_lock(&inbox->lock);
        if (inbox_reserve((void **)&inbox->calls, inbox->call_count, 1, &inbox->call_capacity, sizeof(call)))
            inbox->calls[inbox->call_count++] = call;
        else
            inbox->dropped++;
        pthread_mutex_unlock(&inbox->lock);
    }
    pthread_mutex_unlock(&inbox_lock);
}

void
tidei_inbox_put_events(const struct tidei_device_event *events, size_t count)
{
    pthread_mutex_lock(&inbox_lock);
    for (struct tidei_inbox *inbox = inbox_first; inbox != NULL; inbox = inbox->next) {
        if (!inbox->memory)
            continue;
        pthread_mutex_lock(&inbox->lock);
        if (inbox_reserve((void **)&inbox->events, inbox->event_count, count, &inbox->event_capacity,
                          sizeof(*events))) {
            memcpy(inbox->events + inbox->event_count, events, count * sizeof(*events));
            inbox->event_count += count;
        } else {
            inbox->dropped += count;
        }
        pthread_mutex_unlock(&inbox->lock);
    }
    pthread_mutex_unlock(&inbox_lock);
}

void
tidei_inbox_put_dropped(size_t count)
{
    pthread_mutex_lock(&inbox_lock);
    for (struct tidei_inbox *inbox = inbox_first; inbox != NULL; inbox = inbox->next) {
        pthread_mutex_lock(&inbox->lock);
        inbox->dropped += count;
        pthread_mutex_unlock(&inbox->lock);
    }
    pthread_mutex_unlock(&inbox_lock);
}
