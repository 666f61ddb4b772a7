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
#include "src/sync/thread.h"
#include "src/trace/database/files.h"
#include "src/trace/database/identity.h"
#include "src/trace/session/recorder.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/database/schema.h"
#include "src/trace/session/writer.h"

/*
 * The process that has the trace open as a recorder has: the file is in the mode of the write-ahead log (SQLite's file
 * format, 1.3.3), and locked as SQLite locks, in the 512 bytes from 1 GiB on. Its ring file has another name where the
 * trace was renamed since. 0: there is none.
 */
static pid_t
create_recording_elsewhere(const char *path)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 << 30, .l_len = 512 };
    unsigned char versions[2] = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    pid_t pid = 0;

    if (fd < 0)
        return 0;
    if (pread(fd, versions, sizeof(versions), 18) == (ssize_t)sizeof(versions) && versions[0] == 2 &&
        fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
        pid = lock.l_pid;
    close(fd);
    return pid;
}

/*
 * Refuse to replace a file that this process reads or records into, by whatever name. To open such a file and to close
 * it again would end SQLite's locks on it: so this comes first.
 */
static enum tide_status
create_check_own(const char *path)
{
    struct tidei_recorder *recorder = tidei_recorder_at_locked(path);

    if (recorder != NULL)
        return tide_error_set(TIDE_EBUSY, "log: %s: this process records there, as %s", path, recorder->path);
    if (tidei_trace_is_protected(path))
        return tide_error_set(TIDE_EBUSY, "log: %s: this process reads it, and does not replace what it reads", path);
    return TIDE_OK;
}

/* An existing trace stays unless it may be overwritten. Any other existing file stays. */
static enum tide_status
create_check_existing(const struct tidei_recorder *recorder, mode_t mode)
{
    const char *path = recorder->path;
    pid_t pid;

    if (S_ISLNK(mode))
        return tide_error_set(TIDE_EEXIST, "log: %s exists and is a symbolic link: it is not followed", path);
    if (!S_ISREG(mode) || !tidei_trace_is_at(path))
        return tide_error_set(TIDE_EEXIST, "log: %s exists and is no trace: it is not overwritten", path);
    if (!recorder->options.overwrite)
        return tide_error_set(TIDE_EEXIST, "log: %s exists; overwrite=true replaces it", path);
    pid = create_recording_elsewhere(path);
    if (pid != 0)
        return tide_error_set(TIDE_EBUSY, "log: %s: process %ld records there", path, (long)pid);
    return TIDE_OK;
}

/* A trace is not replaced while what was recorded last is only in the ring file beside it. */
static enum tide_status
create_check_left(const char *path, const struct tidei_ringfile *left)
{
    /* What threads did after the exit() of a program that ended in order keeps nobody from running it again. */
    if (tidei_ringfile_is_blank(left) || left->header->exited != 0)
        return TIDE_OK;
    return tide_error_set(TIDE_EBUSY,
                          "log: %s is not replaced: what process %u recorded last, before it was killed, is still in "
                          "%s; `tidemark recover %s` takes it in, or remove both files",
                          path, left->header->pid, left->path, path);
}

/* Check that what a killed process may have left at `path` can be removed. */
static enum tide_status
create_check_leftover(const char *path)
{
    struct stat info;
    enum tide_status status;

    if (lstat(path, &info) != 0)
        return TIDE_OK;
    status = create_check_own(path);
    if (status == TIDE_OK && (!S_ISREG(info.st_mode) || !tidei_trace_is_at(path)))
        status = tide_error_set(TIDE_EEXIST, "log: %s exists and is no trace: it is not overwritten", path);
    return status;
}

