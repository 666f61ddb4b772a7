/*
 * A session is the state of a recording that producers need: whether it records, its ring file, and its loss counters.
 *
 * A recorder embeds its session first (src/trace/session/recorder.h). Producers call the code above them (the writer
 * thread, a forked process's own trace) through the session's hooks.
 */
#ifndef TIDEI_TRACE_RING_SESSION_H
#define TIDEI_TRACE_RING_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/ringfile.h"

struct tidei_drops;
struct tidei_session;

enum tidei_session_mode {
    TIDEI_SESSION_RECORDING = 0,
    TIDEI_SESSION_FAILED = 1, /* for example, the disk is full: events are counted as lost */
    TIDEI_SESSION_CLOSED = 2, /* it is complete: see `exited` */
    TIDEI_SESSION_FORKED = 3, /* it is the parent's: this process does not record into it */
    TIDEI_SESSION_EXITED = 4, /* the process exits, and nobody empties the rings: what finds no room is lost */
};

struct tidei_session_hooks {
    /* A ring is full: make the writer drain it now. */
    void (*wake)(struct tidei_session *session);

    /*
     * The session is the parent's, and this process a child of fork(): begin its own trace if the path has %p. Or it
     * is closed since the process exits: record into a new ring file. Returns whether the session records now. The
     * caller holds none of the recorder's locks.
     */
    bool (*revive)(struct tidei_session *session);

    /* A thread has seen a new stamp. NULL: none. */
    void (*noticed)(void);
};

struct tidei_session {
    /* Read for each event; written only when recording begins or ends. */
    _Atomic uint64_t serial; /* changes when producers must look up the session again */
    _Atomic uint64_t stamp;  /* changes then, too, and when threads must look at what else has changed */
    uint32_t slot;
    bool tsc;
    bool fence;
    bool drop;
    _Atomic bool many;                /* several threads have recorded: read clocks in order */
    _Atomic bool plain;               /* tsc, and neither fence nor drop: an event needs no further checks */
    _Atomic int mode;                 /* enum tidei_session_mode */
    atomic_flag ringless;             /* set once a thread could not get a ring */
    _Atomic bool resting;             /* the writer sleeps for long: the first thread that drops an event wakes it */
    _Atomic uint64_t ring_refused_ns; /* when a thread could not get a ring; 0: rings may be had */

    /* Guarded by `lock`; used once for each thread. */
    pthread_mutex_t lock;
    _Atomic bool exited; /* closed at exit(), without a ring file: what comes still gets a new one */
    uint32_t next_thread_id;
    uint32_t event_threads; /* threads that have recorded more than definitions */

    /* Set when recording begins. */
    struct tidei_drops *drops; /* dropped allocations whose frees may still come */
    struct tidei_ringfile *file;
    const struct tidei_session_hooks *hooks;

    struct tidei_session *next; /* guarded by the lock of tidei_sessions */
};

/* All open sessions of this process, and those that its parent had open. */
struct tidei_sessions {
    pthread_mutex_t lock;
    struct tidei_session *first;
};

extern struct tidei_sessions tidei_sessions;

/* A new serial. No two states of any sessions ever have the same one. */
uint64_t tidei_session_new_serial(void);

/* Set the mode, and make every producer look up the session again. */
void tidei_session_set_mode(struct tidei_session *session, enum tidei_session_mode mode);

/* Have each thread call the hook `noticed` before its next event. The list's lock is held. */
void tidei_session_touch_all_locked(void);

/* The recording has failed: from now on events are only counted as lost. Called by the writer. */
void tidei_session_fail(struct tidei_session *session);

/* Whether threads may record: rings are read, by this process or by the next one that opens the trace. */
static inline bool
tidei_session_records(const struct tidei_session *session)
{
    int mode = atomic_load_explicit(&session->mode, memory_order_acquire);

    return mode == TIDEI_SESSION_RECORDING || mode == TIDEI_SESSION_EXITED;
}

/* Count an event that could not be recorded. `cause`: why, if the recording has not ended. */
void tidei_session_lost(struct tidei_session *session, enum tidei_record_kind kind, enum tidei_lost_cause cause);

/* The thread could not get a ring; its error text says why. Its events are lost. Reported once to the message sink. */
void tidei_session_no_ring(struct tidei_session *session);

/* Add a session to the list of all (the caller holds the list's lock), or remove it (takes that lock). */
void tidei_session_list_locked(struct tidei_session *session);
void tidei_session_unlist(struct tidei_session *session);

/* Whether the list has a session at this address, the same or a later one. The list's lock is held. */
bool tidei_session_is_open_locked(const struct tidei_session *session);

/* The session with that serial, with the lock of tidei_sessions held; NULL, with the lock not held, if it is gone. */
struct tidei_session *tidei_session_lock_serial(uint64_t serial);

/* Whether a session of this process has the ring file at `path` open. */
bool tidei_session_owns(const char *path);
bool tidei_session_owns_locked(const char *path);

#endif
