/* Keeps recorders consistent across fork(): a child leaves the parent's trace alone, and may begin its own. */
#include "config.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/context/callstack.h"
#include "src/context/tag.h"
#include "src/resource/resource.h"
#include "src/sync/barrier.h"
#include "src/sync/fork.h"
#include "src/trace/cupti/callbacks.h"
#include "src/trace/database/files.h"
#include "src/trace/ring/drops.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

/* A recorder's objects that a child never frees: they belong to parent threads, which do not exist in the child. */
struct fork_left {
    struct fork_left *next;
    struct tidei_ringfile *file;
    struct tidei_writer *writer;
    struct tidei_drops *drops;
};
static struct fork_left *fork_left_behind;

static void
fork_before(void)
{
    pthread_mutex_lock(&tidei_sessions.lock);
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        struct tidei_writer *writer = tidei_recorder_of(session)->writer;

        if (writer != NULL)
            tidei_gate_hold(&writer->gate);
        pthread_mutex_lock(&session->lock);
        if (session->file != NULL)
            pthread_mutex_lock(&session->file->lock);
        if (writer != NULL)
            tidei_sampler_hold(writer->sampler);
    }
}

static void
fork_after(void)
{
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        struct tidei_writer *writer = tidei_recorder_of(session)->writer;

        if (writer != NULL)
            tidei_sampler_release(writer->sampler);
        if (session->file != NULL)
            pthread_mutex_unlock(&session->file->lock);
        pthread_mutex_unlock(&session->lock);
        if (writer != NULL)
            tidei_gate_release(&writer->gate);
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
}

/*
 * In the child: the ring file belongs to the parent. Private memory is mapped over its rings, so that even an event
 * being recorded around the fork cannot reach them. Only the parent keeps the lock on the file.
 */
static void
fork_in_child(void)
{
    pthread_mutex_init(&tidei_files_lock, NULL); /* its holder may not exist in this process */
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        const struct tidei_writer *writer = tidei_recorder_of(session)->writer;
        struct tidei_ringfile *file = session->file;
        int mode = atomic_load_explicit(&session->mode, memory_order_relaxed);

        if (writer != NULL)
            tidei_sampler_forked(writer->sampler);
        if (file == NULL || mode == TIDEI_SESSION_FORKED)
            continue;
        for (uint32_t i = 0; i < TIDEI_MAX_RINGS && file->rings[i] != NULL; i++)
            mmap(file->rings[i], TIDEI_PAGE + file->ring_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        tidei_file_id_close(&file->id, file->fd);
        file->fd = -1;
        /* A recorder that another thread of the parent was closing stays closed here. */
        if (mode != TIDEI_SESSION_CLOSED)
            tidei_session_set_mode(session, TIDEI_SESSION_FORKED);
    }
    tidei_producer_forked();
    tidei_calls_forked();
    fork_after();
}

static void
fork_hold_recoveries(void)
{
    tidei_gate_hold(&tidei_recovery_gate);
}

static void
fork_release_recoveries(void)
{
    tidei_gate_release(&tidei_recovery_gate);
}

/* The threads that waited for the gate do not exist in the child. */
static void
fork_recoveries_in_child(void)
{
    atomic_store_explicit(&tidei_recovery_gate.holders, 1, memory_order_relaxed);
    fork_release_recoveries();
}

void
tidei_recorder_handle_forks(void)
{
    static const struct tidei_fork_hook recoveries = { fork_hold_recoveries, fork_release_recoveries,
                                                       fork_recoveries_in_child };
    static const struct tidei_fork_hook recorders = { fork_before, fork_after, fork_in_child };

    /* Called here first, since it sets a fork hook, and a recorder calls it with locks held. */
    (void)tidei_barrier_possible();
    tidei_fork_hook_set(TIDEI_FORK_RECOVERY, &recoveries);
    tidei_tags_handle_forks();
    tidei_callstack_handle_forks();
    tidei_fork_hook_set(TIDEI_FORK_RECORDERS, &recorders);
    tidei_protect_handle_forks();
    tidei_thread_handle_forks();
    tidei_claim_handle_forks();
}

bool
tidei_recorder_leave_behind(struct tidei_recorder *recorder)
{
    struct fork_left *left = malloc(sizeof(*left));

    if (left == NULL)
        return false;
    *left = (struct fork_left){ fork_left_behind, recorder->session.file, recorder->writer, recorder->session.drops };
    fork_left_behind = left;
    recorder->session.file = NULL;
    recorder->writer = NULL;
    recorder->session.drops = NULL;
    return true;
}

/*
 * Begin a trace of this process's own, in place of the parent's. The locks of tags, call stacks and sessions are held.
 */
static enum tide_status
fork_begin_anew(struct tidei_recorder *recorder)
{
    enum tide_status status;
    char *path;

    if (!tidei_recorder_leave_behind(recorder) || (recorder->session.drops = tidei_drops_new()) == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    recorder->session.next_thread_id = 0;
    recorder->session.event_threads = 0;
    free(recorder->replaced); /* the parent's */
    recorder->replaced = NULL;
    status = tidei_trace_path(recorder->path_pattern, &path);
    if (status != TIDE_OK)
        return status;
    free(recorder->path);
    recorder->path = path;
    status = tidei_recorder_create_files(recorder);
    if (status != TIDE_OK)
        return status;
    tidei_session_set_mode(&recorder->session, TIDEI_SESSION_RECORDING);
    tidei_recorder_define_again(recorder);
    tidei_context_define_locked(&recorder->session);
    recorder->kept = true;
    if (recorder->replaced != NULL)
        tidei_replaced_drop(recorder->replaced, true);
    return TIDE_OK;
}

bool
tidei_recorder_revive(struct tidei_session *session)
{
    struct tidei_recorder *recorder = tidei_recorder_of(session);
    enum tide_status status = TIDE_OK;
    struct tidei_error error;
    int mode = atomic_load_explicit(&recorder->session.mode, memory_order_acquire);
    int cancel;

    if (mode == TIDEI_SESSION_CLOSED) {
        bool records;

        tidei_error_save(&error);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        records = tidei_recorder_late(recorder);
        pthread_setcancelstate(cancel, NULL);
        tidei_error_restore(&error);
        return records;
    }
    if (mode != TIDEI_SESSION_FORKED || !tidei_trace_path_is_own(recorder->path_pattern))
        return false;
    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_tags_lock();
    tidei_callstack_lock();
    pthread_mutex_lock(&tidei_sessions.lock);
    if (atomic_load_explicit(&recorder->session.mode, memory_order_relaxed) == TIDEI_SESSION_FORKED) {
        status = fork_begin_anew(recorder);
        if (status != TIDE_OK)
            tidei_session_set_mode(&recorder->session, TIDEI_SESSION_CLOSED);
    }
    mode = atomic_load_explicit(&recorder->session.mode, memory_order_relaxed);
    pthread_mutex_unlock(&tidei_sessions.lock);
    tidei_callstack_unlock();
    tidei_tags_unlock();
    if (status != TIDE_OK)
        tidei_message(TIDE_ERROR, "%s; this process records nothing", tide_error_text());
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    return mode == TIDEI_SESSION_RECORDING;
}
