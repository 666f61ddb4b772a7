/*
 * A lock for sections of a few dozen instructions: one exchange to take it, one store to give it back.
 *
 * It fits in the cache line of what it guards, and costs a thread that meets nobody about half of a pthread mutex in
 * a program with threads (5 ns against 10 ns). Nobody may call out of the library or block for long while holding
 * one that is taken on every allocation.
 *
 * Progress: blocking. A waiter spins for some microseconds, then yields, then sleeps in steps of 50 us, so that a
 * holder that was preempted gets its turn also where waiters have a higher priority. No fairness.
 *
 * fork(): the thread that forks takes every lock first, newest first, so that the child finds all of them free and
 * what they guard whole. A thread that holds a lock may therefore take an older one (of a layer below), never a
 * newer one.
 */
#ifndef TIDEI_LOCK_H
#define TIDEI_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include <tidemark/status.h>

struct tidei_lock {
    _Atomic uint32_t held; /* 0 or 1; written by who takes and who gives */
};

/* Make the lock free, and known to fork(). Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_lock_init(struct tidei_lock *lock);

/* Forget the lock, which nobody holds. */
void tidei_lock_fini(struct tidei_lock *lock);

/* The slow path of tidei_lock_take: returns once the caller holds the lock. */
void tidei_lock_wait(struct tidei_lock *lock);

static inline void
tidei_lock_take(struct tidei_lock *lock)
{
    /* Acquire: sees all that the last holder wrote before its release in tidei_lock_give. */
    if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        tidei_lock_wait(lock);
}

static inline void
tidei_lock_give(struct tidei_lock *lock)
{
    /* Release: pairs with the acquire in tidei_lock_take and tidei_lock_wait. */
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
