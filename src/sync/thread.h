/*
 * What each thread has of an object to itself, such as a cache or a lease, and how another thread gets at it.
 *
 * The object embeds a struct tidei_parts; every thread that works on it gets a part of its own at its first
 * tidei_part_enter, found again with two loads. Between enter and leave the thread reads and writes its part with
 * plain loads and stores: nothing there is shared. Now and then somebody needs all parts at once, to sum them up or to
 * take something back: tidei_parts_close keeps everybody out until tidei_parts_open, and between the two its caller
 * reads and writes every part.
 *
 * Why the two never meet: the thread stores busy = 1 and then looks at `closed`. Who closes stores closed = 1, has
 * every thread of the process pass a full barrier, membarrier(2), and then looks at each `busy`. Where the thread's
 * store comes before that barrier, the other one sees it, and waits. Where it comes behind, so does the thread's look,
 * which sees 1: it takes busy back and has to do without its part. On the thread's side it is enough that the compiler
 * keeps the store before the look; where the kernel has no membarrier, it pays a full fence.
 *
 * Rules. Inside, a thread takes no lock, waits for nothing, calls out of the library nowhere, and does not enter the
 * same parts again: who closes spins until it is out. Who has closed may take locks that are older than the parts
 * (a tidei_lock of the same object, when that was made before tidei_parts_init), and holds none when it closes.
 *
 * Threads that end: `leave` is called for the part, which stays with the object as it is then, and goes to the next
 * thread that needs one; so there are never more parts than there were threads at once. A thread that goes on after
 * that, in a destructor of its own, gets a part again.
 *
 * fork(): all parts of all objects are closed meanwhile, so that they are whole. In the child the parts of the threads
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

/* The head of one thread's part; embed it first. A part begins as zeros, at the begin of a cache line of its own. */
struct tidei_part {
    _Atomic uint32_t busy;   /* 0 or 1: its thread is inside, or about to look; written by that thread */
    bool taken;              /* a thread has it; guarded by the mutex of the parts */
    struct tidei_part *next; /* of the same object; written once, guarded by the same */
};

struct tidei_parts {
    uint64_t serial;         /* of this object, never 0 and never used again */
    _Atomic uint32_t closed; /* 0 or 1; written by the holder of the mutex */
    _Atomic bool fence;      /* threads pay a fence, as there is no membarrier; written by the holder of the mutex */
    size_t part_bytes;
    void (*leave)(struct tidei_parts *parts, struct tidei_part *part); /* NULL where there is nothing to do */
    struct tidei_part *first;                                          /* owns; read it between close and open */
    pthread_mutex_t mutex;     /* held between close and open, and while a part is given out or left */
    struct tidei_parts *older; /* in the list of all, guarded by that list's mutex */
    struct tidei_parts *newer;
};

/*
 * Make an object without parts, known to threads that end and to fork(). A part has `part_bytes` bytes, its head
 * included. `leave` is called where a thread ends, with the part closed to all, as between close and open.
 * Errors: TIDE_ENOMEM, with the error text set.
 */
enum tide_status tidei_parts_init(struct tidei_parts *parts, size_t part_bytes,
                                  void (*leave)(struct tidei_parts *parts, struct tidei_part *part));

/* Free all parts, without `leave`; no thread is inside or comes any more. */
void tidei_parts_fini(struct tidei_parts *parts);

/* Keep all threads out of their parts; returns once none is inside. One thread at a time, others wait. */
void tidei_parts_close(struct tidei_parts *parts);
void tidei_parts_open(struct tidei_parts *parts);

/* A thread's parts by the last digits of the serial; right only where the whole serials agree. */
#define TIDEI_PART_SLOTS 16u

struct tidei_part_slot {
    uint64_t serial; /* 0: none */
    struct tidei_part *part;
};

/* Initial-exec: one load instead of a call to __tls_get_addr. */
extern _Thread_local
    __attribute__((tls_model("initial-exec"))) struct tidei_part_slot tidei_part_slots[TIDEI_PART_SLOTS];

/* The slow side of tidei_part_enter. NULL where the host has no memory for a part. */
struct tidei_part *tidei_part_find(struct tidei_parts *parts);

static inline void
tidei_part_leave(struct tidei_part *part)
{
    /* Release: pairs with the acquire in tidei_parts_close, whose caller sees all that this thread wrote inside. */
    atomic_store_explicit(&part->busy, 0, memory_order_release);
}

/*
 * This thread's part, until tidei_part_leave. NULL where it is closed, or where there is no memory for one: then what
 * is to be done has to be done without.
 */
static inline struct tidei_part *
tidei_part_enter(struct tidei_parts *parts)
{
    struct tidei_part_slot *slot = &tidei_part_slots[parts->serial % TIDEI_PART_SLOTS];
    struct tidei_part *part = slot->part;

    if (__builtin_expect(slot->serial != parts->serial, 0)) {
        part = tidei_part_find(parts);
        if (part == NULL)
            return NULL;
    }
    /* Relaxed, with the compiler's order alone: the barrier between both lines is the membarrier of who closes. */
    atomic_store_explicit(&part->busy, 1, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&parts->fence, memory_order_relaxed), 0))
        atomic_thread_fence(memory_order_seq_cst); /* in place of that membarrier */
    else
        atomic_signal_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("part.busy");
    /* Acquire: pairs with the release in tidei_parts_open, and sees what its caller wrote into the part. */
    if (__builtin_expect(atomic_load_explicit(&parts->closed, memory_order_acquire) == 0, 1))
        return part;
    tidei_part_leave(part);
    return NULL;
}

#endif
