/* `usage` and `event` as virtual tables, which read events in order instead of sorting them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/trace/database/schema.h"
#include "viewer/read/event-cursor.h"
#include "viewer/read/event-plan.h"
#include "viewer/read/event-tables.h"

/* Whether a statement's `text` is part of the schema that the recorder writes. */
static bool
view_is_known(const struct trace *trace, const char *view)
{
    sqlite3_stmt *statement = NULL;
    bool known = false;

    if (sqlite3_prepare_v2(trace->db, "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = ?", -1,
                           &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_text(statement, 1, view, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(statement, 0);
        const char *at = sql != NULL && sql[0] != '\0' ? strstr(tidei_trace_schema, sql) : NULL;

        known = at != NULL && at[strlen(sql)] == ';';
    }
    sqlite3_finalize(statement);
    return known;
}

static int
events_connect(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    const struct events_kind *kind = context;
    struct events_table *table;
    sqlite3_stmt *statement = NULL;
    char sql[512];
    int code;

    (void)argc;
    /* A file may declare tables of any module; only our own, in the temporary schema, is one. */
    if (strcmp(argv[1], "temp") != 0) {
        *message = sqlite3_mprintf("no such module: %s", kind->module);
        return SQLITE_ERROR;
    }
    snprintf(sql, sizeof(sql), "CREATE TABLE x(%s)", kind->columns);
    code = sqlite3_declare_vtab(db, sql);
    if (code != SQLITE_OK)
        return code;
    table = calloc(1, sizeof(*table));
    if (table == NULL)
        return SQLITE_NOMEM;
    table->db = db;
    table->kind = kind;
    if (sqlite3_prepare_v2(db, "SELECT max(allocation_id) FROM main.allocation", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        table->rows = 2 * (sqlite3_column_int64(statement, 0) & INT32_MAX);
    sqlite3_finalize(statement);
    table->rows += 1000;
    *out = &table->base;
    return SQLITE_OK;
}

/* Not the same as events_connect: else the module's own name would be a table, too. */
static int
events_create(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    return events_connect(db, context, argc, argv, out, message);
}

static int
events_disconnect(sqlite3_vtab *base)
{
    struct events_table *table = (struct events_table *)base;

    for (size_t i = 0; i < KEPT_MOST; i++)
        sqlite3_finalize(table->kept[i].rows);
    sqlite3_close(table->copy);
    free(table);
    return SQLITE_OK;
}

static const sqlite3_module events_module = {
    .iVersion = 0,
    .xCreate = events_create,
    .xConnect = events_connect,
    .xBestIndex = event_plan_make,
    .xDisconnect = events_disconnect,
    .xDestroy = events_disconnect,
    .xOpen = event_cursor_open,
    .xClose = event_cursor_close,
    .xFilter = event_cursor_filter,
    .xNext = event_cursor_next,
    .xEof = event_cursor_eof,
    .xColumn = event_cursor_column,
    .xRowid = event_cursor_rowid,
};

void
event_tables_add(const struct trace *trace)
{
    bool known = true;

    /* query_only holds for the temporary schema, too. */
    sqlite3_exec(trace->db, "PRAGMA query_only = OFF", NULL, NULL, NULL);
    for (size_t i = 0; i < EVENT_TABLES; i++) {
        const struct events_kind *kind = &event_table_kinds[i];
        char sql[128];

        /* `usage` is made of `event`, which comes first. */
        known = known && view_is_known(trace, kind->view);
        if (!known ||
            sqlite3_create_module_v2(trace->db, kind->module, &events_module, (void *)kind, NULL) != SQLITE_OK)
            continue;
        snprintf(sql, sizeof(sql), "CREATE VIRTUAL TABLE temp.%s USING %s", kind->view, kind->module);
        sqlite3_exec(trace->db, sql, NULL, NULL, NULL);
    }
    sqlite3_exec(trace->db, "PRAGMA query_only = ON", NULL, NULL, NULL);
}
