/* Takes over what a process that is gone has left in its rings. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/trace.h>

#include "resource.h"
#include "testpoint.h"
#include "trace/create.h"
#include "trace/path.h"
#include "trace/recorder.h"
#include "trace/writer.h"

/* Which trace this is, and whether it has everything already. */
static enum tide_status
recover_check(struct tidei_store *store, const struct tidei_ringfile *file, bool *closed)
{
    enum tide_status status;
    int64_t trace_id;

    *closed = false;
    status = tidei_store_meta_read(store, "trace_id", &trace_id);
    if (status != TIDE_OK)
        return status;
    if ((uint64_t)trace_id != file->header->trace_id)
        return tide_error_set(TIDE_EFORMAT, "%s: belongs to another trace than %s", file->path, store->path);
    return tidei_store_has_ended(store, closed);
}

/* Everything but the file names: the trace is open. */
static enum tide_status
recover_store(struct tidei_store *store, struct tidei_ringfile *file, struct tide_trace_recovery *out)
{
    struct tidei_writer *writer;
    enum tide_status status;
    bool closed;

    status = recover_check(store, file, &closed);
    if (status != TIDE_OK || closed) {
        if (closed) {
            tidei_ringfile_unlink(file); /* killed between the last transaction and this */
            if (tidei_store_finish(store) != TIDE_OK)
                tidei_message(TIDE_WARNING, "%s", tide_error_text());
            out->state = TIDE_TRACE_RECOVERED;
        }
        tidei_store_close(store);
        tidei_ringfile_close(file, false);
        return status;
    }
    writer = tidei_writer_new(NULL, file, store, file->header->tsc != 0);
    if (writer == NULL) {
        tidei_store_close(store);
        tidei_ringfile_close(file, false);
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    }
    status = tidei_store_load(store);
    if (status == TIDE_OK)
        status = tidei_writer_take_up(writer, &out->events);
    TIDEI_TEST_POINT("recover.before-stop");
    if (status == TIDE_OK)
        status = tidei_writer_stop(writer, "recovered");
    if (status == TIDE_OK)
        out->state = TIDE_TRACE_RECOVERED;
    tidei_writer_free(writer);
    return status;
}

/* The process was killed while it made the files: no call of it had returned, there is nothing to be had. */
static bool
recover_was_never_ready(struct tidei_ringfile *file)
{
    if (file->header->ready != 0)
        return false;
    tidei_ringfile_unlink(file);
    tidei_ringfile_close(file, false);
    return true;
}

static enum tide_status
recover_files(const char *path, const char *rings, struct tide_trace_recovery *out)
{
    struct tidei_ringfile *file;
    struct tidei_store *store;
    enum tide_status status;
    struct stat info;

    if (lstat(rings, &info) != 0)
        return errno == ENOENT ? TIDE_OK : tide_error_set(TIDE_EIO, "%s: %s", rings, strerror(errno));
    if (tidei_recorder_owns(rings)) {
        out->state = TIDE_TRACE_RECORDING;
        out->pid = (uint32_t)getpid();
        return TIDE_OK;
    }
    status = tidei_ringfile_open(rings, &file, &out->pid);
    if (status == TIDE_EBUSY) {
        out->state = TIDE_TRACE_RECORDING;
        return TIDE_OK;
    }
    if (status != TIDE_OK)
        return status;
    out->pid = file->header->pid;
    if (recover_was_never_ready(file))
        return TIDE_OK;
    if (access(path, F_OK) != 0) {
        tidei_ringfile_close(file, false);
        return tide_error_set(TIDE_EIO, "%s: %s", path, strerror(errno));
    }
    status = tidei_store_open(path, &store);
    if (status != TIDE_OK) {
        tidei_ringfile_close(file, false);
        return status;
    }
    return recover_store(store, file, out);
}

enum tide_status
tide_trace_recover(const char *path, struct tide_trace_recovery *out)
{
    enum tide_status status;
    char *rings;

    *out = (struct tide_trace_recovery){ .state = TIDE_TRACE_CLOSED };
    if (path == NULL)
        return tide_error_set(TIDE_EINVAL, "trace: the path is NULL");
    rings = tidei_trace_path_beside(path, TIDEI_RINGS_SUFFIX);
    if (rings == NULL)
        return tide_error_set(TIDE_ENOMEM, "trace: no host memory");
    status = recover_files(path, rings, out);
    free(rings);
    return status;
}
