/*
 * What a recording's producers know of it: whether it goes on, where its rings are, and what threads do without them.
 *
 * A recorder embeds its session first (src/trace/session/recorder.h). What lies above the producers, the writer's
 * thread and the trace that a forked process begins, they reach through the session's hooks.
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
    TIDEI_SESSION_FAILED = 1, /* the disk is full or such: events are counted as lost */
    TIDEI_SESSION_CLOSED = 2, /* the process exits */
    TIDEI_SESSION_FORKED = 3, /* the parent's; this process records nothing into it */
};

struct tidei_session_hooks {
    /* A ring is full: have the writer look at once. */
    void (*wake)(struct tidei_session *session);

    /*
     * The session is the parent's, and this process was forked off: begin a trace of its own where the path has %p.
     * Whether the session records now. The caller holds no lock of the recorder's.
     */
    bool (*revive)(struct tidei_session *session);
};

struct tidei_session {
    /* Read for each event, written when recording begins and ends. */
    _Atomic uint64_t serial; /* of what the producers hold; changes when they must look again */
    uint32_t slot;
    bool tsc;
    bool fence;
    bool drop;
    _Atomic bool many;    /* more than one thread has recorded: their clocks are to be read in order */
    _Atomic int mode;     /* enum tidei_session_mode */
    atomic_flag ringless; /* set once a thread has got no ring */

    /* Under `lock`, for what happens once for a thread. */
    pthread_mutex_t lock;
    uint32_t next_thread_id;
    uint32_t event_threads; /* that have recorded more than definitions */

    /* Set when recording begins. */
    struct tidei_drops *drops; /* what overflow=drop has dropped and may still see freed */
    struct tidei_ringfile *file;
    const struct tidei_session_hooks *hooks;

    struct tidei_session *next; /* under the lock of tidei_sessions */
};

/* All sessions of this process that are open, or that its parent had open. */
struct tidei_sessions {
    pthread_mutex_t lock;
    struct tidei_session *first;
};

extern struct tidei_sessions tidei_sessions;

/* Number a session: no two states of any session ever have the same serial. */
uint64_t tidei_session_new_serial(void);

/* Set the mode, and have every producer look again. */
void tidei_session_set_mode(struct tidei_session *session, enum tidei_session_mode mode);

/* The recording has failed: from now on events are counted and not kept. Called by the writer. */
void tidei_session_fail(struct tidei_session *session);

/* Count an event that could not be recorded. */
void tidei_session_lost(struct tidei_session *session, enum tidei_record_kind kind);

/* A thread gets no ring, for the reason in its error text: its events are lost, and the message sink is told once. */
void tidei_session_no_ring(struct tidei_session *session);

/* Put a session into the list of all, or take it out. The first wants its lock held, the second takes it. */
void tidei_session_list_locked(struct tidei_session *session);
void tidei_session_unlist(struct tidei_session *session);

/* With the lock of tidei_sessions: there is a session at this address, this one or one that came later. */
bool tidei_session_is_open_locked(const struct tidei_session *session);

/* The session with that serial, with the lock of tidei_sessions still held; NULL, without it, where it is gone. */
struct tidei_session *tidei_session_lock_serial(uint64_t serial);

/* Whether a session of this process has the ring file at `path` open. */
bool tidei_session_owns(const char *path);
bool tidei_session_owns_locked(const char *path);

#endif
