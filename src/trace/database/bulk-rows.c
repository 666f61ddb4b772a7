/*
 * Feeds paired rows to SQLite as virtual tables, so that one INSERT ... SELECT writes a whole half: no binding and
 * no statement for each row, two to three times the rate of prepared inserts. Rows are read where they lie, in the
 * mapped backlog.
 *
 * `tidei_new` has the allocations of this half; `tidei_closed` those of earlier halves that it ends, as complete
 * rows again, since replacing a row at its place costs SQLite less than reading it to change four columns.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/trace/database/database.h"

/* How many rows go by between two looks at the rings: about 2 ms. */
#define FEED_POLL_ROWS 4096

struct bulk_table {
    sqlite3_vtab base; /* first */
    struct tidei_database *database;
};

struct bulk_cursor {
    sqlite3_vtab_cursor base; /* first */
    struct tidei_database *database;
    size_t row;
    /* Of the row at which the cursor stands. */
    struct tidei_live alloc;
    const struct tidei_record *free;
    uint8_t status;
};

/* The columns of `allocation`, in its order. */
enum bulk_column {
    FEED_ALLOCATION_ID,
    FEED_LAYER_ID,
    FEED_ADDRESS,
    FEED_SIZE,
    FEED_ALIGNMENT,
    FEED_STATUS,
    FEED_TAG_ID,
    FEED_CALLSTACK_ID,
    FEED_ALLOC_NS,
    FEED_ALLOC_DURATION_NS,
    FEED_ALLOC_THREAD_ID,
    FEED_ALLOC_STREAM_ID,
    FEED_FREE_NS,
    FEED_FREE_DURATION_NS,
    FEED_FREE_THREAD_ID,
    FEED_FREE_STREAM_ID,
};

static const char bulk_schema[] = "CREATE TABLE feed(allocation_id, layer_id, address, size, alignment, status, tag_id,"
                                  " callstack_id, alloc_ns, alloc_duration_ns, alloc_thread_id, alloc_stream_id,"
                                  " free_ns, free_duration_ns, free_thread_id, free_stream_id)";

/* The row of an allocation in this half. */
static void
bulk_live_of(struct tidei_database *database, size_t row, struct tidei_live *out)
{
    const struct tidei_pair *pair = database->pair;
    const struct tidei_record *record = tidei_half_record(pair->file, pair->half, pair->rows[row].alloc);
    uint64_t ns = tidei_timeline_ns(&database->timeline, record->ticks);

    out->id = pair->first_id + row;
    out->ticks = record->ticks;
    out->alloc_ns = ns < database->floor_ns ? database->floor_ns : ns;
    out->alloc_duration_ns = tidei_timeline_duration_ns(&database->timeline, record->duration_ticks);
    out->address = record->address;
    out->size = record->size;
    out->alloc_stream_id = tidei_database_stream(database, record->stream, record->layer);
    out->alloc_thread_id = record->thread;
    out->tag = record->tag;
    out->callstack = record->callstack;
    out->layer = record->layer;
    out->alignment_log2 = record->alignment_log2;
}

static int
bulk_connect(sqlite3 *db, void *database, int argc, const char *const *argv, sqlite3_vtab **out, char **error)
{
    struct bulk_table *table = sqlite3_malloc(sizeof(*table));

    (void)argc;
    (void)argv;
    (void)error;
    if (table == NULL)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof(*table));
    table->database = database;
    *out = &table->base;
    return sqlite3_declare_vtab(db, bulk_schema);
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
    cursor->database = ((struct bulk_table *)table)->database;
    *out = &cursor->base;
    return SQLITE_OK;
}

static int
bulk_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* How many rows ahead memory is asked for: frees lie anywhere in the slice, live allocations anywhere at all. */
#define FEED_AHEAD 12

static void
bulk_prefetch_free(const struct tidei_pair *pair, uint32_t free)
{
    if (free != TIDEI_NO_FREE)
        __builtin_prefetch(tidei_half_record(pair->file, pair->half, free));
}

