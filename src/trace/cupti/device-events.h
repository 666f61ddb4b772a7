/*
 * Turns CUPTI's events of memory and pools into rows of one trace. Each event gets one row, though CUPTI reports it for
 * every context, and the row names the driver call that made the event.
 */
#ifndef TIDEI_TRACE_CUPTI_DEVICE_EVENTS_H
#define TIDEI_TRACE_CUPTI_DEVICE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/trace/cupti/activity.h"
#include "src/trace/cupti/callbacks.h"
#include "src/trace/events/event-calls.h"
#include "src/trace/events/timeline.h"

struct tidei_device_events;

/* A row of device_event. */
struct tidei_device_row {
    struct tidei_device_event event;
    uint64_t ns;            /* of the trace */
    uint64_t allocation_id; /* 0: not made through a log */
    const char *function;   /* static; NULL: not known */
    uint32_t os_tid;        /* of the calling thread; 0: not known */
};

/* A row of driver_call for a call outside of all logs. */
struct tidei_outside_row {
    uint64_t start_ns; /* of the trace */
    uint64_t duration_ns;
    uint32_t thread_id; /* 0: the thread is not in the trace */
    struct tidei_call_part part;
};

/* NULL without host memory. */
struct tidei_device_events *tidei_device_events_new(void);
void tidei_device_events_free(struct tidei_device_events *devices);

/* Add a thread of the trace, with its system thread id. */
void tidei_device_events_add_thread(struct tidei_device_events *devices, uint32_t thread_id, uint32_t os_tid);

/* Add items of the queue; they are copied. */
void tidei_device_events_add_events(struct tidei_device_events *devices, const struct tidei_device_event *items,
                                    size_t count);
void tidei_device_events_add_calls(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
                                   const struct tidei_call *items, size_t count);

/* Add a call that was recorded with an event of the trace. */
void tidei_device_events_add_own(struct tidei_device_events *devices, const struct tidei_event_call *call);

/*
 * Make rows of the events before tick `until`; the caller has added all of them, and their calls. An event whose call a
 * log records waits for that call, for at most 100 rounds, since the log may have dropped it.
 */
void tidei_device_events_run(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
                             uint64_t until);

/* The number of items lost without host memory. */
uint64_t tidei_device_events_dropped(const struct tidei_device_events *devices);

/* The rows to write (borrowed until tidei_device_events_written). `devices` may be NULL: no rows. */
const struct tidei_device_row *tidei_device_events_rows(const struct tidei_device_events *devices, size_t *count);
const struct tidei_outside_row *tidei_device_events_outside(const struct tidei_device_events *devices, size_t *count);
void tidei_device_events_written(struct tidei_device_events *devices);

#endif
