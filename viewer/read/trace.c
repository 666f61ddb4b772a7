/* Queries of an open trace, and messages about it. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/trace/database/vfs.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/trace.h"

int
trace_broken(const struct trace *trace, const char *format, ...)
{
    va_list arguments;
    char *text;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    message("%s: %s", trace->path, text != NULL ? text : "no memory for a message");
    free(text);
    return COMMAND_WRONG;
}

int
trace_failed(const struct trace *trace)
{
    int code = sqlite3_errcode(trace->db) & 0xff;
    const char *text = sqlite3_errmsg(trace->db);

    switch (tidei_vfs_index(trace->db)) {
    case TIDEI_VFS_INDEX_TORN:
    case TIDEI_VFS_INDEX_KEPT:
        return trace_broken(trace, "the file %s-shm was cut off while it was read", trace->path);
    case TIDEI_VFS_INDEX_NO_ROOM:
        return trace_broken(trace, "no space for the file %s-shm, by which SQLite reads it", trace->path);
    default:
        break;
    }
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT)
        return trace_broken(trace, "the file is damaged or cut short: %s", text);
    return trace_broken(trace, "cannot be read: %s", text);
}

/* Prepare the query `format`. An SQLite result code. */
static int
trace_prepare(const struct trace *trace, sqlite3_stmt **out, const char *format, va_list arguments)
{
    char *sql = sqlite3_vmprintf(format, arguments);
    int code = sql != NULL ? sqlite3_prepare_v2(trace->db, sql, -1, out, NULL) : SQLITE_NOMEM;

    sqlite3_free(sql);
    return code;
}

int
trace_each(const struct trace *trace, trace_row *row, void *context, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    int status = COMMAND_FINE;
    va_list arguments;
    int code;

    va_start(arguments, format);
    code = trace_prepare(trace, &statement, format, arguments);
    va_end(arguments);
    while (status == COMMAND_FINE && (code == SQLITE_OK || code == SQLITE_ROW)) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            status = row(context, trace, statement);
    }
    if (status == COMMAND_FINE && code != SQLITE_DONE)
        status = trace_failed(trace);
    sqlite3_finalize(statement);
    return status;
}

int
trace_look_up(const struct trace *trace, int64_t *out, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list arguments;
    int code;

    va_start(arguments, format);
    code = trace_prepare(trace, &statement, format, arguments);
    va_end(arguments);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return code;
}

int
trace_integer(const struct trace *trace, const char *sql, int64_t *out)
{
    int code = trace_look_up(trace, out, "%s", sql);

    return code == SQLITE_ROW || code == SQLITE_DONE ? COMMAND_FINE : trace_failed(trace);
}

char *
trace_meta(const struct trace *trace, const char *key)
{
    sqlite3_stmt *statement = NULL;
    char *text = NULL;

    if (sqlite3_prepare_v2(trace->db, "SELECT value FROM meta WHERE key = ?", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW &&
        sqlite3_column_text(statement, 0) != NULL)
        text = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return text;
}

const char *
trace_end_word(const struct trace *trace)
{
    static const char *const words[] = { "closed", "killed", "running", "imported", "failed" };

    return words[trace->end];
}

const char *
trace_live_words(const struct trace *trace)
{
    static const char *const words[] = { "live at the end", "live when it was killed", "live so far", "live at the end",
                                         "live when the recording failed" };

    return words[trace->end];
}

bool
trace_is_cut(const struct trace *trace)
{
    return trace->end == TRACE_KILLED || trace->end == TRACE_RUNNING || trace->end == TRACE_FAILED;
}