/* Stand at a new row. */
static void
bulk_new_load(struct bulk_cursor *cursor)
{
    struct tidei_database *database = cursor->database;
    const struct tidei_pair *pair = database->pair;
    const struct tidei_row *row;

    if (cursor->row >= pair->row_count)
        return;
    if (cursor->row + FEED_AHEAD < pair->row_count)
        bulk_prefetch_free(pair, pair->rows[cursor->row + FEED_AHEAD].free);
    row = &pair->rows[cursor->row];
    bulk_live_of(database, cursor->row, &cursor->alloc);
    cursor->status = tidei_half_record(pair->file, pair->half, row->alloc)->status;
    cursor->free = row->free == TIDEI_NO_FREE ? NULL : tidei_half_record(pair->file, pair->half, row->free);
}

/* Stand at the row of an earlier half that a free has ended. */
static void
bulk_closed_load(struct bulk_cursor *cursor)
{
    const struct tidei_pair *pair = cursor->database->pair;
    const struct tidei_closing *closing;

    if (cursor->row >= pair->closing_count)
        return;
    if (cursor->row + FEED_AHEAD < pair->closing_count) {
        closing = &pair->closings[cursor->row + FEED_AHEAD];
        __builtin_prefetch(&pair->live[closing->live]);
        __builtin_prefetch((const char *)&pair->live[closing->live] + 64);
        bulk_prefetch_free(pair, closing->free);
    }
    closing = &pair->closings[cursor->row];
    cursor->alloc = pair->live[closing->live];
    cursor->status = TIDE_OK;
    cursor->free = tidei_half_record(pair->file, pair->half, closing->free);
}

static void
bulk_poll(struct bulk_cursor *cursor)
{
    struct tidei_database *database = cursor->database;

    if (cursor->row % FEED_POLL_ROWS == 0 && database->poll != NULL)
        database->poll(database->poll_context, 0);
}

static int
bulk_new_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc, sqlite3_value **argv)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;

    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    cursor->row = 0;
    bulk_new_load(cursor);
    return SQLITE_OK;
}

static int
bulk_closed_filter(sqlite3_vtab_cursor *base, int index, const char *name, int argc, sqlite3_value **argv)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;

    (void)index;
    (void)name;
    (void)argc;
    (void)argv;
    cursor->row = 0;
    bulk_closed_load(cursor);
    return SQLITE_OK;
}

static int
bulk_new_next(sqlite3_vtab_cursor *base)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;

    cursor->row++;
    bulk_poll(cursor);
    bulk_new_load(cursor);
    return SQLITE_OK;
}

static int
bulk_closed_next(sqlite3_vtab_cursor *base)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;

    cursor->row++;
    bulk_poll(cursor);
    bulk_closed_load(cursor);
    return SQLITE_OK;
}

static int
bulk_new_eof(sqlite3_vtab_cursor *base)
{
    const struct bulk_cursor *cursor = (const struct bulk_cursor *)base;

    return cursor->row >= cursor->database->pair->row_count;
}

static int
bulk_closed_eof(sqlite3_vtab_cursor *base)
{
    const struct bulk_cursor *cursor = (const struct bulk_cursor *)base;

    return cursor->row >= cursor->database->pair->closing_count;
}

/* When the free's call began; never before the allocation. */
static uint64_t
bulk_free_ns(const struct bulk_cursor *cursor)
{
    uint64_t ns = tidei_timeline_ns(&cursor->database->timeline, cursor->free->ticks - cursor->free->duration_ticks);

    return ns < cursor->alloc.alloc_ns ? cursor->alloc.alloc_ns : ns;
}

/* 0 stands for none, which the trace says with NULL. */
static void
bulk_result_id(sqlite3_context *context, uint32_t id)
{
    if (id != 0)
        sqlite3_result_int64(context, id);
}

static void
bulk_free_column(struct bulk_cursor *cursor, sqlite3_context *context, int column)
{
    const struct tidei_record *free = cursor->free;

    if (free == NULL)
        return;
    switch ((enum bulk_column)column) {
    case FEED_FREE_NS:
        sqlite3_result_int64(context, (int64_t)bulk_free_ns(cursor));
        break;
    case FEED_FREE_DURATION_NS:
        sqlite3_result_int64(context,
                             (int64_t)tidei_timeline_duration_ns(&cursor->database->timeline, free->duration_ticks));
        break;
    case FEED_FREE_THREAD_ID:
        sqlite3_result_int64(context, free->thread);
        break;
    default:
        sqlite3_result_int64(context, tidei_database_stream(cursor->database, free->stream, free->layer));
        break;
    }
}

