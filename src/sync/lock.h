/*
 * A biased lock, for critical sections of a few dozen instructions: nearly free while only one thread takes it.
 *
 * The first thread that takes the lock becomes its owner, and locks and unlocks with plain loads and stores. The first
 * other thread revokes this bias for good; from then on all threads lock with one exchange and unlock with one store.
 * The bias saves the owner 4 to 10 ns for each section (Xeon, EPYC), since an exchange waits until the stores before it
 * have reached the cache. That is half the time of an allocation and its free over `monotonic`, a third over `aligned`,
 * a tenth over `fixed`.
 *
 * Why two threads are never inside:
 *  - The owner stores busy = 1 and then reads `owner`, to check that it still owns the lock. The revoking thread stores
 *    owner = REVOKING, runs a barrier in all threads, and then reads `busy`. If the owner's store comes before that
 *    barrier, the revoking thread reads busy = 1, and waits. If the store comes after the barrier, so does the owner's
 *    read, which returns REVOKING: the owner clears `busy` and takes the lock as every other thread does. On the
 *    owner's side it is enough that the compiler keeps the store before the read.
 *  - Only the holder of `held` changes `owner`: one thread begins the bias, one thread revokes it, and all others wait
 *    until that thread is done. `owner` never names a thread again, and a thread's number is never reused.
 *  - The revoking thread sees the owner's writes inside the section through `busy`: the owner stores 0 with release,
 *    the revoking thread reads it with acquire. Later threads see them through `held`; threads that skip the lock
 *    (tidei_lock_acquire_alone) see them through `owner` (release and acquire of SHARED). The owner has nothing to
 *    acquire: no other thread was inside before.
 * Without membarrier in the kernel no lock is ever biased.
 *
 * Progress: the owner locks wait-free; all others block. A waiter spins for some microseconds, then yields, then sleeps
 * in steps of 50 us, so that a preempted holder gets to run even if waiters have a higher priority. The lock is not
 * fair. Revoking the bias costs, once, a system call of some microseconds, and a wait if the owner is inside.
 *
 * fork(): see fork.h. The thread that forks takes `held` of every lock, newest first, and revokes the bias of locks
 * that other threads own. The child reinitializes all locks. A thread that holds a lock may therefore take an older
 * one (of a layer below), never a newer one. A thread that holds a lock which every allocation takes must not block for
 * long, nor call out of the library.
 */
#ifndef TIDEI_SYNC_LOCK_H
#define TIDEI_SYNC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/sync/testpoint.h"
#include "src/sync/thread.h"

/* Values of `owner` that are not a thread's number: not owned yet, being revoked, never owned again. */
#define TIDEI_LOCK_NEW      UINT64_MAX
#define TIDEI_LOCK_REVOKING (UINT64_MAX - 1)
#define TIDEI_LOCK_SHARED   (UINT64_MAX - 2)

struct tidei_lock {
    _Atomic uint64_t owner; /* a thread's number, or a value from above; written by the holder of `held` */
    _Atomic uint8_t busy;   /* 0 or 1: the owner is inside, or about to read `owner`; written by it */
    _Atomic uint8_t held;   /* 0 or 1: set by a thread that locks without being the owner, cleared by its unlock */
    bool biased;            /* the thread inside is the owner: unlock clears `busy`, not `held`; guarded by the lock */
    struct tidei_lock *older; /* in the list of all locks, for fork(); guarded by that list's mutex */
    struct tidei_lock *newer;
};

/* Initialize the lock, and add it to the list for fork(). */
void tidei_lock_init(struct tidei_lock *lock);

/* Remove the lock, which no thread holds, from that list. */
void tidei_lock_fini(struct tidei_lock *lock);

/* One step of a wait for another thread: spins, then yields, then sleeps for 50 us. *looks begins at 0. */
void tidei_lock_pause(unsigned *looks);

/* The slow paths of the functions below. */
void tidei_lock_wait(struct tidei_lock *lock);
void tidei_lock_change_bias(struct tidei_lock *lock);
bool tidei_lock_acquire_alone_slowly(struct tidei_lock *lock);

/* Lock as the owner; false if this thread is not the owner, or no longer. */
static inline bool
tidei_lock_enter(struct tidei_lock *lock)
{
    uint64_t self = tidei_thread->number;

    /* Relaxed: only the owner can read its own number here, and it checks again below. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != self, 0))
        return false;
    /* Relaxed, and a compiler fence only: lock_revoke's barrier in all threads orders this store and the read below. */
    atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("lock.busy");
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) == self, 1))
        return true;
    /* Release: pairs with the acquire in lock_revoke, which may read this 0 instead of the one of the last section. */
    atomic_store_explicit(&lock->busy, 0, memory_order_release);
    return false;
}

/* After `held` was taken: begin or revoke the bias, unless the lock is shared. */
static inline void
tidei_lock_entered(struct tidei_lock *lock)
{
    /* Relaxed: written by holders of `held`. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_SHARED, 0))
        tidei_lock_change_bias(lock);
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

/* As tidei_lock_acquire, if the lock is free or this thread owns it; else returns false at once. */
static inline bool
tidei_lock_try(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return true;
    /* Relaxed: only a hint, the exchange decides. Acquire: as in tidei_lock_acquire. */
    if (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0 ||
        atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        return false;
    tidei_lock_entered(lock);
    return true;
}

/*
 * For code that needs the lock only while one thread uses it. True while this thread is the only one so far: it then
 * holds the lock until tidei_lock_release. False for good once a second thread has called and all sections have ended.
 * Blocks only in the second thread's first call, and in calls made before that one returns.
 */
static inline bool
tidei_lock_acquire_alone(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return true;
    /* Acquire: pairs with the release in lock_revoke, to see all that the owner wrote inside. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_acquire) == TIDEI_LOCK_SHARED, 1))
        return false;
    return tidei_lock_acquire_alone_slowly(lock);
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
