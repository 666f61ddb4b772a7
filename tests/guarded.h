/* A lock with guarded data, and threads that stop at test points, for the tests of src/sync/lock.c. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/sync/lock.h"

/* A lock and the two plain counters that it guards, which are equal while the lock is free. */
struct guarded {
    struct tidei_lock lock;
    uint64_t first, second;
    uint64_t owned;         /* written by the owner alone */
    _Atomic uint64_t steps; /* of the first thread; relaxed: a hint when to begin */
    _Atomic bool stop;      /* relaxed: tells nothing else */
};

static inline void
guarded_init(struct guarded *guarded)
{
    memset(guarded, 0, sizeof(*guarded));
    tidei_lock_init(&guarded->lock);
}

static inline void
count(struct guarded *guarded)
{
    tidei_lock_acquire(&guarded->lock);
    guarded->first++;
    guarded->second++;
    tidei_lock_release(&guarded->lock);
}

static inline uint64_t
owner_of(struct guarded *guarded)
{
    return atomic_load_explicit(&guarded->lock.owner, memory_order_relaxed);
}

static inline void *
run_count(void *context)
{
    count(context);
    return NULL;
}

/* Run a function on another thread, to its end. */
static inline void
elsewhere(void *(*function)(void *), void *context)
{
    pthread_t thread;

    pthread_create(&thread, NULL, function, context);
    pthread_join(thread, NULL);
}

static inline int
status_of(pid_t child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return status;
}

/* A thread holds the newer lock for long, and takes the older one inside. */
struct pair {
    struct guarded older, newer;
    pthread_barrier_t barrier;
};

static inline void *
run_hold(void *context)
{
    struct pair *pair = context;

    tidei_lock_acquire(&pair->newer.lock);
    pair->newer.first++;
    pthread_barrier_wait(&pair->barrier);
    usleep(50000);
    tidei_lock_acquire(&pair->older.lock);
    pair->newer.second++;
    tidei_lock_release(&pair->older.lock);
    tidei_lock_release(&pair->newer.lock);
    pthread_barrier_wait(&pair->barrier);
    return NULL;
}

static inline pthread_t
pair_start(struct pair *pair, bool shared)
{
    pthread_t thread;

    guarded_init(&pair->older);
    guarded_init(&pair->newer);
    if (shared) {
        count(&pair->newer);
        elsewhere(run_count, &pair->newer);
        count(&pair->older);
        elsewhere(run_count, &pair->older);
    }
    pthread_barrier_init(&pair->barrier, NULL, 2);
    pthread_create(&thread, NULL, run_hold, pair);
    pthread_barrier_wait(&pair->barrier);
    return thread;
}

static inline void
pair_end(struct pair *pair, pthread_t thread)
{
    pthread_barrier_wait(&pair->barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&pair->barrier);
    tidei_lock_fini(&pair->newer.lock);
    tidei_lock_fini(&pair->older.lock);
}

/* A thread that stops at its label reports that and waits. */
static struct stop {
    const char *label;
    sem_t reached;
    sem_t go;
} owner_stop, other_stop;

/* The label at which this thread stops, once. */
static _Thread_local struct stop *my_stop;

static inline void
stop_here(const char *label)
{
    struct stop *stop = my_stop;

    if (stop == NULL || strcmp(stop->label, label) != 0)
        return;
    my_stop = NULL;
    sem_post(&stop->reached);
    while (sem_wait(&stop->go) != 0)
        ;
}

static inline void
stop_init(struct stop *stop, const char *label)
{
    stop->label = label;
    sem_init(&stop->reached, 0, 0);
    sem_init(&stop->go, 0, 0);
}

static inline void *
run_count_stopped(void *context)
{
    my_stop = &other_stop;
    count(context);
    return NULL;
}

/* Take the lock as its owner, and stop at the begin of the next critical section. */
static inline void *
run_own_stopped(void *context)
{
    count(context);
    my_stop = &owner_stop;
    count(context);
    return NULL;
}

#endif
