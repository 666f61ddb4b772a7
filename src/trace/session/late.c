/* Makes a new ring file for calls that come after the end at exit(), where the trace has none any more. */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/trace/database/files.h"
#include "src/trace/session/recorder.h"

/* Make `file` continue the trace of `before`: as that ring file was after the last transaction, without segments. */
static void
recorder_continue(struct tidei_ringfile *file, const struct tidei_ring_header *before)
{
    struct tidei_ring_header *header = file->header;
    uint64_t published = atomic_load_explicit(&before->published, memory_order_relaxed);

    published = TIDEI_PUBLISHED(TIDEI_PUBLISHED_NUMBER(published), TIDEI_PUBLISHED_BUFFER(published), 0);
    header->trace_id = before->trace_id;
    header->start_ns = before->start_ns;
    header->tsc = before->tsc;
    header->first = before->first;
    header->lines[0] = *tidei_ring_line(before);
    header->shift = before->shift;
    header->shift_before = before->shift_before;
    header->apart_ticks = before->apart_ticks;
    for (unsigned i = 0; i < 2; i++)
        header->buffers[i].epoch = before->buffers[i].epoch;
    atomic_store_explicit(&header->published, published, memory_order_relaxed);
    header->exited = 1;
    header->ready = 1;
}

bool
tidei_recorder_late(struct tidei_recorder *recorder)
{
    struct tidei_session *session = &recorder->session;
    struct tidei_ringfile *file = NULL;
    char *rings = NULL;

    /* Relaxed: read again with the lock. A child of fork() has a copy of what is the parent's. */
    if (!atomic_load_explicit(&session->exited, memory_order_relaxed) ||
        session->file->header->pid != (uint32_t)getpid())
        return false;
    pthread_mutex_lock(&session->lock);
    if (atomic_load_explicit(&session->exited, memory_order_relaxed))
        rings = tidei_trace_path_beside(recorder->path, TIDEI_RINGS_SUFFIX);
    if (rings != NULL &&
        tidei_ringfile_create(rings, NULL, (mode_t)recorder->options.mode, recorder->options.ring_bytes,
                              recorder->options.backlog_bytes, &file) == TIDE_OK) {
        recorder_continue(file, session->file->header);
        session->file = file;
        /* Pairs with the acquire where the mode is read: the file is there before. */
        atomic_store_explicit(&session->mode, TIDEI_SESSION_EXITED, memory_order_release);
    }
    atomic_store_explicit(&session->exited, false, memory_order_relaxed);
    pthread_mutex_unlock(&session->lock);
    free(rings);
    return tidei_session_records(session);
}
