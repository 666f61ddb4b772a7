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

struct bulk_cursor {
    sqlite3_vtab_cursor base; /* first */
    const struct tidei_database *database;
    uint64_t steps;
    size_t row;
    size_t count;                  /* of an array */
    const void *rows;              /* the array; borrowed */
    struct tidei_event_calls walk; /* of the slice */
    struct tidei_event_call call;
};

/* What tells the tables apart. */
struct bulk_kind {
    const char *name;
    const char *schema;
    void (*open)(struct bulk_cursor *cursor);
    bool (*next)(struct bulk_cursor *cursor); /* to the first or the next row; false: there is none */
    void (*column)(const struct bulk_cursor *cursor, sqlite3_context *context, int column);
};

/* The module's own data. Owned by SQLite. */
struct bulk_module {
    const struct bulk_kind *kind;
    struct tidei_database *database;
};

struct bulk_table {
    sqlite3_vtab base; /* first */
    const struct bulk_module *module;
};

static const struct bulk_kind *
bulk_kind_of(const sqlite3_vtab_cursor *cursor)
{
    return ((const struct bulk_table *)cursor->pVtab)->module->kind;
}

static void
bulk_text(sqlite3_context *context, const char *text)
{
    if (text != NULL)
        sqlite3_result_text(context, text, -1, SQLITE_STATIC);
}

/* A number that `none` stands for is NULL. */
static void
bulk_number(sqlite3_context *context, uint64_t number, uint64_t none)
{
    if (number != none)
        sqlite3_result_int64(context, (sqlite3_int64)number);
}

/* The calls that came with the events of the slice. */
static void
bulk_calls_open(struct bulk_cursor *cursor)
{
    memset(&cursor->walk, 0, sizeof(cursor->walk));
}

static bool
bulk_calls_next(struct bulk_cursor *cursor)
{
    return tidei_event_calls_next(&cursor->walk, cursor->database->pair, &cursor->call);
}

/* On the line of the event's own row, so that a call never lies outside of it. */
static uint64_t
bulk_calls_start(const struct bulk_cursor *cursor)
{
    uint64_t begin = cursor->call.event->ticks - cursor->call.event->duration_ticks;

    return tidei_timeline_ns(&cursor->database->timeline, begin) +
           (uint64_t)((double)(cursor->call.part.start - begin) * cursor->database->timeline.line.ns_per_tick);
}

static void
bulk_calls_column(const struct bulk_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_event_call *call = &cursor->call;
    double ticks = (double)(call->part.end - call->part.start);

    if (column == 0)
        sqlite3_result_int64(context, (sqlite3_int64)call->allocation_id);
    else if (column == 1)
        sqlite3_result_int(context, call->is_free);
    else if (column == 2)
        bulk_text(context, tidei_function_name(call->part.function));
    else if (column == 3)
        sqlite3_result_int64(context, (sqlite3_int64)bulk_calls_start(cursor));
    else if (column == 4)
        sqlite3_result_int64(context, (sqlite3_int64)(ticks * cursor->database->timeline.line.ns_per_tick));
    else if (column == 5)
        sqlite3_result_int64(context, call->event->thread);
    else if (column == 6)
        sqlite3_result_int(context, call->part.result);
    else
        bulk_number(context, call->part.correlation, 0);
}

static bool
bulk_array_next(struct bulk_cursor *cursor)
{
    return cursor->row++ < cursor->count;
}

/* The calls past all logs. */
static void
bulk_outside_open(struct bulk_cursor *cursor)
{
    if (cursor->database->devices != NULL)
        cursor->rows = tidei_device_events_outside(cursor->database->devices, &cursor->count);
}

static void
bulk_outside_column(const struct bulk_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_outside_row *row = (const struct tidei_outside_row *)cursor->rows + cursor->row - 1;

    if (column == 1)
        sqlite3_result_int(context, tidei_function_is_free(row->part.function));
    else if (column == 2)
        bulk_text(context, tidei_function_name(row->part.function));
    else if (column == 3)
        sqlite3_result_int64(context, (sqlite3_int64)row->start_ns);
    else if (column == 4)
        sqlite3_result_int64(context, (sqlite3_int64)row->duration_ns);
    else if (column == 5)
        bulk_number(context, row->thread_id, 0);
    else if (column == 6)
        sqlite3_result_int(context, row->part.result);
    else if (column == 7)
        bulk_number(context, row->part.correlation, 0);
}

static void
bulk_devices_open(struct bulk_cursor *cursor)
{
    if (cursor->database->devices != NULL)
        cursor->rows = tidei_device_events_rows(cursor->database->devices, &cursor->count);
}

static const char *const bulk_device_kinds[] = { "allocation", "release", "pool_created", "pool_destroyed",
                                                 "pool_trimmed" };
static const char *const bulk_memory_kinds[] = { "unknown", "pageable", "pinned",        "device",
                                                 "array",   "managed",  "device_static", "managed_static" };
static const char *const bulk_pool_kinds[] = { NULL, "local", "imported" };

#define FEED_MEMORY_KINDS (sizeof(bulk_memory_kinds) / sizeof(bulk_memory_kinds[0]))

/* The columns that say something of the memory; not of a pool's event. */
static void
bulk_devices_memory(const struct tidei_device_event *event, sqlite3_context *context, int column)
{
    if (event->kind > TIDEI_DEVICE_RELEASE)
        return;
    if (column == 2)
        sqlite3_result_int64(context, (sqlite3_int64)event->address);
    else if (column == 3)
        sqlite3_result_int64(context, (sqlite3_int64)event->bytes);
    else
        bulk_text(context, bulk_memory_kinds[event->memory_kind < FEED_MEMORY_KINDS ? event->memory_kind : 0]);
}

