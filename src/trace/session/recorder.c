/* Opens, shares and closes recorders. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/context/tag.h"
#include "src/resource/resource.h"
#include "src/trace/database/files.h"
#include "src/trace/ring/drops.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

#define RECORDER_RING_BYTES    ((uint64_t)1 << 20)
#define RECORDER_BACKLOG_BYTES ((uint64_t)128 << 20)
#define RECORDER_MODE          0600 /* a trace has the command line and the tags */

/* Replace options of 0 by their defaults, and refuse invalid ones. */
static enum tide_status
recorder_check(struct tide_log_options *options)
{
    if (options->ring_bytes == 0)
        options->ring_bytes = RECORDER_RING_BYTES;
    if (options->backlog_bytes == 0)
        options->backlog_bytes = RECORDER_BACKLOG_BYTES;
    if (options->mode == 0)
        options->mode = RECORDER_MODE;
    if (!tidei_is_power_of_two(options->ring_bytes) || options->ring_bytes < 4096 ||
        options->ring_bytes > (uint64_t)1 << 30)
        return tide_error_set(TIDE_EINVAL, "log: ring of %s, expected a power of two from 4 KiB to 1 GiB",
                              tidei_size_text(options->ring_bytes));
    if (options->backlog_bytes < (uint64_t)1 << 20 || options->backlog_bytes > (uint64_t)16 << 30)
        return tide_error_set(TIDE_EINVAL, "log: backlog of %s, expected 1 MiB to 16 GiB",
                              tidei_size_text(options->backlog_bytes));
    if ((options->mode & 0600) != 0600 || (options->mode & ~(uint32_t)0666) != 0)
        return tide_error_set(TIDE_EINVAL, "log: mode of 0%o, expected permissions from 0600 to 0666", options->mode);
    if (options->clock > TIDE_CLOCK_MONOTONIC || options->overflow > TIDE_OVERFLOW_DROP ||
        options->cupti > TIDE_CUPTI_MEMORY || options->samples > TIDE_SAMPLES_OFF)
        return tide_error_set(TIDE_EINVAL, "log: unknown clock, overflow, cupti or samples");
    if (options->clock == TIDE_CLOCK_TSC && !tidei_clock_tsc_is_invariant())
        return tide_error_set(TIDE_EUNSUPPORTED, "log: clock=tsc: this machine has no invariant time stamp counter");
    return TIDE_OK;
}

/* For a trace that is already open, options other than the default must equal those it was opened with. */
static enum tide_status
recorder_check_same(const struct tidei_recorder *recorder, const struct tide_log_options *options)
{
    const struct tide_log_options *open = &recorder->options;

    if ((options->ring_bytes != 0 && options->ring_bytes != open->ring_bytes) ||
        (options->backlog_bytes != 0 && options->backlog_bytes != open->backlog_bytes) ||
        (options->mode != 0 && options->mode != open->mode) ||
        (options->clock != TIDE_CLOCK_AUTO && options->clock != open->clock) ||
        (options->overflow != TIDE_OVERFLOW_WAIT && options->overflow != open->overflow) ||
        (options->cupti != TIDE_CUPTI_AUTO && options->cupti != open->cupti) ||
        (options->samples != TIDE_SAMPLES_AUTO && options->samples != open->samples))
        return tide_error_set(TIDE_EINVAL, "log: %s is already open in this process with other options",
                              recorder->path);
    return TIDE_OK;
}

static void
recorder_free(struct tidei_recorder *recorder)
{
    for (size_t i = 0; i < recorder->definition_count; i++)
        free(recorder->definitions[i].text);
    free(recorder->definitions);
    while (recorder->ended_layers != NULL) {
        struct tidei_ended_layers *layers = recorder->ended_layers;

        recorder->ended_layers = layers->next;
        tidei_ended_layers_free(layers);
    }
    free(recorder->watches);
    tidei_map_free(&recorder->watch_places);
    free(recorder->beginnings);
    tidei_drops_free(recorder->session.drops);
    pthread_mutex_destroy(&recorder->session.lock);
    free(recorder->path);
    free(recorder->path_pattern);
    free(recorder->replaced);
    free(recorder);
}

