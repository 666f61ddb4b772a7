/* The virtual tables' common part: module, table and cursor. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/trace/database/bulk.h"

/* Rows between two drains of the rings: about 2 ms. */
#define BULK_POLL_ROWS 4096

/* Owned by SQLite. */
struct bulk_module {
    const struct tidei_bulk_table *table;
    struct tidei_database *database;
};

struct bulk_vtab {
    sqlite3_vtab base; /* first */
    const struct bulk_module *module;
};

static int
bulk_connect(sqlite3 *db, void *data, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    const struct bulk_module *module = data;
    struct bulk_vtab *vtab = sqlite3_malloc(sizeof(*vtab));
    char *sql = sqlite3_mprintf("CREATE TABLE bulk(%s)", tidei_tables[module->table->into].names);
    int code = SQLITE_NOMEM;

    (void)argc;
    (void)argv;
    (void)error;
    if (vtab != NULL && sql != NULL)
        code = sqlite3_declare_vtab(db, sql);
    sqlite3_free(sql);
    if (code != SQLITE_OK) {
        sqlite3_free(vtab);
        return code;
    }
    memset(vtab, 0, sizeof(*vtab));
    vtab->module = module;
    *out = &vtab->base;
    return SQLITE_OK;
}

static int
bulk_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int
bulk_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int
bulk_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    const struct bulk_module *module = ((struct bulk_vtab *)vtab)->module;
    struct tidei_bulk_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof(*cursor));
    cursor->database = module->database;
    cursor->table = module->table;
    *out = &cursor->base;
    return SQLITE_OK;
}

static int
bulk_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int
bulk_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc, sqlite3_value **argv)
{
    struct tidei_bulk_cursor *cursor = (struct tidei_bulk_cursor *)base;

    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    cursor->row = cursor->next = 0;
    cursor->at_end = !cursor->table->load(cursor);
    return SQLITE_OK;
}

static int
bulk_next(sqlite3_vtab_cursor *base)
{
    struct tidei_bulk_cursor *cursor = (struct tidei_bulk_cursor *)base;
    const struct tidei_database *database = cursor->database;

    if (++cursor->row % BULK_POLL_ROWS == 0) {
        tidei_guard_renew(&database->guard);
        if (database->poll != NULL)
            database->poll(database->poll_context, 0);
    }
    cursor->at_end = !cursor->table->load(cursor);
    return SQLITE_OK;
}

static int
bulk_eof(sqlite3_vtab_cursor *base)
{
    return ((const struct tidei_bulk_cursor *)base)->at_end;
}

static int
bulk_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct tidei_value *value = &((const struct tidei_bulk_cursor *)base)->values[column];

    if (value->kind == TIDEI_VALUE_INTEGER)
        sqlite3_result_int64(context, value->integer);
    else if (value->kind == TIDEI_VALUE_TEXT)
        sqlite3_result_text(context, value->text, -1, SQLITE_STATIC);
    return SQLITE_OK;
}

static int
bulk_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((const struct tidei_bulk_cursor *)base)->row;
    return SQLITE_OK;
}

/* Without xCreate the tables exist only for this connection, and in no schema. */
static const sqlite3_module bulk_functions = {
    .xConnect = bulk_connect,
    .xBestIndex = bulk_best_index,
    .xDisconnect = bulk_disconnect,
    .xOpen = bulk_open,
    .xClose = bulk_close,
    .xFilter = bulk_filter,
    .xNext = bulk_next,
    .xEof = bulk_eof,
    .xColumn = bulk_column,
    .xRowid = bulk_rowid,
};

int
tidei_bulk_register(struct tidei_database *database, const struct tidei_bulk_table *table)
{
    struct bulk_module *module = malloc(sizeof(*module));

    if (module == NULL)
        return SQLITE_NOMEM;
    *module = (struct bulk_module){ table, database };
    return sqlite3_create_module_v2(database->db, table->name, &bulk_functions, module, free);
}

int
tidei_bulk_prepare(struct tidei_database *database, const struct tidei_bulk_table *table, sqlite3_stmt **out)
{
    char source[64];

    sqlite3_snprintf(sizeof(source), source, "SELECT * FROM %s", table->name);
    return tidei_insert_prepare(database->db, table->verb, table->into, source, out);
}
