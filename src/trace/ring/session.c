/* Keeps the list of sessions of this process, their modes, and their counts of lost events. */
#include "config.h"

#include <sys/stat.h>

#include "src/resource/resource.h"
#include "src/trace/ring/session.h"

struct tidei_sessions tidei_sessions = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Atomic uint64_t session_latest_serial;

uint64_t
tidei_session_new_serial(void)
{
    return atomic_fetch_add_explicit(&session_latest_serial, 1, memory_order_relaxed) + 1;
}

/* Pairs with the acquire in tidei_producer_find: who sees the new stamp sees what has changed. */
static void
session_touch(struct tidei_session *session)
{
    atomic_store_explicit(&session->stamp, tidei_session_new_serial(), memory_order_release);
}

void
tidei_session_set_mode(struct tidei_session *session, enum tidei_session_mode mode)
{
    atomic_store_explicit(&session->ring_refused_ns, 0, memory_order_relaxed); /* a forked process has other files */
    /* Pairs with the acquire in tidei_producer_find: a thread that sees the new serial sees the mode. */
    atomic_store_explicit(&session->mode, mode, memory_order_release);
    atomic_store_explicit(&session->serial, tidei_session_new_serial(), memory_order_release);
    session_touch(session);
}

void
tidei_session_touch_all_locked(void)
{
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next)
        session_touch(session);
}

void
tidei_session_fail(struct tidei_session *session)
{
    int recording = TIDEI_SESSION_RECORDING;

    if (atomic_compare_exchange_strong_explicit(&session->mode, &recording, TIDEI_SESSION_FAILED, memory_order_release,
                                                memory_order_relaxed)) {
        atomic_store_explicit(&session->serial, tidei_session_new_serial(), memory_order_release);
        session_touch(session);
    }
}

void
tidei_session_lost(struct tidei_session *session, enum tidei_record_kind kind, enum tidei_lost_cause cause)
{
    int mode = atomic_load_explicit(&session->mode, memory_order_acquire);
    struct tidei_lost *lost;

    if (mode == TIDEI_SESSION_FORKED || (mode == TIDEI_SESSION_CLOSED && !session->hooks->revive(session)))
        return;
    lost = tidei_ring_lost(session->file->header, mode == TIDEI_SESSION_RECORDING ? cause : TIDEI_LOST_ENDED);
    atomic_fetch_add_explicit(kind == TIDEI_RECORD_ALLOC ? &lost->allocs : &lost->frees, 1, memory_order_relaxed);
}

void
tidei_session_no_ring(struct tidei_session *session)
{
    /* Relaxed: it only limits the messages to one. */
    if (!atomic_flag_test_and_set_explicit(&session->ringless, memory_order_relaxed))
        tidei_message(TIDE_ERROR, "%s; threads without a ring are not recorded, the program goes on",
                      tide_error_text());
}

void
tidei_session_list_locked(struct tidei_session *session)
{
    session->next = tidei_sessions.first;
    tidei_sessions.first = session;
}

void
tidei_session_unlist(struct tidei_session *session)
{
    struct tidei_session **link = &tidei_sessions.first;

    pthread_mutex_lock(&tidei_sessions.lock);
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    pthread_mutex_unlock(&tidei_sessions.lock);
}

bool
tidei_session_is_open_locked(const struct tidei_session *session)
{
    const struct tidei_session *open = tidei_sessions.first;

    while (open != NULL && open != session)
        open = open->next;
    return open != NULL;
}

struct tidei_session *
tidei_session_lock_serial(uint64_t serial)
{
    pthread_mutex_lock(&tidei_sessions.lock);
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        if (atomic_load_explicit(&session->serial, memory_order_relaxed) == serial)
            return session;
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
    return NULL;
}

bool
tidei_session_owns_locked(const char *path)
{
    struct stat wanted;

    if (stat(path, &wanted) != 0)
        return false;
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        if (session->file != NULL && session->file->fd >= 0 && session->file->id.device == wanted.st_dev &&
            session->file->id.inode == wanted.st_ino)
            return true;
    }
    return false;
}

bool
tidei_session_owns(const char *path)
{
    bool owns;

    pthread_mutex_lock(&tidei_sessions.lock);
    owns = tidei_session_owns_locked(path);
    pthread_mutex_unlock(&tidei_sessions.lock);
    return owns;
}
