/* The slow paths of short locks: waiting, the begin and the end of the bias, and the list that fork() goes through. */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/sync/lock.h"
#include "src/resource/resource.h"

/* Looks before a waiter yields: some microseconds, longer than any section that is not preempted. */
#define LOCK_SPINS 256
/* Yields before a waiter sleeps: by then the holder is off its processor, or of a lower priority. */
#define LOCK_YIELDS   32
#define LOCK_SLEEP_NS 50000
/* In place of a membarrier that the kernel refuses all of a sudden; see tidei_lock_barrier. */
#define LOCK_SETTLE_NS 10000000

_Thread_local uint32_t tidei_lock_self;
uint32_t tidei_lock_forks;

/* The number given out last. 64 bits, which do not wrap; threads past the first 2^32 get none, and own no lock. */
static _Atomic uint64_t lock_numbers;

/* membarrier works, so that locks may be biased. Relaxed: orders nothing. */
static _Atomic bool lock_bias_possible;

/* Every lock of the process, oldest first, guarded by `mutex`. */
static struct {
    pthread_mutex_t mutex;
    struct tidei_lock **locks; /* owned; the locks are borrowed */
    size_t count;
    size_t capacity;
    int handlers_status; /* what pthread_atfork returned */
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
        /* Relaxed: only a hint, the exchange below decides. Reading keeps the line shared while somebody holds it. */
        while (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0)
            tidei_lock_pause(&looks);
    } while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0); /* acquire: as in take */
}

static void
lock_hold(struct tidei_lock *lock)
{
    if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0) /* acquire: as in take */
        tidei_lock_wait(lock);
}

bool
tidei_lock_barrier_possible(void)
{
    return atomic_load_explicit(&lock_bias_possible, memory_order_relaxed); /* relaxed: orders nothing */
}

/*
 * Have every thread of the process pass a full barrier. A sandbox that the program has entered since the first lock
 * may refuse it; what is left then is to wait for far longer than a processor keeps a store to itself, which no manual
 * promises to be enough, and to bias no lock any more.
 */
void
tidei_lock_barrier(void)
{
    const struct timespec step = { .tv_nsec = LOCK_SETTLE_NS };

    for (int attempt = 0; attempt < 3; attempt++) {
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
            return;
    }
    atomic_store_explicit(&lock_bias_possible, false, memory_order_relaxed);
    nanosleep(&step, NULL);
}

/* End the bias, with `held`. See lock.h for why this works. */
static void
lock_revoke(struct tidei_lock *lock)
{
    unsigned looks = 0;

    /* Relaxed, as the barrier orders it before the look at `busy`. */
    atomic_store_explicit(&lock->owner, TIDEI_LOCK_REVOKING, memory_order_relaxed);
    TIDEI_TEST_POINT("lock.revoking");
    tidei_lock_barrier();
    TIDEI_TEST_POINT("lock.revoked");
    /* Acquire: pairs with the owner's releases of `busy` in tidei_lock_release and tidei_lock_enter. */
    while (atomic_load_explicit(&lock->busy, memory_order_acquire) != 0)
        tidei_lock_pause(&looks);
    lock->biased = false;
    /* Release: pairs with the acquire in tidei_lock_acquire_alone. */
    atomic_store_explicit(&lock->owner, TIDEI_LOCK_SHARED, memory_order_release);
}

/* Begin the bias, with `held`, which is given back: this thread is inside as the owner. False where it cannot be. */
static bool
lock_own(struct tidei_lock *lock)
{
    if (tidei_lock_self == 0) {
        uint64_t number = 1 + atomic_fetch_add_explicit(&lock_numbers, 1, memory_order_relaxed); /* relaxed: a number */

        tidei_lock_self = number < TIDEI_LOCK_SHARED ? (uint32_t)number : 0;
    }
    if (tidei_lock_self == 0 || !atomic_load_explicit(&lock_bias_possible, memory_order_relaxed))
        return false;
    lock->biased = true;
    /* Relaxed: the release of `held` below comes before who ends the bias, and has it see both. */
    atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
    atomic_store_explicit(&lock->owner, tidei_lock_self, memory_order_relaxed);
    atomic_store_explicit(&lock->held, 0, memory_order_release); /* pairs with the acquires as in give */
    return true;
}

