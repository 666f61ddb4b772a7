/*
 * Where calls and events of memory wait for the writers of the traces that want them; of the process. Calls no CUPTI.
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

/* A call of any thread. */
struct tidei_call {
    struct tidei_call_part part;
    uint32_t os_tid;
    bool waits; /* a log of this trace records it: it comes again, with its event */
};

/* One for each trace that has CUPTI. */
struct tidei_cupti_queue {
    pthread_mutex_t lock; /* for all below up to `dropped` */
    struct tidei_call *calls;
    size_t call_count;
    size_t call_capacity;
    struct tidei_device_event *events;
    size_t event_count;
    size_t event_capacity;
    uint64_t dropped; /* records: by CUPTI, and for want of memory */
    bool tsc;
    bool memory;                         /* wants calls and events, and gets them; set before it is opened */
    const struct tidei_session *session; /* whose it is; never followed */
    struct tidei_cupti_queue *next;
};

/* From here on, and up to here, `queue` (borrowed) gets what comes. Any thread, as the next ones. */
void tidei_cupti_queue_open(struct tidei_cupti_queue *queue);
void tidei_cupti_queue_shut(struct tidei_cupti_queue *queue);

/* Whether one is open and all have that clock. */
bool tidei_cupti_queue_has_clock(bool tsc);

/*
 * Put into the queues of all traces that record all memory. The thread whose call has returned puts that call itself:
 * its slot says which logs wait for the call.
 */
void tidei_cupti_queue_put_call(const struct tidei_call_capture *slot, const struct tidei_call_part *part);
void tidei_cupti_queue_put_events(const struct tidei_device_event *events, size_t count);

/* So many records are missing in all of them. */
void tidei_cupti_queue_put_dropped(size_t count);

#endif
