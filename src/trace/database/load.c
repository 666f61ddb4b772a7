/* Takes up a trace whose process is gone where it stood: what lives, which streams and layers there are. */
#include "config.h"

#include <stdlib.h>

#include "src/resource/resource.h"
#include "src/tables/grow.h"
#include "src/trace/database/database.h"

/* Call `row` for each row of a query. */
static enum tide_status
load_each(struct tidei_database *database, const char *sql, bool (*row)(struct tidei_database *, sqlite3_stmt *))
{
    enum tide_status status = TIDE_OK;
    sqlite3_stmt *select;
    unsigned rows = 0;
    int result;

    if (sqlite3_prepare_v2(database->db, sql, -1, &select, NULL) != SQLITE_OK)
        return tidei_database_error(database, "taking up the trace");
    while ((result = sqlite3_step(select)) == SQLITE_ROW) {
        if (!row(database, select)) {
            status = tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", database->path);
            break;
        }
        if (++rows % 4096 == 0 && database->poll != NULL)
            database->poll(database->poll_context, 0);
    }
    if (status == TIDE_OK && result != SQLITE_DONE)
        status = tidei_database_error(database, "taking up the trace");
    sqlite3_finalize(select);
    return status;
}

static unsigned
load_log2(int64_t alignment)
{
    return alignment > 0 ? (unsigned)__builtin_ctzll((uint64_t)alignment) : 0;
}

static bool
load_live(struct tidei_database *database, sqlite3_stmt *row)
{
    int64_t alloc_ns = sqlite3_column_int64(row, 7);
    struct tidei_live live = {
        .id = (uint64_t)sqlite3_column_int64(row, 0),
        .layer = (uint16_t)sqlite3_column_int(row, 1),
        .address = (uint64_t)sqlite3_column_int64(row, 2),
        .size = (uint64_t)sqlite3_column_int64(row, 3),
        .alignment_log2 = (uint8_t)load_log2(sqlite3_column_int64(row, 4)),
        .tag = (uint32_t)sqlite3_column_int64(row, 5),
        .callstack = (uint32_t)sqlite3_column_int64(row, 6),
        .alloc_ns = (uint64_t)alloc_ns,
        /* As near as the nanosecond tells: lives of one address are told apart by it. */
        .ticks = tidei_timeline_ticks(&database->timeline, alloc_ns > 0 ? (uint64_t)alloc_ns : 0),
        .alloc_duration_ns = (uint64_t)sqlite3_column_int64(row, 8),
        .alloc_thread_id = (uint32_t)sqlite3_column_int64(row, 9),
        .alloc_stream_id = (uint32_t)sqlite3_column_int64(row, 10),
    };

    return tidei_pair_keep(database->pair, &live, SIZE_MAX);
}

static bool
load_next_id(struct tidei_database *database, sqlite3_stmt *row)
{
    database->pair->next_id = (uint64_t)sqlite3_column_int64(row, 0) + 1;
    database->floor_ns = (uint64_t)sqlite3_column_int64(row, 1);
    return true;
}

/* Streams were numbered from 1 without a gap. */
static bool
load_stream(struct tidei_database *database, sqlite3_stmt *row)
{
    struct tidei_stream *stream;

    if (!tidei_grow(&database->streams, &database->stream_capacity, database->stream_count, 1))
        return false;
    stream = &database->streams[database->stream_count++];
    stream->id = (uint32_t)sqlite3_column_int64(row, 0);
    stream->handle = (uint64_t)sqlite3_column_int64(row, 1);
    stream->device = sqlite3_column_type(row, 2) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 2);
    stream->written = true;
    return true;
}

static bool
load_device(struct tidei_database *database, sqlite3_stmt *row)
{
    return tidei_database_set_device(database, (uint32_t)sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
}

static bool
load_module(struct tidei_database *database, sqlite3_stmt *row)
{
    return tidei_stacks_add_module(database, (uint32_t)sqlite3_column_int64(row, 0),
                                   (uint64_t)sqlite3_column_int64(row, 1), (uint64_t)sqlite3_column_int64(row, 2));
}

enum tide_status
tidei_database_load(struct tidei_database *database)
{
    enum tide_status status;

    status = load_each(database, "SELECT max(allocation_id), max(alloc_ns) FROM allocation", load_next_id);
    if (status == TIDE_OK)
        status = load_each(database, "SELECT stream_id, handle, device FROM stream ORDER BY stream_id", load_stream);
    if (status == TIDE_OK)
        status = load_each(database, "SELECT layer_id, device FROM layer WHERE device IS NOT NULL", load_device);
    if (status == TIDE_OK)
        status = load_each(database, "SELECT module_id, base, size FROM module ORDER BY module_id", load_module);
    if (status == TIDE_OK)
        status = load_each(database,
                           "SELECT allocation_id, layer_id, address, size, alignment, tag_id, callstack_id, alloc_ns,"
                           " alloc_duration_ns, alloc_thread_id, alloc_stream_id FROM allocation"
                           " WHERE free_ns IS NULL AND status = 0 ORDER BY allocation_id",
                           load_live);
    return status;
}
