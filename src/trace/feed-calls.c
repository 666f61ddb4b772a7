/* Feeds the driver's calls to SQLite as the virtual table `tidei_calls`; see feed.c. */
#include "config.h"

#include <string.h>

#include "trace/join.h"
#include "trace/store.h"

struct feed_calls_table {
    sqlite3_vtab base; /* first */
    struct tidei_store *store;
};

struct feed_calls_cursor {
    sqlite3_vtab_cursor base; /* first */
    const struct tidei_driver_call *rows;
    size_t count;
    size_t row;
};

static int
feed_calls_connect(sqlite3 *db, void *store, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    struct feed_calls_table *table = sqlite3_malloc(sizeof(*table));

    (void)argc;
    (void)argv;
    (void)error;
    if (table == NULL)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof(*table));
    table->store = store;
    *out = &table->base;
    return sqlite3_declare_vtab(db, "CREATE TABLE calls(allocation_id, is_free, function, start_ns, duration_ns,"
                                    " thread_id, result)");
}

static int
feed_calls_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int
feed_calls_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int
feed_calls_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    const struct tidei_store *store = ((struct feed_calls_table *)table)->store;
    struct feed_calls_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof(*cursor));
    if (store->join != NULL)
        cursor->rows = tidei_join_rows(store->join, &cursor->count);
    *out = &cursor->base;
    return SQLITE_OK;
}

static int
feed_calls_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int
feed_calls_filter(sqlite3_vtab_cursor *cursor, int index, const char *name, int argc, sqlite3_value **argv)
{
    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    ((struct feed_calls_cursor *)cursor)->row = 0;
    return SQLITE_OK;
}

static int
feed_calls_next(sqlite3_vtab_cursor *cursor)
{
    ((struct feed_calls_cursor *)cursor)->row++;
    return SQLITE_OK;
}

static int
feed_calls_eof(sqlite3_vtab_cursor *base)
{
    const struct feed_calls_cursor *cursor = (const struct feed_calls_cursor *)base;

    return cursor->row >= cursor->count;
}

static int
feed_calls_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct feed_calls_cursor *cursor = (const struct feed_calls_cursor *)base;
    const struct tidei_driver_call *call = &cursor->rows[cursor->row];
    const sqlite3_int64 numbers[] = {
        (sqlite3_int64)call->allocation_id, call->is_free,   0,           (sqlite3_int64)call->start_ns,
        (sqlite3_int64)call->duration_ns,   call->thread_id, call->result
    };

    if (column == 2)
        sqlite3_result_text(context, call->function, -1, SQLITE_STATIC);
    else
        sqlite3_result_int64(context, numbers[column]);
    return SQLITE_OK;
}

static int
feed_calls_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct feed_calls_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module feed_calls_module = {
    .xConnect = feed_calls_connect,
    .xBestIndex = feed_calls_best_index,
    .xDisconnect = feed_calls_disconnect,
    .xOpen = feed_calls_open,
    .xClose = feed_calls_close,
    .xFilter = feed_calls_filter,
    .xNext = feed_calls_next,
    .xEof = feed_calls_eof,
    .xColumn = feed_calls_column,
    .xRowid = feed_calls_rowid,
};

int
tidei_feed_calls_register(struct tidei_store *store)
{
    return sqlite3_create_module(store->db, "tidei_calls", &feed_calls_module, store);
}
