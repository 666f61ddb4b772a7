/*
 * Queues in which driver calls and events of memory wait for the writers of the traces. The list of queues is
 * process-wide. Calls no CUPTI function.
 */
#ifndef TIDEI_TRACE_CUPTI_QUEUE_H
#define TIDEI_TRACE_CUPTI_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/trace/cupti/activity.h"
#include "src/trace/ring/record.h"

struct tidei_call_capture;
struct tidei_session;

/* A driver call of any thread. */
struct tidei_call {
    struct tidei_call_part part;
    uint32_t os_tid;
    bool waits; /* a log of this trace records it: the call will come again, with its event */
};

/* One for each trace that uses CUPTI. */
struct tidei_cupti_queue {
    pthread_mutex_t lock; /* guards the fields up to `dropped` */
    struct tidei_call *calls;
    size_t call_count;
    size_t call_capacity;
    struct tidei_device_event *events;
    size_t event_count;
    size_t event_capacity;
    uint64_t dropped; /* records dropped by CUPTI, or without host memory */
    bool tsc;
    bool memory;                         /* receives calls and events; set before it is opened */
    const struct tidei_session *session; /* of its trace; never dereferenced */
    struct tidei_cupti_queue *next;
};

/* Add `queue` (borrowed) to the list, or remove it. This and the functions below: any thread. */
void tidei_cupti_queue_open(struct tidei_cupti_queue *queue);
void tidei_cupti_queue_shut(struct tidei_cupti_queue *queue);

/* Whether a queue is open, and all open queues use that clock. */
bool tidei_cupti_queue_has_clock(bool tsc);

/*
 * Put a call or events into the queues of all traces that record all memory. A call is put by its own thread when it
 * has returned; the thread's capture says which logs wait for it.
 */
void tidei_cupti_queue_put_call(const struct tidei_call_capture *slot, const struct tidei_call_part *part);
void tidei_cupti_queue_put_events(const struct tidei_device_event *events, size_t count);

/* Count `count` missing records in all queues. */
void tidei_cupti_queue_put_dropped(size_t count);

#endif
