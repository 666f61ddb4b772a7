/* Calls the hooks of all places around fork(). */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "src/sync/fork.h"

static struct {
    pthread_mutex_t mutex; /* held while a hook is set, and from before fork() until after it */
    bool installed;        /* by the constructor; after that guarded by the mutex */
    uint32_t generation;   /* written in a child, where it is the only thread */
    sigset_t signals;      /* of the thread that forks, which blocks them: a handler would wait for what it holds */
    /* Written with the mutex held; also read without it, to check whether a hook is installed. */
    _Atomic(const struct tidei_fork_hook *) hooks[TIDEI_FORK_PLACES];
} forks = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* The mutex is held. */
static const struct tidei_fork_hook *
fork_hook(int place)
{
    static const struct tidei_fork_hook none;
    const struct tidei_fork_hook *hook = atomic_load_explicit(&forks.hooks[place], memory_order_relaxed);

    return hook != NULL ? hook : &none;
}

void
tidei_signals_block(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static void
fork_prepare(void)
{
    sigset_t signals;

    tidei_signals_block(&signals);
    pthread_mutex_lock(&forks.mutex);
    forks.signals = signals;
    for (int place = 0; place < TIDEI_FORK_PLACES; place++) {
        if (fork_hook(place)->prepare != NULL)
            fork_hook(place)->prepare();
    }
}

static void
fork_release(void)
{
    sigset_t signals = forks.signals;

    pthread_mutex_unlock(&forks.mutex);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

static void
fork_in_parent(void)
{
    for (int place = TIDEI_FORK_PLACES - 1; place >= 0; place--) {
        if (fork_hook(place)->parent != NULL)
            fork_hook(place)->parent();
    }
    fork_release();
}

static void
fork_in_child(void)
{
    forks.generation++;
    for (int place = TIDEI_FORK_PLACES - 1; place >= 0; place--) {
        if (fork_hook(place)->child != NULL)
            fork_hook(place)->child();
    }
    fork_release();
}

/*
 * Installs the handlers before any thread can take the mutex. If the first tidei_fork_hook_set did it, another thread
 * could fork meanwhile, without the handlers: the child would have a copy of the mutex that stays locked for good. The
 * priority, the first that is free for programs, puts it before constructors of a program linked statically.
 */
__attribute__((constructor(101))) static void
fork_install(void)
{
    forks.installed = pthread_atfork(fork_prepare, fork_in_parent, fork_in_child) == 0;
}

void
tidei_fork_hook_set(enum tidei_fork_place place, const struct tidei_fork_hook *hook)
{
    /* Acquire: pairs with the release below, which comes after pthread_atfork(). */
    if (atomic_load_explicit(&forks.hooks[place], memory_order_acquire) != NULL)
        return;
    pthread_mutex_lock(&forks.mutex);
    if (!forks.installed)
        fork_install();
    if (forks.installed)
        atomic_store_explicit(&forks.hooks[place], hook, memory_order_release);
    pthread_mutex_unlock(&forks.mutex);
}

uint32_t
tidei_fork_generation(void)
{
    return forks.generation;
}
