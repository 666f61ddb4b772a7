/* Loads the state of a dead process's trace: its live allocations, streams and layers. */
#include "config.h"

#include <stdlib.h>

#include "src/trace/database/common-rows.h"

/* Call `row` for each row of a query. It returns false without host memory. */
static void
load_each(struct tidei_database *database, const char *sql, bool (*row)(struct tidei_database *, sqlite3_stmt *))
{
    sqlite3_stmt *select = NULL;
    unsigned rows = 0;
    int result;

    if (database->status != TIDE_OK)
        return;
    result = sqlite3_prepare_v2(database->db, sql, -1, &select, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(select);
    for (; result == SQLITE_ROW && database->status == TIDE_OK; result = sqlite3_step(select)) {
        if (!row(database, select))
            tidei_database_fail_memory(database);
        if (++rows % 4096 == 0 && database->poll != NULL)
            database->poll(database->poll_context, 0);
    }
    if (database->status == TIDE_OK && result != SQLITE_DONE)
        tidei_database_fail(database, "taking up the trace");
    sqlite3_finalize(select);
}

static unsigned
load_log2(int64_t alignment)
{
    return alignment > 0 ? (unsigned)__builtin_ctzll((uint64_t)alignment) : 0;
}

/* The row has all columns of `allocation`. */
static bool
load_live(struct tidei_database *database, sqlite3_stmt *row)
{
    int64_t alloc_ns = sqlite3_column_int64(row, TIDEI_allocation_alloc_ns);
    struct tidei_live live = {
        .id = (uint64_t)sqlite3_column_int64(row, TIDEI_allocation_allocation_id),
        .layer = (uint16_t)sqlite3_column_int(row, TIDEI_allocation_layer_id),
        .address = (uint64_t)sqlite3_column_int64(row, TIDEI_allocation_address),
        .size = (uint64_t)sqlite3_column_int64(row, TIDEI_allocation_size),
        .alignment_log2 = (uint8_t)load_log2(sqlite3_column_int64(row, TIDEI_allocation_alignment)),
        .tag = (uint32_t)sqlite3_column_int64(row, TIDEI_allocation_tag_id),
        .callstack = (uint32_t)sqlite3_column_int64(row, TIDEI_allocation_callstack_id),
        .alloc_ns = (uint64_t)alloc_ns,
        /* As near as the nanosecond tells: lives of one address are told apart by it. */
        .ticks = alloc_ns > 0 ? tidei_timeline_ticks(&database->timeline, (uint64_t)alloc_ns) : TIDEI_TICKS_BEFORE,
        .alloc_duration_ns = (uint64_t)sqlite3_column_int64(row, TIDEI_allocation_alloc_duration_ns),
        .alloc_thread_id = (uint32_t)sqlite3_column_int64(row, TIDEI_allocation_alloc_thread_id),
        .alloc_stream_id = (uint32_t)sqlite3_column_int64(row, TIDEI_allocation_alloc_stream_id),
    };

    return tidei_pair_keep(database->pair, &live, SIZE_MAX);
}

static bool
load_next_id(struct tidei_database *database, sqlite3_stmt *row)
{
    database->pair->next_id = (uint64_t)sqlite3_column_int64(row, 0) + 1;
    database->floor_ns = (uint64_t)sqlite3_column_int64(row, 1);
    database->pair->has_begun = database->floor_ns != 0;
    return true;
}

static bool
load_stream(struct tidei_database *database, sqlite3_stmt *row)
{
    bool has_device = sqlite3_column_type(row, 2) != SQLITE_NULL;

    return tidei_database_add_stream(database, (struct tidei_stream){
                                                   .id = (uint32_t)sqlite3_column_int64(row, 0),
                                                   .handle = (uint64_t)sqlite3_column_int64(row, 1),
                                                   .device = has_device ? sqlite3_column_int64(row, 2) : -1,
                                                   .written = true,
                                               });
}

static bool
load_device(struct tidei_database *database, sqlite3_stmt *row)
{
    return tidei_database_set_device(database, (uint32_t)sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
}

static bool
load_module(struct tidei_database *database, sqlite3_stmt *row)
{
    return tidei_callstacks_add_module(database, (uint32_t)sqlite3_column_int64(row, 0),
                                       (uint64_t)sqlite3_column_int64(row, 1), (uint64_t)sqlite3_column_int64(row, 2));
}

enum tide_status
tidei_database_load(struct tidei_database *database)
{
    char sql[512];

    sqlite3_snprintf(sizeof(sql), sql, "SELECT %s FROM allocation WHERE free_ns IS NULL AND status = 0 ORDER BY 1",
                     tidei_tables[TIDEI_TABLE_allocation].names);
    load_each(database, "SELECT max(allocation_id), max(alloc_ns) FROM allocation", load_next_id);
    load_each(database, "SELECT stream_id, handle, device FROM stream ORDER BY stream_id", load_stream);
    load_each(database, "SELECT layer_id, device FROM layer WHERE device IS NOT NULL", load_device);
    load_each(database, "SELECT module_id, base, size FROM module ORDER BY module_id", load_module);
    load_each(database, sql, load_live);
    return database->status;
}