/* With `held`, of a lock that is not SHARED: begin the bias, or end it. */
void
tidei_lock_settle(struct tidei_lock *lock)
{
    /* Relaxed: written by holders of `held`. */
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_NEW)
        lock_revoke(lock);
    else if (!lock_own(lock))
        atomic_store_explicit(&lock->owner, TIDEI_LOCK_SHARED, memory_order_release); /* pairs as in lock_revoke */
}

/* As tidei_lock_acquire_alone. */
bool
tidei_lock_settle_alone(struct tidei_lock *lock)
{
    lock_hold(lock);
    /* Relaxed: written by holders of `held`. */
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != TIDEI_LOCK_SHARED)
        tidei_lock_settle(lock);
    if (lock->biased)
        return true;
    tidei_lock_release(lock);
    return false;
}

/* Nobody has taken it yet. */
static void
lock_reset(struct tidei_lock *lock)
{
    bool possible = atomic_load_explicit(&lock_bias_possible, memory_order_relaxed);

    lock->biased = false;
    atomic_init(&lock->owner, possible ? TIDEI_LOCK_NEW : TIDEI_LOCK_SHARED);
    atomic_init(&lock->busy, 0);
    atomic_init(&lock->held, 0);
}

static void
lock_barrier_register(void)
{
    bool possible = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

    atomic_store_explicit(&lock_bias_possible, possible, memory_order_relaxed);
}

/* Holding `held` keeps all out but the owner, which is this thread, or is none any more. */
static void
lock_before_fork(void)
{
    pthread_mutex_lock(&registry.mutex);
    for (size_t i = registry.count; i > 0; i--) {
        struct tidei_lock *lock = registry.locks[i - 1];
        uint32_t owner;

        lock_hold(lock);
        owner = atomic_load_explicit(&lock->owner, memory_order_relaxed); /* relaxed: written by holders of `held` */
        if (owner != TIDEI_LOCK_NEW && owner != TIDEI_LOCK_SHARED && owner != tidei_lock_self)
            lock_revoke(lock);
    }
}

static void
lock_after_fork_parent(void)
{
    for (size_t i = 0; i < registry.count; i++)
        atomic_store_explicit(&registry.locks[i]->held, 0, memory_order_release); /* pairs as in give */
    pthread_mutex_unlock(&registry.mutex);
}

/* An owner that is not here, caught between its two looks, would never give `busy` back. */
static void
lock_after_fork_child(void)
{
    tidei_lock_forks++;
    lock_barrier_register();
    for (size_t i = 0; i < registry.count; i++)
        lock_reset(registry.locks[i]);
    pthread_mutex_unlock(&registry.mutex);
}

static void
lock_prepare_process(void)
{
    lock_barrier_register();
    registry.handlers_status = pthread_atfork(lock_before_fork, lock_after_fork_parent, lock_after_fork_child);
}

/* Room for one more, with `mutex` held. */
static int
registry_grow(void)
{
    size_t capacity = registry.capacity == 0 ? 64 : 2 * registry.capacity;
    struct tidei_lock **locks;

    if (registry.count < registry.capacity)
        return 0;
    locks = realloc(registry.locks, capacity * sizeof(struct tidei_lock *));
    if (locks == NULL)
        return ENOMEM;
    registry.locks = locks;
    registry.capacity = capacity;
    return 0;
}

enum tide_status
tidei_lock_init(struct tidei_lock *lock)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int error;

    pthread_once(&once, lock_prepare_process);
    lock_reset(lock);
    pthread_mutex_lock(&registry.mutex);
    error = registry.handlers_status != 0 ? registry.handlers_status : registry_grow();
    if (error == 0)
        registry.locks[registry.count++] = lock;
    pthread_mutex_unlock(&registry.mutex);
    return error == 0 ? TIDE_OK : tide_error_set(TIDE_ENOMEM, "lock: no host memory to list one more");
}

void
tidei_lock_fini(struct tidei_lock *lock)
{
    size_t i;

    pthread_mutex_lock(&registry.mutex);
    for (i = registry.count; i > 0 && registry.locks[i - 1] != lock; i--)
        ;
    if (i > 0) {
        memmove(&registry.locks[i - 1], &registry.locks[i], (registry.count - i) * sizeof(struct tidei_lock *));
        registry.count--;
    }
    if (registry.count == 0) {
        free(registry.locks);
        registry.locks = NULL;
        registry.capacity = 0;
    }
    pthread_mutex_unlock(&registry.mutex);
}
