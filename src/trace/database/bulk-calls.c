/* Feeds driver_call and device_event to SQLite, as virtual tables that bulk statements read; see feed.c. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/trace/cupti/device-events.h"
#include "src/trace/events/event-calls.h"
#include "src/trace/ring/function.h"
#include "src/trace/database/database.h"

/* How many rows go by between two looks at the rings: about 2 ms. */
#define FEED_POLL_ROWS 4096

struct feed_cursor {
    sqlite3_vtab_cursor base; /* first */
    const struct tidei_store *store;
    uint64_t steps;
    size_t row;
    size_t count;                  /* of an array */
    const void *rows;              /* the array; borrowed */
    struct tidei_event_calls walk; /* of the slice */
    struct tidei_event_call call;
};

/* What tells the tables apart. */
struct feed_kind {
    const char *name;
    const char *schema;
    void (*open)(struct feed_cursor *cursor);
    bool (*next)(struct feed_cursor *cursor); /* to the first or the next row; false: there is none */
    void (*column)(const struct feed_cursor *cursor, sqlite3_context *context, int column);
};

/* The module's own data. Owned by SQLite. */
struct feed_module {
    const struct feed_kind *kind;
    struct tidei_store *store;
};

struct feed_table {
    sqlite3_vtab base; /* first */
    const struct feed_module *module;
};

static const struct feed_kind *
feed_kind_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct feed_table *)cursor->pVtab)->module->kind;
}

static void
feed_text(sqlite3_context *context, const char *text)
{
    if (text != NULL)
        sqlite3_result_text(context, text, -1, SQLITE_STATIC);
}

/* A number that `none` stands for is NULL. */
static void
feed_number(sqlite3_context *context, uint64_t number, uint64_t none)
{
    if (number != none)
        sqlite3_result_int64(context, (sqlite3_int64)number);
}

/* The calls that came with the events of the slice. */
static void
feed_calls_open(struct feed_cursor *cursor)
{
    memset(&cursor->walk, 0, sizeof(cursor->walk));
}

static bool
feed_calls_next(struct feed_cursor *cursor)
{
    return tidei_event_calls_next(&cursor->walk, cursor->store->pair, &cursor->call);
}

/* On the line of the event's own row, so that a call never lies outside of it. */
static uint64_t
feed_calls_start(const struct feed_cursor *cursor)
{
    uint64_t begin = cursor->call.event->ticks - cursor->call.event->duration_ticks;

    return tidei_store_ns(cursor->store, begin) +
           (uint64_t)((double)(cursor->call.part.start - begin) * cursor->store->line.ns_per_tick);
}

static void
feed_calls_column(const struct feed_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_event_call *call = &cursor->call;
    double ticks = (double)(call->part.end - call->part.start);

    if (column == 0)
        sqlite3_result_int64(context, (sqlite3_int64)call->allocation_id);
    else if (column == 1)
        sqlite3_result_int(context, call->is_free);
    else if (column == 2)
        feed_text(context, tidei_function_name(call->part.function));
    else if (column == 3)
        sqlite3_result_int64(context, (sqlite3_int64)feed_calls_start(cursor));
    else if (column == 4)
        sqlite3_result_int64(context, (sqlite3_int64)(ticks * cursor->store->line.ns_per_tick));
    else if (column == 5)
        sqlite3_result_int64(context, call->event->thread);
    else if (column == 6)
        sqlite3_result_int(context, call->part.result);
    else
        feed_number(context, call->part.correlation, 0);
}

static bool
feed_array_next(struct feed_cursor *cursor)
{
    return cursor->row++ < cursor->count;
}

/* The calls past all logs. */
static void
feed_outside_open(struct feed_cursor *cursor)
{
    if (cursor->store->devices != NULL)
        cursor->rows = tidei_devices_outside(cursor->store->devices, &cursor->count);
}

static void
feed_outside_column(const struct feed_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_outside_row *row = (const struct tidei_outside_row *)cursor->rows + cursor->row - 1;

    if (column == 1)
        sqlite3_result_int(context, tidei_function_is_free(row->part.function));
    else if (column == 2)
        feed_text(context, tidei_function_name(row->part.function));
    else if (column == 3)
        sqlite3_result_int64(context, (sqlite3_int64)row->start_ns);
    else if (column == 4)
        sqlite3_result_int64(context, (sqlite3_int64)row->duration_ns);
    else if (column == 5)
        feed_number(context, row->thread_id, 0);
    else if (column == 6)
        sqlite3_result_int(context, row->part.result);
    else if (column == 7)
        feed_number(context, row->part.correlation, 0);
}

static void
feed_devices_open(struct feed_cursor *cursor)
{
    if (cursor->store->devices != NULL)
        cursor->rows = tidei_devices_rows(cursor->store->devices, &cursor->count);
}

static const char *const feed_device_kinds[] = { "allocation", "release", "pool_created", "pool_destroyed",
                                                 "pool_trimmed" };
static const char *const feed_memory_kinds[] = { "unknown", "pageable", "pinned",        "device",
                                                 "array",   "managed",  "device_static", "managed_static" };
static const char *const feed_pool_kinds[] = { NULL, "local", "imported" };

#define FEED_MEMORY_KINDS (sizeof(feed_memory_kinds) / sizeof(feed_memory_kinds[0]))

/* The columns that say something of the memory; not of a pool's event. */
static void
feed_devices_memory(const struct tidei_device_event *event, sqlite3_context *context, int column)
{
    if (event->kind > TIDEI_DEVICE_RELEASE)
        return;
    if (column == 2)
        sqlite3_result_int64(context, (sqlite3_int64)event->address);
    else if (column == 3)
        sqlite3_result_int64(context, (sqlite3_int64)event->bytes);
    else
        feed_text(context, feed_memory_kinds[event->memory_kind < FEED_MEMORY_KINDS ? event->memory_kind : 0]);
}

