/* Recovers the records that a dead process has left in its rings. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/trace.h>

#include "src/resource/resource.h"
#include "src/sync/inside.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/database/files.h"
#include "src/trace/database/look.h"
#include "src/trace/database/vfs.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

/* How long to wait for another process's recovery, in steps of 5 ms: 10 s. */
#define RECOVER_TRIES 2000

#define RECOVER_LOCK_LIMIT_NS 10000000000u

/* Wait for a reader that has just come; others may fork meanwhile. */
static bool
recover_poll(void *context, uint64_t waited_ns)
{
    (void)context;
    tidei_gate_yield(&tidei_recovery_gate);
    return waited_ns < RECOVER_LOCK_LIMIT_NS;
}

/* Check that both files belong together. `closed`: the trace already has everything. */
static enum tide_status
recover_check(const char *path, const struct tidei_look *look, const struct tidei_ringfile *file, bool closed)
{
    if ((uint64_t)look->trace_id != file->header->trace_id)
        return tide_error_set(TIDE_EFORMAT, "%s: belongs to another trace than %s", file->path, path);
    if (closed)
        return TIDE_OK;
    return tidei_ringfile_check_epochs(file, (uint64_t)look->epoch, (uint64_t)look->epoch_records);
}

/* Remove the trace that a killed process had begun; its ring file is locked. Anything else of that name stays. */
static void
recover_remove_begun(const char *path)
{
    char *begun = tidei_trace_path_beside(path, TIDEI_BEGUN_SUFFIX);

    if (begun != NULL && tidei_trace_is_at(begun))
        tidei_replaced_drop(begun, false);
    free(begun);
}

/* The process was killed after the last transaction. *folded is false if the trace's write-ahead log stays. */
static void
recover_finish(struct tidei_database *database, struct tidei_ringfile *file, bool *folded)
{
    *folded = tidei_database_finish(database) == TIDE_OK;
    tidei_database_close(database);
    tidei_ringfile_close(file, true);
}

/* Recover into the open trace, which its process may have `ended` at exit(). Closes both files. */
static enum tide_status
recover_store(struct tidei_database *database, struct tidei_ringfile *file, bool ended, struct tide_trace_recovery *out)
{
    struct tidei_writer *writer = tidei_writer_new(NULL, file, database, file->header->tsc != 0);
    enum tide_status status;

    if (writer == NULL) {
        tidei_database_close(database);
        tidei_ringfile_close(file, false);
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    }
    TIDEI_TEST_POINT("recover.opened");
    status = tidei_database_load(database);
    TIDEI_TEST_POINT("recover.loaded");
    if (status == TIDE_OK)
        status = tidei_writer_resume(writer, &out->events);
    TIDEI_TEST_POINT("recover.before-stop");
    if (status == TIDE_OK)
        status = tidei_writer_stop(writer, ended ? "exit" : "recovered");
    if (status == TIDE_OK)
        out->state = TIDE_TRACE_RECOVERED;
    tidei_writer_free(writer);
    return status;
}

/* Recover into the trace at `path`: nothing is written before both files are known to belong together. */
static enum tide_status
recover_into(const char *path, struct tidei_ringfile *file, struct tide_trace_recovery *out, bool *folded)
{
    struct tidei_database *database;
    struct tidei_look look = { 0 };
    enum tide_status status = tidei_database_look(path, recover_poll, &look);
    /* Threads that recorded on at exit() may have left more than the trace has. */
    bool closed = look.ended && (file->header->exited == 0 || look.exit_recovered || tidei_ringfile_is_spent(file));

    if (status == TIDE_OK)
        status = recover_check(path, &look, file, closed);
    if (status == TIDE_EFORMAT && look.trace_id != 0 && tidei_ringfile_is_blank(file)) {
        /* Killed before its trace had taken the place of this one. */
        recover_remove_begun(path);
        tidei_ringfile_close(file, true);
        return TIDE_OK;
    }
    if (status == TIDE_OK && !closed)
        status = tidei_ringfile_make_room(file);
    if (status == TIDE_OK)
        status = tidei_database_open(path, recover_poll, &database);
    if (status != TIDE_OK) {
        tidei_ringfile_close(file, false);
        return status;
    }
    tidei_database_spare_log(database);
    if (!closed)
        return recover_store(database, file, look.ended, out);
    /* Where the process left the file at exit() and nothing came after, there is nothing to tell. */
    if (file->header->exited == 0)
        out->state = TIDE_TRACE_RECOVERED;
    recover_finish(database, file, folded);
    return TIDE_OK;
}

