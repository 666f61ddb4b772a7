/* The file of a job. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/file.h"
#include "viewer/base/message.h"
#include "viewer/ranks/job.h"

/* How long a rank waits for others to be written. */
#define JOB_WAIT_MS (30 * 60 * 1000)

const char job_schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;\n"
    "CREATE TABLE memory(memory_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);\n"
    "CREATE TABLE allocation_group(group_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,\n"
    "    UNIQUE(kind, name));\n"
    "CREATE TABLE rank(rank INTEGER PRIMARY KEY, trace TEXT NOT NULL, path TEXT NOT NULL, job TEXT, hostname TEXT,\n"
    "    pid INTEGER, local_rank INTEGER, start_unix_ns INTEGER NOT NULL, first_ns INTEGER NOT NULL,\n"
    "    last_ns INTEGER NOT NULL, complete INTEGER NOT NULL, ended TEXT NOT NULL, lost_events INTEGER NOT NULL,\n"
    "    allocations INTEGER NOT NULL, frees INTEGER NOT NULL, failures INTEGER NOT NULL,\n"
    "    allocated_bytes INTEGER NOT NULL, command TEXT, versions TEXT);\n"
    "CREATE TABLE rank_memory(rank INTEGER NOT NULL, memory_id INTEGER NOT NULL, device INTEGER,\n"
    "    peak_bytes INTEGER NOT NULL, peak_ns INTEGER NOT NULL, peak_count INTEGER NOT NULL,\n"
    "    peak_step INTEGER NOT NULL, live_end_bytes INTEGER NOT NULL, reserved_peak_bytes INTEGER,\n"
    "    reserved_is_exact INTEGER, limit_bytes INTEGER, allocations INTEGER NOT NULL, frees INTEGER NOT NULL,\n"
    "    failures INTEGER NOT NULL, allocated_bytes INTEGER NOT NULL, bucket_shift INTEGER NOT NULL,\n"
    "    whole_steps INTEGER NOT NULL, first_step INTEGER, last_step INTEGER, grown_bytes INTEGER NOT NULL,\n"
    "    rose INTEGER NOT NULL, PRIMARY KEY(rank, memory_id)) WITHOUT ROWID;\n"
    "CREATE TABLE usage_bucket(rank INTEGER NOT NULL, memory_id INTEGER NOT NULL, bucket INTEGER NOT NULL,\n"
    "    most_bytes INTEGER NOT NULL, least_bytes INTEGER NOT NULL, end_bytes INTEGER NOT NULL,\n"
    "    reserved_most_bytes INTEGER, reserved_least_bytes INTEGER, reserved_end_bytes INTEGER,\n"
    "    allocations INTEGER NOT NULL, frees INTEGER NOT NULL, failures INTEGER NOT NULL,\n"
    "    PRIMARY KEY(rank, memory_id, bucket)) WITHOUT ROWID;\n"
    "CREATE TABLE peak_group(rank INTEGER NOT NULL, memory_id INTEGER NOT NULL, group_id INTEGER NOT NULL,\n"
    "    bytes INTEGER NOT NULL, count INTEGER NOT NULL, peak_without_bytes INTEGER NOT NULL,\n"
    "    PRIMARY KEY(rank, memory_id, group_id)) WITHOUT ROWID;\n"
    "CREATE TABLE step(rank INTEGER NOT NULL, memory_id INTEGER NOT NULL, step INTEGER NOT NULL,\n"
    "    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, is_whole INTEGER NOT NULL, peak_bytes INTEGER NOT NULL,\n"
    "    peak_ns INTEGER NOT NULL, end_bytes INTEGER NOT NULL, reserved_bytes INTEGER, allocations INTEGER NOT NULL,\n"
    "    allocated_bytes INTEGER NOT NULL, PRIMARY KEY(rank, memory_id, step)) WITHOUT ROWID;\n"
    "CREATE TABLE step_group(rank INTEGER NOT NULL, memory_id INTEGER NOT NULL, group_id INTEGER NOT NULL,\n"
    "    step INTEGER NOT NULL, peak_bytes INTEGER NOT NULL, end_bytes INTEGER NOT NULL,\n"
    "    PRIMARY KEY(rank, memory_id, group_id, step)) WITHOUT ROWID;\n"
    "CREATE TABLE group_cut(rank INTEGER NOT NULL, memory_id INTEGER NOT NULL, kind TEXT NOT NULL,\n"
    "    peak_bytes INTEGER NOT NULL, step_bytes INTEGER NOT NULL, PRIMARY KEY(memory_id, kind, rank)) WITHOUT ROWID;\n"
    "CREATE TABLE failure(rank INTEGER NOT NULL, memory_id INTEGER, ns INTEGER NOT NULL, size INTEGER NOT NULL,\n"
    "    status TEXT NOT NULL, cause TEXT NOT NULL, layer TEXT, live_bytes INTEGER NOT NULL, tag TEXT, text TEXT);\n"
    "CREATE TABLE mark(rank INTEGER NOT NULL, ns INTEGER NOT NULL, text TEXT NOT NULL);\n"
    "CREATE TABLE left_out(path TEXT NOT NULL, rank INTEGER, reason TEXT NOT NULL);\n"
    "CREATE TABLE step_median(memory_id INTEGER NOT NULL, step INTEGER NOT NULL, ranks INTEGER NOT NULL,\n"
    "    peak_bytes INTEGER NOT NULL, end_bytes INTEGER NOT NULL, ended_ranks INTEGER NOT NULL,\n"
    "    ended_bytes INTEGER NOT NULL, PRIMARY KEY(memory_id, step)) WITHOUT ROWID;\n"
    "CREATE TABLE group_median(memory_id INTEGER NOT NULL, group_id INTEGER NOT NULL, ranks INTEGER NOT NULL,\n"
    "    least_bytes INTEGER NOT NULL, most_bytes INTEGER NOT NULL, PRIMARY KEY(memory_id, group_id)) WITHOUT ROWID;\n"
    "CREATE TABLE group_step_median(memory_id INTEGER NOT NULL, group_id INTEGER NOT NULL, step INTEGER NOT NULL,\n"
    "    peak_least_bytes INTEGER NOT NULL, peak_most_bytes INTEGER NOT NULL, end_least_bytes INTEGER NOT NULL,\n"
    "    end_most_bytes INTEGER NOT NULL, PRIMARY KEY(memory_id, group_id, step)) WITHOUT ROWID;\n";

