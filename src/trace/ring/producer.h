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
    struct tidei_record *records;
    struct tidei_ring *ring;
    uint64_t head;
    uint64_t tail; /* the ring's tail, as last read */
    uint64_t mask;
    uint32_t thread_id;
    bool tsc;
    bool fence;
    bool drop;
    bool plain; /* tsc, and neither fence nor drop: an event needs no further checks */
    bool has_events;
    bool stalled; /* the ring has been full for very long: see producer_sleep */
    uint64_t serial;
    struct tidei_session *session;
    struct tidei_producer *next;
};

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

/* This thread's producer of a session; NULL if the session does not record, or the thread gets no ring. */
static inline struct tidei_producer *
tidei_producer_get(struct tidei_session *session)
{
    const struct tidei_producer_slot *slot = &tidei_producers(tidei_thread)->slots[session->slot];

    if (__builtin_expect(slot->stamp == atomic_load_explicit(&session->stamp, memory_order_relaxed), 1))
        return slot->producer;
    return tidei_producer_find(session);
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
 * first thread see `many`.
 */
static inline uint64_t
tidei_producer_ticks_ordered(const struct tidei_producer *producer, bool plain)
{
    if ((plain || producer->tsc) && atomic_load_explicit(&producer->session->many, memory_order_relaxed))
        tidei_clock_serialize();
    return tidei_producer_ticks(producer, plain);
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

static inline void
tidei_producer_publish(struct tidei_producer *producer, struct tidei_ring *ring, uint64_t records)
{
    TIDEI_TEST_POINT("producer.before-publish");
    producer->head += records;
    /* Pairs with the acquire of head in the merge: the records are written before they are counted. */
    atomic_store_explicit(&ring->head, producer->head, memory_order_release);
    TIDEI_TEST_POINT("producer.before-close");
    /* Pairs with the acquire of open in the merge: a reader of this 0 sees the head stored above. */
    atomic_store_explicit(&ring->open, 0, memory_order_release);
}

/*
 * Fill in all fields of an event but its times. Each field is stored once, in place. Building the record on the stack
 * and copying it is slower on a Xeon, which must finish the narrow stores before it can load them as one vector.
 * Returns the tag and the thread as the check has them, in a register: loaded again, they cost 4 instructions.
 */
static inline __attribute__((always_inline)) uint64_t
tidei_producer_fill(const struct tidei_producer *producer, struct tidei_record *record, uint64_t address, uint64_t size,
                    uint64_t stream, uint64_t word, uint32_t callstack)
{
    uint32_t tag = tidei_thread->tag, thread = producer->thread_id;

    record->address = address;
    record->size = size;
    record->stream = stream;
    record->tag = tag;
    record->callstack = callstack;
    memcpy(&record->layer, &word, sizeof(word));
    record->thread = thread;
    return tidei_record_lanes(0, 0, 0, 0, tag, callstack, thread, 0);
}

/*
 * The check of an event with its duration, of values in registers. `lanes` is what tidei_producer_fill returned. After
 * the clock was read: the processor then works on it while it waits for the reading. Before, it costs 1.3 ns where
 * clocks are read in order, and so 0.6 ns.
 */
static inline __attribute__((always_inline)) uint64_t
tidei_producer_sealed(uint64_t lanes, uint64_t now, uint64_t begin, uint64_t address, uint64_t size, uint64_t stream,
                      uint64_t word, uint32_t call_span)
{
    __asm__ volatile("" : "+r"(address)); /* not before the reading */
    lanes ^= tidei_record_lanes(address, size, stream, word, 0, 0, 0, call_span);
    __asm__("" : "+r"(lanes)); /* first all but the times: what the reading is waited for with is then short */
    return tidei_record_sealed(lanes, now, now - begin);
}

/*
 * Record an allocation or a free whose call began at `begin` and has just returned. `word` comes from
 * tidei_record_word; `callstack` 0 means none. Pass `ordered` for an allocation: its lifetime must begin after the free
 * that returned its address, whichever thread made that.
 */
static inline __attribute__((always_inline)) void
tidei_producer_event(struct tidei_producer *producer, uint64_t begin, uint64_t address, uint64_t size, uint64_t stream,
                     uint64_t word, uint32_t callstack, bool ordered, bool plain)
{
    struct tidei_ring *ring = producer->ring;
    struct tidei_record *record;
    uint64_t lanes, now;

    if (__builtin_expect(producer->head - producer->tail > producer->mask, 0) && !tidei_producer_reserve(producer, 1)) {
        tidei_producer_dropped(producer, address, word);
        return;
    }
    record = &producer->records[producer->head & producer->mask];
    lanes = tidei_producer_fill(producer, record, address, size, stream, word, callstack);
    tidei_producer_open(producer, ring, begin, plain);
    TIDEI_TEST_POINT("producer.open");
    now = ordered ? tidei_producer_ticks_ordered(producer, plain) : tidei_producer_ticks(producer, plain);
    record->ticks = now;
    record->duration_check = tidei_producer_sealed(lanes, now, begin, address, size, stream, word, 0);
    tidei_producer_publish(producer, ring, 1);
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
