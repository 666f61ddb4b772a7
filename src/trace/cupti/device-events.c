/*
 * Makes one row of each event of memory and pools.
 *
 * Where there are several contexts, CUPTI reports each event once for each context, in records that differ only in
 * context and time. Events wait until CUPTI has handed over everything that came before them. Then events and calls are
 * sorted by CUPTI's number of the call, and both lists are walked side by side. CUPTI numbers only calls that somebody
 * follows. An event of any other call carries the number of a call that is followed; its time tells the two apart.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/map.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/ring/function.h"

#define DEVICES_ROUNDS_MOST 100

struct devices_call {
    uint64_t start, end;    /* ticks */
    uint64_t allocation_id; /* 0: none */
    uint32_t correlation;
    uint32_t os_tid; /* 0: not known */
    uint8_t function;
    uint8_t rounds; /* how long it has waited */
    bool waits;     /* a log records it, and its event has not come yet */
};

struct tidei_device_events {
    struct tidei_cupti_list events;  /* struct tidei_device_event */
    struct tidei_cupti_list calls;   /* struct devices_call */
    struct tidei_cupti_list rows;    /* struct tidei_device_row */
    struct tidei_cupti_list outside; /* struct tidei_outside_row */
    struct tidei_map threads;        /* from os_tid to thread_id */
    uint64_t dropped;
};

struct tidei_device_events *
tidei_device_events_new(void)
{
    return calloc(1, sizeof(struct tidei_device_events));
}

void
tidei_device_events_free(struct tidei_device_events *devices)
{
    if (devices == NULL)
        return;
    free(devices->events.items);
    free(devices->calls.items);
    free(devices->rows.items);
    free(devices->outside.items);
    tidei_map_free(&devices->threads);
    free(devices);
}

void
tidei_device_events_add_thread(struct tidei_device_events *devices, uint32_t thread_id, uint32_t os_tid)
{
    uint32_t *known = tidei_map_find(&devices->threads, os_tid, 0);

    /* The system reuses thread ids: the latest thread counts. */
    if (known != NULL)
        *known = thread_id;
    else
        tidei_map_add(&devices->threads, os_tid, 0, thread_id);
}

void
tidei_device_events_add_events(struct tidei_device_events *devices, const struct tidei_device_event *items,
                               size_t count)
{
    tidei_cupti_list_put(&devices->events, items, count, sizeof(*items), &devices->dropped);
}

/* Make a row for a call outside of all logs. */
static void
devices_add_outside(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
                    const struct tidei_call *call)
{
    const uint32_t *thread = tidei_map_find(&devices->threads, call->os_tid, 0);
    struct tidei_outside_row row = { .start_ns = tidei_timeline_ns(timeline, call->part.start), .part = call->part };

    row.duration_ns = tidei_timeline_ns(timeline, call->part.end) - row.start_ns;
    if (thread != NULL)
        row.thread_id = *thread;
    tidei_cupti_list_put(&devices->outside, &row, 1, sizeof(row), &devices->dropped);
}

void
tidei_device_events_add_calls(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
                              const struct tidei_call *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct devices_call call = { .start = items[i].part.start,
                                     .end = items[i].part.end,
                                     .correlation = items[i].part.correlation,
                                     .os_tid = items[i].os_tid,
                                     .function = items[i].part.function,
                                     .waits = items[i].waits };

        tidei_cupti_list_put(&devices->calls, &call, 1, sizeof(call), &devices->dropped);
        if (!call.waits)
            devices_add_outside(devices, timeline, &items[i]);
    }
}

void
tidei_device_events_add_own(struct tidei_device_events *devices, const struct tidei_event_call *own)
{
    struct devices_call call = { .start = own->part.start,
                                 .end = own->part.end,
                                 .allocation_id = own->allocation_id,
                                 .correlation = own->part.correlation,
                                 .function = own->part.function };

    tidei_cupti_list_put(&devices->calls, &call, 1, sizeof(call), &devices->dropped);
}

/* What makes two records one event. */
static int
devices_order(const struct tidei_device_event *a, const struct tidei_device_event *b)
{
    if (a->correlation != b->correlation)
        return a->correlation < b->correlation ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return (a->pool_address > b->pool_address) - (a->pool_address < b->pool_address);
}

/*
 * Whether `b` is a later record of event `a`, from another context. A record without a number cannot be compared. Two
 * records of one context are two events: the memory was released and allocated again in between.
 */
static bool
devices_is_same(const struct tidei_device_event *a, const struct tidei_device_event *b)
{
    return a->correlation != 0 && devices_order(a, b) == 0 && a->context != b->context;
}

static int
devices_events_by_call(const void *left, const void *right)
{
    const struct tidei_device_event *a = left, *b = right;
    int order = devices_order(a, b);

    return order != 0 ? order : (a->ticks > b->ticks) - (a->ticks < b->ticks);
}