static int
bulk_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    struct bulk_cursor *cursor = (struct bulk_cursor *)base;
    const struct tidei_live *alloc = &cursor->alloc;

    switch ((enum bulk_column)column) {
    case FEED_ALLOCATION_ID:
        sqlite3_result_int64(context, (int64_t)alloc->id);
        break;
    case FEED_LAYER_ID:
        sqlite3_result_int64(context, alloc->layer);
        break;
    case FEED_ADDRESS:
        sqlite3_result_int64(context, (int64_t)alloc->address);
        break;
    case FEED_SIZE:
        sqlite3_result_int64(context, (int64_t)alloc->size);
        break;
    case FEED_ALIGNMENT:
        sqlite3_result_int64(context, (int64_t)((uint64_t)1 << (alloc->alignment_log2 & 63)));
        break;
    case FEED_STATUS:
        sqlite3_result_int64(context, cursor->status);
        break;
    case FEED_TAG_ID:
        bulk_result_id(context, alloc->tag);
        break;
    case FEED_CALLSTACK_ID:
        bulk_result_id(context, alloc->callstack);
        break;
    case FEED_ALLOC_NS:
        sqlite3_result_int64(context, (int64_t)alloc->alloc_ns);
        break;
    case FEED_ALLOC_DURATION_NS:
        sqlite3_result_int64(context, (int64_t)alloc->alloc_duration_ns);
        break;
    case FEED_ALLOC_THREAD_ID:
        sqlite3_result_int64(context, alloc->alloc_thread_id);
        break;
    case FEED_ALLOC_STREAM_ID:
        sqlite3_result_int64(context, alloc->alloc_stream_id);
        break;
    default:
        bulk_free_column(cursor, context, column);
        break;
    }
    return SQLITE_OK;
}

static int
bulk_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct bulk_cursor *)base)->row;
    return SQLITE_OK;
}

/* Without xCreate the tables are there for this connection alone and stand in no schema. */
static const sqlite3_module bulk_new_module = {
    .xConnect = bulk_connect,
    .xBestIndex = bulk_best_index,
    .xDisconnect = bulk_disconnect,
    .xOpen = bulk_open,
    .xClose = bulk_close,
    .xFilter = bulk_new_filter,
    .xNext = bulk_new_next,
    .xEof = bulk_new_eof,
    .xColumn = bulk_column,
    .xRowid = bulk_rowid,
};

static const sqlite3_module bulk_closed_module = {
    .xConnect = bulk_connect,
    .xBestIndex = bulk_best_index,
    .xDisconnect = bulk_disconnect,
    .xOpen = bulk_open,
    .xClose = bulk_close,
    .xFilter = bulk_closed_filter,
    .xNext = bulk_closed_next,
    .xEof = bulk_closed_eof,
    .xColumn = bulk_column,
    .xRowid = bulk_rowid,
};

int
tidei_feed_register(struct tidei_database *database)
{
    int result = sqlite3_create_module(database->db, "tidei_new", &bulk_new_module, database);

    return result == SQLITE_OK ? sqlite3_create_module(database->db, "tidei_closed", &bulk_closed_module, database)
                               : result;
}

bool
tidei_feed_keep_live(struct tidei_database *database)
{
    const struct tidei_pair *pair = database->pair;

    for (size_t row = 0; row < pair->row_count; row++) {
        struct tidei_live live = { 0 };

        if (pair->rows[row].free != TIDEI_NO_FREE)
            continue;
        if (tidei_half_record(pair->file, pair->half, pair->rows[row].alloc)->status != TIDE_OK)
            continue;
        bulk_live_of(database, row, &live);
        if (!tidei_pair_keep(database->pair, &live, row))
            return false;
    }
    return true;
}
