/* The calls of the driver that were recorded with the events of a slice of the backlog, as pair.h has paired it. */
#ifndef TIDEI_TRACE_EVENTS_EVENT_CALLS_H
#define TIDEI_TRACE_EVENTS_EVENT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/trace/events/pair.h"
#include "src/trace/ring/record.h"

struct tidei_event_call {
    const struct tidei_record *event; /* borrowed from the backlog */
    uint64_t allocation_id;
    bool is_free;
    struct tidei_call_part part; /* as good as it was recorded: a function that there is, times within the event */
};

/* Where the walk stands; all 0 before its first step. */
struct tidei_event_calls {
    size_t step; /* of what tidei_pair_run has found: twice the rows, then the closings */
    unsigned part;
};

/* The next call; false where there is none. */
bool tidei_event_calls_next(struct tidei_event_calls *walk, const struct tidei_pair *pair,
                            struct tidei_event_call *out);

/* Whether an event of the slice has ended after `ticks`. */
bool tidei_event_calls_any_after(const struct tidei_pair *pair, uint64_t ticks);

#endif