/* The columns that say something of the pool; NULL without one, and its figures are those of a pool of this process. */
static void
bulk_devices_pool(const struct tidei_device_event *event, sqlite3_context *context, int column)
{
    bool local = event->pool == TIDEI_DEVICE_POOL_LOCAL;

    if (column == 8)
        bulk_text(context, bulk_pool_kinds[event->pool]);
    else if (column == 9)
        bulk_number(context, event->pool_address, 0);
    else if (column == 10 && local)
        sqlite3_result_int64(context, (sqlite3_int64)event->pool_bytes);
    else if (column == 11 && local)
        bulk_number(context, event->pool_used_bytes, UINT64_MAX);
    else if (column == 12 && local)
        sqlite3_result_int64(context, (sqlite3_int64)event->pool_threshold_bytes);
    else if (column == 13 && event->kind <= TIDEI_DEVICE_RELEASE)
        bulk_number(context, event->pool_pid, 0);
    else if (column == 14 && event->kind == TIDEI_DEVICE_POOL_TRIMMED)
        sqlite3_result_int64(context, (sqlite3_int64)event->bytes);
}

static void
bulk_devices_column(const struct bulk_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_device_row *row = (const struct tidei_device_row *)cursor->rows + cursor->row - 1;
    const struct tidei_device_event *event = &row->event;

    if (column == 0)
        sqlite3_result_int64(context, (sqlite3_int64)row->ns);
    else if (column == 1)
        bulk_text(context, bulk_device_kinds[event->kind]);
    else if (column <= 4)
        bulk_devices_memory(event, context, column);
    else if (column == 5)
        sqlite3_result_int64(context, event->device);
    else if (column == 6)
        bulk_number(context, event->context, TIDEI_NO_NUMBER);
    else if (column == 7)
        bulk_number(context, event->stream, TIDEI_NO_NUMBER);
    else if (column <= 14)
        bulk_devices_pool(event, context, column);
    else if (column == 15)
        sqlite3_result_int64(context, event->pid);
    else if (column == 16)
        bulk_number(context, row->function != NULL ? event->correlation : 0, 0);
    else if (column == 17)
        bulk_text(context, row->function);
    else if (column == 18)
        bulk_number(context, row->os_tid, 0);
    else
        bulk_number(context, row->allocation_id, 0);
}

static const struct bulk_kind bulk_kinds[] = {
    { .name = "tidei_calls",
      .schema = "CREATE TABLE calls(a, b, c, d, e, f, g, h)",
      .open = bulk_calls_open,
      .next = bulk_calls_next,
      .column = bulk_calls_column },
    { .name = "tidei_outside",
      .schema = "CREATE TABLE outside(a, b, c, d, e, f, g, h)",
      .open = bulk_outside_open,
      .next = bulk_array_next,
      .column = bulk_outside_column },
    { .name = "tidei_device_events",
      .schema = "CREATE TABLE devices(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)",
      .open = bulk_devices_open,
      .next = bulk_array_next,
      .column = bulk_devices_column },
};

static int
bulk_connect(sqlite3 *db, void *data, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    struct bulk_module *module = data;
    struct bulk_table *table = sqlite3_malloc(sizeof(*table));

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
bulk_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int
bulk_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int
bulk_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    struct bulk_cursor *cursor = sqlite3_malloc(sizeof(*cursor));

    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof(*cursor));
    cursor->database = ((struct bulk_table *)table)->module->database;
    *out = &cursor->base;
    return SQLITE_OK;
}

static int
bulk_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* At the end `row` is SIZE_MAX. */
static int
bulk_next(sqlite3_vtab_cursor *base)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;
    const struct tidei_database *database = cursor->database;

    if (++cursor->steps % FEED_POLL_ROWS == 0 && database->poll != NULL)
        database->poll(database->poll_context, 0);
    if (!bulk_kind_of(base)->next(cursor))
        cursor->row = SIZE_MAX;
    return SQLITE_OK;
}

static int
bulk_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc, sqlite3_value **argv)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;

    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    cursor->row = 0;
    bulk_kind_of(base)->open(cursor);
    return bulk_next(base);
}

static int
bulk_eof(sqlite3_vtab_cursor *cursor)
{
    return ((struct bulk_cursor *)cursor)->row == SIZE_MAX;
}

static int
bulk_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    bulk_kind_of(cursor)->column((struct bulk_cursor *)cursor, context, column);
    return SQLITE_OK;
}

static int
bulk_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct bulk_cursor *)cursor)->row;
    return SQLITE_OK;
}

static const sqlite3_module bulk_calls_module = {
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
tidei_feed_calls_register(struct tidei_database *database)
{
    int result = SQLITE_OK;

    for (size_t i = 0; result == SQLITE_OK && i < sizeof(bulk_kinds) / sizeof(bulk_kinds[0]); i++) {
        struct bulk_module *module = malloc(sizeof(*module));

        if (module == NULL)
            return SQLITE_NOMEM;
        *module = (struct bulk_module){ &bulk_kinds[i], database };
        result = sqlite3_create_module_v2(database->db, bulk_kinds[i].name, &bulk_calls_module, module, free);
    }
    return result;
}