/* The columns that say something of the pool; NULL without one, and its figures are those of a pool of this process. */
static void
feed_devices_pool(const struct tidei_device_event *event, sqlite3_context *context, int column)
{
    bool local = event->pool == TIDEI_DEVICE_POOL_LOCAL;

    if (column == 8)
        feed_text(context, feed_pool_kinds[event->pool]);
    else if (column == 9)
        feed_number(context, event->pool_address, 0);
    else if (column == 10 && local)
        sqlite3_result_int64(context, (sqlite3_int64)event->pool_bytes);
    else if (column == 11 && local)
        feed_number(context, event->pool_used_bytes, UINT64_MAX);
    else if (column == 12 && local)
        sqlite3_result_int64(context, (sqlite3_int64)event->pool_threshold_bytes);
    else if (column == 13 && event->kind <= TIDEI_DEVICE_RELEASE)
        feed_number(context, event->pool_pid, 0);
    else if (column == 14 && event->kind == TIDEI_DEVICE_POOL_TRIMMED)
        sqlite3_result_int64(context, (sqlite3_int64)event->bytes);
}

static void
feed_devices_column(const struct feed_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_device_row *row = (const struct tidei_device_row *)cursor->rows + cursor->row - 1;
    const struct tidei_device_event *event = &row->event;

    if (column == 0)
        sqlite3_result_int64(context, (sqlite3_int64)row->ns);
    else if (column == 1)
        feed_text(context, feed_device_kinds[event->kind]);
    else if (column <= 4)
        feed_devices_memory(event, context, column);
    else if (column == 5)
        sqlite3_result_int64(context, event->device);
    else if (column == 6)
        feed_number(context, event->context, TIDEI_NO_NUMBER);
    else if (column == 7)
        feed_number(context, event->stream, TIDEI_NO_NUMBER);
    else if (column <= 14)
        feed_devices_pool(event, context, column);
    else if (column == 15)
        sqlite3_result_int64(context, event->pid);
    else if (column == 16)
        feed_number(context, row->function != NULL ? event->correlation : 0, 0);
    else if (column == 17)
        feed_text(context, row->function);
    else if (column == 18)
        feed_number(context, row->os_tid, 0);
    else
        feed_number(context, row->allocation_id, 0);
}

static const struct feed_kind feed_kinds[] = {
    { .name = "tidei_calls",
      .schema = "CREATE TABLE calls(a, b, c, d, e, f, g, h)",
      .open = feed_calls_open,
      .next = feed_calls_next,
      .column = feed_calls_column },
    { .name = "tidei_outside",
      .schema = "CREATE TABLE outside(a, b, c, d, e, f, g, h)",
      .open = feed_outside_open,
      .next = feed_array_next,
      .column = feed_outside_column },
    { .name = "tidei_devices",
      .schema = "CREATE TABLE devices(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)",
      .open = feed_devices_open,
      .next = feed_array_next,
      .column = feed_devices_column },
};

static int
feed_connect(sqlite3 *db, void *data, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    struct feed_module *module = data;
    struct feed_table *table = sqlite3_malloc(sizeof(*table));

    (void)argc;
    (void)argv;
    (void)error;
    if (table == NULL)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof(*table));
    table->module = module;
    *out = &table->base;
    return sqlite3_declare_vtab(db, module->kind->schema);
}

static int
feed_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int
feed_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int
feed_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    struct feed_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof(*cursor));
    cursor->store = ((struct feed_table *)table)->module->store;
    *out = &cursor->base;
    return SQLITE_OK;
}

static int
feed_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* At the end `row` is SIZE_MAX. */
static int
feed_next(sqlite3_vtab_cursor *base)
{
    struct feed_cursor *cursor = (struct feed_cursor *)base;
    const struct tidei_store *store = cursor->store;

    if (++cursor->steps % FEED_POLL_ROWS == 0 && store->poll != NULL)
        store->poll(store->poll_context, 0);
    if (!feed_kind_of(base)->next(cursor))
        cursor->row = SIZE_MAX;
    return SQLITE_OK;
}

static int
feed_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc, sqlite3_value **argv)
{
    struct feed_cursor *cursor = (struct feed_cursor *)base;

    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    cursor->row = 0;
    feed_kind_of(base)->open(cursor);
    return feed_next(base);
}

static int
feed_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct feed_cursor *)cursor)->row == SIZE_MAX;
}

static int
feed_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    feed_kind_of(cursor)->column((struct feed_cursor *)cursor, context, column);
    return SQLITE_OK;
}

static int
feed_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct feed_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module feed_calls_module = {
    .xConnect = feed_connect,
    .xBestIndex = feed_best_index,
    .xDisconnect = feed_disconnect,
    .xOpen = feed_open,
    .xClose = feed_close,
    .xFilter = feed_filter,
    .xNext = feed_next,
    .xEof = feed_eof,
    .xColumn = feed_column,
    .xRowid = feed_rowid,
};

int
tidei_feed_calls_register(struct tidei_store *store)
{
    int result = SQLITE_OK;

    for (size_t i = 0; result == SQLITE_OK && i < sizeof(feed_kinds) / sizeof(feed_kinds[0]); i++) {
        struct feed_module *module = malloc(sizeof(*module));

        if (module == NULL)
            return SQLITE_NOMEM;
        *module = (struct feed_module){ &feed_kinds[i], store };
        result = sqlite3_create_module_v2(store->db, feed_kinds[i].name, &feed_calls_module, module, free);
    }
    return result;
}
