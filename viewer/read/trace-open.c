/* Opens a trace for reading, after it has checked the file, its tables and their columns. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/trace/database/schema.h"
#include "src/trace/database/vfs.h"
#include "src/trace/ring/ringfile.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/output.h"
#include "viewer/read/replayed.h"
#include "viewer/read/trace.h"

/* The listing of what the viewer does not know ends after this many names. */
#define SCHEMA_LISTED 6

/* Why a table or one of its columns cannot be read. */
enum schema_fault {
    SCHEMA_FINE,
    SCHEMA_NO_TABLE,
    SCHEMA_NOT_ORDINARY, /* a view or a virtual table, which would run code from the file */
    SCHEMA_NO_COLUMN,
    SCHEMA_COMPUTED, /* a generated column, whose expression runs on each read */
    SCHEMA_FAILED,   /* an error of SQLite */
};

/* Examine `table` and each of `columns` ("a b"). `column` is then the last one examined. */
static enum schema_fault
schema_examine(const struct trace *trace, const char *table, const char *columns, char column[64])
{
    static const char find_table[] = "SELECT type = 'table' AND rootpage <> 0 FROM sqlite_master WHERE name = %Q";
    static const char find_column[] = "SELECT hidden FROM pragma_table_xinfo(%Q) WHERE lower(name) = lower(%Q)";
    int64_t found;
    int code = trace_look_up(trace, &found, find_table, table);
    int length;

    if (code == SQLITE_DONE)
        return SCHEMA_NO_TABLE;
    if (code == SQLITE_ROW && found != 1)
        return SCHEMA_NOT_ORDINARY;
    for (; code == SQLITE_ROW && sscanf(columns, " %63s%n", column, &length) == 1; columns += length) {
        code = trace_look_up(trace, &found, find_column, table, column);
        if (code == SQLITE_DONE)
            return SCHEMA_NO_COLUMN;
        if (code == SQLITE_ROW && found != 0)
            return SCHEMA_COMPUTED;
    }
    return code == SQLITE_ROW ? SCHEMA_FINE : SCHEMA_FAILED;
}

bool
trace_has(const struct trace *trace, const char *table, const char *columns)
{
    char column[64];

    return schema_examine(trace, table, columns, column) == SCHEMA_FINE;
}

/* COMMAND_FINE if the table and all of `columns` can be read; or COMMAND_WRONG after a message. */
static int
schema_check(const struct trace *trace, const char *table, const char *columns)
{
    char column[64];

    switch (schema_examine(trace, table, columns, column)) {
    case SCHEMA_FINE:
        return COMMAND_FINE;
    case SCHEMA_NO_TABLE:
        return trace_broken(trace, "no complete trace: the table %s is missing", table);
    case SCHEMA_NOT_ORDINARY:
        return trace_broken(trace, "no trace: %s is no ordinary table", table);
    case SCHEMA_NO_COLUMN:
        return trace_broken(trace, "no complete trace: the table %s has no column %s", table, column);
    case SCHEMA_COMPUTED:
        return trace_broken(trace, "no trace: the column %s of the table %s is computed", column, table);
    default:
        return trace_failed(trace);
    }
}

static int
schema_check_version(const struct trace *trace)
{
    int64_t number;
    int status = trace_integer(trace, "PRAGMA application_id", &number);

    if (status != COMMAND_FINE)
        return status;
    if (number == JOB_APPLICATION_ID)
        return trace_broken(trace,
                            "it is the file of a job, and no trace: `tidemark ranks`, `report` and `check` read it");
    if (number != TIDEI_TRACE_APPLICATION_ID)
        return trace_broken(trace, "no Tidemark trace, but another program's SQLite file");
    status = schema_check(trace, "meta", "key value");
    if (status == COMMAND_FINE)
        status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'format_version'", &number);
    if (status != COMMAND_FINE)
        return status;
    if (number < 1)
        return trace_broken(trace, "no complete trace: meta has no format_version");
    if (number > TIDEI_TRACE_FORMAT)
        return trace_broken(trace, "trace format %" PRId64 " is newer than format %d, which this tidemark reads",
                            number, TIDEI_TRACE_FORMAT);
    return COMMAND_FINE;
}

/* The columns that a table of a trace must have: "a b". */
static void
schema_required(const struct tidei_table *table, char *columns, size_t size)
{
    size_t length = 0;

    for (unsigned i = 0; i < table->column_count; i++) {
        if (table->columns[i].type != TIDEI_COLUMN_ADDED)
            length += (size_t)snprintf(columns + length, size - length, "%s ", table->columns[i].name);
    }
}