static int
devices_calls_by_number(const void *left, const void *right)
{
    const struct devices_call *a = left, *b = right;

    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int
devices_rows_by_time(const void *left, const void *right)
{
    const struct tidei_device_row *a = left, *b = right;

    return (a->event.ticks > b->event.ticks) - (a->event.ticks < b->event.ticks);
}

/*
 * Whether an event that carries a call's number was made by that call: see the top of this file. Calls of any kind
 * create and trim pools.
 */
static bool
devices_is_of(const struct tidei_device_event *event, const struct devices_call *call)
{
    if (event->ticks < call->start || event->ticks > call->end)
        return false;
    return event->kind > TIDEI_DEVICE_RELEASE ||
           (event->kind == TIDEI_DEVICE_RELEASE) == tidei_function_is_free(call->function);
}

/*
 * Find the call that made an event, among the calls from `number` on that have the event's number. A call within a log
 * is there twice: from CUPTI's callback, and from the log's record.
 */
static void
devices_look_up(const struct tidei_device_events *devices, size_t number, const struct tidei_device_event *event,
                struct devices_call *out)
{
    const struct devices_call *calls = devices->calls.items;
    bool first = true;

    memset(out, 0, sizeof(*out));
    for (; number < devices->calls.count && calls[number].correlation == event->correlation; number++) {
        const struct devices_call *call = &calls[number];

        if (!devices_is_of(event, call))
            continue;
        out->waits = (first || out->waits) && call->waits;
        out->function = call->function;
        if (call->allocation_id != 0)
            out->allocation_id = call->allocation_id;
        if (call->os_tid != 0)
            out->os_tid = call->os_tid;
        first = false;
    }
}

static void
devices_row(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
            const struct tidei_device_event *event, const struct devices_call *call)
{
    struct tidei_device_row row = { .event = *event,
                                    .ns = tidei_timeline_ns(timeline, event->ticks),
                                    .allocation_id = call->allocation_id,
                                    .function = tidei_function_name(call->function),
                                    .os_tid = call->os_tid };

    tidei_cupti_list_put(&devices->rows, &row, 1, sizeof(row), &devices->dropped);
}

/* Forget calls whose events all have rows, and calls that have waited for too long. */
static void
devices_forget_calls(struct tidei_device_events *devices, uint64_t until)
{
    struct devices_call *calls = devices->calls.items;
    size_t kept = 0;

    for (size_t i = 0; i < devices->calls.count; i++) {
        struct devices_call call = calls[i];
        bool is_known = i + 1 < devices->calls.count && calls[i + 1].correlation == call.correlation;

        /* The list is sorted: the two entries of a log's call are neighbours. */
        if (kept > 0 && calls[kept - 1].correlation == call.correlation)
            is_known = true;
        if (call.end >= until || (call.waits && !is_known && ++call.rounds < DEVICES_ROUNDS_MOST))
            calls[kept++] = call;
    }
    devices->calls.count = kept;
}

void
tidei_device_events_run(struct tidei_device_events *devices, const struct tidei_timeline *timeline, uint64_t until)
{
    struct tidei_device_event *events = devices->events.items;
    const struct devices_call *calls = devices->calls.items;
    size_t kept = 0, number = 0, first_row = devices->rows.count;
    struct devices_call call;

    if (devices->events.count > 1)
        qsort(events, devices->events.count, sizeof(*events), devices_events_by_call);
    if (devices->calls.count > 1)
        qsort(devices->calls.items, devices->calls.count, sizeof(*calls), devices_calls_by_number);
    for (size_t i = 0; i < devices->events.count; i++) {
        struct tidei_device_event event = events[i];

        while (i + 1 < devices->events.count && devices_is_same(&event, &events[i + 1]))
            i++;
        while (number < devices->calls.count && calls[number].correlation < event.correlation)
            number++;
        devices_look_up(devices, number, &event, &call);
        if (until != UINT64_MAX && (event.ticks >= until || call.waits))
            events[kept++] = event;
        else
            devices_row(devices, timeline, &event, &call);
    }
    devices->events.count = kept;
    devices_forget_calls(devices, until);
    if (devices->rows.count > first_row + 1)
        qsort((struct tidei_device_row *)devices->rows.items + first_row, devices->rows.count - first_row,
              sizeof(struct tidei_device_row), devices_rows_by_time);
}

uint64_t
tidei_device_events_dropped(const struct tidei_device_events *devices)
{
    return devices->dropped;
}

const struct tidei_device_row *
tidei_device_events_rows(const struct tidei_device_events *devices, size_t *count)
{
    *count = devices != NULL ? devices->rows.count : 0;
    return devices != NULL ? devices->rows.items : NULL;
}

const struct tidei_outside_row *
tidei_device_events_outside(const struct tidei_device_events *devices, size_t *count)
{
    *count = devices != NULL ? devices->outside.count : 0;
    return devices != NULL ? devices->outside.items : NULL;
}

void
tidei_device_events_written(struct tidei_device_events *devices)
{
    devices->rows.count = devices->outside.count = 0;
}
