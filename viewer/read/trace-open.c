/* Opens a trace for reading. The file may come from anyone, so it is checked before its content is used. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tidemark/tidemark.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/read/trace-open.h"
#include "viewer/read/trace-schema.h"
#include "viewer/read/trace-unknown.h"

/*
 * Recover the ring files that a killed program has left beside its trace, and resolve the frames of its call stacks. If
 * that is impossible, the trace is read as it is, and meta.complete says that it is incomplete.
 */
static void
trace_prepare(struct trace *trace)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };

    if (tide_trace_recover(trace->path, &found) != TIDE_OK)
        fprintf(stderr, "%s: what was left beside it is not taken in: %s\n", trace->path, tide_error_text());
    else if (found.state != TIDE_TRACE_RECORDING)
        tide_trace_resolve(trace->path, &frames); /* else its call stacks are addresses: no reason to say more */
    if (found.state == TIDE_TRACE_RECOVERED)
        fprintf(stderr, "%s: taken over what process %" PRIu32 " had left: %" PRIu64 " record%s\n", trace->path,
                found.pid, found.events, found.events == 1 ? "" : "s");
    trace->in_progress = found.state == TIDE_TRACE_RECORDING;
    trace->process = found.pid;
}

static int
trace_check_head(const struct trace *trace)
{
    char head[FILE_SQLITE_BYTES];
    ssize_t count = file_head(trace->path, head, sizeof(head));

    if (count < 0 && errno == EINVAL)
        return trace_broken(trace, "no regular file");
    if (count < 0)
        return trace_broken(trace, "%s", strerror(errno));
    if (count == 0)
        return trace_broken(trace, "no trace: the file is empty");
    if (!file_head_is_sqlite(head, count))
        return trace_broken(trace, "no trace: not an SQLite file");
    return COMMAND_FINE;
}

/* `path` as an SQLite URI with the flag that nobody writes the file. The caller frees it; NULL: no memory. */
static char *
trace_immutable_uri(const char *path)
{
    char *uri = malloc(strlen(path) * 3 + sizeof("file:./?immutable=1"));
    char *end = uri;

    if (uri == NULL)
        return NULL;
    end += sprintf(end, path[0] == '/' ? "file:" : "file:./");
    for (; *path != '\0'; path++) {
        if (strchr("?#%", *path) != NULL)
            end += sprintf(end, "%%%02X", (unsigned char)*path);
        else
            *end++ = *path;
    }
    strcpy(end, "?immutable=1");
    return uri;
}

/* An untrusted file may contain SQL that runs when the file is read. Confine such SQL to the file. */
static void
trace_harden(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 64 << 20);
    sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_exec(db, "PRAGMA cell_size_check = ON; PRAGMA query_only = ON", NULL, NULL, NULL);
}

/* Open and begin to read. An SQLite result code; the database, for its message, also where that is an error. */
static int
trace_connect(const char *path, int flags, sqlite3 **out)
{
    int code = sqlite3_open_v2(path, out, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | flags, NULL);

    if (code != SQLITE_OK)
        return code;
    trace_harden(*out);
    code = sqlite3_exec(*out, "BEGIN", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return code;
    /* The first statement that reads takes the lock, and is the first to notice what is wrong. */
    return sqlite3_exec(*out, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

static int
trace_connect_somehow(struct trace *trace)
{
    int code = trace_connect(trace->path, 0, &trace->db) & 0xff;
    char *uri;

    /* A trace in WAL mode needs files beside it, which a read-only medium does not take. */
    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY) {
        uri = trace_immutable_uri(trace->path);
        if (uri != NULL) {
            sqlite3_close(trace->db);
            code = trace_connect(uri, SQLITE_OPEN_URI, &trace->db) & 0xff;
            free(uri);
        }
    }
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(trace);
}

static int
trace_read_state(struct trace *trace)
{
    int64_t complete;
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'complete'", &complete);

    if (status == COMMAND_FINE)
        status = trace_integer(trace, "SELECT sum(events) FROM loss", &trace->lost_events);
    trace->complete = complete == 1;
    /* It may have come to its end since trace_prepare. */
    trace->in_progress = trace->in_progress && !trace->complete;
    return status;
}

/*
 * SQLite reads the missing rest of a last page as zeros. A file that is being written may end within a page; a complete
 * file never does.
 */
static int
trace_check_size(const struct trace *trace)
{
    struct stat status;
    int64_t page_bytes;

    if (!trace->complete || stat(trace->path, &status) != 0)
        return COMMAND_FINE;
    if (trace_integer(trace, "PRAGMA page_size", &page_bytes) != COMMAND_FINE)
        return COMMAND_WRONG;
    if (page_bytes > 0 && status.st_size % page_bytes != 0)
        return trace_broken(trace, "the file is damaged or cut short: %lld bytes are no multiple of %" PRId64,
                            (long long)status.st_size, page_bytes);
    return COMMAND_FINE;
}

/* Check the files that SQLite opens beside the trace: on a pipe it would wait forever. */
static int
trace_check_beside(const struct trace *trace)
{
    static const char *const endings[] = { "-journal", "-wal", "-shm" };
    char *real = realpath(trace->path, NULL);
    int status = COMMAND_FINE;

    for (size_t i = 0; real != NULL && status == COMMAND_FINE && i < sizeof(endings) / sizeof(endings[0]); i++) {
        struct stat info;
        char *beside;

        if (asprintf(&beside, "%s%s", real, endings[i]) < 0)
            continue;
        if (lstat(beside, &info) == 0 && !S_ISREG(info.st_mode))
            status = trace_broken(trace, "%s beside it is no regular file", beside);
        free(beside);
    }
    free(real);
    return status;
}

/* Whether it is worth to be opened: what can be seen from outside. */
static int
trace_check_file(const struct trace *trace)
{
    int status = trace_check_head(trace);

    return status == COMMAND_FINE ? trace_check_beside(trace) : status;
}

int
trace_open(const char *path, struct trace *out)
{
    int status;

    *out = (struct trace){ .path = path };
    status = trace_check_file(out);
    if (status != COMMAND_FINE)
        return status;
    trace_prepare(out);
    status = trace_connect_somehow(out);
    if (status == COMMAND_FINE)
        status = trace_check_schema(out);
    if (status == COMMAND_FINE)
        status = trace_read_state(out);
    if (status == COMMAND_FINE)
        status = trace_check_size(out);
    if (status != COMMAND_FINE)
        trace_close(out);
    return status;
}

int
trace_open_other(const char *path, struct trace *out)
{
    int status;

    *out = (struct trace){ .path = path };
    status = trace_check_file(out);
    if (status == COMMAND_FINE)
        status = trace_connect_somehow(out);
    if (status != COMMAND_FINE)
        trace_close(out);
    return status;
}

void
trace_close(struct trace *trace)
{
    sqlite3_close(trace->db);
    trace->db = NULL;
}

int
trace_verdict(const struct trace *trace)
{
    trace_say_unknown(trace);
    if (trace->complete && trace->lost_events == 0)
        return COMMAND_FINE;
    if (trace->lost_events != 0)
        fprintf(stderr, "%s: %" PRId64 " events could not be recorded: the answer is without them\n", trace->path,
                trace->lost_events);
    if (trace->complete)
        return COMMAND_INCOMPLETE;
    if (trace->in_progress)
        fprintf(stderr, "%s: the recording is in progress (process %" PRIu32 "): the answer is of this moment\n",
                trace->path, trace->process);
    else
        fprintf(stderr, "%s: the recording was cut off: what came after the last write is missing\n", trace->path);
    return COMMAND_INCOMPLETE;
}
