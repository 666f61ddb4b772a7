/* An open trace: simple queries and error messages. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/read/trace.h"

int
trace_broken(const struct trace *trace, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", trace->path);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    putc('\n', stderr);
    return COMMAND_WRONG;
}

int
trace_failed(const struct trace *trace)
{
    int code = sqlite3_errcode(trace->db) & 0xff;
    const char *text = sqlite3_errmsg(trace->db);

    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT)
        return trace_broken(trace, "the file is damaged or cut short: %s", text);
    return trace_broken(trace, "cannot be read: %s", text);
}

int
trace_integer(const struct trace *trace, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(trace->db, sql, -1, &statement, NULL);

    *out = 0;
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            *out = sqlite3_column_int64(statement, 0);
        code = sqlite3_finalize(statement);
    }
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(trace);
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
