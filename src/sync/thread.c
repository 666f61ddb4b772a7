/* Creates the object of each thread, and frees it when the thread ends. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/sync/fork.h"
#include "src/sync/thread.h"

/* The shared objects of threads without their own. */
static const struct tidei_thread thread_none;
static const struct tidei_thread thread_refused = { .refused = true };

_Thread_local struct tidei_thread *tidei_thread = (struct tidei_thread *)&thread_none;

static _Atomic uint64_t thread_numbers; /* the last one assigned; relaxed: only a number */

static _Atomic(void (*)(struct tidei_thread *thread)) thread_ends[TIDEI_THREAD_ENDS];

/* The key whose destructor runs when a thread ends, plus 1; 0: none yet. */
static _Atomic uint64_t thread_key;

static void
thread_end(void *argument)
{
    struct tidei_thread *thread = argument;

    for (int i = 0; i < TIDEI_THREAD_ENDS; i++) {
        /* Acquire: pairs with the release in tidei_thread_at_end. */
        void (*function)(struct tidei_thread * thread) = atomic_load_explicit(&thread_ends[i], memory_order_acquire);

        if (function != NULL)
            function(thread);
    }
    tidei_thread = (struct tidei_thread *)&thread_none;
    free(thread);
}

/* Get the key, created at the first call; false if the process has no more keys. Takes no lock. */
static bool
thread_key_get(pthread_key_t *key)
{
    /* Acquire: pairs with the release below. What pthread_key_create wrote about the key is seen with its number. */
    uint64_t known = atomic_load_explicit(&thread_key, memory_order_acquire);

    if (known == 0) {
        if (pthread_key_create(key, thread_end) != 0)
            return false;
        if (atomic_compare_exchange_strong_explicit(&thread_key, &known, (uint64_t)*key + 1, memory_order_release,
                                                    memory_order_acquire))
            return true;
        pthread_key_delete(*key); /* another thread was first */
    }
    *key = (pthread_key_t)(known - 1);
    return true;
}

static struct tidei_thread *
thread_new(void)
{
    struct tidei_thread *thread;
    pthread_key_t key;

    if (!thread_key_get(&key))
        return NULL;
    thread = aligned_alloc(_Alignof(struct tidei_thread), sizeof(*thread));
    if (thread == NULL)
        return NULL;
    memset(thread, 0, sizeof(*thread));
    if (pthread_setspecific(key, thread) != 0) {
        free(thread);
        return NULL;
    }
    thread->number = 1 + atomic_fetch_add_explicit(&thread_numbers, 1, memory_order_relaxed);
    return thread;
}

__attribute__((cold)) struct tidei_thread *
tidei_thread_make(void)
{
    int saved = errno;
    struct tidei_thread *thread = thread_new();

    tidei_thread = thread != NULL ? thread : (struct tidei_thread *)&thread_refused;
    errno = saved;
    return thread;
}

void
tidei_thread_at_end(enum tidei_thread_end end, void (*function)(struct tidei_thread *thread))
{
    /* Release: pairs with the acquire in thread_end. */
    atomic_store_explicit(&thread_ends[end], function, memory_order_release);
}

/* The thread that forked has another thread id in the child. */
static void
thread_in_child(void)
{
    if (tidei_thread->number != 0)
        tidei_thread->os_id = 0;
}

static uint32_t
thread_ask_os_id(void)
{
    static const struct tidei_fork_hook hook = { .child = thread_in_child };
    struct tidei_thread *thread = tidei_thread_get();
    uint32_t id = (uint32_t)syscall(SYS_gettid);

    tidei_fork_hook_set(TIDEI_FORK_THREAD, &hook);
    if (thread != NULL)
        thread->os_id = id;
    return id;
}

uint32_t
tidei_thread_os_id(void)
{
    uint32_t id = tidei_thread->os_id;

    return __builtin_expect(id != 0, 1) ? id : thread_ask_os_id();
}
