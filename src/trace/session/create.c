/* Creates the files of a new trace, and describes the process in its table meta. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/resource/resource.h"
#include "src/sync/barrier.h"
#include "src/sync/testpoint.h"
#include "src/trace/database/files.h"
#include "src/trace/session/recorder.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/database/schema.h"
#include "src/trace/session/writer.h"

/*
 * Whether the file is a trace, by the application id in SQLite's header (file format, 1.3). An empty file counts, too:
 * a process that was killed before the id was written leaves one.
 */
static bool
create_is_trace(const char *path)
{
    static const unsigned char id[4] = { TIDEI_TRACE_APPLICATION_ID >> 24 & 255, TIDEI_TRACE_APPLICATION_ID >> 16 & 255,
                                         TIDEI_TRACE_APPLICATION_ID >> 8 & 255, TIDEI_TRACE_APPLICATION_ID & 255 };
    unsigned char header[100];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length;

    if (fd < 0)
        return false;
    length = pread(fd, header, sizeof(header), 0);
    close(fd);
    if (length == 0)
        return true;
    return length == (ssize_t)sizeof(header) && memcmp(header, "SQLite format 3", 16) == 0 &&
           memcmp(header + 68, id, sizeof(id)) == 0;
}

/* An existing trace stays unless it may be overwritten. Any other existing file stays. */
static enum tide_status
create_check_existing(const struct tidei_recorder *recorder, mode_t mode)
{
    const char *path = recorder->path;

    if (S_ISLNK(mode))
        return tide_error_set(TIDE_EEXIST, "log: %s exists and is a symbolic link: it is not followed", path);
    if (!S_ISREG(mode) || !create_is_trace(path))
        return tide_error_set(TIDE_EEXIST, "log: %s exists and is no trace: it is not overwritten", path);
    if (!recorder->options.overwrite)
        return tide_error_set(TIDE_EEXIST, "log: %s exists; overwrite=true replaces it", path);
    return TIDE_OK;
}

