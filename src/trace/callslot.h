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

/*
 * The most logs that wait, one within the other: the lowest one of each trace that a call passes through. The calls of
 * those within the last of them are its own.
 */
#define TIDEI_CALL_WAITS_MOST 16

/* A log within others of those that wait. */
struct tidei_call_wait {
    const struct tidei_recorder *recorder; /* never followed */
    unsigned first;                        /* of `calls` that came after it began */
};

struct tidei_call_slot {
    unsigned armed;                        /* logs that wait, one within the other */
    unsigned depth;                        /* of calls that have begun: one of the runtime makes calls of the driver */
    unsigned count;                        /* of `calls` */
    unsigned within;                       /* 1: logs wait, or have waited, within the outermost one that waits now */
    const struct tidei_recorder *recorder; /* of the outermost log; never followed */
    unsigned generation;                   /* of CUPTI's use, that `depth` belongs to */
    uint32_t os_tid;                       /* of the thread; 0: not asked for yet */
    uint64_t entered;                      /* ticks */
    struct tidei_call_part calls[TIDEI_CALLS_MOST + 1];  /* one more, to be overwritten */
    unsigned seen;                                       /* of `calls`: they have their `taken` */
    uint16_t taken[TIDEI_CALLS_MOST];                    /* a bit for each wait that has one within it of its trace */
    struct tidei_call_wait waits[TIDEI_CALL_WAITS_MOST]; /* the outermost one is not here */
};

extern TIDEI_TLS struct tidei_call_slot tidei_call_slot;

/* The slow sides of the next two, where a log of another trace, or above another base, waits already. */
void tidei_call_slot_arm_within(struct tidei_call_slot *slot, const struct tidei_recorder *recorder);
void tidei_call_slot_disarm_within(struct tidei_call_slot *slot);

/* Whether a log of that trace waits for the calls of this thread. */
bool tidei_call_slot_waits(const struct tidei_call_slot *slot, const struct tidei_recorder *recorder);

/* The calls that the innermost log is to record: those that no log of its trace has that lies within it. */
unsigned tidei_call_slot_take(const struct tidei_call_slot *slot, struct tidei_call_part out[TIDEI_CALLS_MOST]);

/* From here on the calls of this thread belong to the event that begins now. */
static inline struct tidei_call_slot *
tidei_call_slot_arm(const struct tidei_recorder *recorder)
{
    struct tidei_call_slot *slot = &tidei_call_slot;

    if (__builtin_expect(slot->armed != 0, 0)) {
        tidei_call_slot_arm_within(slot, recorder);
        return slot;
    }
    slot->armed = 1;
    slot->depth = 0; /* nobody allocates through a log within a call of the driver */
    slot->count = 0;
    slot->within = 0;
    slot->recorder = recorder;
    return slot;
}

/* The event is over, and its calls have been taken. */
static inline void
tidei_call_slot_disarm(struct tidei_call_slot *slot)
{
    if (__builtin_expect(slot->armed != 1, 0)) {
        tidei_call_slot_disarm_within(slot);
        return;
    }
    slot->armed = 0;
    slot->count = 0;
}

/* Whether the one call of an event fits into its record: see tidei_record. A log within others looks more closely. */
static inline bool
tidei_call_slot_fits(const struct tidei_call_slot *slot, uint64_t begin, uint64_t address)
{
    const struct tidei_call_part *call = &slot->calls[0];

    /* The writer needs the place for its own where there is no address. */
    return slot->count == 1 && slot->within == 0 && (call->result | (int32_t)call->correlation) == 0 && address != 0 &&
           call->start >= begin && call->start - begin <= UINT16_MAX && call->end - call->start <= UINT16_MAX;
}

/* The slow side of the next one: each call in a record of its own behind the event's. */
void tidei_front_event_calls_behind(struct tidei_front *front, uint64_t begin, uint64_t address, uint64_t size,
                                    uint64_t stream, uint64_t word, uint32_t callstack, bool settled,
                                    const struct tidei_call_slot *slot);

/* tidei_front_event for an event whose thread's calls of the driver have been collected: they are recorded with it. */
static inline __attribute__((always_inline)) void
tidei_front_event_calls(struct tidei_front *front, uint64_t begin, uint64_t address, uint64_t size, uint64_t stream,
                        uint64_t word, uint32_t callstack, bool settled, bool plain, const struct tidei_call_slot *slot)
{
    const struct tidei_call_part *call = &slot->calls[0];
    struct tidei_record *record;
    uint64_t now;

    if (__builtin_expect(front->head - front->tail > front->mask || !tidei_call_slot_fits(slot, begin, address), 0)) {
        tidei_front_event_calls_behind(front, begin, address, size, stream, word, callstack, settled, slot);
        return;
    }
    record = &front->records[front->head & front->mask];
    tidei_front_fill(front, record, address, size, stream, word, callstack);
    record->call_function = call->function;
    record->call_span = (uint32_t)((call->start - begin) << 16 | (call->end - call->start));
    tidei_front_open(front, front->ring, begin, plain);
    TIDEI_TEST_POINT("front.open");
    now = settled ? tidei_front_ticks_settled(front, plain) : tidei_front_ticks(front, plain);
    record->ticks = now;
    record->duration_ticks = now - begin;
    tidei_front_publish(front, front->ring, 1);
}

#endif