static void
recorder_wake(struct tidei_session *session)
{
    tidei_writer_wake(tidei_recorder_of(session)->writer);
}

static const struct tidei_session_hooks recorder_hooks = { .wake = recorder_wake,
                                                           .revive = tidei_recorder_revive,
                                                           .noticed = tidei_tag_notice };

static enum tide_status
recorder_new(const struct tide_log_options *options, char *path, struct tidei_recorder **out)
{
    struct tidei_recorder *recorder = calloc(1, sizeof(*recorder));
    enum tide_status status;

    *out = NULL;
    if (recorder == NULL) {
        free(path);
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    }
    pthread_mutex_init(&recorder->session.lock, NULL);
    recorder->path = path;
    recorder->path_pattern = strdup(options->path);
    recorder->session.drops = tidei_drops_new();
    recorder->options = *options;
    recorder->options.path = recorder->path_pattern;
    recorder->references = 1;
    recorder->session.hooks = &recorder_hooks;
    recorder->session.serial = tidei_session_new_serial();
    recorder->session.stamp = recorder->session.serial;
    recorder->session.slot = recorder->session.serial % TIDEI_PRODUCER_SLOTS;
    status = recorder_check(&recorder->options);
    recorder->session.drop = recorder->options.overflow == TIDE_OVERFLOW_DROP;
    recorder->session.tsc = recorder->options.clock == TIDE_CLOCK_TSC ||
                            (recorder->options.clock == TIDE_CLOCK_AUTO && tidei_clock_tsc_is_trusted());
    if (status == TIDE_OK && (recorder->path_pattern == NULL || recorder->session.drops == NULL))
        status = tide_error_set(TIDE_ENOMEM, "log: no host memory");
    if (status == TIDE_OK)
        status = tidei_recorder_create_files(recorder);
    if (status != TIDE_OK) {
        recorder_free(recorder);
        return status;
    }
    *out = recorder;
    return TIDE_OK;
}

/* The recorder of the trace at `path`; NULL if there is none. The lock of tidei_sessions is held. */
static struct tidei_recorder *
recorder_find(const char *path)
{
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        if (strcmp(tidei_recorder_of(session)->path, path) == 0 && tidei_recorder_is_open(session))
            return tidei_recorder_of(session);
    }
    return NULL;
}

enum tide_status
tidei_recorder_open(const struct tide_log_options *options, struct tidei_recorder **out)
{
    struct tidei_recorder *recorder;
    enum tide_status status;
    bool is_new = false;
    char *path;

    *out = NULL;
    tidei_recorder_handle_forks();
    tidei_context_follow();
    status = tidei_trace_path(options->path, &path);
    if (status != TIDE_OK)
        return status;
    pthread_mutex_lock(&tidei_files_lock);
    pthread_mutex_lock(&tidei_sessions.lock);
    recorder = recorder_find(path);
    if (recorder != NULL) {
        free(path);
        status = recorder_check_same(recorder, options);
        if (status == TIDE_OK)
            recorder->references++;
    } else {
        status = recorder_new(options, path, &recorder);
        if (status == TIDE_OK) {
            tidei_session_list_locked(&recorder->session);
            is_new = true;
        }
    }
    pthread_mutex_unlock(&tidei_sessions.lock);
    pthread_mutex_unlock(&tidei_files_lock);
    if (status != TIDE_OK)
        return status;
    if (is_new)
        tidei_context_define(&recorder->session);
    *out = recorder;
    return TIDE_OK;
}

struct tidei_recorder *
tidei_recorder_retain(struct tidei_recorder *recorder)
{
    pthread_mutex_lock(&tidei_sessions.lock);
    recorder->references++;
    pthread_mutex_unlock(&tidei_sessions.lock);
    return recorder;
}

void
tidei_recorder_keep(struct tidei_recorder *recorder)
{
    char *replaced;

    pthread_mutex_lock(&tidei_sessions.lock);
    recorder->kept = true;
    replaced = recorder->replaced;
    recorder->replaced = NULL;
    pthread_mutex_unlock(&tidei_sessions.lock);
    if (replaced != NULL)
        tidei_replaced_drop(replaced, true);
    free(replaced);
}

