/*
 * Collects a thread's driver calls while a `log` layer waits for them. CUPTI calls back on the calling thread, at the
 * beginning and the end of each driver call. So a call belongs to the event that its thread is in, and no identifier
 * is needed to match the two.
 *
 * Nearly every event makes one driver call, and ends with it: one clock reading then serves both. For the record to
 * carry that reading, it must be opened (see producer.h) before the clock is read at the end of the call.
 */
#ifndef TIDEI_TRACE_RING_CAPTURE_H
#define TIDEI_TRACE_RING_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/producer.h"
#include "src/trace/ring/record.h"

/* State that few events need; see capture.c. */
struct tidei_call_more;

/* A thread's part. All but the last three fields lie in one cache line. */
struct tidei_call_capture {
    uint32_t armed;                      /* nested logs that wait; TIDEI_CALL_WITHIN is set once a second one waited */
    uint32_t depth;                      /* calls begun and not ended: a runtime call makes driver calls inside */
    uint32_t count;                      /* calls that have ended while a log waits */
    uint32_t generation;                 /* the CUPTI subscription that `depth` belongs to */
    const struct tidei_session *session; /* of the outermost waiting log; never dereferenced */
    const struct tidei_producer *joined; /* of that log, if its event may end with its first call; else NULL */
    struct tidei_call_part first;        /* the first of the calls */
    uint64_t entered;                    /* ticks at which a later call began */
    struct tidei_call_more *more;        /* owned; NULL until it is needed */
    uint32_t os_tid;                     /* of the thread; 0: not asked for yet */
};

#define TIDEI_CALL_WITHIN ((uint32_t)1 << 16)

TIDEI_THREAD_PART(tidei_call_capture, capture, struct tidei_call_capture);

/* The slow paths of arm and disarm below, for a thread on which another log already waits (another trace or base). */
void tidei_call_capture_arm_within(struct tidei_call_capture *slot, const struct tidei_session *session);
void tidei_call_capture_disarm_within(struct tidei_call_capture *slot);

/* Whether a log of that trace waits for this thread's calls. */
bool tidei_call_capture_waits(const struct tidei_call_capture *slot, const struct tidei_session *session);

/*
 * Append a call; false without host memory. An event may make any number of calls: `pool` gives back all its free
 * chunks for one request that finds no room. The memory for them goes when the event ends.
 */
bool tidei_call_capture_add(struct tidei_call_capture *slot, const struct tidei_call_part *call);

/*
 * The calls that the innermost log records: those that no log of the same trace nested in it has recorded. How many;
 * and the next one, where *position is 0 at first. False after the last.
 */
uint32_t tidei_call_capture_count(const struct tidei_call_capture *slot);
bool tidei_call_capture_next(const struct tidei_call_capture *slot, uint32_t *position, struct tidei_call_part *out);

/* Give back the memory of very many calls, once they are recorded. */
void tidei_call_capture_shrink(struct tidei_call_capture *slot);

/* Reset the thread's state, when it ends or after fork(): none of its logs waits any more. */
void tidei_call_capture_forget(void);

/*
 * Begin an event: this thread's calls belong to it until tidei_call_capture_disarm. With `joined` the event may end at
 * the same clock reading as its only call. That requires producer->plain, and fast layers between log and driver.
 */
static inline struct tidei_call_capture *
tidei_call_capture_arm(const struct tidei_producer *producer, bool joined)
{
    struct tidei_call_capture *slot = tidei_call_capture(tidei_thread); /* its own object, since it has a producer */

    if (__builtin_expect(slot->armed != 0, 0)) {
        tidei_call_capture_arm_within(slot, producer->session);
        return slot;
    }
    slot->armed = 1;
    slot->depth = 0; /* no driver call allocates through a log */
    slot->count = 0;
    slot->session = producer->session;
    slot->joined = joined ? producer : NULL;
    return slot;
}

/* End the event, once its calls have been taken. */
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
 * Read the clock at the end of the first call, which is the end of the event, too. As for every record, the ring is
 * opened first. If anything else is recorded before the event is, it closes the ring, and the event reads the clock
 * again.
 */
static inline uint64_t
tidei_call_capture_open(const struct tidei_call_capture *slot)
{
    tidei_producer_open(slot->joined, slot->joined->ring, slot->first.start, true);
    return tidei_producer_ticks_ordered(slot->joined, true);
}

