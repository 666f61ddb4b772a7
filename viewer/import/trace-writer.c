/* Writes a new trace from complete rows, and puts it in its place when it is complete. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/status.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/import/trace-writer.h"

/* Files of SQLite and of the recorder that would be taken for a part of the new trace. */
static const char *const writer_companions[] = { "-wal", "-journal", "-rings" };

static int
writer_failed(const struct trace_writer *writer)
{
    fprintf(stderr, "%s: cannot be written: %s\n", writer->path,
            writer->db != NULL ? sqlite3_errmsg(writer->db) : "no memory");
    return COMMAND_WRONG;
}

static int
writer_refused(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    return COMMAND_WRONG;
}

/* Whether the file at `path` has a trace's application id: the only files that are replaced. */
static bool
writer_is_trace(const char *path)
{
    unsigned char header[72];
    bool is_trace = false;
    int fd;

    if (!file_is_sqlite(path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (pread(fd, header, sizeof(header), 0) == (ssize_t)sizeof(header))
        is_trace = ((uint32_t)header[68] << 24 | (uint32_t)header[69] << 16 | (uint32_t)header[70] << 8 | header[71]) ==
                   TIDEI_TRACE_APPLICATION_ID;
    close(fd);
    return is_trace;
}

static int
writer_check(const char *path, bool overwrite)
{
    struct stat info;
    char *beside = NULL;

    for (size_t i = 0; i < sizeof(writer_companions) / sizeof(writer_companions[0]); i++) {
        bool taken;

        if (asprintf(&beside, "%s%s", path, writer_companions[i]) < 0)
            return writer_refused(path, "no memory");
        taken = lstat(beside, &info) == 0;
        if (taken)
            fprintf(stderr, "%s: %s stands beside it: a trace that is being recorded, or was left behind\n", path,
                    beside);
        free(beside);
        if (taken)
            return COMMAND_WRONG;
    }
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? COMMAND_FINE : writer_refused(path, strerror(errno));
    if (!S_ISREG(info.st_mode) || !writer_is_trace(path))
        return writer_refused(path, "exists and is no trace: it is not overwritten");
    return overwrite ? COMMAND_FINE : writer_refused(path, "exists; --overwrite replaces it");
}

/* The file that becomes the trace: made here, so that SQLite never opens one that somebody else has put there. */
static int
writer_make_file(struct trace_writer *writer, const char *path)
{
    int status = COMMAND_FINE;
    int fd;

    writer->path = strdup(path);
    if (writer->path == NULL || asprintf(&writer->temporary, "%s-import%ld", path, (long)getpid()) < 0) {
        writer->temporary = NULL;
        return writer_refused(path, "no memory");
    }
    fd = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) {
        close(fd);
    } else {
        status = writer_refused(writer->temporary, strerror(errno));
        free(writer->temporary);
        writer->temporary = NULL;
    }
    return status;
}

/* Without a journal: what fails is removed as a whole. One transaction, of which SQLite keeps 32 MiB in memory. */
static int
writer_make_schema(struct trace_writer *writer)
{
    char pragmas[256];

    snprintf(pragmas, sizeof(pragmas),
             "PRAGMA page_size = 16384; PRAGMA application_id = %d; PRAGMA journal_mode = OFF;"
             "PRAGMA synchronous = OFF; PRAGMA cache_size = -32768; PRAGMA locking_mode = EXCLUSIVE; BEGIN",
             TIDEI_TRACE_APPLICATION_ID);
    if (sqlite3_open_v2(writer->temporary, &writer->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        sqlite3_exec(writer->db, pragmas, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(writer->db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK ||
        tidei_inserts_prepare(&writer->inserts, writer->db, false) != SQLITE_OK ||
        tidei_insert_statuses(writer->db) != SQLITE_OK)
        return writer_failed(writer);
    return COMMAND_FINE;
}

int
trace_writer_open(struct trace_writer *writer, const char *path, bool overwrite)
{
    int status = writer_check(path, overwrite);

    *writer = (struct trace_writer){ .overwrite = overwrite };
    if (status == COMMAND_FINE)
        status = writer_make_file(writer, path);
    if (status == COMMAND_FINE)
        status = writer_make_schema(writer);
    if (status != COMMAND_FINE)
        trace_writer_abandon(writer);
    return status;
}

int
trace_writer_inserted(const struct trace_writer *writer, int code)
{
    return code == SQLITE_OK ? COMMAND_FINE : writer_failed(writer);
}

int
trace_writer_life(struct trace_writer *writer, const struct trace_writer_life *life)
{
    return trace_writer_row(
        writer, allocation, TIDEI_NUMBER(life->allocation_id), TIDEI_NUMBER(life->layer_id),
        TIDEI_NUMBER(life->address), TIDEI_NUMBER(life->size), TIDEI_NUMBER(life->alignment),
        TIDEI_NUMBER(life->status), TIDEI_ID(life->tag_id), TIDEI_NULL, TIDEI_NUMBER(life->alloc_ns),
        TIDEI_NUMBER(life->alloc_duration_ns), TIDEI_NUMBER(life->alloc_thread_id), TIDEI_NUMBER(life->alloc_stream_id),
        TIDEI_NUMBER_IF(life->freed, life->free_ns), TIDEI_NUMBER_IF(life->freed, life->free_duration_ns),
        TIDEI_NUMBER_IF(life->freed, life->free_thread_id), TIDEI_NUMBER_IF(life->freed, life->free_stream_id));
}

/* From here on the trace stands at its path. What has come there meanwhile stays where it may not be replaced. */
static int
writer_publish(struct trace_writer *writer)
{
    int failed = writer->overwrite ? rename(writer->temporary, writer->path)
                                   : renameat2(AT_FDCWD, writer->temporary, AT_FDCWD, writer->path, RENAME_NOREPLACE);

    /* A file system that cannot promise that no file is replaced. */
    if (failed != 0 && !writer->overwrite && errno == EINVAL && access(writer->path, F_OK) != 0)
        failed = rename(writer->temporary, writer->path);
    if (failed != 0)
        return writer_refused(writer->path, strerror(errno));
    free(writer->temporary);
    writer->temporary = NULL;
    return COMMAND_FINE;
}

int
trace_writer_finish(struct trace_writer *writer)
{
    int status = COMMAND_FINE;

    tidei_inserts_finalize(&writer->inserts);
    if (sqlite3_exec(writer->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK || sqlite3_close(writer->db) != SQLITE_OK)
        status = writer_failed(writer);
    else
        writer->db = NULL;
    if (status == COMMAND_FINE)
        status = writer_publish(writer);
    trace_writer_abandon(writer);
    return status;
}

void
trace_writer_abandon(struct trace_writer *writer)
{
    tidei_inserts_finalize(&writer->inserts);
    sqlite3_close(writer->db);
    if (writer->temporary != NULL)
        unlink(writer->temporary);
    free(writer->path);
    free(writer->temporary);
    *writer = (struct trace_writer){ 0 };
}