/* Whether nobody records into the open trace any more; then it is marked as closed. The list's lock is held. */
static bool
recorder_is_abandoned(struct tidei_recorder *recorder)
{
    if (recorder->left != recorder->references || !tidei_recorder_is_open(&recorder->session))
        return false;
    recorder->ended = true;
    tidei_session_set_mode(&recorder->session, TIDEI_SESSION_CLOSED);
    return true;
}

/* Complete the trace, or discard it where its stack was never made. */
static void
recorder_complete(struct tidei_recorder *recorder)
{
    if (recorder->kept)
        tidei_writer_stop(recorder->writer, "closed");
    else
        tidei_recorder_discard_files(recorder);
}

void
tidei_recorder_leave(struct tidei_recorder *recorder)
{
    bool abandoned;

    pthread_mutex_lock(&tidei_sessions.lock);
    recorder->left++;
    abandoned = recorder_is_abandoned(recorder);
    pthread_mutex_unlock(&tidei_sessions.lock);
    if (abandoned)
        recorder_complete(recorder);
}

/* The last reference is gone. `mode` was the session's. */
static void
recorder_end(struct tidei_recorder *recorder, int mode)
{
    bool open = mode == TIDEI_SESSION_RECORDING || mode == TIDEI_SESSION_FAILED;

    /* It stays in the list until its file is closed: see claim.h. */
    if (open)
        recorder_complete(recorder);
    tidei_session_unlist(&recorder->session);
    /* What a child of fork() has of its parent's is never freed; see fork.c. */
    if (open || (recorder->ended && recorder->session.file != NULL && recorder->session.file->fd >= 0))
        tidei_writer_free(recorder->writer);
    recorder_free(recorder);
}

void
tidei_recorder_release_as(struct tidei_recorder *recorder, bool left)
{
    bool last, abandoned;
    int mode;

    pthread_mutex_lock(&tidei_sessions.lock);
    recorder->left -= left;
    last = --recorder->references == 0;
    abandoned = !last && recorder_is_abandoned(recorder);
    if (abandoned) { /* it stays until the trace is complete */
        recorder->references++;
        recorder->left++;
    }
    mode = atomic_load_explicit(&recorder->session.mode, memory_order_acquire);
    if (last)
        tidei_session_set_mode(&recorder->session, TIDEI_SESSION_CLOSED);
    if (last && mode == TIDEI_SESSION_FORKED)
        tidei_recorder_leave_behind(recorder);
    pthread_mutex_unlock(&tidei_sessions.lock);
    if (last)
        recorder_end(recorder, mode);
    if (abandoned) {
        recorder_complete(recorder);
        tidei_recorder_release_as(recorder, true);
    }
}

void
tidei_recorder_release(struct tidei_recorder *recorder)
{
    tidei_recorder_release_as(recorder, false);
}

enum tide_status
tidei_recorder_flush(struct tidei_recorder *recorder)
{
    int mode;

    tidei_recorder_revive(&recorder->session);
    mode = atomic_load_explicit(&recorder->session.mode, memory_order_acquire);
    if (mode != TIDEI_SESSION_RECORDING && mode != TIDEI_SESSION_FAILED)
        return tide_error_set(TIDE_EIO, "log: %s: %s", recorder->path,
                              mode == TIDEI_SESSION_FORKED ? "the parent process records there"
                                                           : "the recording has ended");
    return tidei_writer_flush(recorder->writer);
}

void
tidei_recorder_revive_all(void)
{
    struct tidei_session *session;

    do {
        pthread_mutex_lock(&tidei_sessions.lock);
        for (session = tidei_sessions.first; session != NULL; session = session->next) {
            if (atomic_load_explicit(&session->mode, memory_order_relaxed) == TIDEI_SESSION_FORKED &&
                tidei_trace_path_is_own(tidei_recorder_of(session)->path_pattern)) {
                tidei_recorder_of(session)->references++;
                break;
            }
        }
        pthread_mutex_unlock(&tidei_sessions.lock);
        if (session != NULL) {
            tidei_recorder_revive(session);
            tidei_recorder_release(tidei_recorder_of(session));
        }
    } while (session != NULL);
}
