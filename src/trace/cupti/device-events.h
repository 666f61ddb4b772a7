/*
 * What happened to memory and pools, for one trace: each event once, though every context has told it, and with the
 * call that made it.
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
    uint64_t allocation_id; /* 0: it did not pass through the stack */
    const char *function;   /* static; NULL: not known */
    uint32_t os_tid;        /* of the calling thread; 0: not known */
};

/* A row of driver_call for a call that passed through no log. */
struct tidei_outside_row {
    uint64_t start_ns; /* of the trace */
    uint64_t duration_ns;
    uint32_t thread_id; /* 0: its thread has recorded nothing */
    struct tidei_call_part part;
};

/* NULL where host memory is short. */
struct tidei_device_events *tidei_device_events_new(void);
void tidei_device_events_free(struct tidei_device_events *devices);

/* A thread of the trace, by the number that the system gave it. */
void tidei_device_events_add_thread(struct tidei_device_events *devices, uint32_t thread_id, uint32_t os_tid);

/* What came into the queue; `items` is copied. */
void tidei_device_events_add_events(struct tidei_device_events *devices, const struct tidei_device_event *items,
                                    size_t count);
void tidei_device_events_add_calls(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
                                   const struct tidei_call *items, size_t count);

/* A call that came with an event of the trace. */
void tidei_device_events_add_own(struct tidei_device_events *devices, const struct tidei_event_call *call);

/*
 * Make rows of the events before tick `until`: all there is of them, and of their calls, has been added. One whose call
 * a log records waits for that, 100 rounds at the most: the log may have had to drop it.
 */
void tidei_device_events_run(struct tidei_device_events *devices, const struct tidei_timeline *timeline,
                             uint64_t until);

/* What was lost for want of host memory. */
uint64_t tidei_device_events_dropped(const struct tidei_device_events *devices);

/* The rows that wait for a transaction (borrowed), until tidei_device_events_written. */
const struct tidei_device_row *tidei_device_events_rows(const struct tidei_device_events *devices, size_t *count);
const struct tidei_outside_row *tidei_device_events_outside(const struct tidei_device_events *devices, size_t *count);
void tidei_device_events_written(struct tidei_device_events *devices);

#endif
