/*
 * What a calling thread does for an event. Wait-free while its ring has room: no lock, no
 * system call, nothing that another thread writes but the ring's tail.
 *
 * The order that makes the merge exact: `open` is set before the clock is read for the record, and cleared after
 * the record is published. The writer reads its own clock, has every thread pass a barrier, and then reads `open`
 * of each ring. A thread that it sees with open == 0 reads its clock later than the writer did; so the writer may
 * merge everything up to its own reading. The barrier is membarrier(2) on the writer's side, which costs this side
 * nothing; where the kernel has none, this side pays a full fence.
 */
#ifndef TIDEI_TRACE_RING_PRODUCER_H
#define TIDEI_TRACE_RING_PRODUCER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/sync/testpoint.h"
#include "src/sync/thread.h"
#include "src/trace/ring/session.h"
#include "src/trace/ring/ringfile.h"

/* What one thread has of one session. Private to the thread. */
struct tidei_producer {
    struct tidei_record *records;
    struct tidei_ring *ring;
    uint64_t head;
    uint64_t tail; /* as last seen */
    uint64_t mask;
    uint32_t thread_id;
    bool tsc;
    bool fence;
    bool drop;
    bool plain; /* tsc, and neither fence nor drop: nothing more to ask in the course of an event */
    bool has_events;
    uint64_t serial;
    struct tidei_session *session;
    struct tidei_producer *next;
};

/* A thread's producers by the session's slot; right only where the serials agree. */
#define TIDEI_PRODUCER_SLOTS 8

struct tidei_producer_slot {
    uint64_t serial; /* never 0 */
    struct tidei_producer *producer;
};

/* A thread's part: what it has of sessions. */
struct tidei_producers {
    struct tidei_producer_slot slots[TIDEI_PRODUCER_SLOTS];
    struct tidei_producer *list; /* owned; all of this thread */
};

TIDEI_THREAD_PART(tidei_producers, producers, struct tidei_producers);

/* The slow side of the functions below. */
struct tidei_producer *tidei_producer_find(struct tidei_session *session);
bool tidei_producer_room(struct tidei_producer *producer, uint64_t records);
void tidei_producer_dropped(struct tidei_producer *producer, uint64_t address, uint64_t word);
bool tidei_producer_drops_free(struct tidei_producer *producer, uint16_t layer, uint64_t address);
void tidei_producer_drops_again(struct tidei_producer *producer, uint16_t layer, uint64_t address);

/* This thread's producer of a session; NULL where the session records no more. */
static inline struct tidei_producer *
tidei_producer_get(struct tidei_session *session)
{
    const struct tidei_producer_slot *slot = &tidei_producers(tidei_thread)->slots[session->slot];

    if (__builtin_expect(slot->serial == atomic_load_explicit(&session->serial, memory_order_relaxed), 1))
        return slot->producer;
    return tidei_producer_find(session);
}

/* The same for what is no event: definitions and marks. */
struct tidei_producer *tidei_producer_for_text(struct tidei_session *session);

/* In these functions `plain` is producer->plain: a constant in the code of a caller that has asked once for all. */
static inline uint64_t
tidei_producer_ticks(const struct tidei_producer *producer, bool plain)
{
    return tidei_clock_ticks(plain || producer->tsc);
}

/*
 * The moment at which a free begins: after the allocation, whichever thread that was made on. While one thread alone
 * records there is nothing to wait for: its own readings are in order, and producer_share stops it before another's
 * first event.
 */
static inline uint64_t
tidei_producer_ticks_settled(const struct tidei_producer *producer, bool plain)
{
    if ((plain || producer->tsc) && atomic_load_explicit(&producer->session->many, memory_order_relaxed))
        tidei_clock_settle();
    return tidei_producer_ticks(producer, plain);
}

/* Have the record at `head` begin: nothing later than `since` is merged until tidei_producer_publish. */
static inline void
tidei_producer_open(const struct tidei_producer *producer, struct tidei_ring *ring, uint64_t since, bool plain)
{
    /* Read by the merge with acquire; ordered before the clock by the writer's membarrier or by this fence. */
    atomic_store_explicit(&ring->open, since | 1, memory_order_relaxed);
    if (!plain && producer->fence) {
        atomic_thread_fence(memory_order_seq_cst);
        tidei_clock_settle();
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
}

static inline void
tidei_producer_publish(struct tidei_producer *producer, struct tidei_ring *ring, uint64_t records)
{
    TIDEI_TEST_POINT("producer.before-publish");
    producer->head += records;
    /* Pairs with the acquire of head in the merge: the records are there before they are counted. */
    atomic_store_explicit(&ring->head, producer->head, memory_order_release);
    TIDEI_TEST_POINT("producer.before-close");
    /* Pairs with the acquire of open in the merge: who sees 0 sees the head of before. */
    atomic_store_explicit(&ring->open, 0, memory_order_release);
}

/*
 * What is known of an event before its time. Each field is stored once, in place: a record that is put together on the
 * stack and copied is slower on a Xeon, which waits for narrow stores to be done before it loads them as one vector.
 */
static inline __attribute__((always_inline)) void
tidei_producer_fill(const struct tidei_producer *producer, struct tidei_record *record, uint64_t address, uint64_t size,
                    uint64_t stream, uint64_t word, uint32_t callstack)
{
    record->address = address;
    record->size = size;
    record->stream = stream;
    record->tag = tidei_thread->tag;
    record->callstack = callstack;
    memcpy(&record->layer, &word, sizeof(word));
    record->thread = producer->thread_id;
}

/*
 * Record an allocation or a free whose call began at `begin` and has just returned; `word` is tidei_record_word of it,
 * `callstack` 0 where it has none. An allocation is `settled`: its life begins after the free that gave its address
 * back, on whichever thread.
 */
static inline __attribute__((always_inline)) void
tidei_producer_event(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size, uint64_t stream,
                     uint64_t word, uint32_t callstack, bool settled, bool plain)
{
    struct tidei_ring *ring = producer->ring;
    struct tidei_record *record;
    uint64_t now;

    if (__builtin_expect(producer->head - producer->tail > producer->mask, 0) && !tidei_producer_room(producer, 1)) {
        tidei_producer_dropped(producer, address, word);
        return;
    }
    record = &producer->records[producer->head & producer->mask];
    tidei_producer_fill(producer, record, address, size, stream, word, callstack);
    tidei_producer_open(producer, ring, begin, plain);
    TIDEI_TEST_POINT("producer.open");
    now = settled ? tidei_producer_ticks_settled(producer, plain) : tidei_producer_ticks(producer, plain);
    record->ticks = now;
    record->duration_ticks = now - begin;
    tidei_producer_publish(producer, ring, 1);
}

/* What a pool held at the moment that is now. */
void tidei_producer_sample(struct tidei_producer *producer, uint32_t layer_id, uint64_t used_bytes,
                           uint64_t reserved_bytes);

/*
 * Record something with text; it waits for room also where events are dropped. Text that the ring has no room for is
 * cut where a character of UTF-8 ends. False where the recording has ended.
 */
bool tidei_producer_text(struct tidei_producer *producer, struct tidei_record *record, const char *text, size_t length);

/*
 * The same into the trace of `session`, or of every session of this process where it is NULL: that takes the lock of
 * tidei_sessions. A session that does not record is passed over; a forked process begins no trace of its own.
 */
void tidei_producer_tell(struct tidei_session *session, const struct tidei_record *record, const void *text,
                         size_t length);

/* This process was forked off: its only thread lets go of what it had of the parent's sessions. */
void tidei_producer_forked(void);

#endif
