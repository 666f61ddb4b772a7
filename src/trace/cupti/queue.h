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

/* A growing list. Initialize to zeros. */
struct tidei_cupti_list {
    void *items; /* owned */
    size_t count, capacity;
};

/* Append copies of `count` items of `bytes` bytes each. Without host memory they are lost, and counted in *dropped. */
void tidei_cupti_list_put(struct tidei_cupti_list *list, const void *items, size_t count, size_t bytes,
                          uint64_t *dropped);

/* One for each trace that uses CUPTI. */
struct tidei_cupti_queue {
    pthread_mutex_t lock;           /* guards the fields up to `dropped` */
    struct tidei_cupti_list calls;  /* struct tidei_call */
    struct tidei_cupti_list events; /* struct tidei_device_event */
    uint64_t dropped;               /* records dropped by CUPTI, or without host memory */
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
 * Put a call into the queues of all traces that record all memory. Its own thread does that when it has returned; the
 * thread's capture says which logs wait for it.
 */
void tidei_cupti_queue_put_call(const struct tidei_call_capture *slot, const struct tidei_call_part *part);

/* Put events into the queues of these traces, and count `dropped` missing records in all queues. */
void tidei_cupti_queue_put_events(const struct tidei_device_event *events, size_t count, size_t dropped);

#endif
