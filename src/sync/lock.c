/* The slow paths of locks: waiting, beginning and revoking the bias, and the list of all locks for fork(). */
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "src/sync/barrier.h"
#include "src/sync/fork.h"
#include "src/sync/lock.h"

/* Spins before a waiter yields: some microseconds, longer than any section that is not preempted. */
#define LOCK_SPINS 256
/* Yields before a waiter sleeps: by then the holder is not running, or has a lower priority. */
#define LOCK_YIELDS   32
#define LOCK_SLEEP_NS 50000

/* Every lock of the process. */
static struct {
    pthread_mutex_t mutex;
    struct tidei_lock *newest; /* borrowed */
} registry = { .mutex = PTHREAD_MUTEX_INITIALIZER };

void
tidei_lock_pause(unsigned *looks)
{
    const struct timespec step = { .tv_nsec = LOCK_SLEEP_NS };

    if (*looks >= LOCK_SPINS + LOCK_YIELDS) {
        nanosleep(&step, NULL);
        return;
    }
    if (++*looks >= LOCK_SPINS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Returns once the caller has `held`. */
void
tidei_lock_wait(struct tidei_lock *lock)
{
    unsigned looks = 0;

    do {
        /* Relaxed: only a hint, the exchange decides. Reading keeps the cache line shared while the lock is held. */
        while (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0)
            tidei_lock_pause(&looks);
    } while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0); /* acquire: as in acquire */
}

static void
lock_hold(struct tidei_lock *lock)
{
    if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0) /* acquire: as in tidei_lock_acquire */
        tidei_lock_wait(lock);
}

/* Revoke the bias; the caller has `held`. For the proof see lock.h. */
static void
lock_revoke(struct tidei_lock *lock)
{
    unsigned looks = 0;

    /* Relaxed: the barrier orders it before the read of `busy`. */
    atomic_store_explicit(&lock->owner, TIDEI_LOCK_REVOKING, memory_order_relaxed);
    TIDEI_TEST_POINT("lock.revoking");
    (void)tidei_barrier_run(); /* a pause in place of the barrier is as good here */
    TIDEI_TEST_POINT("lock.revoked");
    /* Acquire: pairs with the owner's releases of `busy` in tidei_lock_release and tidei_lock_enter. */
    while (atomic_load_explicit(&lock->busy, memory_order_acquire) != 0)
        tidei_lock_pause(&looks);
    lock->biased = false;
    /* Release: pairs with the acquire in tidei_lock_acquire_alone. */
    atomic_store_explicit(&lock->owner, TIDEI_LOCK_SHARED, memory_order_release);
}

/* Begin the bias; the caller has `held`, which is cleared: it is then inside as the owner. False if it cannot be. */
static bool
lock_own(struct tidei_lock *lock)
{
    const struct tidei_thread *self = tidei_thread_get();

    if (self == NULL || !tidei_barrier_possible())
        return false;
    lock->biased = true;
    /* Relaxed: the revoking thread takes `held` after the release below, and so sees both stores. */
    atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
    atomic_store_explicit(&lock->owner, self->number, memory_order_relaxed);
    atomic_store_explicit(&lock->held, 0, memory_order_release); /* pairs as in tidei_lock_release */
    return true;
}

/* The caller has `held` of a lock that is not SHARED: begin the bias, or revoke it. */
void
tidei_lock_change_bias(struct tidei_lock *lock)
{
    /* Relaxed: written by holders of `held`. */
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_NEW)
        lock_revoke(lock);
    else if (!lock_own(lock))
        atomic_store_explicit(&lock->owner, TIDEI_LOCK_SHARED, memory_order_release); /* pairs as in lock_revoke */
}

/* The slow path of tidei_lock_acquire_alone. */
bool
tidei_lock_acquire_alone_slowly(struct tidei_lock *lock)
{
    lock_hold(lock);
    tidei_lock_entered(lock);
    if (lock->biased)
        return true;
    tidei_lock_release(lock);
    return false;
}

/* Set the state of a lock that no thread has taken yet. */
static void
lock_reset(struct tidei_lock *lock)
{
    lock->biased = false;
    atomic_init(&lock->owner, tidei_barrier_possible() ? TIDEI_LOCK_NEW : TIDEI_LOCK_SHARED);
    atomic_init(&lock->busy, 0);
    atomic_init(&lock->held, 0);
}

/* Holding `held` keeps out all threads but the owner; after this, only this thread can be an owner. */
static void
lock_before_fork(void)
{
    pthread_mutex_lock(&registry.mutex);
    for (struct tidei_lock *lock = registry.newest; lock != NULL; lock = lock->older) {
        uint64_t owner;

        lock_hold(lock);
        owner = atomic_load_explicit(&lock->owner, memory_order_relaxed); /* relaxed: written by holders of `held` */
        if (owner != TIDEI_LOCK_NEW && owner != TIDEI_LOCK_SHARED && owner != tidei_thread->number)
            lock_revoke(lock);
    }
}

static void
lock_after_fork(void)
{
    for (struct tidei_lock *lock = registry.newest; lock != NULL; lock = lock->older)
        atomic_store_explicit(&lock->held, 0, memory_order_release); /* pairs as in tidei_lock_release */
    pthread_mutex_unlock(&registry.mutex);
}

/* An owner that the fork caught in tidei_lock_enter does not exist here, and would never clear `busy`. */
static void
lock_in_child(void)
{
    for (struct tidei_lock *lock = registry.newest; lock != NULL; lock = lock->older)
        lock_reset(lock);
    pthread_mutex_unlock(&registry.mutex);
}

void
tidei_lock_init(struct tidei_lock *lock)
{
    static const struct tidei_fork_hook hook = { lock_before_fork, lock_after_fork, lock_in_child };

    lock_reset(lock);
    tidei_fork_hook_set(TIDEI_FORK_LOCKS, &hook);
    pthread_mutex_lock(&registry.mutex);
    lock->newer = NULL;
    lock->older = registry.newest;
    if (lock->older != NULL)
        lock->older->newer = lock;
    registry.newest = lock;
    pthread_mutex_unlock(&registry.mutex);
}

void
tidei_lock_fini(struct tidei_lock *lock)
{
    pthread_mutex_lock(&registry.mutex);
    if (lock->older != NULL)
        lock->older->newer = lock->newer;
    if (lock->newer != NULL)
        lock->newer->older = lock->older;
    else if (registry.newest == lock)
        registry.newest = lock->older;
    pthread_mutex_unlock(&registry.mutex);
}
