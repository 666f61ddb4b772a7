/*
 * Where a thread's calls of the driver are put while a `log` waits for them: CUPTI calls back on the thread itself, at
 * the beginning and the end of each, so that a call lies within the event of its thread and needs no other tie.
 *
 * An event that made one call, as nearly all do, ends with that call: the clock is read for both at once. So that the
 * record may have that time, it is opened (producer.h) before the clock is read at the end of the call, not after it.
 */
#ifndef TIDEI_TRACE_RING_CAPTURE_H
#define TIDEI_TRACE_RING_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/producer.h"
#include "src/trace/ring/record.h"

/* The most calls of one event: the driver's base makes a few at the most. More are counted as lost. */
#define TIDEI_CALLS_MOST 16

/* What few events need; see callslot.c. */
struct tidei_call_more;

/*
 * A thread's part: one cache line, but for the last two.
 */
struct tidei_call_capture {
    uint32_t armed;      /* logs that wait, one within the other; TIDEI_CALL_WITHIN: there was a second */
    uint16_t depth;      /* of calls that have begun: one of the runtime makes calls of the driver */
    uint16_t count;      /* of calls that have ended while a log waits */
    uint32_t generation; /* of CUPTI's use, that `depth` belongs to */
    uint32_t os_tid;     /* of the thread; 0: not asked for yet */
    const struct tidei_session *session; /* of the outermost log that waits; never followed */
    const struct tidei_producer *joined; /* of that log, where its event may end with its first call; else NULL */
    struct tidei_call_part first;        /* of the calls */
    uint64_t entered;                    /* ticks: of a call that is not the first */
    struct tidei_call_more *more;        /* owned; NULL until it is needed */
};

#define TIDEI_CALL_WITHIN ((uint32_t)1 << 16)

TIDEI_THREAD_PART(tidei_call_capture, capture, struct tidei_call_capture);

/* The slow sides of the next two, where a log of another trace, or above another base, waits already. */
void tidei_call_capture_arm_within(struct tidei_call_capture *slot, const struct tidei_session *session);
void tidei_call_capture_disarm_within(struct tidei_call_capture *slot);

/* Whether a log of that trace waits for the calls of this thread. */
bool tidei_call_capture_waits(const struct tidei_call_capture *slot, const struct tidei_session *session);

/* Put a call behind those that are there; false where there is no room. */
bool tidei_call_capture_add(struct tidei_call_capture *slot, const struct tidei_call_part *call);

/* The calls that the innermost log is to record: those that no log of its trace has that lies within it. */
unsigned tidei_call_capture_take(const struct tidei_call_capture *slot, struct tidei_call_part out[TIDEI_CALLS_MOST]);

/* The thread ends, or has been forked off: no log of it waits. */
void tidei_call_capture_forget(void);

/*
 * From here on the calls of this thread belong to the event that begins now. It may be `joined` with a call that is all
 * that takes time in it: where the layers in between are quick, and producer->plain.
 */
static inline struct tidei_call_capture *
tidei_call_capture_arm(const struct tidei_producer *producer, bool joined)
{
    struct tidei_call_capture *slot = tidei_call_capture(tidei_thread); /* the thread's own, as it has a producer */

    if (__builtin_expect(slot->armed != 0, 0)) {
        tidei_call_capture_arm_within(slot, producer->session);
        return slot;
    }
    slot->armed = 1;
    slot->depth = 0; /* nobody allocates through a log within a call of the driver */
    slot->count = 0;
    slot->session = producer->session;
    slot->joined = joined ? producer : NULL;
    return slot;
}

/* The event is over, and its calls have been taken. */
static inline void
tidei_call_capture_disarm(struct tidei_call_capture *slot)
{
    if (__builtin_expect(slot->armed != 1, 0)) {
        tidei_call_capture_disarm_within(slot);
        return;
    }
    slot->armed = 0;
    slot->count = 0;
}

/*
 * The end of the first call is read: that of the event, too. Its record is opened before, as every other is before the
 * clock is read for it. Should something else be recorded until then, that closes the ring, and the event has its own.
 */
static inline uint64_t
tidei_call_capture_open(const struct tidei_call_capture *slot)
{
    tidei_producer_open(slot->joined, slot->joined->ring, slot->first.start, true);
    return tidei_producer_ticks_settled(slot->joined, true);
}

static inline bool
tidei_call_capture_is_open(const struct tidei_call_capture *slot, const struct tidei_ring *ring)
{
    /* Relaxed: only this thread writes it. */
    return slot->joined != NULL && slot->count == 1 &&
           atomic_load_explicit(&ring->open, memory_order_relaxed) == (slot->first.start | 1);
}

/* There is another call: the event has an end of its own after all. */
static inline void
tidei_call_capture_close(const struct tidei_call_capture *slot)
{
    /* Pairs with the acquire in the merge, which finds nothing new. */
    if (slot->joined != NULL && slot->armed == 1)
        atomic_store_explicit(&slot->joined->ring->open, 0, memory_order_release);
}

/* Whether the one call of an event, or none, fits into its record: see tidei_record. */
static inline bool
tidei_call_capture_fits(const struct tidei_call_capture *slot, uint64_t begin, uint64_t address)
{
    const struct tidei_call_part *call = &slot->first;

    if (slot->armed != 1)
        return false;
    if (slot->count == 0)
        return true;
    /* The writer needs the place for its own where there is no address. */
    return slot->count == 1 && (call->result | (int32_t)call->correlation) == 0 && address != 0 &&
           call->start >= begin && call->start - begin <= UINT16_MAX && call->end - call->start <= UINT16_MAX;
}

/* The slow side of the next one: each call in a record of its own behind the event's. */
void tidei_producer_event_calls_behind(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size,
                                       uint64_t stream, uint64_t word, uint32_t callstack, bool settled,
                                       const struct tidei_call_capture *slot);

/*
 * tidei_producer_event for an event whose thread's calls of the driver have been collected: they are recorded with it.
 */
static inline __attribute__((always_inline)) void
tidei_producer_event_calls(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size,
                           uint64_t stream, uint64_t word, uint32_t callstack, bool settled, bool plain,
                           const struct tidei_call_capture *slot)
{
    struct tidei_ring *ring = producer->ring;
    struct tidei_record *record;
    uint64_t now;

    if (__builtin_expect(
            producer->head - producer->tail > producer->mask || !tidei_call_capture_fits(slot, begin, address), 0)) {
        tidei_producer_event_calls_behind(producer, begin, address, size, stream, word, callstack, settled, slot);
        return;
    }
    record = &producer->records[producer->head & producer->mask];
    tidei_producer_fill(producer, record, address, size, stream, word, callstack);
    if (slot->count != 0) {
        record->call_function = slot->first.function;
        record->call_span = (uint32_t)((slot->first.start - begin) << 16 | (slot->first.end - slot->first.start));
    }
    if (plain && tidei_call_capture_is_open(slot, ring)) {
        now = slot->first.end;
    } else {
        tidei_producer_open(producer, ring, begin, plain);
        TIDEI_TEST_POINT("producer.open");
        now = settled ? tidei_producer_ticks_settled(producer, plain) : tidei_producer_ticks(producer, plain);
    }
    record->ticks = now;
    record->duration_ticks = now - begin;
    tidei_producer_publish(producer, ring, 1);
}

#endif