static int
schema_check_all(const struct trace *trace)
{
    int status = schema_check_version(trace);

    for (size_t i = 0; status == COMMAND_FINE && i < TIDEI_TABLES; i++) {
        char columns[512];

        if (!tidei_tables[i].required)
            continue;
        schema_required(&tidei_tables[i], columns, sizeof(columns));
        status = schema_check(trace, tidei_tables[i].name, columns);
    }
    return status;
}

/* Tables and columns that the viewer does not know. */
struct schema_unknown {
    FILE *list;
    size_t count;
};

/* List an unknown table, or an unknown column of a known table. */
static void
schema_list(struct schema_unknown *unknown, const char *table, const char *column)
{
    if (unknown->count > 0 && unknown->count <= SCHEMA_LISTED)
        fputs(", ", unknown->list);
    if (unknown->count < SCHEMA_LISTED)
        fprintf(unknown->list, column != NULL ? "column %s.%s" : "table %s", table, column);
    else if (unknown->count == SCHEMA_LISTED)
        fputs("...", unknown->list);
    unknown->count++;
}

static bool
schema_has_column(const struct tidei_table *table, const char *column)
{
    for (unsigned i = 0; i < table->column_count; i++) {
        if (sqlite3_stricmp(table->columns[i].name, column) == 0)
            return true;
    }
    return false;
}

/* A row is a column of a table: both names, and the column's number. */
static int
schema_compare(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    struct schema_unknown *unknown = context;
    const char *table = (const char *)sqlite3_column_text(row, 0);
    const char *column = (const char *)sqlite3_column_text(row, 1);
    const struct tidei_table *known = table != NULL ? tidei_table_find(table) : NULL;

    (void)trace;
    if (table == NULL || column == NULL)
        return COMMAND_FINE;
    if (known != NULL && !schema_has_column(known, column))
        schema_list(unknown, table, column);
    else if (known == NULL && sqlite3_column_int64(row, 2) == 0)
        schema_list(unknown, table, NULL);
    return COMMAND_FINE;
}

/* List unknown tables and columns, which later recorders and users may add, on standard error. */
static void
schema_say_unknown(const struct trace *trace)
{
    /* The viewer also reads call-stack tables that another program has added. */
    static const char sql[] =
        "SELECT t.name, c.name, c.cid FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c"
        " WHERE t.type = 'table' AND t.rootpage <> 0 AND t.name NOT LIKE 'sqlite\\_%%' ESCAPE '\\'"
        " AND t.name NOT IN ('callstack', 'frame') ORDER BY t.rowid, c.cid";
    struct schema_unknown unknown = { NULL, 0 };
    char *list = NULL;
    size_t length;

    unknown.list = open_memstream(&list, &length);
    if (unknown.list == NULL)
        return;
    trace_each(trace, schema_compare, &unknown, sql);
    if (fclose(unknown.list) == 0 && unknown.count > 0)
        message("%s: it has what this tidemark does not know: %s", trace->path, list);
    free(list);
}

bool
trace_is_gone(const char *path)
{
    struct stat info;
    char *rings;
    bool gone;

    if (lstat(path, &info) == 0 || errno != ENOENT || asprintf(&rings, "%s" TIDEI_RINGS_SUFFIX, path) < 0)
        return false;
    gone = lstat(rings, &info) == 0 && S_ISREG(info.st_mode);
    if (gone)
        message("%s: the trace is not there, and what is left in %s cannot be recovered without it: remove that file, "
                "too",
                path, rings);
    free(rings);
    return gone;
}

void
trace_not_recovered(const char *path, const char *what, enum tide_status status)
{
    message("%s: %s: %s", path, what, tide_error_text());
    /* The disk is full or read-only, or the files are another user's. */
    if (status == TIDE_EIO)
        message("%s: `tidemark recover --into=FILE %s` takes it in to another place", path, path);
}

/*
 * Recover the ring files that a killed program has left beside its trace, and resolve the frames of its call stacks. If
 * that is impossible, the trace is read as it is, and meta.complete says that it is incomplete.
 */
