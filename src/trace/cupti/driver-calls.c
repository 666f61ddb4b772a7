/* Attaches a trace to CUPTI, and collects CUPTI's events and calls for rows. */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/resource/resource.h"
#include "src/trace/events/steady.h"
#include "src/trace/ring/ringfile.h"
#include "src/trace/cupti/driver-calls.h"

/* Period of flushing CUPTI. A flush loses no record, but starts a new buffer. */
#define DRIVERCALLS_FLUSH_NS 250000000u

struct tidei_driver_calls {
    struct tidei_device_events *devices;
    const struct tidei_session *session; /* never dereferenced */
    struct tidei_cupti_queue queue;
    struct tidei_cupti_list taken_calls, taken_events; /* the queue's other lists; the writer's */
    uint64_t flushed_ns;                               /* when CUPTI was last asked; the writer's */
    uint64_t flushed_ticks;
    uint64_t overflown;               /* of the process before this trace */
    const struct tidei_steady *clock; /* borrowed; CUPTI's side has ticks of the counter, rows have corrected ones */
    bool tsc;

    pthread_mutex_t lock; /* for the fields below */
    _Atomic bool attached;
    _Atomic bool memory; /* set before `attached` */
    bool tried;
    bool ended;   /* no more events of memory come */
    bool changed; /* the text has not been asked for */
    char text[256];
};

struct tidei_driver_calls *
tidei_driver_calls_new(const struct tidei_session *session, const struct tidei_steady *clock)
{
    struct tidei_driver_calls *calls = calloc(1, sizeof(*calls));

    if (calls == NULL)
        return NULL;
    calls->devices = tidei_device_events_new();
    if (calls->devices == NULL) {
        free(calls);
        return NULL;
    }
    calls->session = session;
    calls->clock = clock;
    calls->tsc = clock->tsc;
    pthread_mutex_init(&calls->lock, NULL);
    return calls;
}

void
tidei_driver_calls_free(struct tidei_driver_calls *calls)
{
    if (calls == NULL)
        return;
    if (calls->attached)
        tidei_calls_detach(&calls->queue);
    if (calls->tried)
        pthread_mutex_destroy(&calls->queue.lock);
    tidei_device_events_free(calls->devices);
    free(calls->queue.calls.items);
    free(calls->queue.events.items);
    free(calls->taken_calls.items);
    free(calls->taken_events.items);
    pthread_mutex_destroy(&calls->lock);
    free(calls);
}

struct tidei_device_events *
tidei_driver_calls_devices(struct tidei_driver_calls *calls)
{
    return calls->devices;
}

/* The lock is held. */
static void
drivercalls_attach(struct tidei_driver_calls *calls, bool memory)
{
    bool attached = tidei_calls_attach(&calls->queue, calls->session, calls->tsc, memory) == TIDE_OK;

    calls->tried = calls->changed = true;
    calls->overflown = tidei_calls_overflown();
    if (!attached)
        snprintf(calls->text, sizeof(calls->text), "off: %s", tide_error_text());
    else if (memory && !calls->queue.memory)
        snprintf(calls->text, sizeof(calls->text), "calls: no memory: %s", tide_error_text());
    else
        snprintf(calls->text, sizeof(calls->text), "%s", memory ? "memory" : "calls");
    calls->memory = attached && calls->queue.memory;
    calls->attached = attached;
}

bool
tidei_driver_calls_watch(struct tidei_driver_calls *calls, bool memory)
{
    pthread_mutex_lock(&calls->lock);
    if (!calls->tried)
        drivercalls_attach(calls, memory);
    pthread_mutex_unlock(&calls->lock);
    return calls->attached;
}

void
tidei_driver_calls_leave(struct tidei_driver_calls *calls)
{
    pthread_mutex_lock(&calls->lock);
    if (!calls->tried && calls->text[0] == '\0') {
        calls->changed = true;
        snprintf(calls->text, sizeof(calls->text), "off: cupti=off");
    }
    pthread_mutex_unlock(&calls->lock);
}

bool
tidei_driver_calls_watched(struct tidei_driver_calls *calls)
{
    return calls->attached;
}

void
tidei_driver_calls_slice(struct tidei_driver_calls *calls, const struct tidei_pair *pair)
{
    struct tidei_event_calls walk = { 0 };
    struct tidei_event_call call;

    if (!calls->memory)
        return;
    while (tidei_event_calls_next(&walk, pair, &call)) {
        if (call.part.correlation != 0)
            tidei_device_events_add_own(calls->devices, &call);
    }
}

/* Exchange a full list for an empty one. */
static void
drivercalls_swap(struct tidei_cupti_list *full, struct tidei_cupti_list *empty)
{
    struct tidei_cupti_list list = *full;

    *full = *empty;
    full->count = 0;
    *empty = list;
}