/* Choose the path that keeps the replaced trace. A trace already there was left by a killed process. */
static enum tide_status
create_name_replaced(struct tidei_recorder *recorder)
{
    recorder->replaced = tidei_trace_path_beside(recorder->path, TIDEI_REPLACED_SUFFIX);
    if (recorder->replaced == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    return create_check_leftover(recorder->replaced);
}

/* Check that a trace may be created at this path. Sets recorder->replaced if it replaces one. */
static enum tide_status
create_check(struct tidei_recorder *recorder, const char *rings)
{
    struct tidei_ringfile *left;
    enum tide_status status, found;
    struct stat info;
    struct tidei_ring_holder holder;

    if (tidei_session_owns_locked(rings))
        return tide_error_set(TIDE_EBUSY, "log: %s: this process is still completing it", recorder->path);
    if (lstat(recorder->path, &info) != 0) {
        if (errno == ENOENT)
            return tidei_trace_check_beside(recorder->path);
        return tide_error_set(TIDE_EIO, "log: %s: %s", recorder->path, strerror(errno));
    }
    status = create_check_own(recorder->path);
    if (status == TIDE_OK && S_ISREG(info.st_mode))
        status = tidei_trace_check_beside(recorder->path);
    if (status != TIDE_OK)
        return status;
    found = tidei_ringfile_open(rings, &left, &holder);
    if (found == TIDE_EBUSY)
        return tide_error_set(TIDE_EBUSY, "log: %s: process %u %s", recorder->path, holder.pid,
                              holder.recovers ? "is recovering it" : "records there");
    if (found == TIDE_EFORMAT && recorder->options.overwrite)
        return found; /* a damaged or newer ring file may hold records, too */
    status = create_check_existing(recorder, info.st_mode);
    if (status == TIDE_OK && found == TIDE_OK)
        status = create_check_left(recorder->path, left);
    if (found == TIDE_OK)
        tidei_ringfile_close(left, false);
    return status == TIDE_OK ? create_name_replaced(recorder) : status;
}

/* Lock the ring file, and with it the right to make a trace at the path. A dead process's ring file is renamed. */
static enum tide_status
create_claim(struct tidei_recorder *recorder, const char *rings)
{
    const struct tide_log_options *options = &recorder->options;
    char *rings_replaced = NULL;
    enum tide_status status;

    if (recorder->replaced != NULL) {
        rings_replaced = tidei_trace_path_beside(recorder->replaced, TIDEI_RINGS_SUFFIX);
        if (rings_replaced == NULL)
            return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    }
    status = tidei_ringfile_create(rings, rings_replaced, (mode_t)options->mode, options->ring_bytes,
                                   options->backlog_bytes, &recorder->session.file);
    free(rings_replaced);
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

/* Which process of a job this is. A key of which nothing is known is missing. */
static void
create_identity(struct tidei_database *database)
{
    struct tidei_identity identity;

    tidei_identity_read(&identity);
    if (identity.rank >= 0)
        tidei_database_meta_number(database, "rank", identity.rank);
    if (identity.world_size >= 0)
        tidei_database_meta_number(database, "world_size", identity.world_size);
    if (identity.local_rank >= 0)
        tidei_database_meta_number(database, "local_rank", identity.local_rank);
    if (identity.job[0] != '\0')
        tidei_database_meta_text(database, "job", identity.job);
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
    create_identity(database);
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

/* The SQLite file is closed, the ring file still locked: restore what was there before. `put`: the trace is new. */
static void
create_undo(struct tidei_recorder *recorder, bool put)
{
    recorder->session.file->header->ready = 0; /* a process that finds the file from here on takes nothing from it */
    if (put)
        tidei_replaced_restore(recorder->path, recorder->replaced);
    tidei_replaced_restore_rings(recorder->path, recorder->replaced);
    free(recorder->replaced);
    recorder->replaced = NULL;
}

/* Make the trace at `begun`, where nobody looks for it: its schema and meta. */
static enum tide_status
create_begin(struct tidei_recorder *recorder, const char *begun, uint64_t start_unix_ns)
{
    struct tidei_database *database;
    enum tide_status status = create_check_leftover(begun), born;

    if (status != TIDE_OK)
        return status;
    tidei_replaced_drop(begun, false);
    status = tidei_database_create(begun, (mode_t)recorder->options.mode, &database);
    TIDEI_TEST_POINT("create.database");
    if (status != TIDE_OK)
        return status;
    status = create_meta(database, recorder, start_unix_ns);
    TIDEI_TEST_POINT("create.meta");
    born = tidei_database_born(database);
    TIDEI_TEST_POINT("create.born");
    return status == TIDE_OK ? born : status;
}

/* Remove the replaced trace that a killed process has left, where somebody has removed the one that replaced it. */
static void
create_drop_replaced(const struct tidei_recorder *recorder)
{
    char *replaced =
        recorder->options.overwrite ? tidei_trace_path_beside(recorder->path, TIDEI_REPLACED_SUFFIX) : NULL;
    struct tidei_error error;

    tidei_error_save(&error);
    if (replaced != NULL && create_check_leftover(replaced) == TIDE_OK)
        tidei_replaced_drop(replaced, true);
    tidei_error_restore(&error);
    free(replaced);
}

/*
 * Give the trace its name, in one step. What it replaces has a second name until the new trace is kept. The ring file
 * is ready before, so that a kill leaves nothing that recovery does not know.
 */
static enum tide_status
create_put(struct tidei_recorder *recorder, const char *begun)
{
    const char *replaced = recorder->replaced;
    enum tide_status status = TIDE_OK;

    recorder->session.file->header->ready = 1;
    TIDEI_TEST_POINT("create.ready");
    if (replaced != NULL) {
        tidei_replaced_drop(replaced, false);
        status = tidei_replaced_take(recorder->path, replaced);
    } else {
        tidei_trace_drop_beside(recorder->path);
        create_drop_replaced(recorder);
    }
    if (status != TIDE_OK)
        return status;
    TIDEI_TEST_POINT("create.taken");
    status = tidei_trace_put(begun, recorder->path, replaced != NULL);
    TIDEI_TEST_POINT("create.put");
    if (status != TIDE_OK && replaced != NULL)
        tidei_replaced_restore(recorder->path, replaced);
    return status;
}

/* Make the trace and open it. *put: it is at its path. */
static enum tide_status
create_trace(struct tidei_recorder *recorder, struct tidei_database **database, bool *put)
{
    char *begun = tidei_trace_path_beside(recorder->path, TIDEI_BEGUN_SUFFIX);
    enum tide_status status;
    uint64_t start_unix_ns = 0;

    *put = false;
    if (begun == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    status = create_header(recorder, &start_unix_ns);
    if (status == TIDE_OK)
        status = create_begin(recorder, begun, start_unix_ns);
    if (status == TIDE_OK)
        status = create_put(recorder, begun);
    *put = status == TIDE_OK;
    if (status == TIDE_OK)
        status = tidei_database_open(recorder->path, NULL, database);
    else if (create_check_leftover(begun) == TIDE_OK)
        tidei_replaced_drop(begun, false);
    free(begun);
    return status;
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
    atomic_store_explicit(&session->plain, session->tsc && !session->fence && !session->drop, memory_order_relaxed);
    recorder->writer->merge->membarrier = !session->fence;
    return tidei_writer_start(recorder->writer);
}

/* Creating the trace has failed: restore what was there before. `database` is NULL if it is not open. */
static void
create_failed(struct tidei_recorder *recorder, struct tidei_database *database, bool put)
{
    struct tidei_writer *writer = recorder->writer;
    struct tidei_error error;

    tidei_error_save(&error); /* the reason is what failed first */
    if (writer != NULL)
        tidei_writer_abandon(writer);
    else
        tidei_database_close(database);
    create_undo(recorder, put);
    if (writer != NULL)
        tidei_writer_free(writer);
    else
        tidei_ringfile_close(recorder->session.file, false);
    recorder->writer = NULL;
    recorder->session.file = NULL;
    tidei_error_restore(&error);
}

static enum tide_status
create_files(struct tidei_recorder *recorder)
{
    char *rings = tidei_trace_path_beside(recorder->path, TIDEI_RINGS_SUFFIX);
    struct tidei_database *database = NULL;
    enum tide_status status;
    bool put;

    if (rings == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    status = create_check(recorder, rings);
    if (status == TIDE_OK)
        status = create_claim(recorder, rings);
    free(rings);
    if (status != TIDE_OK)
        return status;
    TIDEI_TEST_POINT("create.ring-file");
    status = create_trace(recorder, &database, &put);
    if (status == TIDE_OK)
        status = create_writer(recorder, database);
    if (status != TIDE_OK)
        create_failed(recorder, database, put);
    return status;
}

struct create_call {
    struct tidei_recorder *recorder;
    enum tide_status status;
    struct tidei_error error;
};

static void
create_called(void *argument)
{
    struct create_call *call = argument;
    sigset_t before;

    tidei_filelimit_hold(&before);
    call->status = create_files(call->recorder);
    tidei_filelimit_release(&before);
    tidei_error_save(&call->error);
}

enum tide_status
tidei_recorder_create_files(struct tidei_recorder *recorder)
{
    struct create_call call = { .recorder = recorder };

    /* SQLite and the paths need 30 KiB of stack, and a thread that allocates may have 16 in all. */
    tidei_thread_call("tidemark-create", create_called, &call);
    if (call.status != TIDE_OK && tidei_thread_get() != NULL)
        tidei_error_restore(&call.error);
    return call.status;
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
