/*
 * A lock around SQLite's work, for fork(): a child must find none of SQLite's own locks taken by a thread that it does
 * not have. A thread that works with SQLite lets threads in that wait to fork wherever SQLite holds no lock: in its
 * callbacks, and between two of its calls.
 */
#ifndef TIDEI_TRACE_DATABASE_GATE_H
#define TIDEI_TRACE_DATABASE_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct tidei_gate {
    pthread_mutex_t lock;
    _Atomic unsigned holders; /* threads that wait to fork, or do */
};

#define TIDEI_GATE_INITIALIZER                                                                                         \
    {                                                                                                                  \
        PTHREAD_MUTEX_INITIALIZER, 0                                                                                   \
    }

/* Around the work. */
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

/* Within the work. */
static inline void
tidei_gate_open(struct tidei_gate *gate)
{
    const struct timespec pause = { 0, 20000 };

    /* Relaxed here and below: the lock orders what is behind it. */
    if (atomic_load_explicit(&gate->holders, memory_order_relaxed) == 0)
        return;
    pthread_mutex_unlock(&gate->lock);
    while (atomic_load_explicit(&gate->holders, memory_order_relaxed) != 0)
        nanosleep(&pause, NULL);
    pthread_mutex_lock(&gate->lock);
}

/* Around fork(). Waits for some milliseconds at the most while rows are written. */
static inline void
tidei_gate_hold(struct tidei_gate *gate)
{
    atomic_fetch_add_explicit(&gate->holders, 1, memory_order_relaxed);
    pthread_mutex_lock(&gate->lock);
}

static inline void
tidei_gate_let_go(struct tidei_gate *gate)
{
    pthread_mutex_unlock(&gate->lock);
    atomic_fetch_sub_explicit(&gate->holders, 1, memory_order_relaxed);
}

#endif
