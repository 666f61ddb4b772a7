/*
 * Each thread's own slot of an object, such as a cache or a lease, and how another thread gets at all of them.
 *
 * The object embeds a struct tidei_slots. Every thread that works on it gets a slot of its own at its first
 * tidei_slot_enter, and finds it again with three loads. Between enter and leave the thread reads and writes its slot
 * with plain loads and stores, as no other thread does. Now and then a thread needs all slots at once, to sum them up
 * or to take something back: tidei_slots_quiesce keeps all other threads out until tidei_slots_resume, and between the
 * two its caller reads and writes every slot.
 *
 * Why the two never meet: the thread stores busy = 1 and then looks at `closed`. The thread that quiesces stores closed
 * = 1, runs a barrier in all threads (barrier.h), and then looks at each `busy`. Where the first store comes before
 * that barrier, the thread that quiesces sees it, and waits. Where it comes behind, so does the look at `closed`, which
 * sees 1: the thread takes `busy` back and has to do without its slot. On its side it is enough that the compiler keeps
 * the store before the look; where the kernel has no membarrier, it pays a full fence.
 *
 * Rules. Inside, a thread takes no lock, waits for nothing, calls nothing outside the library, and does not enter the
 * same slots again, since the thread that quiesces spins until it is out. The thread that has quiesced the slots may
 * take locks that are older than the slots (a tidei_lock of the same object that was made before tidei_slots_init), and
 * holds none when it begins.
 *
 * Threads that end: `leave` is called for the slot, which stays with the object as it is then and goes to the next
 * thread that needs one; so there are never more slots than there were threads at once.
 *
 * fork(): all slots of all objects are quiesced meanwhile, so that they are whole. In the child the slots of the
 * threads that do not exist there are left as if those had ended.
 *
 * Progress: enter and leave are wait-free but for a thread's first enter, which takes a mutex and allocates. To quiesce
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

/* The head of one thread's slot; embed it first. A slot begins as zeros, at the begin of a cache line of its own. */
struct tidei_slot {
    _Atomic uint32_t busy;   /* 0 or 1: its thread is inside, or about to look; written by that thread */
    bool taken;              /* a thread has it; guarded by the mutex of the slots */
    struct tidei_slot *next; /* of the same object; written once, guarded by the same */
};

struct tidei_slots {
    uint64_t serial;         /* of this object, never 0 and never used again */
    _Atomic uint32_t closed; /* 0 or 1; written by the holder of the mutex */
    _Atomic bool fence;      /* threads pay a fence, as there is no membarrier; written by the holder of the mutex */
    size_t slot_bytes;
    void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot); /* NULL where there is nothing to do */
    struct tidei_slot *first;                                          /* owns; read it between quiesce and resume */
    pthread_mutex_t mutex;     /* held between quiesce and resume, and while a slot is given out or left */
    struct tidei_slots *older; /* in the list of all, guarded by that list's mutex */
    struct tidei_slots *newer;
};

/*
 * Make an object without slots, known to threads that end and to fork(). A slot has `slot_bytes` bytes, its head
 * included. `leave` is called when a thread ends, while no thread uses the slot, as between quiesce and resume.
 */
void tidei_slots_init(struct tidei_slots *slots, size_t slot_bytes,
                      void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot));

/* Free all slots, without `leave`; no thread is inside or comes any more. */
void tidei_slots_fini(struct tidei_slots *slots);

/* Keep all threads out of their slots; returns once none is inside. One thread at a time, others wait. */
void tidei_slots_quiesce(struct tidei_slots *slots);
void tidei_slots_resume(struct tidei_slots *slots);

/* A thread's slots by the last digits of the serial; right only where the whole serials agree. */
#define TIDEI_SLOT_ENTRIES 16u

/* A thread's part: its slots of all objects. */
struct tidei_slot_index {
    struct {
        uint64_t serial; /* 0: none */
        struct tidei_slot *slot;
    } entries[TIDEI_SLOT_ENTRIES];
    struct tidei_slot_link *links; /* owned; all of them, those used last first */
    uint32_t link_count;
    uint32_t link_most; /* so many before those whose objects are gone are looked for */
};

TIDEI_THREAD_PART(tidei_slot_index, slots, struct tidei_slot_index);

/* This thread's slot as far as it is found at once; else NULL. */
static inline struct tidei_slot *
tidei_slot_known(const struct tidei_slots *slots)
{
    const struct tidei_slot_index *index = tidei_slot_index(tidei_thread);
    uint64_t serial = slots->serial;

    if (__builtin_expect(index->entries[serial % TIDEI_SLOT_ENTRIES].serial != serial, 0))
        return NULL;
    return index->entries[serial % TIDEI_SLOT_ENTRIES].slot;
}

/* The slow side of tidei_slot_enter. NULL where the host has no memory for a slot, or for the thread's object. */
struct tidei_slot *tidei_slot_find(struct tidei_slots *slots);

static inline void
tidei_slot_leave(struct tidei_slot *slot)
{
    /* Release: pairs with the acquire in tidei_slots_quiesce, whose caller sees all that this thread wrote inside. */
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

/*
 * This thread's slot, until tidei_slot_leave. NULL where the slots are quiesced, or where there is no memory for one:
 * then the caller has to do without.
 */
static inline struct tidei_slot *
tidei_slot_enter(struct tidei_slots *slots)
{
    struct tidei_slot *slot = tidei_slot_known(slots);

    if (__builtin_expect(slot == NULL, 0)) {
        slot = tidei_slot_find(slots);
        if (slot == NULL)
            return NULL;
    }
    /* Relaxed, with the compiler's order alone: between the two lines stands the barrier of tidei_slots_quiesce. */
    atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&slots->fence, memory_order_relaxed), 0))
        atomic_thread_fence(memory_order_seq_cst); /* in place of that barrier */
    else
        atomic_signal_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("slot.busy");
    /* Acquire: pairs with the release in tidei_slots_resume, and sees what its caller wrote into the slot. */
    if (__builtin_expect(atomic_load_explicit(&slots->closed, memory_order_acquire) == 0, 1))
        return slot;
    tidei_slot_leave(slot);
    return NULL;
}

#endif
