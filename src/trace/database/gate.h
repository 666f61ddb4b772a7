/*
 * A lock around the use of SQLite, for fork(): in a child, none of SQLite's own locks may be held by a thread that does
 * not exist there. A thread that uses SQLite opens the gate for threads that wait to fork whenever SQLite holds none of
 * its locks: in its callbacks, and between two calls.
 */
#ifndef TIDEI_TRACE_DATABASE_GATE_H
#define TIDEI_TRACE_DATABASE_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct tidei_gate {
    pthread_mutex_t lock;
    _Atomic unsigned holders; /* threads that wait to fork, or are forking */
};

#define TIDEI_GATE_INITIALIZER                                                                                         \
    {                                                                                                                  \
        PTHREAD_MUTEX_INITIALIZER, 0                                                                                   \
    }

/* Around the use of SQLite. */
static inline void
tidei_gate_enter(struct tidei_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
}

static inline void
tidei_gate_leave(struct tidei_gate *gate)
{
    pthread_mutex_unlock(&gate->lock);
}

/* While SQLite holds no lock: let threads fork that wait for it. */
static inline void
tidei_gate_yield(struct tidei_gate *gate)
{
    const struct timespec pause = { 0, 20000 };

    /* Relaxed here and below: the lock orders the data. */
    if (atomic_load_explicit(&gate->holders, memory_order_relaxed) == 0)
        return;
    pthread_mutex_unlock(&gate->lock);
    while (atomic_load_explicit(&gate->holders, memory_order_relaxed) != 0)
        nanosleep(&pause, NULL);
    pthread_mutex_lock(&gate->lock);
}

/* Around fork(). Waits for at most some milliseconds while rows are being written. */
static inline void
tidei_gate_hold(struct tidei_gate *gate)
{
    atomic_fetch_add_explicit(&gate->holders, 1, memory_order_relaxed);
    pthread_mutex_lock(&gate->lock);
}

static inline void
tidei_gate_release(struct tidei_gate *gate)
{
    pthread_mutex_unlock(&gate->lock);
    atomic_fetch_sub_explicit(&gate->holders, 1, memory_order_relaxed);
}

#endif
