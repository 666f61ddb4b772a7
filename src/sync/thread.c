/* Creates the object of each thread, and frees it when the thread ends. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/sync/fork.h"
#include "src/sync/inside.h"
#include "src/sync/thread.h"

/* The shared objects of threads without their own. */
static const struct tidei_thread thread_none;
static const struct tidei_thread thread_refused = { .refused = true };

_Thread_local struct tidei_thread *tidei_thread = (struct tidei_thread *)&thread_none;

_Thread_local struct tidei_inside tidei_inside;
extern _Thread_local struct tidei_inside tidei_inside_again __attribute__((alias("tidei_inside")));
const char tidei_inside_library;
_Atomic(void (*)(void)) tidei_inside_ended;

static _Atomic uint64_t thread_numbers; /* the last one assigned; relaxed: only a number */

static _Atomic(void (*)(struct tidei_thread *thread)) thread_ends[TIDEI_THREAD_ENDS];

/* The key whose destructor runs when a thread ends, plus 1; 0: none yet. */
static _Atomic uint64_t thread_key;

/* With signals blocked: a handler would use an object that is half gone, and leave frees that nobody makes. */
static void
thread_end(void *argument)
{
    struct tidei_thread *thread = argument;
    sigset_t signals;

    tidei_signals_block(&signals);
    for (int i = 0; i < TIDEI_THREAD_ENDS; i++) {
        /* Acquire: pairs with the release in tidei_thread_at_end. */
        void (*function)(struct tidei_thread * thread) = atomic_load_explicit(&thread_ends[i], memory_order_acquire);

        if (function != NULL)
            function(thread);
    }
    tidei_thread = (struct tidei_thread *)&thread_none;
    free(thread);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
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
    TIDEI_INSIDE(NULL); /* a handler would make another one */
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

/* The threads of tidei_thread_start that have not ended; relaxed: only a number, read again and again. */
static _Atomic uint32_t thread_own_count;

/* The thread that forked has another thread id in the child, and is alone there. */
static void
thread_in_child(void)
{
    atomic_store_explicit(&thread_own_count, 0, memory_order_relaxed);
    if (tidei_thread->number != 0)
        tidei_thread->os_id = 0;
}

static const struct tidei_fork_hook thread_fork_hook = { .child = thread_in_child };

void
tidei_thread_handle_forks(void)
{
    tidei_fork_hook_set(TIDEI_FORK_THREAD, &thread_fork_hook);
}

__attribute__((cold)) uint32_t
tidei_thread_ask_os_id(void)
{
    struct tidei_thread *thread = tidei_thread_get();
    uint32_t id = (uint32_t)syscall(SYS_gettid);

    tidei_thread_handle_forks();
    if (thread != NULL)
        thread->os_id = id;
    return id;
}

/* What a thread of the library begins with. Owned by that thread. */
struct thread_own {
    const char *name;
    void (*function)(void *argument);
    void *argument;
    sigset_t signals; /* blocked in the thread that started it */
};

static void *
thread_own_main(void *argument)
{
    struct thread_own own = *(struct thread_own *)argument;

    free(argument);
    prctl(PR_SET_NAME, own.name, 0, 0, 0);
    own.function(own.argument);
    /* The last thread calls exit(): then the program's handlers at exit find the signals that it left unblocked. */
    if (tidei_thread_is_left())
        pthread_sigmask(SIG_SETMASK, &own.signals, NULL);
    atomic_fetch_sub_explicit(&thread_own_count, 1, memory_order_relaxed);
    return NULL;
}

int
tidei_thread_start(pthread_t *thread, const char *name, void (*function)(void *argument), void *argument)
{
    struct thread_own *own = malloc(sizeof(*own));
    sigset_t signals;
    int error;

    if (own == NULL)
        return ENOMEM;
    *own = (struct thread_own){ .name = name, .function = function, .argument = argument };
    tidei_signals_block(&signals);
    own->signals = signals;
    error = pthread_create(thread, NULL, thread_own_main, own);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    /* After it is there: counted too early, it would stand for a thread of the program in tidei_thread_is_left. */
    if (error == 0)
        atomic_fetch_add_explicit(&thread_own_count, 1, memory_order_relaxed);
    else
        free(own);
    return error;
}

/* On the stack of the caller, until `done` is posted. */
struct thread_call {
    void (*function)(void *argument);
    void *argument;
    sem_t done;
};

static void
thread_call_main(void *argument)
{
    struct thread_call *call = argument;

    call->function(call->argument);
    sem_post(&call->done);
}

void
tidei_thread_call(const char *name, void (*function)(void *argument), void *argument)
{
    struct thread_call call = { .function = function, .argument = argument };
    pthread_t thread;
    int cancel;

    sem_init(&call.done, 0, 0);
    if (tidei_thread_start(&thread, name, thread_call_main, &call) == 0) {
        /* Not joined: what a thread does at its end takes locks that the caller may hold. */
        pthread_detach(thread);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        while (sem_wait(&call.done) != 0)
            ;
        pthread_setcancelstate(cancel, NULL);
    } else {
        function(argument);
    }
    sem_destroy(&call.done);
}

/*
 * The main thread stays in the list of threads when it has ended, in state Z, until the process ends. Its file tells
 * its state, and the number of all threads. A thread of the library that is just ending is still one of them, which
 * makes this say no once more.
 */
bool
tidei_thread_is_left(void)
{
    unsigned long threads = 0;
    char path[64], text[512], state = '?';
    const char *rest;
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    /* The name of the program, in parentheses, may have any character. The state is field 3, the number field 20. */
    rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &state, &threads) != 2)
        return false;
    return state == 'Z' && threads == 1 + atomic_load_explicit(&thread_own_count, memory_order_relaxed);
}