/* Choose the path that keeps the replaced trace. A trace already there was left by a killed process. */
static enum tide_status
create_name_replaced(struct tidei_recorder *recorder)
{
    struct stat info;

    recorder->replaced = tidei_trace_path_beside(recorder->path, TIDEI_REPLACED_SUFFIX);
    if (recorder->replaced == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    if (lstat(recorder->replaced, &info) == 0 && (!S_ISREG(info.st_mode) || !create_is_trace(recorder->replaced)))
        return tide_error_set(TIDE_EEXIST, "log: %s exists and is no trace: it is not overwritten", recorder->replaced);
    return TIDE_OK;
}

/* Check that a trace may be created at this path. Sets recorder->replaced if it replaces one. */
static enum tide_status
create_check(struct tidei_recorder *recorder, const char *rings)
{
    struct tidei_ringfile *file;
    enum tide_status status;
    struct stat info;
    struct tidei_ring_holder holder;

    if (tidei_session_owns_locked(rings))
        return tide_error_set(TIDE_EBUSY, "log: %s: this process is still completing it", recorder->path);
    if (lstat(recorder->path, &info) != 0) {
        if (errno == ENOENT)
            return TIDE_OK;
        return tide_error_set(TIDE_EIO, "log: %s: %s", recorder->path, strerror(errno));
    }
    status = tidei_ringfile_open(rings, &file, &holder);
    if (status == TIDE_OK)
        tidei_ringfile_close(file, false);
    if (status == TIDE_EBUSY)
        return tide_error_set(TIDE_EBUSY, "log: %s: process %u %s", recorder->path, holder.pid,
                              holder.recovers ? "is recovering it" : "records there");
    status = create_check_existing(recorder, info.st_mode);
    return status == TIDE_OK ? create_name_replaced(recorder) : status;
}

/* Lock the ring file, then rename what is to be replaced: nothing of it is lost until the new trace is kept. */
static enum tide_status
create_claim(struct tidei_recorder *recorder, const char *rings)
{
    const struct tide_log_options *options = &recorder->options;
    char *rings_replaced = NULL;
    enum tide_status status;

    if (recorder->replaced != NULL) {
        tidei_replaced_drop(recorder->replaced, true);
        rings_replaced = tidei_trace_path_beside(recorder->replaced, TIDEI_RINGS_SUFFIX);
        if (rings_replaced == NULL)
            return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    }
    status = tidei_ringfile_create(rings, rings_replaced, options->ring_bytes, options->backlog_bytes,
                                   &recorder->session.file);
    free(rings_replaced);
    if (status != TIDE_OK)
        return status;
    if (recorder->replaced != NULL)
        status = tidei_replaced_take(recorder->path, recorder->replaced);
    else if (options->overwrite)
        tidei_replaced_drop(recorder->path, false); /* files beside a trace that somebody has removed */
    if (status != TIDE_OK) {
        tidei_replaced_restore_rings(recorder->path, recorder->replaced);
        tidei_ringfile_close(recorder->session.file, false);
        recorder->session.file = NULL;
    }
    return status;
}

/* Read both clocks at the start, and estimate the rate, which each transaction refines. */
static void
create_clock(struct tidei_recorder *recorder, uint64_t *start_unix_ns)
{
    struct tidei_ring_header *header = recorder->session.file->header;
    const struct timespec pause = { 0, 2000000 };
    struct timespec unix_now;
    struct tidei_clock_line line = { .ns_per_tick = 1 };

    header->tsc = recorder->session.tsc;
    line.base = header->first = tidei_clock_sample_now(recorder->session.tsc);
    clock_gettime(CLOCK_REALTIME, &unix_now);
    *start_unix_ns = (uint64_t)unix_now.tv_sec * 1000000000u + (uint64_t)unix_now.tv_nsec;
    header->start_ns = header->first.ns;
    if (recorder->session.tsc) {
        nanosleep(&pause, NULL);
        line = tidei_clock_line_between(header->first, tidei_clock_sample_now(true), 1);
    }
    tidei_ring_set_line(header, line);
}

/* The command line, its words separated by blanks. */
static void
create_command_line(char *text, size_t capacity)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t length = 0;

    if (file != NULL) {
        length = fread(text, 1, capacity - 1, file);
        fclose(file);
    }
    while (length > 0 && text[length - 1] == '\0')
        length--;
    text[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
}

static enum tide_status
create_meta(struct tidei_database *database, const struct tidei_recorder *recorder, uint64_t start_unix_ns)
{
    char hostname[HOST_NAME_MAX + 1] = "", command[4096], versions[128];

    gethostname(hostname, sizeof(hostname) - 1);
    create_command_line(command, sizeof(command));
    snprintf(versions, sizeof(versions), "tidemark %s, sqlite %s", tide_version(), sqlite3_libversion());
    tidei_database_begin(database);
    tidei_database_meta_number(database, "format_version", TIDEI_TRACE_FORMAT);
    tidei_database_meta_number(database, "start_unix_ns", (int64_t)start_unix_ns);
    tidei_database_meta_number(database, "complete", 0);
    tidei_database_meta_number(database, "pid", getpid());
    tidei_database_meta_number(database, "trace_id", (int64_t)recorder->session.file->header->trace_id);
    tidei_database_meta_number(database, "epoch", 0);
    tidei_database_meta_number(database, "epoch_records", 0);
    tidei_database_meta_text(database, "hostname", hostname);
    tidei_database_meta_text(database, "command", command);
    tidei_database_meta_text(database, "versions", versions);
    tidei_database_meta_text(database, "devices", "");
    tidei_database_meta_text(database, "stack", "");
    tidei_database_meta_text(database, "clock", recorder->session.tsc ? "tsc" : "monotonic");
    return tidei_database_end(database);
}

static enum tide_status
create_header(struct tidei_recorder *recorder, uint64_t *start_unix_ns)
{
    struct tidei_ring_header *header = recorder->session.file->header;
    enum tide_status status;

    /* A chunk for each buffer, so that a full disk is noticed now. */
    status = tidei_ringfile_add_chunk(recorder->session.file, 0);
    if (status == TIDE_OK)
        status = tidei_ringfile_add_chunk(recorder->session.file, 1);
    if (status != TIDE_OK)
        return status;
    if (getrandom(&header->trace_id, sizeof(header->trace_id), 0) != (ssize_t)sizeof(header->trace_id))
        header->trace_id = tidei_monotonic_ns();
    header->trace_id &= INT64_MAX;
    header->buffers[0].epoch = 1;
    create_clock(recorder, start_unix_ns);
    return TIDE_OK;
}

/* The SQLite file is closed, the ring file still locked: restore what was there before. `ours`: the trace is new. */
static void
create_undo(struct tidei_recorder *recorder, bool ours)
{
    recorder->session.file->header->ready = 0; /* a process that finds the file from here on takes nothing from it */
    if (ours || recorder->replaced != NULL)
        tidei_replaced_restore(recorder->path, recorder->replaced);
    tidei_replaced_restore_rings(recorder->path, recorder->replaced);
    free(recorder->replaced);
    recorder->replaced = NULL;
}

/* Start the writer, which owns both files from then on. */
static enum tide_status
create_writer(struct tidei_recorder *recorder, struct tidei_database *database)
{
    struct tidei_session *session = &recorder->session;

    recorder->writer = tidei_writer_new(session, session->file, database, session->tsc);
    TIDEI_TEST_POINT("create.writer");
    if (recorder->writer == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    session->fence = !tidei_barrier_possible();
    atomic_store_explicit(&session->many, session->fence, memory_order_relaxed);
    recorder->writer->merge->membarrier = !session->fence;
    session->file->header->ready = 1;
    return tidei_writer_start(recorder->writer);
}

/* Creating the trace has failed: restore what was there before. `database` is NULL if there is none. */
static void
create_failed(struct tidei_recorder *recorder, struct tidei_database *database)
{
    struct tidei_writer *writer = recorder->writer;

    if (writer != NULL)
        tidei_writer_abandon(writer);
    else
        tidei_database_close(database);
    create_undo(recorder, database != NULL);
    if (writer != NULL)
        tidei_writer_free(writer);
    else
        tidei_ringfile_close(recorder->session.file, false);
    recorder->writer = NULL;
    recorder->session.file = NULL;
}

static enum tide_status
create_files(struct tidei_recorder *recorder)
{
    char *rings = tidei_trace_path_beside(recorder->path, TIDEI_RINGS_SUFFIX);
    struct tidei_database *database = NULL;
    enum tide_status status;
    uint64_t start_unix_ns = 0;

    if (rings == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    status = create_check(recorder, rings);
    if (status == TIDE_OK)
        status = create_claim(recorder, rings);
    free(rings);
    if (status != TIDE_OK)
        return status;
    TIDEI_TEST_POINT("create.ring-file");
    status = tidei_database_create(recorder->path, &database);
    TIDEI_TEST_POINT("create.database");
    if (status == TIDE_OK)
        status = create_header(recorder, &start_unix_ns);
    if (status == TIDE_OK)
        status = create_meta(database, recorder, start_unix_ns);
    TIDEI_TEST_POINT("create.meta");
    if (status == TIDE_OK)
        status = create_writer(recorder, database);
    if (status != TIDE_OK)
        create_failed(recorder, database);
    return status;
}

enum tide_status
tidei_recorder_create_files(struct tidei_recorder *recorder)
{
    enum tide_status status;
    sigset_t before;

    tidei_filelimit_hold(&before);
    status = create_files(recorder);
    tidei_filelimit_release(&before);
    return status;
}

void
tidei_recorder_discard_files(struct tidei_recorder *recorder)
{
    sigset_t before;

    tidei_filelimit_hold(&before);
    pthread_mutex_lock(&tidei_files_lock);
    tidei_writer_abandon(recorder->writer);
    create_undo(recorder, true);
    pthread_mutex_unlock(&tidei_files_lock);
    tidei_filelimit_release(&before);
}
