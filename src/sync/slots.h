/*
 * Gives each thread its own slot of an object (such as a cache or a lease), and lets one thread access all slots.
 *
 * The object embeds a struct tidei_slots. Each thread that uses the object gets its own slot at its first
 * tidei_slot_enter, and later finds it with three loads. Between enter and leave only this thread accesses its slot,
 * with plain loads and stores. When a thread needs all slots at once, to sum them up or to take something back,
 * tidei_slots_quiesce keeps all other threads out until tidei_slots_resume. In between, its caller may read and write
 * every slot.
 *
 * Why the two sides never meet: the entering thread stores busy = 1 and then reads `closed`. The quiescing thread
 * stores closed = 1, runs a barrier in all threads (barrier.h), and then reads each `busy`. If the store of `busy`
 * comes before that barrier, the quiescing thread reads 1, and waits. If it comes after the barrier, so does the read
 * of `closed`, which returns 1: the entering thread clears `busy` and does without its slot. On its side it is enough
 * that the compiler keeps the store before the read; on a kernel without membarrier it pays a full fence.
 *
 * Rules. Between enter and leave a thread takes no lock, waits for nothing, calls nothing outside the library, and does
 * not enter the same slots again, since the quiescing thread spins until it has left. The quiescing thread may take
 * locks that are older than the slots (such as a tidei_lock of the same object, initialized before tidei_slots_init),
 * but holds none of them when it calls tidei_slots_quiesce.
 *
 * Threads that end: `leave` is called for the slot. The object keeps the slot in that state and gives it to the next
 * thread that needs one. So an object never has more slots than it had threads at one time.
 *
 * fork(): all slots of all objects are quiesced around it, so that they are consistent. In the child, slots of threads
 * that do not exist there are treated as if those threads had ended.
 *
 * Progress: enter and leave are wait-free, but for a thread's first enter, which takes a mutex and allocates. Quiescing
 * costs a system call of some microseconds, takes a mutex, and waits for the threads that are inside.
 */
#ifndef TIDEI_SYNC_SLOTS_H
#define TIDEI_SYNC_SLOTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/sync/testpoint.h"
#include "src/sync/thread.h"

/* The head of one thread's slot; embed it first. A new slot is zeroed, and starts on its own cache line. */
struct tidei_slot {
    _Atomic uint32_t busy;   /* 0 or 1: its thread is inside, or about to read `closed`; written by it */
    bool taken;              /* a thread has it; guarded by the mutex of the slots */
    struct tidei_slot *next; /* of the same object; written once, guarded by that mutex */
};

#define TIDEI_SLOTS_CLOSED 1u
#define TIDEI_SLOTS_FENCE  2u /* no membarrier: threads pay a fence */

struct tidei_slots {
    uint64_t serial;         /* of this object; never 0, never reused */
    _Atomic uint32_t closed; /* flags below; 0: a thread may enter at once; written by the holder of the mutex */
    uint32_t place;          /* of its entry in each thread's index, in bytes */
    size_t slot_bytes;
    void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot); /* NULL: none */
    struct tidei_slot *first;                                          /* owns; read it between quiesce and resume */
    pthread_mutex_t mutex;     /* held between quiesce and resume, and while a slot is assigned or left */
    struct tidei_slots *older; /* in the list of all objects, guarded by that list's mutex */
    struct tidei_slots *newer;
};

/*
 * Initialize an object without slots, and register it for thread ends and fork(). A slot has `slot_bytes` bytes,
 * including its head. `leave` is called when a thread ends; no thread uses the slot during the call.
 */
void tidei_slots_init(struct tidei_slots *slots, size_t slot_bytes,
                      void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot));

/* Free all slots without calling `leave`. No thread is inside or will enter again. */
void tidei_slots_fini(struct tidei_slots *slots);

/* Keep all threads out of their slots; returns once none is inside. Only one thread at a time can quiesce. */
void tidei_slots_quiesce(struct tidei_slots *slots);
void tidei_slots_resume(struct tidei_slots *slots);

/* Size of a thread's index of slots. An entry is valid only if its whole serial is the object's. */
#define TIDEI_SLOT_ENTRIES 16u

/* A thread's part: its slots of all objects. */
struct tidei_slot_index {
    struct tidei_slot_entry {
        uint64_t serial; /* 0: none */
        struct tidei_slot *slot;
    } entries[TIDEI_SLOT_ENTRIES]; /* first */
    struct tidei_slot_link *links; /* owned; all slots of the thread, most recently found first */
    uint32_t link_count;
    uint32_t link_most; /* at this count, links to destroyed objects are removed */
};

TIDEI_THREAD_PART(tidei_slot_index, slots, struct tidei_slot_index);

/* The entry that this object shares with few others, if any. */
static inline struct tidei_slot_entry *
tidei_slot_entry(struct tidei_slot_index *index, const struct tidei_slots *slots)
{
    return (struct tidei_slot_entry *)(void *)((unsigned char *)index + slots->place);
}

static inline void
tidei_slot_leave(struct tidei_slot *slot)
{
    /* Release: pairs with the acquire in tidei_slots_quiesce, whose caller then sees this thread's writes inside. */
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

/* This thread's slot, not entered. NULL without host memory for it, or for the thread's object. */
struct tidei_slot *tidei_slot_find(struct tidei_slots *slots);

/* The slow path of tidei_slot_enter. */
struct tidei_slot *tidei_slot_enter_slowly(struct tidei_slots *slots);

/*
 * This thread's slot, until tidei_slot_leave, if it can be entered without a call of a function; else NULL. For code
 * that has nothing to keep across a call, and would save registers for this one.
 */
static inline struct tidei_slot *
tidei_slot_enter_quickly(struct tidei_slots *slots)
{
    const struct tidei_slot_entry *entry = tidei_slot_entry(tidei_slot_index(tidei_thread), slots);
    struct tidei_slot *slot;

    if (__builtin_expect(entry->serial != slots->serial, 0))
        return NULL;
    slot = entry->slot;
    if (slot == NULL)
        __builtin_unreachable(); /* so that callers test only once whether they are inside */
    /* Relaxed, and a compiler fence only: the barrier of tidei_slots_quiesce orders this store and the read below. */
    atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("slot.busy");
    /* Acquire: pairs with the release in tidei_slots_resume, to see what its caller wrote into the slot. */
    if (__builtin_expect(atomic_load_explicit(&slots->closed, memory_order_acquire) == 0, 1))
        return slot;
    tidei_slot_leave(slot);
    return NULL;
}

/*
 * This thread's slot, until tidei_slot_leave. NULL if the slots are quiesced, or without memory for one: then the
 * caller must do without.
 */
static inline struct tidei_slot *
tidei_slot_enter(struct tidei_slots *slots)
{
    struct tidei_slot *slot = tidei_slot_enter_quickly(slots);

    return __builtin_expect(slot != NULL, 1) ? slot : tidei_slot_enter_slowly(slots);
}

#endif