/* The corrected time of a tick that was read on CUPTI's side. */
static uint64_t
drivercalls_ticks(const struct tidei_driver_calls *calls, uint64_t ticks)
{
    return ticks + tidei_steady_shift(calls->clock, ticks);
}

/* Correct the times of what was taken. */
static void
drivercalls_correct(struct tidei_driver_calls *calls)
{
    struct tidei_call *call = calls->taken_calls.items;
    struct tidei_device_event *event = calls->taken_events.items;

    if (calls->clock->header->shift == 0 && calls->clock->header->shift_before == 0)
        return;
    for (size_t i = 0; i < calls->taken_calls.count; i++) {
        call[i].part.start = drivercalls_ticks(calls, call[i].part.start);
        call[i].part.end = drivercalls_ticks(calls, call[i].part.end);
    }
    for (size_t i = 0; i < calls->taken_events.count; i++)
        event[i].ticks = drivercalls_ticks(calls, event[i].ticks);
}

/* Exchange the queue's lists, and process the full ones. */
static void
drivercalls_take(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline)
{
    pthread_mutex_lock(&calls->queue.lock);
    drivercalls_swap(&calls->queue.calls, &calls->taken_calls);
    drivercalls_swap(&calls->queue.events, &calls->taken_events);
    pthread_mutex_unlock(&calls->queue.lock);
    drivercalls_correct(calls);
    tidei_device_events_add_calls(calls->devices, timeline, calls->taken_calls.items, calls->taken_calls.count);
    tidei_device_events_add_events(calls->devices, calls->taken_events.items, calls->taken_events.count);
}

/* From `ticks` on there are no events of memory: the trace says so once. */
static void
drivercalls_say_end(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline, uint64_t ticks,
                    const char *why)
{
    pthread_mutex_lock(&calls->lock);
    if (!calls->ended) {
        calls->ended = calls->changed = true;
        snprintf(calls->text, sizeof(calls->text), "memory: up to %" PRIu64 " ns: cupti: %s",
                 tidei_timeline_ns(timeline, ticks), why);
    }
    pthread_mutex_unlock(&calls->lock);
}

/* After an import of a pointer, note in the trace from when on events are missing. */
static void
drivercalls_look_for_import(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline)
{
    uint64_t imported = tidei_calls_imported();

    if (imported != 0)
        drivercalls_say_end(calls, timeline, drivercalls_ticks(calls, imported), TIDEI_CALLS_IMPORTED);
}

void
tidei_driver_calls_look(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline,
                        const struct tidei_pair *pair)
{
    uint64_t exited = calls->attached && calls->memory ? tidei_calls_exited() : 0;

    exited = exited != 0 ? drivercalls_ticks(calls, exited) : 0;
    if (exited != 0 && tidei_event_calls_any_after(pair, exited))
        drivercalls_say_end(calls, timeline, exited, TIDEI_CALLS_EXITED);
}

/* An event gets its row two rounds after it: by then all its records and calls have arrived. */
static void
drivercalls_collect(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline, uint64_t now)
{
    uint64_t until = calls->flushed_ticks;

    calls->flushed_ns = now;
    calls->flushed_ticks = drivercalls_ticks(calls, tidei_clock_ticks(calls->tsc));
    tidei_calls_flush();
    drivercalls_take(calls, timeline);
    tidei_device_events_run(calls->devices, timeline, until);
}

bool
tidei_driver_calls_round(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline, bool at_once)
{
    uint64_t now = tidei_monotonic_ns();
    size_t rows, outside;

    if (!calls->memory || !calls->attached)
        return false;
    drivercalls_look_for_import(calls, timeline);
    if (at_once)
        drivercalls_collect(calls, timeline, now);
    if (at_once || now - calls->flushed_ns >= DRIVERCALLS_FLUSH_NS)
        drivercalls_collect(calls, timeline, now);
    tidei_device_events_rows(calls->devices, &rows);
    tidei_device_events_outside(calls->devices, &outside);
    return rows != 0 || outside != 0;
}

void
tidei_driver_calls_end(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline)
{
    if (!calls->attached)
        return;
    if (calls->memory)
        drivercalls_look_for_import(calls, timeline);
    tidei_calls_detach(&calls->queue);
    calls->attached = false;
    drivercalls_take(calls, timeline);
    tidei_device_events_run(calls->devices, timeline, UINT64_MAX);
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
    uint64_t dropped = tidei_device_events_dropped(calls->devices);

    pthread_mutex_lock(&calls->lock);
    if (calls->tried) {
        pthread_mutex_lock(&calls->queue.lock);
        dropped += calls->queue.dropped + tidei_calls_overflown() - calls->overflown;
        pthread_mutex_unlock(&calls->queue.lock);
    }
    pthread_mutex_unlock(&calls->lock);
    return dropped;
}
