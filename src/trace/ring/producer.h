/*
 * Records an event on the calling thread. Wait-free while the thread's ring has room: no lock, no system call, and of
 * the data that other threads write it reads only the ring's tail.
 *
 * Order, on which the exactness of the merge rests: the producer sets `open` before it reads the clock for a record,
 * and clears `open` after it has published the record. The writer reads its own clock, runs a barrier in all threads,
 * and then reads `open` of each ring. If it finds open == 0, that thread's next clock reading is later than the
 * writer's; so the writer may merge everything up to its own reading. The barrier is membarrier(2) on the writer's
 * side, at no cost to the producer; on a kernel without membarrier the producer pays a full fence.
 */
#ifndef TIDEI_TRACE_RING_PRODUCER_H
#define TIDEI_TRACE_RING_PRODUCER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/sync/thread.h"
#include "src/trace/ring/session.h"
#include "src/trace/ring/ringfile.h"

/* One thread's access to one session. Private to the thread. */
struct tidei_producer {
    /* What an event needs lies in one cache line. */
    _Alignas(64) struct tidei_record *records;
    struct tidei_ring *ring;
    struct tidei_session *session;
    uint64_t head;
    uint64_t full; /* the head at which the ring is full, by `tail`; 0 unless `plain` */
    uint64_t mask;
    const void *prepared; /* the call whose event the record at `head` is filled in for: see tidei_producer_prepare */
    uint32_t thread_id;
    bool tsc;
    bool fence;
    bool drop;
    bool plain; /* tsc, and neither fence nor drop: an event needs no further checks */

    uint64_t tail; /* the ring's tail, as last read */
    bool has_events;
    bool stalled; /* the ring has been full for very long: see producer_sleep */
    uint64_t serial;
    struct tidei_producer *next;
};

_Static_assert(offsetof(struct tidei_producer, tail) == 64, "what an event needs is one cache line");

/* A thread's producers, indexed by the session's slot; an entry is valid only if the stamps are equal. */
#define TIDEI_PRODUCER_SLOTS 8

struct tidei_producer_slot {
    uint64_t stamp; /* never 0 in a session */
    struct tidei_producer *producer;
};

/* A thread's part: its producers. */
struct tidei_producers {
    struct tidei_producer_slot slots[TIDEI_PRODUCER_SLOTS];
    struct tidei_producer *list; /* owned; all producers of this thread */
};

TIDEI_THREAD_PART(tidei_producers, producers, struct tidei_producers);

/* The slow paths of the functions below. */
struct tidei_producer *tidei_producer_find(struct tidei_session *session);
bool tidei_producer_reserve(struct tidei_producer *producer, uint64_t records);
void tidei_producer_dropped(struct tidei_producer *producer, uint64_t address, uint64_t word);
bool tidei_producer_drops_free(struct tidei_producer *producer, uint16_t layer, uint64_t address);
void tidei_producer_drops_again(struct tidei_producer *producer, uint16_t layer, uint64_t address);

/* This thread's producer of a session, if the thread has used it in this recording; else NULL. */
static inline struct tidei_producer *
tidei_producer_known(const struct tidei_session *session)
{
    const struct tidei_producer_slot *slot = &tidei_producers(tidei_thread)->slots[session->slot];

    if (__builtin_expect(slot->stamp != atomic_load_explicit(&session->stamp, memory_order_relaxed), 0))
        return NULL;
    if (slot->producer == NULL)
        __builtin_unreachable(); /* an entry with a stamp has a producer: saves a test in each event */
    return slot->producer;
}

/* This thread's producer of a session; NULL if the session does not record, or the thread gets no ring. */
static inline struct tidei_producer *
tidei_producer_get(struct tidei_session *session)
{
    struct tidei_producer *producer = tidei_producer_known(session);

    return __builtin_expect(producer != NULL, 1) ? producer : tidei_producer_find(session);
}

/* The same, for records that are not events: definitions and marks. */
struct tidei_producer *tidei_producer_for_text(struct tidei_session *session);

/* `plain` is producer->plain in these functions. A caller that has tested it once passes a constant. */
static inline uint64_t
tidei_producer_ticks(const struct tidei_producer *producer, bool plain)
{
    return tidei_clock_ticks(plain || producer->tsc);
}

/*
 * The time at which a free begins: after its allocation, whichever thread made that. While only one thread records, its
 * own readings are in order, and no wait is needed. Before a second thread's first event, producer_share makes the
 * first thread see `many`. Needs no producer: see tidei_log_deallocate.
 */
static inline uint64_t
tidei_session_ticks_ordered(const struct tidei_session *session, bool tsc)
{
    if (tsc && __builtin_expect(atomic_load_explicit(&session->many, memory_order_relaxed), 1))
        tidei_clock_serialize();
    return tidei_clock_ticks(tsc);
}

