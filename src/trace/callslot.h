/*
 * Where a thread's calls of the driver are put while a `log` waits for them: CUPTI calls back on the thread itself, at
 * the beginning and the end of each, so that a call lies within the event of its thread and needs no other tie.
 */
#ifndef TIDEI_TRACE_CALLSLOT_H
#define TIDEI_TRACE_CALLSLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/front.h"
#include "trace/record.h"

/* The most calls of one event: the driver's base makes a few at the most. More are counted as lost. */
#define TIDEI_CALLS_MOST 16

struct tidei_call_slot {
    unsigned armed;      /* logs that wait, one within the other; the innermost one takes the calls */
    unsigned depth;      /* of calls that have begun: one of the runtime makes calls of the driver */
    unsigned generation; /* of CUPTI's use, that `depth` belongs to */
    unsigned count;
    uint32_t os_tid;  /* of the thread; 0: not asked for yet */
    uint64_t entered; /* ticks */
    struct tidei_call_part calls[TIDEI_CALLS_MOST];
};

extern TIDEI_TLS struct tidei_call_slot tidei_call_slot;

/* From here on the calls of this thread belong to the event that begins now. */
static inline struct tidei_call_slot *
tidei_call_slot_arm(void)
{
    struct tidei_call_slot *slot = &tidei_call_slot;

    slot->armed++;
    slot->count = 0;
    return slot;
}

/* The event is over, and its calls have been taken. */
static inline void
tidei_call_slot_disarm(struct tidei_call_slot *slot)
{
    slot->armed--;
    slot->count = 0;
}

#endif