#define JOB_TABLE_NAME(name, columns) { #name, columns },
static const struct job_table_text {
    const char *name;
    int columns;
} job_tables[] = { JOB_TABLES(JOB_TABLE_NAME) };
#undef JOB_TABLE_NAME

int
job_failed(const struct job *job)
{
    message("%s: %s", job->path, sqlite3_errmsg(job->db));
    return COMMAND_WRONG;
}

enum job_file
job_look(const char *path)
{
    unsigned char head[100];
    struct stat info;
    ssize_t length;

    if (stat(path, &info) != 0)
        return JOB_FILE_NONE;
    length = file_head(path, (char *)head, sizeof(head));
    if (length == 0)
        return JOB_FILE_EMPTY;
    return length >= 72 && file_head_is_sqlite((const char *)head, length) &&
                   ((uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 | head[71]) ==
                       JOB_APPLICATION_ID
               ? JOB_FILE_JOB
               : JOB_FILE_OTHER;
}

int
job_execute(struct job *job, const char *format, ...)
{
    va_list arguments;
    char *sql;
    int code;

    va_start(arguments, format);
    sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    code = sql != NULL ? sqlite3_exec(job->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code == SQLITE_OK ? COMMAND_FINE : job_failed(job);
}

/* Make the tables, unless another process has. */
static int
job_make(struct job *job)
{
    sqlite3_stmt *statement = NULL;
    bool is_made = false;
    int status = job_begin(job);

    if (status != COMMAND_FINE)
        return status;
    if (sqlite3_prepare_v2(job->db, "SELECT 1 FROM sqlite_master WHERE name = 'meta'", -1, &statement, NULL) !=
        SQLITE_OK)
        return job_failed(job);
    is_made = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    if (!is_made) {
        status = job_execute(job, "PRAGMA application_id = %d", JOB_APPLICATION_ID);
        if (status == COMMAND_FINE && sqlite3_exec(job->db, job_schema, NULL, NULL, NULL) != SQLITE_OK)
            status = job_failed(job);
        if (status == COMMAND_FINE)
            status = job_execute(job, "INSERT INTO meta VALUES ('format_version', %d), ('complete', 0)", JOB_FORMAT);
    }
    return status == COMMAND_FINE ? job_commit(job) : status;
}

int
job_open(const char *path, struct job *out)
{
    int status = COMMAND_FINE;

    *out = (struct job){ .path = path };
    if (sqlite3_open_v2(path, &out->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        status = job_failed(out);
    if (status == COMMAND_FINE) {
        sqlite3_db_config(out->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(out->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_busy_timeout(out->db, JOB_WAIT_MS);
        /* As a trace, the file survives the death of its process, but nothing waits for the disk. */
        status = job_execute(out, "PRAGMA synchronous = OFF; PRAGMA cache_size = -4096");
    }
    if (status == COMMAND_FINE)
        status = job_make(out);
    if (status != COMMAND_FINE)
        job_close(out);
    return status;
}

void
job_close(struct job *job)
{
    for (size_t i = 0; i < JOB_TABLE_COUNT; i++) {
        sqlite3_finalize(job->rows[i]);
        job->rows[i] = NULL;
    }
    sqlite3_close(job->db); /* undoes a transaction that has not ended */
    job->db = NULL;
}

int
job_read(const char *path, struct trace *out)
{
    int64_t version = 0;
    int status;

    switch (job_look(path)) {
    case JOB_FILE_NONE:
        message("%s: %s", path, strerror(errno));
        return COMMAND_WRONG;
    case JOB_FILE_JOB:
        break;
    default:
        message("%s: it is no file of a job; `tidemark merge` makes one of the traces of its ranks", path);
        return COMMAND_WRONG;
    }
    status = trace_open_other(path, out);
    if (status != COMMAND_FINE)
        return status;
    if (!trace_has(out, "meta", ""))
        status = trace_broken(out, "the table meta is missing");
    if (status == COMMAND_FINE)
        status = trace_integer(out, "SELECT value FROM meta WHERE key = 'format_version'", &version);
    if (status == COMMAND_FINE && version != JOB_FORMAT)
        status = trace_broken(out, "its format is %lld, and this version reads %d%s", (long long)version, JOB_FORMAT,
                              version < JOB_FORMAT ? ": merge its traces again into a new file" : "");
    for (size_t i = 0; i < JOB_TABLE_COUNT && status == COMMAND_FINE; i++) {
        if (!trace_has(out, job_tables[i].name, ""))
            status = trace_broken(out, "the table %s is missing", job_tables[i].name);
    }
    if (status != COMMAND_FINE)
        trace_close(out);
    return status;
}

int
job_wrong(const struct trace *file, const char *table, int64_t rank)
{
    if (rank < 0)
        return trace_broken(file, "it has figures that cannot be, in the table %s", table);
    return trace_broken(file, "it has figures that cannot be, of rank %lld in the table %s", (long long)rank, table);
}

int
job_begin(struct job *job)
{
    return job_execute(job, "BEGIN IMMEDIATE");
}

int
job_commit(struct job *job)
{
    return job_execute(job, "COMMIT");
}

static int
job_prepare(struct job *job, enum job_table table)
{
    char sql[128] = "", places[64] = "?";

    for (int i = 1; i < job_tables[table].columns; i++)
        strcat(places, ",?");
    snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (%s)", job_tables[table].name, places);
    return sqlite3_prepare_v3(job->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &job->rows[table], NULL) == SQLITE_OK
               ? COMMAND_FINE
               : job_failed(job);
}

static int
job_bind(sqlite3_stmt *statement, int place, const struct tidei_value *value)
{
    if (value->kind == TIDEI_VALUE_INTEGER)
        return sqlite3_bind_int64(statement, place, value->integer);
    if (value->kind == TIDEI_VALUE_TEXT && value->text != NULL)
        return sqlite3_bind_text(statement, place, value->text, (int)value->integer, SQLITE_STATIC);
    return sqlite3_bind_null(statement, place);
}

int
job_insert_row(struct job *job, enum job_table table, const struct tidei_value *values)
{
    sqlite3_stmt *statement;
    int code = SQLITE_OK;

    if (job->rows[table] == NULL && job_prepare(job, table) != COMMAND_FINE)
        return COMMAND_WRONG;
    statement = job->rows[table];
    for (int i = 0; i < job_tables[table].columns && code == SQLITE_OK; i++)
        code = job_bind(statement, i + 1, &values[i]);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code != SQLITE_DONE)
        job_failed(job);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? COMMAND_FINE : COMMAND_WRONG;
}

/* The id of the row that `find` finds; where there is none, it is that of a row of `table` with these values. */
static int64_t
job_id(struct job *job, enum job_table table, const char *find, const char *const *texts, size_t count)
{
    struct tidei_value values[3] = { { 0 } };
    sqlite3_stmt *statement = NULL;
    int64_t id = 0;
    int code = sqlite3_prepare_v2(job->db, find, -1, &statement, NULL);

    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        code = sqlite3_bind_text(statement, (int)i + 1, texts[i], -1, SQLITE_STATIC);
        values[i + 1] = (struct tidei_value)TIDEI_TEXT(texts[i]);
    }
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        id = sqlite3_column_int64(statement, 0);
    else if (code != SQLITE_DONE)
        job_failed(job);
    sqlite3_finalize(statement);
    if (code != SQLITE_DONE)
        return id;
    return job_insert_row(job, table, values) == COMMAND_FINE ? sqlite3_last_insert_rowid(job->db) : 0;
}

int64_t
job_memory(struct job *job, const char *name)
{
    return job_id(job, JOB_memory, "SELECT memory_id FROM memory WHERE name = ?", &name, 1);
}

int64_t
job_group(struct job *job, const char *by, const char *name)
{
    const char *const texts[] = { by, name };

    return job_id(job, JOB_allocation_group, "SELECT group_id FROM allocation_group WHERE kind = ? AND name = ?", texts,
                  2);
}

static void
job_put_missing(FILE *out, int64_t first, int64_t end, int64_t *count)
{
    if (first >= end)
        return;
    fprintf(out, "%s%lld", *count > 0 ? ", " : "", (long long)first);
    if (end > first + 1)
        fprintf(out, "-%lld", (long long)(end - 1));
    *count += end - first;
}

bool
job_missing(sqlite3 *db, int64_t world_size, char **text, int64_t *count)
{
    static const char sql[] = "SELECT rank FROM rank WHERE rank >= 0 ORDER BY rank";
    sqlite3_stmt *statement = NULL;
    size_t length = 0;
    FILE *out;
    int64_t next = 0;

    *text = NULL;
    *count = 0;
    out = open_memstream(text, &length);
    if (out == NULL)
        return false;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) {
        while (sqlite3_step(statement) == SQLITE_ROW && next < world_size) {
            int64_t rank = sqlite3_column_int64(statement, 0);

            job_put_missing(out, next, rank < world_size ? rank : world_size, count);
            next = rank < world_size ? rank + 1 : world_size;
        }
        job_put_missing(out, next, world_size, count);
    }
    sqlite3_finalize(statement);
    if (fclose(out) != 0 || *count == 0) {
        free(*text);
        *text = NULL;
    }
    return *count == 0 || *text != NULL;
}