static inline bool
tidei_call_capture_is_open(const struct tidei_call_capture *slot, const struct tidei_ring *ring)
{
    /* Relaxed: only this thread writes it. */
    return slot->joined != NULL && slot->count == 1 &&
           atomic_load_explicit(&ring->open, memory_order_relaxed) == (slot->first.start | 1);
}

/* A second call begins: the event does not end with its first call. */
static inline void
tidei_call_capture_close(const struct tidei_call_capture *slot)
{
    /* Pairs with the acquire in the merge, which finds no new record. */
    if (slot->joined != NULL && slot->armed == 1)
        atomic_store_explicit(&slot->joined->ring->open, 0, memory_order_release);
}

/* Whether the event has no call, or one that fits into the event's own record: see struct tidei_record. */
static inline bool
tidei_call_capture_fits(const struct tidei_call_capture *slot, uint64_t begin, uint64_t address)
{
    const struct tidei_call_part *call = &slot->first;

    if (slot->armed != 1)
        return false;
    if (slot->count == 0)
        return true;
    /* Without an address, the writer uses call_span for its own purpose (see pair.c). */
    return slot->count == 1 && (call->result | (int32_t)call->correlation) == 0 && address != 0 &&
           call->start >= begin && call->start - begin <= UINT16_MAX && call->end - call->start <= UINT16_MAX;
}

/* What is recorded of an event beside its own record. */
struct tidei_event_rest {
    struct tidei_call_capture *slot; /* with the driver calls; NULL: none */
    const char *text;                /* of a refusal; NULL: not known */
    size_t length;                   /* of the text, at most TIDEI_REFUSAL_BYTES */
    uint16_t layer;                  /* that refused; 0: not known */
};

/*
 * Record an event as tidei_producer_event does, and the rest of it in records behind: the text of a refusal, and each
 * call that has no room in the event's record. Calls without room in the ring follow the event as the ring empties; for
 * those a thread waits even with overflow=drop.
 */
void tidei_producer_event_behind(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size,
                                 uint64_t stream, uint64_t word, uint32_t callstack, bool ordered,
                                 const struct tidei_event_rest *rest);

/* Add the event's only call, which fits. */
static inline __attribute__((always_inline)) void
tidei_producer_add_call(struct tidei_prepared *event, uint64_t begin, const struct tidei_call_part *call)
{
    uint32_t span = (uint32_t)((call->start - begin) << 16 | (call->end - call->start));

    event->record->call_function = call->function;
    event->record->call_span = span;
    event->lanes ^= tidei_record_lanes(0, 0, 0, tidei_record_call_word(call->function), 0, 0, 0, span);
}

/* As tidei_producer_finish, with the driver call that was captured: none, or one that fits. */
static inline __attribute__((always_inline)) void
tidei_producer_finish_calls(struct tidei_producer *producer, struct tidei_prepared event, uint64_t begin, bool ordered,
                            const struct tidei_call_capture *slot)
{
    if (slot->count != 0)
        tidei_producer_add_call(&event, begin, &slot->first);
    if (tidei_call_capture_is_open(slot, producer->ring))
        tidei_producer_end(producer, producer->ring, event, begin, slot->first.end);
    else
        tidei_producer_finish(producer, event, begin, ordered);
}

/* As tidei_producer_event, and records the driver calls that were captured during the event. */
static inline void
tidei_producer_event_calls(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size,
                           uint64_t stream, uint64_t word, uint32_t callstack, bool ordered,
                           struct tidei_call_capture *slot)
{
    struct tidei_prepared event;
    uint64_t now;

    if (__builtin_expect(!tidei_producer_has_room(producer) || !tidei_call_capture_fits(slot, begin, address), 0)) {
        const struct tidei_event_rest rest = { .slot = slot };

        tidei_producer_event_behind(producer, begin, address, size, stream, word, callstack, ordered, &rest);
        return;
    }
    event.record = &producer->records[producer->head & producer->mask];
    event.lanes = tidei_producer_fill(producer, event.record, size, stream, word, callstack);
    tidei_producer_add_address(&event, address);
    if (slot->count != 0)
        tidei_producer_add_call(&event, begin, &slot->first);
    now = tidei_producer_open_event(producer, begin, ordered);
    tidei_producer_end(producer, producer->ring, event, begin, now);
}

#endif