static inline uint64_t
tidei_producer_ticks_ordered(const struct tidei_producer *producer, bool plain)
{
    return tidei_session_ticks_ordered(producer->session, plain || producer->tsc);
}

/* Begin the record at `head`: until tidei_producer_publish the writer merges nothing later than `since`. */
static inline void
tidei_producer_open(const struct tidei_producer *producer, struct tidei_ring *ring, uint64_t since, bool plain)
{
    /* The merge reads it with acquire. The writer's membarrier, or the fence below, orders it before the clock. */
    atomic_store_explicit(&ring->open, since | 1, memory_order_relaxed);
    if (!plain && producer->fence) {
        atomic_thread_fence(memory_order_seq_cst);
        tidei_clock_serialize();
    } else {
        atomic_signal_fence(memory_order_seq_cst);
    }
}

/* Count records that are written, and close the ring. */
static inline void
tidei_producer_close(struct tidei_producer *producer, struct tidei_ring *ring, uint64_t records)
{
    TIDEI_TEST_POINT("producer.before-publish");
    producer->head += records;
    /* Pairs with the acquire of head in the merge: the records are written before they are counted. */
    atomic_store_explicit(&ring->head, producer->head, memory_order_release);
    TIDEI_TEST_POINT("producer.before-close");
    /* Pairs with the acquire of open in the merge: a reader of this 0 sees the head stored above. */
    atomic_store_explicit(&ring->open, 0, memory_order_release);
}

/* The same for records that were not prepared. What a call around this one has prepared is overwritten. */
static inline void
tidei_producer_publish(struct tidei_producer *producer, struct tidei_ring *ring, uint64_t records)
{
    producer->prepared = NULL;
    tidei_producer_close(producer, ring, records);
}

/*
 * Fill in all fields of an event but its times and its address. Each field is stored once, in place. Building the
 * record on the stack and copying it is slower on a Xeon, which must finish the narrow stores before it can load them
 * as one vector.
 * Returns the lanes of the check but for these, of values in registers: loaded again, they cost more.
 */
static inline __attribute__((always_inline)) uint64_t
tidei_producer_fill(const struct tidei_producer *producer, struct tidei_record *record, uint64_t size, uint64_t stream,
                    uint64_t word, uint32_t callstack)
{
    uint32_t tag = tidei_thread->tag, thread = producer->thread_id;

    record->size = size;
    record->stream = stream;
    record->tag = tag;
    record->callstack = callstack;
    memcpy(&record->layer, &word, sizeof(word));
    record->thread = thread;
    return tidei_record_lanes(0, size, stream, word, tag, callstack, thread, 0);
}

/* An event whose record is filled in but for its times and, at first, its address. */
struct tidei_prepared {
    struct tidei_record *record;
    uint64_t lanes; /* of the check, of what is filled in */
};

static inline bool
tidei_producer_has_room(const struct tidei_producer *producer)
{
    return producer->head - producer->tail <= producer->mask;
}

/* Whether an event can be prepared: the producer is plain, and has room. */
static inline bool
tidei_producer_can_prepare(const struct tidei_producer *producer)
{
    return __builtin_expect(producer->head < producer->full, 1);
}

/* How many records ahead a cache line is asked for: an event takes 35 to 60 ns, and the line up to 200. */
#define TIDEI_PRODUCER_AHEAD 8

/*
 * Have the cache line of a record that comes soon fetched for writing. The writer has read it, and it is in the caches
 * of another processor. Else the stores of its event wait for the line, and later stores for them: 4 to 7 ns for an
 * allocation and its free on a Xeon. Near the end of the ring this asks for what lies behind it, which does no harm:
 * to find the first records there would cost every event three instructions.
 */
static inline void
tidei_producer_prefetch(const struct tidei_record *record)
{
#if defined(__x86_64__)
    /* The builtin fetches for reading, unless each processor is known to have this. Those that lack it do nothing. */
    __asm__ volatile("prefetchw %0" : : "m"(record[TIDEI_PRODUCER_AHEAD]));
#else
    __builtin_prefetch(&record[TIDEI_PRODUCER_AHEAD], 1);
#endif
}

/*
 * Fill in, before its call, what is known of an event but its address, in the record that is next. Nobody else reads
 * that before it is counted. After the call only the times are missing, and the address of an allocation: where clocks
 * are read in order, each event waits for all that the thread has still to do of the last one, so that should be
 * little.
 *
 * `call` names the call, and no other one that has not returned: it is the address of a frame. What the call itself
 * records goes into the same record. Then `prepared` names another call, or none, and this event is recorded as if it
 * had not been prepared. Requires tidei_producer_can_prepare.
 */
