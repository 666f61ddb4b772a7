/*
 * A lock for sections of a few dozen instructions that costs nothing while only one thread takes it.
 *
 * The first thread that takes the lock owns it from then on: it locks and unlocks with plain loads and stores. The
 * first other thread ends that bias for good; from then on everybody locks with one exchange and unlocks with one
 * store. The bias saves the owner 4 to 10 ns for each section (Xeon, EPYC), since an exchange waits until the stores
 * before it have reached the cache: half the time of a pair over `monotonic`, a third over `aligned`, a tenth over
 * `fixed`.
 *
 * Why two threads are never inside:
 *  - The owner stores busy = 1 and then looks whether it still owns the lock. The thread that ends the bias stores
 *    owner = REVOKING, runs a barrier in all threads, and then looks at `busy`. Where the owner's store comes before
 *    that barrier, the other thread sees it, and waits. Where it comes behind, so does the owner's look, which sees
 *    REVOKING: the owner takes `busy` back and goes on as every other thread. On the owner's side it is enough that the
 *    compiler keeps the store before the look.
 *  - Only the holder of `held` changes `owner`: one thread begins the bias, one ends it, and all others wait for that
 *    thread to be done. `owner` never goes back to a thread, and a thread's number is never used again.
 *  - The thread that ends the bias sees what the owner wrote inside through `busy` (the owner's release of 0, its own
 *    acquire). All others see it through `held`, or, where they do without the lock, through `owner` (release and
 *    acquire of SHARED). The owner itself has nothing to acquire: only it was inside before.
 * Where the kernel has no membarrier, no lock is ever biased.
 *
 * Progress: the owner locks wait-free; all others block. A waiter spins for some microseconds, then yields, then sleeps
 * in steps of 50 us, so that a holder that was preempted gets its turn also where waiters have a higher priority. There
 * is no fairness. Ending the bias costs once a system call of some microseconds, and that wait where the owner is
 * inside.
 *
 * fork(): see fork.h. The thread that forks takes `held` of every lock, newest first, and ends the bias of those that
 * other threads own. The child makes all locks anew. A thread that holds a lock may therefore take an older one (of a
 * layer below), never a newer one. Whoever holds a lock that every allocation takes neither blocks for long nor calls
 * out of the library.
 */
#ifndef TIDEI_SYNC_LOCK_H
#define TIDEI_SYNC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/sync/testpoint.h"
#include "src/sync/thread.h"

/* The values of `owner` that are no thread's number: not owned yet, being revoked, never owned again. */
#define TIDEI_LOCK_NEW      UINT64_MAX
#define TIDEI_LOCK_REVOKING (UINT64_MAX - 1)
#define TIDEI_LOCK_SHARED   (UINT64_MAX - 2)

struct tidei_lock {
    _Atomic uint64_t owner;   /* a thread's number, or one of the above; written by the holder of `held` */
    _Atomic uint8_t busy;     /* 0 or 1: the owner is inside, or about to look; written by the owner */
    _Atomic uint8_t held;     /* 0 or 1; set by a thread that locks as no owner does, cleared when it unlocks */
    bool biased;              /* the thread inside is the owner, and clears `busy`, not `held`; guarded by the lock */
    struct tidei_lock *older; /* in the list that fork() goes through, guarded by that list's mutex */
    struct tidei_lock *newer;
};

/* Make the lock free, and known to fork(). */
void tidei_lock_init(struct tidei_lock *lock);

/* Forget the lock, which nobody holds. */
void tidei_lock_fini(struct tidei_lock *lock);

/* One step of waiting for another thread, the `looks`th (from 0): spins, then yields, then sleeps for 50 us. */
void tidei_lock_pause(unsigned *looks);

/* The slow paths of the functions below. */
void tidei_lock_wait(struct tidei_lock *lock);
void tidei_lock_settle(struct tidei_lock *lock);
bool tidei_lock_settle_alone(struct tidei_lock *lock);

/* Lock as the owner; false where this thread is not the owner, or not any more. */
static inline bool
tidei_lock_enter(struct tidei_lock *lock)
{
    uint64_t self = tidei_thread->number;

    /* Relaxed: only the owner itself ever sees its number here, and it looks again. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != self, 0))
        return false;
    /* Relaxed, with the compiler's order alone: between the two lines stands the barrier that lock_revoke runs. */
    atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("lock.busy");
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) == self, 1))
        return true;
    /* Release: pairs with the acquire in lock_revoke, which may see this 0 in place of that of the last section. */
    atomic_store_explicit(&lock->busy, 0, memory_order_release);
    return false;
}

/* The lock is held: begin or end the bias where it is not shared yet. */
static inline void
tidei_lock_entered(struct tidei_lock *lock)
{
    /* Relaxed: written by holders of `held`. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_SHARED, 0))
        tidei_lock_settle(lock);
}

static inline void
tidei_lock_acquire(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return;
    /* Acquire: sees all that the last holder wrote before its release in tidei_lock_release. */
    if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        tidei_lock_wait(lock);
    tidei_lock_entered(lock);
}

/* As tidei_lock_acquire where the lock is free, or this thread owns it; else false, at once. */
static inline bool
tidei_lock_try(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return true;
    /* Relaxed: a hint, the exchange decides. Acquire: as in tidei_lock_acquire. */
    if (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0 ||
        atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        return false;
    tidei_lock_entered(lock);
    return true;
}

/*
 * For code that can do without the lock once threads share it. True where this thread is the only one so far: it is
 * inside until tidei_lock_release. False for good once a second thread has come and all sections are over. Blocks only
 * the first call of the second thread, and calls that come before that one is done.
 */
static inline bool
tidei_lock_acquire_alone(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return true;
    /* Acquire: pairs with the release in lock_revoke, and sees all that the owner wrote inside. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_acquire) == TIDEI_LOCK_SHARED, 1))
        return false;
    return tidei_lock_settle_alone(lock);
}

static inline void
tidei_lock_release(struct tidei_lock *lock)
{
    /* Release: pairs with the acquire in lock_revoke, and with those in tidei_lock_acquire and tidei_lock_wait. */
    if (lock->biased)
        atomic_store_explicit(&lock->busy, 0, memory_order_release);
    else
        atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
