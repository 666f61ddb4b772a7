/* Takes the driver's calls from CUPTI and has them tied, for one trace. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "resource.h"
#include "trace/clock.h"
#include "trace/drivercalls.h"

struct tidei_driver_calls {
    struct tidei_join *join;
    struct tidei_calls_inbox inbox;
    struct tidei_call *taken; /* the inbox's other buffer; the writer's */
    size_t taken_capacity;
    uint64_t flushed_ticks; /* when CUPTI was last asked; the writer's */
    bool tsc;

    pthread_mutex_t lock; /* for the fields below */
    bool attached;
    bool tried;
    bool changed; /* the text has not been asked for */
    char text[256];
};

struct tidei_driver_calls *
tidei_driver_calls_new(bool tsc)
{
    struct tidei_driver_calls *calls = calloc(1, sizeof(*calls));

    if (calls == NULL)
        return NULL;
    calls->join = tidei_join_new();
    if (calls->join == NULL) {
        free(calls);
        return NULL;
    }
    calls->tsc = tsc;
    pthread_mutex_init(&calls->lock, NULL);
    return calls;
}

void
tidei_driver_calls_free(struct tidei_driver_calls *calls)
{
    if (calls == NULL)
        return;
    if (calls->attached)
        tidei_calls_detach(&calls->inbox);
    if (calls->tried)
        pthread_mutex_destroy(&calls->inbox.lock);
    tidei_join_free(calls->join);
    free(calls->inbox.items);
    free(calls->taken);
    pthread_mutex_destroy(&calls->lock);
    free(calls);
}

struct tidei_join *
tidei_driver_calls_join(struct tidei_driver_calls *calls)
{
    return calls->join;
}

void
tidei_driver_calls_watch(struct tidei_driver_calls *calls, uint32_t layer_id)
{
    pthread_mutex_lock(&calls->lock);
    if (!calls->tried) {
        calls->tried = calls->changed = true;
        calls->attached = tidei_calls_attach(&calls->inbox, calls->tsc) == TIDE_OK;
        if (calls->attached)
            snprintf(calls->text, sizeof(calls->text), "calls");
        else
            snprintf(calls->text, sizeof(calls->text), "off: %s", tide_error_text());
    }
    if (calls->attached)
        tidei_join_add_layer(calls->join, layer_id);
    pthread_mutex_unlock(&calls->lock);
}

static bool
drivercalls_attached(struct tidei_driver_calls *calls)
{
    bool attached;

    pthread_mutex_lock(&calls->lock);
    attached = calls->attached;
    pthread_mutex_unlock(&calls->lock);
    return attached;
}

/* Change the inbox's buffer for the other one, and give what was in it to the join. */
static void
drivercalls_take(struct tidei_driver_calls *calls)
{
    struct tidei_calls_inbox *inbox = &calls->inbox;
    struct tidei_call *items;
    size_t count, capacity;

    pthread_mutex_lock(&inbox->lock);
    items = inbox->items;
    count = inbox->count;
    capacity = inbox->capacity;
    inbox->items = calls->taken;
    inbox->capacity = calls->taken_capacity;
    inbox->count = 0;
    pthread_mutex_unlock(&inbox->lock);
    calls->taken = items;
    calls->taken_capacity = capacity;
    if (!tidei_join_add_calls(calls->join, items, count)) {
        pthread_mutex_lock(&inbox->lock);
        inbox->dropped += count;
        pthread_mutex_unlock(&inbox->lock);
    }
}

void
tidei_driver_calls_round(struct tidei_driver_calls *calls, uint64_t events_until)
{
    uint64_t calls_until = calls->flushed_ticks;

    if (!drivercalls_attached(calls))
        return;
    /* An event is given up two rounds after it: CUPTI may still be filling the buffer that has its call. */
    calls->flushed_ticks = tidei_clock_ticks(calls->tsc);
    tidei_calls_flush();
    drivercalls_take(calls);
    tidei_join_run(calls->join, events_until, calls_until);
}

void
tidei_driver_calls_end(struct tidei_driver_calls *calls)
{
    if (!drivercalls_attached(calls))
        return;
    tidei_calls_detach(&calls->inbox);
    pthread_mutex_lock(&calls->lock);
    calls->attached = false;
    pthread_mutex_unlock(&calls->lock);
    drivercalls_take(calls);
    tidei_join_run(calls->join, UINT64_MAX, UINT64_MAX);
}

bool
tidei_driver_calls_state(struct tidei_driver_calls *calls, char *text, size_t capacity)
{
    bool changed;

    pthread_mutex_lock(&calls->lock);
    changed = calls->changed;
    if (changed)
        snprintf(text, capacity, "%s", calls->text);
    calls->changed = false;
    pthread_mutex_unlock(&calls->lock);
    return changed;
}

uint64_t
tidei_driver_calls_dropped(struct tidei_driver_calls *calls)
{
    uint64_t dropped = 0;

    pthread_mutex_lock(&calls->lock);
    if (calls->tried)
        dropped = calls->inbox.dropped;
    pthread_mutex_unlock(&calls->lock);
    return dropped;
}
