/* Reports tables and columns of a trace that the viewer does not know. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/trace/database/schema.h"
#include "viewer/base/output.h"
#include "viewer/read/trace-unknown.h"

/* More names than this are not listed. */
#define UNKNOWN_SHOWN 6

struct unknown {
    const struct trace *trace;
    size_t count;
};

static void
unknown_say(struct unknown *unknown, const char *table, const char *column)
{
    if (unknown->count == 0)
        fprintf(stderr, "%s: it has what this tidemark does not know: ", unknown->trace->path);
    else if (unknown->count <= UNKNOWN_SHOWN)
        fputs(", ", stderr);
    if (unknown->count < UNKNOWN_SHOWN) {
        fputs(column != NULL ? "column " : "table ", stderr);
        output_text(stderr, table, strlen(table));
        if (column != NULL) {
            putc('.', stderr);
            output_text(stderr, column, strlen(column));
        }
    } else if (unknown->count == UNKNOWN_SHOWN) {
        fputs("...", stderr);
    }
    unknown->count++;
}

static bool
unknown_has(const struct tidei_table *table, const char *column)
{
    for (unsigned i = 0; i < table->column_count; i++) {
        if (sqlite3_stricmp(table->columns[i].name, column) == 0)
            return true;
    }
    return false;
}

/* Report the unknown columns of a known table. The statement is only prepared, never run. */
static void
unknown_look(struct unknown *unknown, const struct tidei_table *known, const char *table)
{
    sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", table);

    if (sql != NULL && sqlite3_prepare_v2(unknown->trace->db, sql, -1, &statement, NULL) == SQLITE_OK) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *column = sqlite3_column_name(statement, i);

            if (column != NULL && !unknown_has(known, column))
                unknown_say(unknown, table, column);
        }
    }
    sqlite3_finalize(statement);
    sqlite3_free(sql);
}

/* The viewer also reads call-stack tables that another program has added. */
static bool
unknown_is_read(const char *table)
{
    return strcmp(table, "callstack") == 0 || strcmp(table, "frame") == 0;
}

void
trace_say_unknown(const struct trace *trace)
{
    static const char sql[] = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage <> 0"
                              " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
    struct unknown unknown = { .trace = trace };
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(trace->db, sql, -1, &statement, NULL) == SQLITE_OK) {
        while (sqlite3_step(statement) == SQLITE_ROW) {
            const char *table = (const char *)sqlite3_column_text(statement, 0);
            const struct tidei_table *known = table != NULL ? tidei_table_find(table) : NULL;

            if (table == NULL || unknown_is_read(table))
                continue;
            if (known != NULL)
                unknown_look(&unknown, known, table);
            else
                unknown_say(&unknown, table, NULL);
        }
    }
    if (unknown.count > 0)
        putc('\n', stderr);
    sqlite3_finalize(statement);
}
