/*
 * What each thread has of an object to itself, such as a cache or a lease, and how another thread gets at it.
 *
 * The object embeds a struct tidei_slots; every thread that works on it gets a part of its own at its first
 * tidei_slot_enter, found again with two loads. Between enter and leave the thread reads and writes its slot with
 * plain loads and stores: nothing there is shared. Now and then somebody needs all slots at once, to sum them up or to
 * take something back: tidei_slots_quiesce keeps everybody out until tidei_slots_resume, and between the two its caller
 * reads and writes every slot.
 *
 * Why the two never meet: the thread stores busy = 1 and then looks at `closed`. Who closes stores closed = 1, has
 * every thread of the process pass a full barrier, membarrier(2), and then looks at each `busy`. Where the thread's
 * store comes before that barrier, the other one sees it, and waits. Where it comes behind, so does the thread's look,
 * which sees 1: it takes busy back and has to do without its slot. On the thread's side it is enough that the compiler
 * keeps the store before the look; where the kernel has no membarrier, it pays a full fence.
 *
 * Rules. Inside, a thread takes no lock, waits for nothing, calls out of the library nowhere, and does not enter the
 * same slots again: who closes spins until it is out. Who has closed may take locks that are older than the slots
 * (a tidei_lock of the same object, when that was made before tidei_slots_init), and holds none when it closes.
 *
 * Threads that end: `leave` is called for the slot, which stays with the object as it is then, and goes to the next
 * thread that needs one; so there are never more slots than there were threads at once. A thread that goes on after
 * that, in a destructor of its own, gets a slot again.
 *
 * fork(): all slots of all objects are closed meanwhile, so that they are whole. In the child the slots of the threads
 * that are not there are left as if those had ended.
 *
 * Progress: enter and leave are wait-free but for a thread's first enter, which takes a mutex and allocates. Closing
 * costs a system call of some microseconds, takes a mutex, and waits for who is inside.
 */
#ifndef TIDEI_SYNC_THREAD_H
#define TIDEI_SYNC_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/sync/testpoint.h"

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
    struct tidei_slot *first;                                          /* owns; read it between close and open */
    pthread_mutex_t mutex;     /* held between close and open, and while a slot is given out or left */
    struct tidei_slots *older; /* in the list of all, guarded by that list's mutex */
    struct tidei_slots *newer;
};

/*
 * Make an object without slots, known to threads that end and to fork(). A slot has `slot_bytes` bytes, its head
 * included. `leave` is called where a thread ends, with the slot closed to all, as between close and open.
 * Errors: TIDE_ENOMEM, with the error text set.
 */
enum tide_status tidei_slots_init(struct tidei_slots *slots, size_t slot_bytes,
                                  void (*leave)(struct tidei_slots *slots, struct tidei_slot *slot));

/* Free all slots, without `leave`; no thread is inside or comes any more. */
void tidei_slots_fini(struct tidei_slots *slots);

/* Keep all threads out of their slots; returns once none is inside. One thread at a time, others wait. */
void tidei_slots_quiesce(struct tidei_slots *slots);
void tidei_slots_resume(struct tidei_slots *slots);

/* A thread's slots by the last digits of the serial; right only where the whole serials agree. */
#define TIDEI_SLOT_ENTRIES 16u

struct tidei_slot_entry {
    uint64_t serial; /* 0: none */
    struct tidei_slot *slot;
};

/* Initial-exec: one load instead of a call to __tls_get_addr. */
extern _Thread_local
    __attribute__((tls_model("initial-exec"))) struct tidei_slot_entry tidei_slot_index[TIDEI_SLOT_ENTRIES];

/* The slow side of tidei_slot_enter. NULL where the host has no memory for a slot. */
struct tidei_slot *tidei_slot_find(struct tidei_slots *slots);

static inline void
tidei_slot_leave(struct tidei_slot *slot)
{
    /* Release: pairs with the acquire in tidei_slots_quiesce, whose caller sees all that this thread wrote inside. */
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

/*
 * This thread's slot, until tidei_slot_leave. NULL where it is closed, or where there is no memory for one: then what
 * is to be done has to be done without.
 */
static inline struct tidei_slot *
tidei_slot_enter(struct tidei_slots *slots)
{
    struct tidei_slot_entry *entry = &tidei_slot_index[slots->serial % TIDEI_SLOT_ENTRIES];
    struct tidei_slot *slot = entry->slot;

    if (__builtin_expect(entry->serial != slots->serial, 0)) {
        slot = tidei_slot_find(slots);
        if (slot == NULL)
            return NULL;
    }
    /* Relaxed, with the compiler's order alone: the barrier between both lines is the membarrier of who closes. */
    atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&slots->fence, memory_order_relaxed), 0))
        atomic_thread_fence(memory_order_seq_cst); /* in place of that membarrier */
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
