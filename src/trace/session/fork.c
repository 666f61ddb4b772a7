/* Keeps recorders right across fork(): the parent's trace stays the parent's, and a child may begin its own. */
#include "config.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/database/replaced.h"
#include "src/trace/cupti/callbacks.h"
#include "src/trace/session/callstacks.h"
#include "src/trace/session/create.h"
#include "src/trace/ring/drops.h"
#include "src/trace/ring/producer.h"
#include "src/trace/database/path.h"
#include "src/trace/session/registry.h"
#include "src/context/tag.h"
#include "src/trace/session/writer.h"

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* What a child has of its parent's recorders and never gives back, since the parent's threads are not there to stop. */
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
    tidei_gate_hold(&tidei_registry.recovery_gate);
    tidei_tags_lock();
    tidei_callstack_lock();
    pthread_mutex_lock(&tidei_registry.lock);
    for (struct tidei_recorder *recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        if (recorder->writer != NULL)
            tidei_gate_hold(&recorder->writer->gate);
        pthread_mutex_lock(&recorder->lock);
        if (recorder->file != NULL)
            pthread_mutex_lock(&recorder->file->lock);
    }
}

static void
fork_after(void)
{
    for (struct tidei_recorder *recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        if (recorder->file != NULL)
            pthread_mutex_unlock(&recorder->file->lock);
        pthread_mutex_unlock(&recorder->lock);
        if (recorder->writer != NULL)
            tidei_gate_let_go(&recorder->writer->gate);
    }
    pthread_mutex_unlock(&tidei_registry.lock);
    tidei_callstack_unlock();
    tidei_tags_unlock();
    tidei_gate_let_go(&tidei_registry.recovery_gate);
}

/*
 * In the child: the file is the parent's. Its rings are mapped away, so that not even an event that was being
 * recorded around the fork gets into them; the lock on the file stays with the parent alone.
 */
static void
fork_in_child(void)
{
    pthread_mutex_init(&tidei_registry.files_lock, NULL); /* whoever held it is not in this process */
    for (struct tidei_recorder *recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
        struct tidei_ringfile *file = recorder->file;
        int mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);

        if (file == NULL || mode == TIDEI_RECORDER_FORKED)
            continue;
        for (uint32_t i = 0; i < TIDEI_MAX_RINGS && file->rings[i] != NULL; i++)
            mmap(file->rings[i], TIDEI_PAGE + file->header->ring_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        close(file->fd);
        file->fd = -1;
        /* One that another thread of the parent was closing is nobody's here. */
        if (mode != TIDEI_RECORDER_CLOSED)
            tidei_recorder_set_mode(recorder, TIDEI_RECORDER_FORKED);
    }
    tidei_producer_forked();
    tidei_calls_forked();
    tidei_thread_forked();
    atomic_store_explicit(&tidei_registry.recovery_gate.holders, 1,
                          memory_order_relaxed); /* this thread; others wait in the parent */
    fork_after();
}

static void
fork_first(void)
{
    pthread_atfork(fork_before, fork_after, fork_in_child);
}

void
tidei_recorder_handle_forks(void)
{
    pthread_once(&fork_once, fork_first);
}

bool
tidei_recorder_leave_behind(struct tidei_recorder *recorder)
{
    struct fork_left *left = malloc(sizeof(*left));

    if (left == NULL)
        return false;
    *left = (struct fork_left){ fork_left_behind, recorder->file, recorder->writer, recorder->drops };
    fork_left_behind = left;
    recorder->file = NULL;
    recorder->writer = NULL;
    recorder->drops = NULL;
    return true;
}

/* Write what there is already into a trace that has just begun. */
static void
fork_define_again(struct tidei_recorder *recorder)
{
    for (size_t i = 0; i < recorder->definition_count; i++)
        tidei_recorder_write_definition(recorder, &recorder->definitions[i]);
    tidei_tags_define_locked(recorder);
    tidei_callstacks_define_locked(recorder);
    pthread_mutex_lock(&recorder->lock);
    for (size_t i = 0; i < recorder->watch_count; i++)
        tidei_sampler_watch(recorder->writer->sampler, recorder->watches[i].resource, recorder->watches[i].layer_id);
    if (recorder->watches_calls)
        tidei_driver_calls_watch(recorder->writer->calls, recorder->options.cupti == TIDE_CUPTI_MEMORY);
    pthread_mutex_unlock(&recorder->lock);
}

/*
 * Begin a trace of this process's own, in place of the parent's. The locks of tags, call stacks and registry are held.
 */
static enum tide_status
fork_begin_anew(struct tidei_recorder *recorder)
{
    enum tide_status status;
    char *path;

    if (!tidei_recorder_leave_behind(recorder) || (recorder->drops = tidei_drops_new()) == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    recorder->next_thread_id = 0;
    recorder->event_threads = 0;
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
    tidei_recorder_set_mode(recorder, TIDEI_RECORDING);
    fork_define_again(recorder);
    recorder->kept = true;
    if (recorder->replaced != NULL)
        tidei_replaced_drop(recorder->replaced, true);
    return TIDE_OK;
}

bool
tidei_recorder_revive(struct tidei_recorder *recorder)
{
    enum tide_status status = TIDE_OK;
    struct tidei_error error;
    int mode, cancel;

    if (atomic_load_explicit(&recorder->mode, memory_order_acquire) != TIDEI_RECORDER_FORKED ||
        !tidei_trace_path_is_own(recorder->path_pattern))
        return false;
    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_tags_lock();
    tidei_callstack_lock();
    pthread_mutex_lock(&tidei_registry.lock);
    if (atomic_load_explicit(&recorder->mode, memory_order_relaxed) == TIDEI_RECORDER_FORKED) {
        status = fork_begin_anew(recorder);
        if (status != TIDE_OK)
            tidei_recorder_set_mode(recorder, TIDEI_RECORDER_CLOSED);
    }
    mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);
    pthread_mutex_unlock(&tidei_registry.lock);
    tidei_callstack_unlock();
    tidei_tags_unlock();
    if (status != TIDE_OK)
        tidei_message(TIDE_ERROR, "%s; this process records nothing", tide_error_text());
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    return mode == TIDEI_RECORDING;
}

void
tidei_recorder_revive_all(void)
{
    struct tidei_recorder *recorder;

    do {
        pthread_mutex_lock(&tidei_registry.lock);
        for (recorder = tidei_registry.first; recorder != NULL; recorder = recorder->next) {
            if (atomic_load_explicit(&recorder->mode, memory_order_relaxed) == TIDEI_RECORDER_FORKED &&
                tidei_trace_path_is_own(recorder->path_pattern)) {
                recorder->references++;
                break;
            }
        }
        pthread_mutex_unlock(&tidei_registry.lock);
        if (recorder != NULL) {
            tidei_recorder_revive(recorder);
            tidei_recorder_release(recorder);
        }
    } while (recorder != NULL);
}