static inline __attribute__((always_inline)) struct tidei_prepared
tidei_producer_prepare(struct tidei_producer *producer, const void *call, uint64_t size, uint64_t stream, uint64_t word)
{
    struct tidei_prepared event = { .record = &producer->records[producer->head & producer->mask] };

    tidei_producer_prefetch(event.record);
    event.lanes = tidei_producer_fill(producer, event.record, size, stream, word, 0);
    __asm__("" : "+r"(event.lanes)); /* now, and not where it is used */
    producer->prepared = call;
    return event;
}

/* Add the address: of a free before its call, of an allocation when it has returned. */
static inline __attribute__((always_inline)) void
tidei_producer_add_address(struct tidei_prepared *event, uint64_t address)
{
    event->record->address = address;
    event->lanes ^= address;
    __asm__("" : "+r"(event->lanes)); /* first all but the times: what depends on the reading is then short */
}

/* Set the times and the check of a record, and count it. The ring is open. */
static inline __attribute__((always_inline)) void
tidei_producer_end(struct tidei_producer *producer, struct tidei_ring *ring, struct tidei_prepared event,
                   uint64_t begin, uint64_t now)
{
    event.record->ticks = now;
    tidei_record_seal_lanes(event.record, event.lanes, now, now - begin);
    tidei_producer_close(producer, ring, 1);
}

/*
 * Record a prepared event whose call began at `begin` and has just returned. Pass `ordered` for an allocation: its
 * lifetime must begin after the free that returned its address, whichever thread made that.
 */
static inline __attribute__((always_inline)) void
tidei_producer_finish(struct tidei_producer *producer, struct tidei_prepared event, uint64_t begin, bool ordered)
{
    struct tidei_ring *ring = producer->ring;
    uint64_t now;

    tidei_producer_open(producer, ring, begin, true);
    TIDEI_TEST_POINT("producer.open");
    now = ordered ? tidei_producer_ticks_ordered(producer, true) : tidei_producer_ticks(producer, true);
    tidei_producer_end(producer, ring, event, begin, now);
}

/* Open the ring for an event that was not prepared, and read the clock. As above, and for every producer. */
static inline uint64_t
tidei_producer_open_event(struct tidei_producer *producer, uint64_t begin, bool ordered)
{
    producer->prepared = NULL;
    tidei_producer_open(producer, producer->ring, begin, false);
    TIDEI_TEST_POINT("producer.open");
    return ordered ? tidei_producer_ticks_ordered(producer, false) : tidei_producer_ticks(producer, false);
}

/*
 * Record an allocation or a free that was not prepared, whose call began at `begin` and has just returned. `word` comes
 * from tidei_record_word; `callstack` 0 means none; `ordered` as above.
 */
static inline void
tidei_producer_event(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size, uint64_t stream,
                     uint64_t word, uint32_t callstack, bool ordered)
{
    struct tidei_prepared event;
    uint64_t now;

    if (__builtin_expect(!tidei_producer_has_room(producer), 0) && !tidei_producer_reserve(producer, 1)) {
        tidei_producer_dropped(producer, address, word);
        return;
    }
    event.record = &producer->records[producer->head & producer->mask];
    event.lanes = tidei_producer_fill(producer, event.record, size, stream, word, callstack);
    tidei_producer_add_address(&event, address);
    now = tidei_producer_open_event(producer, begin, ordered);
    tidei_producer_end(producer, producer->ring, event, begin, now);
}

/* Record what a pool holds now. */
void tidei_producer_sample(struct tidei_producer *producer, uint32_t layer_id,
                           const struct tidei_layer_figures *figures);

/* Record a block that was allocated before the layer was recorded. Waits for room. False if the recording has ended. */
bool tidei_producer_held(struct tidei_producer *producer, uint16_t layer_id, const struct tidei_place *place);

/*
 * Record something with text. With overflow=drop it goes into another ring where this one is full, and waits for room
 * only if there is none to be had; else it waits. Text that is too long for the ring is cut at a
 * UTF-8 character boundary. False if the recording has ended.
 */
bool tidei_producer_text(struct tidei_producer *producer, struct tidei_record *record, const char *text, size_t length);

/*
 * The same, into the trace of `session`, or of every session of this process if it is NULL (takes the lock of
 * tidei_sessions). Skips sessions that do not record; never begins a forked process's own trace.
 */
void tidei_producer_tell(struct tidei_session *session, const struct tidei_record *record, const void *text,
                         size_t length);

/* After fork(), in the child: free the remaining thread's producers of the parent's sessions. */
void tidei_producer_forked(void);

#endif
