/* Checks a trace's schema before anything in the trace is read. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/trace/database/schema.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/trace-schema.h"

enum schema_table {
    SCHEMA_TABLE_FINE,
    SCHEMA_TABLE_MISSING,
    SCHEMA_TABLE_OTHER, /* a view or a virtual table, which would run code from the file */
    SCHEMA_TABLE_FAILED,
};

static enum schema_table
schema_find_table(const struct trace *trace, const char *table)
{
    static const char sql[] = "SELECT type = 'table' AND rootpage <> 0 FROM sqlite_master WHERE name = ?";
    enum schema_table found = SCHEMA_TABLE_FAILED;
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(trace->db, sql, -1, &statement, NULL);

    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_DONE)
        found = SCHEMA_TABLE_MISSING;
    else if (code == SQLITE_ROW)
        found = sqlite3_column_int64(statement, 0) == 1 ? SCHEMA_TABLE_FINE : SCHEMA_TABLE_OTHER;
    sqlite3_finalize(statement);
    return found;
}

static int
schema_check_table(const struct trace *trace, const char *table)
{
    switch (schema_find_table(trace, table)) {
    case SCHEMA_TABLE_FINE:
        return COMMAND_FINE;
    case SCHEMA_TABLE_MISSING:
        return trace_broken(trace, "no complete trace: the table %s is missing", table);
    case SCHEMA_TABLE_OTHER:
        return trace_broken(trace, "no trace: %s is no ordinary table", table);
    default:
        return trace_failed(trace);
    }
}

/* The first of `columns` that the table lacks, in `name`; "": none. An SQLite result code. */
static int
schema_missing_column(const struct trace *trace, const char *table, const char *columns, char name[64])
{
    int length;

    for (; sscanf(columns, " %63s%n", name, &length) == 1; columns += length) {
        int code = sqlite3_table_column_metadata(trace->db, NULL, table, name, NULL, NULL, NULL, NULL, NULL);

        if (code != SQLITE_OK)
            return code;
    }
    name[0] = '\0';
    return SQLITE_OK;
}

/*
 * Find one of `columns` that is a generated column, whose expression runs on each read, into `name`; "": none. PRAGMA
 * table_xinfo lists generated columns as hidden. An SQLite result code.
 */
static int
schema_computed_column(const struct trace *trace, const char *table, const char *columns, char name[64])
{
    static const char sql[] = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden <> 0"
                              " AND instr(lower(' ' || ?2 || ' '), lower(' ' || name || ' ')) LIMIT 1";
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(trace->db, sql, -1, &statement, NULL);

    name[0] = '\0';
    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, columns, -1, SQLITE_STATIC);
        if (sqlite3_step(statement) == SQLITE_ROW)
            snprintf(name, 64, "%s", (const char *)sqlite3_column_text(statement, 0));
        code = sqlite3_finalize(statement);
    }
    return code;
}

static int
schema_check_columns(const struct trace *trace, const char *table, const char *columns)
{
    char name[64];
    int code = schema_missing_column(trace, table, columns, name);

    if (code == SQLITE_ERROR)
        return trace_broken(trace, "no complete trace: the table %s has no column %s", table, name);
    if (code == SQLITE_OK)
        code = schema_computed_column(trace, table, columns, name);
    if (code == SQLITE_OK && name[0] != '\0')
        return trace_broken(trace, "no trace: the column %s of the table %s is computed", name, table);
    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(trace);
}

bool
trace_has(const struct trace *trace, const char *table, const char *columns)
{
    char name[64];

    return schema_find_table(trace, table) == SCHEMA_TABLE_FINE &&
           schema_missing_column(trace, table, columns, name) == SQLITE_OK &&
           schema_computed_column(trace, table, columns, name) == SQLITE_OK && name[0] == '\0';
}

static int
schema_check_version(const struct trace *trace)
{
    int64_t number;
    int status = trace_integer(trace, "PRAGMA application_id", &number);

    if (status != COMMAND_FINE)
        return status;
    if (number != TIDEI_TRACE_APPLICATION_ID)
        return trace_broken(trace, "no Tidemark trace, but another program's SQLite file");
    status = schema_check_table(trace, "meta");
    if (status == COMMAND_FINE)
        status = schema_check_columns(trace, "meta", "key value");
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

/* The columns of a table that a trace must have: "a b". More is fine. */
static void
schema_required(const struct tidei_table *table, char *columns, size_t size)
{
    size_t length = 0;

    for (unsigned i = 0; i < table->column_count; i++) {
        if (table->columns[i].type != TIDEI_COLUMN_ADDED)
            length += (size_t)snprintf(columns + length, size - length, "%s ", table->columns[i].name);
    }
}

int
trace_check_schema(const struct trace *trace)
{
    int status = schema_check_version(trace);

    for (size_t i = 0; status == COMMAND_FINE && i < TIDEI_TABLES; i++) {
        char columns[512];

        if (!tidei_tables[i].required)
            continue;
        schema_required(&tidei_tables[i], columns, sizeof(columns));
        status = schema_check_table(trace, tidei_tables[i].name);
        if (status == COMMAND_FINE)
            status = schema_check_columns(trace, tidei_tables[i].name, columns);
    }
    return status;
}