static void
trace_prepare(struct trace *trace, bool no_symbols)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };

    enum tide_status status = tide_trace_recover(trace->path, &found);

    if (status != TIDE_OK)
        trace_not_recovered(trace->path, "what was left beside it is not taken in", status);
    else if (found.state != TIDE_TRACE_RECORDING && !no_symbols)
        tide_trace_resolve(trace->path, &frames); /* without a message: on failure, call stacks are addresses */
    if (frames.postponed)
        message("%s: looking up the names of call stacks takes longer: the next command goes on with %" PRIu64
                " frames",
                trace->path, frames.unresolved);
    if (found.state == TIDE_TRACE_RECOVERED)
        message("%s: taken over what process %" PRIu32 " had left: %" PRIu64 " record%s", trace->path, found.pid,
                found.events, found.events == 1 ? "" : "s");
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
    if (count < 0 && errno == ENOENT && trace_is_gone(trace->path))
        return COMMAND_WRONG;
    if (count < 0)
        return trace_broken(trace, "%s", strerror(errno));
    if (count == 0)
        return trace_broken(trace, "no trace: the file is empty");
    if (!file_head_is_sqlite(head, count))
        return trace_broken(trace, "no trace: not an SQLite file");
    return COMMAND_FINE;
}

/* `path` as an SQLite URI that says that nobody writes the file. The caller frees it; NULL: no memory. */
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

