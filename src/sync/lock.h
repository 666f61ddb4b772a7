/*
 * A lock for sections of a few dozen instructions that costs nothing while only one thread takes it.
 *
 * The first thread that takes the lock owns it from then on: it comes in and goes out with plain loads and stores.
 * A locked instruction would cost it some 10 ns each, since it has to wait until the stores of the log record before
 * it have reached the cache. The first other thread ends that bias for good; from then on everybody takes the lock
 * with one exchange and gives it back with one store. It fits in the cache line of what it guards. Nobody may call out
 * of the library or block for long while holding one that is taken on every allocation.
 *
 * Why two are never inside:
 *  - The owner stores busy = 1 and then looks whether it still owns. Who ends the bias stores owner = REVOKING, has
 *    every thread pass a full barrier, membarrier(2), and then looks at `busy`. Where the owner's store comes before
 *    that barrier, the other one sees it, and waits. Where it comes behind, so does the owner's look, which sees
 *    REVOKING: it takes busy back and goes the common way. On the owner's side it is enough that the compiler keeps
 *    the store before the look.
 *  - Only the holder of `held` changes `owner`: one thread begins the bias, one ends it, and all others wait for that
 *    thread to be done. `owner` never goes back to a thread, and a thread's number is never used again.
 *  - What the owner wrote inside is seen by who ends the bias through `busy` (its release of 0, the other's acquire),
 *    by the rest through `held`, or, where they do without the lock, through `owner` (release and acquire of SHARED).
 *    The owner itself has nothing to acquire: all who were inside before were itself.
 * Where the kernel has no membarrier, no lock is ever biased.
 *
 * Progress: the owner's way in is wait-free; the common way is blocking. A waiter spins for some microseconds, then
 * yields, then sleeps in steps of 50 us, so that a holder that was preempted gets its turn also where waiters have a
 * higher priority. No fairness. Ending the bias costs once a system call of some microseconds, and that wait where
 * the owner is inside.
 *
 * fork(): the thread that forks takes `held` of every lock first, newest first, and ends the bias of those that other
 * threads own, so that nobody is inside and what they guard is whole. The child, where it is the only thread, makes
 * all of them anew. A thread that holds a lock may therefore take an older one (of a layer below), never a newer one.
 */
#ifndef TIDEI_SYNC_LOCK_H
#define TIDEI_SYNC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/sync/testpoint.h"

/* What `owner` is where no thread is: not yet, for some moments not any more, and never again. */
#define TIDEI_LOCK_NEW      UINT32_MAX
#define TIDEI_LOCK_REVOKING (UINT32_MAX - 1)
#define TIDEI_LOCK_SHARED   (UINT32_MAX - 2)

struct tidei_lock {
    _Atomic uint32_t owner; /* a thread's number, or one of the above; written by the holder of `held` */
    _Atomic uint8_t busy;   /* 0 or 1; the owner is inside, or about to look; written by the owner */
    _Atomic uint8_t held;   /* 0 or 1; written by who comes in the common way, and gives */
    bool biased;            /* who is inside is the owner, and gives `busy` back, not `held`; guarded by the lock */
};

/* This thread's number: from 1 upwards, 0 until it has one. Initial-exec: one load, and no call of __tls_get_addr. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t tidei_lock_self;

/* How many forks lie between the process that came first and this one; written where it is the only thread. */
extern uint32_t tidei_lock_forks;

/* Make the lock free, and known to fork(). Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_lock_init(struct tidei_lock *lock);

/* Forget the lock, which nobody holds. */
void tidei_lock_fini(struct tidei_lock *lock);

/* Whether membarrier works; known from the first tidei_lock_init on. */
bool tidei_lock_barrier_possible(void);

/*
 * Have every thread of the process pass a full barrier; for others that do as locks do. Where the kernel refuses it all
 * of a sudden, it waits for long instead, and is possible no more.
 */
void tidei_lock_barrier(void);

/* One step of waiting for another thread, the `looks`th (from 0): spins, then yields, then sleeps for 50 us. */
void tidei_lock_pause(unsigned *looks);

/* The slow paths of the functions below. */
void tidei_lock_wait(struct tidei_lock *lock);
void tidei_lock_settle(struct tidei_lock *lock);
bool tidei_lock_settle_alone(struct tidei_lock *lock);

/* Come in as the owner; false where this thread is not, or is not any more. */
static inline bool
tidei_lock_enter(struct tidei_lock *lock)
{
    uint32_t self = tidei_lock_self;

    /* Relaxed: only the owner itself has ever seen its number here, and it looks again. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != self, 0))
        return false;
    /* Relaxed, with the compiler's order alone: the barrier between both lines is the membarrier in lock_revoke. */
    atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    TIDEI_TEST_POINT("lock.busy");
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) == self, 1))
        return true;
    /* Release: pairs with the acquire in lock_revoke, which may see this 0 in place of that of the last section. */
    atomic_store_explicit(&lock->busy, 0, memory_order_release);
    return false;
}

static inline void
tidei_lock_acquire(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return;
    /* Acquire: sees all that the last holder wrote before its release in tidei_lock_release. */
    if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        tidei_lock_wait(lock);
    /* Relaxed: written by holders of `held`. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_SHARED, 0))
        tidei_lock_settle(lock);
}

/* As tidei_lock_acquire where the lock is free, or this thread owns it; else false, at once. */
static inline bool
tidei_lock_try(struct tidei_lock *lock)
{
    if (tidei_lock_enter(lock))
        return true;
    /* Relaxed: a hint, the exchange decides; acquire: as in take. */
    if (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0 ||
        atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        return false;
    /* Relaxed: written by holders of `held`. */
    if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_SHARED, 0))
        tidei_lock_settle(lock);
    return true;
}

/*
 * For what can do without the lock once threads share it: true where this thread is the only one so far, and inside
 * until tidei_lock_release; false for good from when a second one has come, and all sections are over. Never blocks but
 * for the first call of the second thread, and for those that come before it is done.
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
