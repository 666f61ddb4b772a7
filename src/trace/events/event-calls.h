/* Walks the driver calls that were recorded with the events of a slice of the backlog, after pair.h has paired it. */
#ifndef TIDEI_TRACE_EVENTS_EVENT_CALLS_H
#define TIDEI_TRACE_EVENTS_EVENT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/trace/events/pair.h"
#include "src/trace/ring/record.h"

struct tidei_event_call {
    uint64_t allocation_id;
    uint64_t began, ended; /* of the event, in ticks */
    uint32_t thread;
    bool is_free;
    struct tidei_call_part part; /* checked: a known function, times within the event */
};

/* The position of the walk; zero-initialize it. */
struct tidei_event_calls {
    /* Two for each row of tidei_pair_run (allocation, free), then one for each closing and each CALLS record. */
    size_t step;
    unsigned part;
};

/* The next call; false at the end. */
bool tidei_event_calls_next(struct tidei_event_calls *walk, const struct tidei_pair *pair,
                            struct tidei_event_call *out);

/* Whether an event of the slice ended after `ticks`. */
bool tidei_event_calls_any_after(const struct tidei_pair *pair, uint64_t ticks);

#endif