/* Open a database and begin to read. An SQLite result code. *out is set even on an error, for its message. */
static int
trace_try_connect(const char *path, int flags, sqlite3 **out)
{
    /* tide_trace_recover has brought it. */
    const char *vfs = sqlite3_vfs_find(TIDEI_VFS_NAME) != NULL ? TIDEI_VFS_NAME : NULL;
    int code = sqlite3_open_v2(path, out, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | flags, vfs);

    if (code != SQLITE_OK)
        return code;
    trace_harden(*out);
    code = sqlite3_exec(*out, "BEGIN", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return code;
    /* BEGIN takes no lock. The first statement that reads does, and notices a damaged file. */
    return sqlite3_exec(*out, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

static int
trace_connect(struct trace *trace)
{
    int code = trace_try_connect(trace->path, 0, &trace->db) & 0xff;
    char *uri;

    /* A trace in WAL mode needs files beside it, which SQLite cannot create on a read-only medium. */
    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY) {
        uri = trace_immutable_uri(trace->path);
        if (uri != NULL) {
            sqlite3_close(trace->db);
            code = trace_try_connect(uri, SQLITE_OPEN_URI, &trace->db) & 0xff;
            free(uri);
        }
    }
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(trace);
}

/* Traces that are made by hand may not say how they ended: a complete one did. Imports have a clock of their own. */
static enum trace_end
trace_read_end(const struct trace *trace)
{
    char *ended = trace_meta(trace, "ended");
    char *clock = trace_meta(trace, "clock");
    enum trace_end end = trace->complete ? TRACE_CLOSED : trace->in_progress ? TRACE_RUNNING : TRACE_KILLED;

    if (end == TRACE_CLOSED && clock != NULL && strcmp(clock, "imported") == 0)
        end = TRACE_IMPORTED;
    if (ended != NULL)
        end = strcmp(ended, "recovered") == 0  ? TRACE_KILLED
              : strcmp(ended, "imported") == 0 ? TRACE_IMPORTED
              : strcmp(ended, "failed") == 0   ? TRACE_FAILED
                                               : TRACE_CLOSED;
    else if (end == TRACE_KILLED && trace->failed)
        end = TRACE_FAILED;
    free(ended);
    free(clock);
    return end;
}

static int
trace_read_state(struct trace *trace)
{
    int64_t complete;
    char *failure;
    int status = trace_integer(trace, "SELECT value FROM meta WHERE key = 'complete'", &complete);

    if (status == COMMAND_FINE)
        status = trace_integer(trace, "SELECT sum(events) FROM loss", &trace->lost_events);
    trace->complete = complete == 1;
    /* The recording may have ended since trace_prepare. */
    trace->in_progress = trace->in_progress && !trace->complete;
    failure = trace_failure(trace);
    trace->failed = !trace->complete && !trace->in_progress && failure != NULL;
    trace->end = trace_read_end(trace);
    free(failure);
    return status;
}

/* Whether a write-ahead log with something in it lies beside the trace. */
static bool
trace_has_wal(const struct trace *trace)
{
    char *real = realpath(trace->path, NULL), *beside = NULL;
    struct stat info;
    bool has = real != NULL && asprintf(&beside, "%s-wal", real) >= 0 && stat(beside, &info) == 0 && info.st_size > 0;

    free(beside);
    free(real);
    return has;
}

/*
 * SQLite reads the missing rest of a last page as zeros. A file that is being written may end within a page, and so may
 * one whose last checkpoint met a full disk: its write-ahead log has these pages. Any other complete file never does.
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
    if (page_bytes > 0 && status.st_size % page_bytes != 0 && !trace_has_wal(trace))
        return trace_broken(trace, "the file is damaged or cut short: %lld bytes are no multiple of %" PRId64,
                            (long long)status.st_size, page_bytes);
    return COMMAND_FINE;
}

/* A file that neither belongs to the trace's owner nor to this user or root: anybody may have put it there. */
static bool
trace_is_of_others(const struct stat *beside, const struct stat *trace)
{
    return beside->st_uid != trace->st_uid && beside->st_uid != geteuid() && beside->st_uid != 0;
}

/* Check the files that SQLite opens beside the trace: on a pipe it would wait forever. */
static int
trace_check_beside(const struct trace *trace)
{
    static const char *const endings[] = { "-journal", "-wal", "-shm" };
    char *real = realpath(trace->path, NULL);
    int status = COMMAND_FINE;
    struct stat own;

    for (size_t i = 0; real != NULL && status == COMMAND_FINE && i < sizeof(endings) / sizeof(endings[0]); i++) {
        struct stat info;
        char *beside;

        if (asprintf(&beside, "%s%s", real, endings[i]) < 0)
            continue;
        if (lstat(beside, &info) == 0 && !S_ISREG(info.st_mode))
            status = trace_broken(trace, "%s beside it is no regular file", beside);
        else if (lstat(beside, &info) == 0 && stat(real, &own) == 0 && trace_is_of_others(&info, &own))
            status = trace_broken(trace, "%s beside it belongs to user %lu: it is not used", beside,
                                  (unsigned long)info.st_uid);
        free(beside);
    }
    free(real);
    return status;
}

/* How the file is opened. */
enum trace_kind {
    TRACE_OTHER,   /* another program's */
    TRACE_OWN,     /* a trace, whose call stacks get names */
    TRACE_UNNAMED, /* a trace, without a look at other files than its own */
};

/* Check the file, recover it if it is a trace, and begin to read. On failure the file is closed. */
static int
trace_begin(const char *path, enum trace_kind kind, struct trace *out)
{
    int status;

    *out = (struct trace){ .path = path };
    status = trace_check_head(out);
    if (status == COMMAND_FINE)
        status = trace_check_beside(out);
    if (status == COMMAND_FINE && kind != TRACE_OTHER)
        trace_prepare(out, kind == TRACE_UNNAMED);
    if (status == COMMAND_FINE)
        status = trace_connect(out);
    if (status != COMMAND_FINE)
        trace_close(out);
    return status;
}

static int
trace_read_head(const char *path, bool no_symbols, struct trace *out)
{
    int status = trace_begin(path, no_symbols ? TRACE_UNNAMED : TRACE_OWN, out);

    if (status == COMMAND_FINE)
        status = schema_check_all(out);
    if (status == COMMAND_FINE)
        status = trace_read_state(out);
    return status;
}

int
trace_open(const char *path, bool no_symbols, struct trace *out)
{
    int status = trace_read_head(path, no_symbols, out);

    if (status == COMMAND_FINE && trace_has(out, "tag", "tag_id parent_tag_id name") && trace_has_replay_tags(out)) {
        trace_close(out);
        trace_drop_replay_tags(path);
        status = trace_read_head(path, no_symbols, out);
    }
    if (status == COMMAND_FINE)
        status = trace_check_size(out);
    if (status != COMMAND_FINE)
        trace_close(out);
    return status;
}

int
trace_open_other(const char *path, struct trace *out)
{
    return trace_begin(path, TRACE_OTHER, out);
}

void
trace_close(struct trace *trace)
{
    sqlite3_close(trace->db);
    trace->db = NULL;
}

char *
trace_failure(const struct trace *trace)
{
    return trace_meta(trace, "failure");
}

const char *
trace_state_word(const struct trace *trace)
{
    return trace->complete ? "complete" : trace->in_progress ? "in progress" : trace->failed ? "incomplete" : "cut off";
}

/* Why a trace is not complete, for people. */
static void
trace_say_why(const struct trace *trace)
{
    char *failure = trace->failed ? trace_failure(trace) : NULL;

    if (trace->in_progress)
        message("%s: the recording is in progress (process %" PRIu32 "): the answer is of this moment", trace->path,
                trace->process);
    else if (trace->failed)
        message("%s: the trace is incomplete: %s", trace->path, failure != NULL ? failure : "no memory");
    else
        message("%s: the recording was cut off: what came after the last write is missing", trace->path);
    free(failure);
}

int
trace_verdict(const struct trace *trace)
{
    schema_say_unknown(trace);
    if (trace->complete && trace->lost_events == 0)
        return COMMAND_FINE;
    if (trace->lost_events != 0)
        message("%s: %" PRId64 " events could not be recorded: the answer is without them", trace->path,
                trace->lost_events);
    if (!trace->complete)
        trace_say_why(trace);
    return COMMAND_INCOMPLETE;
}
