/* The waiting of short locks, and the list of them that fork() goes through. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock.h"
#include "resource.h"

/* Looks before a waiter yields: some microseconds, longer than any section that is not preempted. */
#define LOCK_SPINS 256
/* Yields before a waiter sleeps: by then the holder is off its processor, or of a lower priority. */
#define LOCK_YIELDS   32
#define LOCK_SLEEP_NS 50000

/* Every lock of the process, oldest first, guarded by `mutex`. */
static struct {
    pthread_mutex_t mutex;
    struct tidei_lock **locks; /* owned; the locks are borrowed */
    size_t count;
    size_t capacity;
    int handlers_status; /* what pthread_atfork returned */
} registry = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static inline void
lock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

void
tidei_lock_wait(struct tidei_lock *lock)
{
    const struct timespec step = { .tv_nsec = LOCK_SLEEP_NS };
    unsigned looks = 0;

    do {
        /* Relaxed: only a hint, the exchange below decides. Reading keeps the line shared while somebody holds it. */
        while (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0) {
            looks++;
            if (looks < LOCK_SPINS)
                lock_relax();
            else if (looks < LOCK_SPINS + LOCK_YIELDS)
                sched_yield();
            else
                nanosleep(&step, NULL);
        }
    } while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0); /* acquire: as in take */
}

static void
lock_before_fork(void)
{
    pthread_mutex_lock(&registry.mutex);
    for (size_t i = registry.count; i > 0; i--)
        tidei_lock_take(registry.locks[i - 1]);
}

/* In the parent and in the child: the thread that forked holds all of them in both. */
static void
lock_after_fork(void)
{
    for (size_t i = 0; i < registry.count; i++)
        tidei_lock_give(registry.locks[i]);
    pthread_mutex_unlock(&registry.mutex);
}

static void
lock_handlers_install(void)
{
    registry.handlers_status = pthread_atfork(lock_before_fork, lock_after_fork, lock_after_fork);
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

    atomic_init(&lock->held, 0);
    pthread_once(&once, lock_handlers_install);
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