/* Recover from the ring file, which is open and locked by this process. */
static enum tide_status
recover_opened(const char *path, struct tidei_ringfile *file, struct tide_trace_recovery *out)
{
    enum tide_status status;
    bool folded = true;

    if (file->header == NULL || file->header->ready == 0 ||
        (tidei_ringfile_is_blank(file) && access(path, F_OK) != 0)) {
        /* Killed while it created the files: no call of the process had returned, so there are no records. */
        recover_remove_begun(path);
        tidei_ringfile_close(file, true);
        return TIDE_OK;
    }
    out->pid = file->header->pid;
    status = tidei_ringfile_check(file);
    if (status == TIDE_OK && access(path, F_OK) != 0)
        status = tide_error_set(TIDE_EIO, "%s: %s", path, strerror(errno));
    if (status == TIDE_OK)
        status = tidei_trace_check_beside(path);
    if (status != TIDE_OK) {
        tidei_ringfile_close(file, false);
        return status;
    }
    tidei_gate_enter(&tidei_recovery_gate);
    status = recover_into(path, file, out, &folded);
    tidei_gate_leave(&tidei_recovery_gate);
    if (!folded)
        tidei_message(TIDE_WARNING, "%s", tide_error_text());
    return status;
}

/* Open the ring file, once another process that is recovering it has done so. NULL: there is none (any more). */
static enum tide_status
recover_open(const char *rings, struct tidei_ringfile **file, struct tidei_ring_holder *holder)
{
    const struct timespec pause = { 0, 5000000 };
    enum tide_status status;
    struct stat info;

    *file = NULL;
    *holder = (struct tidei_ring_holder){ 0 };
    for (int tries = 0; tries < RECOVER_TRIES; tries++) {
        if (lstat(rings, &info) != 0)
            return errno == ENOENT ? TIDE_OK : tide_error_set(TIDE_EIO, "%s: %s", rings, strerror(errno));
        status = tidei_ringfile_open(rings, file, holder);
        if (status == TIDE_OK && tidei_ringfile_is_at(*file))
            return TIDE_OK;
        if (status == TIDE_OK) {
            /* Recovered or replaced between open and lock. */
            tidei_ringfile_close(*file, false);
            *file = NULL;
        } else if (status != TIDE_EBUSY && lstat(rings, &info) != 0 && errno == ENOENT) {
            return TIDE_OK; /* it went in between */
        } else if (status != TIDE_EBUSY || !holder->recovers) {
            return status;
        } else {
            nanosleep(&pause, NULL);
        }
    }
    return TIDE_EBUSY;
}

static enum tide_status
recover_files(const char *path, const char *rings, struct tide_trace_recovery *out)
{
    struct tidei_ring_holder holder;
    struct tidei_ringfile *file;
    enum tide_status status = TIDE_OK;
    struct stat info;

    if (tidei_session_owns(rings)) {
        out->state = TIDE_TRACE_RECORDING;
        out->pid = (uint32_t)getpid();
        return TIDE_OK;
    }
    if (lstat(rings, &info) == 0)
        status = tidei_trace_check_beside(path);
    if (status != TIDE_OK)
        return status;
    status = recover_open(rings, &file, &holder);
    if (status == TIDE_OK)
        return file != NULL ? recover_opened(path, file, out) : TIDE_OK;
    out->pid = holder.pid;
    if (status != TIDE_EBUSY || holder.recovers)
        return status;
    out->state = TIDE_TRACE_RECORDING;
    return TIDE_OK;
}

enum tide_status
tide_trace_recover(const char *path, struct tide_trace_recovery *out)
{
    TIDEI_INSIDE(NULL);
    enum tide_status status = tidei_figures_clear("trace", out);
    struct tide_trace_recovery found = { TIDE_FIGURES(found), .state = TIDE_TRACE_CLOSED };
    char *rings, *real;
    sigset_t before;
    int cancel;

    if (status != TIDE_OK)
        return status;
    if (path == NULL)
        return tide_error_set(TIDE_EINVAL, "trace: the path is NULL");
    /* The ring file lies beside the file that SQLite opens. */
    real = realpath(path, NULL);
    rings = tidei_trace_path_beside(real != NULL ? real : path, TIDEI_RINGS_SUFFIX);
    if (rings == NULL) {
        free(real);
        return tide_error_set(TIDE_ENOMEM, "trace: no host memory");
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_filelimit_hold(&before);
    (void)tidei_vfs(); /* the caller may read the trace through it from now on */
    tidei_recorder_handle_forks();
    pthread_mutex_lock(&tidei_files_lock);
    status = recover_files(real != NULL ? real : path, rings, &found);
    pthread_mutex_unlock(&tidei_files_lock);
    tidei_filelimit_release(&before);
    pthread_setcancelstate(cancel, NULL);
    free(rings);
    free(real);
    tidei_figures_copy(out, &found, sizeof(found));
    return status;
}
