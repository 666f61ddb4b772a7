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
        /* Its address was allocated again, while the record of its free had not come. */
        .until_ns = (uint64_t)sqlite3_column_int64(row, TIDEI_allocation_free_ns),
    };

    return tidei_pair_keep(database->pair, &live, SIZE_MAX);
}

/* A free of no known allocation: that may still come, where clocks differ. */
static bool
load_unmatched(struct tidei_database *database, sqlite3_stmt *row)
{
    const struct tidei_record record = {
        .ticks = tidei_timeline_ticks(&database->timeline, (uint64_t)sqlite3_column_int64(row, 1)),
        .address = (uint64_t)sqlite3_column_int64(row, 3),
        .size = (uint64_t)sqlite3_column_int64(row, 4),
        .stream = (uint64_t)sqlite3_column_int64(row, 6),
        .layer = (uint16_t)sqlite3_column_int(row, 2),
        .kind = TIDEI_RECORD_FREE,
        .thread = (uint32_t)sqlite3_column_int64(row, 5),
    };
    uint32_t slot = tidei_earlies_add(&database->pair->early, &record, UINT32_MAX);

    if (slot != TIDEI_NO_EARLY)
        database->pair->early.items[slot].row = sqlite3_column_int64(row, 0);
    return true;
}

static bool
load_next_id(struct tidei_database *database, sqlite3_stmt *row)
{
    database->pair->next_id = (uint64_t)sqlite3_column_int64(row, 0) + 1;
    database->floor_ns = (uint64_t)sqlite3_column_int64(row, 1);
    database->pair->begun_id = database->floor_ns != 0 ? 1 : UINT64_MAX;
    return true;
}

static bool
load_unreadable(struct tidei_database *database, sqlite3_stmt *row)
{
    database->unreadable_all = (uint64_t)sqlite3_column_int64(row, 0);
    return true;
}

static bool
load_assumed(struct tidei_database *database, sqlite3_stmt *row)
{
    database->pair->early.assumed_before = database->assumed_written = (uint64_t)sqlite3_column_int64(row, 0);
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

/* How far apart two conversions of one tick may be: the trace's own, and that of the clock line that is left. */
#define LOAD_EVENT_NS 1000000

/* The allocation of an event that is in the trace already, while driver calls of it are not; 0: there is none. */
static uint64_t
load_event(void *context, const struct tidei_record *calls)
{
    struct tidei_database *database = context;
    bool is_free = calls->status != 0;
    uint64_t ticks = is_free ? calls->address : calls->size;
    int64_t ns = (int64_t)tidei_timeline_ns(&database->timeline, ticks), found_ns = 0;
    sqlite3_stmt *select = NULL;
    uint64_t id = 0;

    /* The thread has recorded nothing since, so that it is its latest event. */
    sqlite3_prepare_v2(database->db,
                       is_free ? "SELECT allocation_id, free_ns FROM allocation WHERE layer_id = ?1 AND address = ?2"
                                 " AND free_thread_id = ?3 ORDER BY free_ns DESC LIMIT 1"
                               : "SELECT allocation_id, alloc_ns FROM allocation WHERE layer_id = ?1 AND address = ?2"
                                 " AND alloc_thread_id = ?3 ORDER BY allocation_id DESC LIMIT 1",
                       -1, &select, NULL);
    sqlite3_bind_int64(select, 1, calls->layer);
    sqlite3_bind_int64(select, 2, (int64_t)calls->stream);
    sqlite3_bind_int64(select, 3, calls->thread);
    if (sqlite3_step(select) == SQLITE_ROW) {
        id = (uint64_t)sqlite3_column_int64(select, 0);
        found_ns = sqlite3_column_int64(select, 1);
    }
    sqlite3_finalize(select);
    return found_ns - ns <= LOAD_EVENT_NS && ns - found_ns <= LOAD_EVENT_NS ? id : 0;
}

enum tide_status
tidei_database_load(struct tidei_database *database)
{
    char sql[512];

    sqlite3_snprintf(sizeof(sql), sql,
                     "SELECT %s FROM allocation WHERE free_thread_id IS NULL AND status = 0 ORDER BY 1",
                     tidei_tables[TIDEI_TABLE_allocation].names);
    load_each(database, "SELECT max(allocation_id), max(alloc_ns) FROM allocation", load_next_id);
    load_each(database, "SELECT stream_id, handle, device FROM stream ORDER BY stream_id", load_stream);
    load_each(database, "SELECT layer_id, device FROM layer WHERE device IS NOT NULL", load_device);
    load_each(database, "SELECT module_id, base, size FROM module ORDER BY module_id", load_module);
    load_each(database, "SELECT total(events) FROM loss WHERE reason = 'unreadable record'", load_unreadable);
    load_each(database, "SELECT max(0, value) FROM meta WHERE key = 'assumed_frees'", load_assumed);
    load_each(database, sql, load_live);
    /* The latest ones: those that are too old to be of an allocation yet to come go with the first slice. */
    load_each(database,
              "SELECT u.rowid, u.ns, u.layer_id, u.address, u.size, u.thread_id, s.handle FROM unmatched_free u"
              " JOIN stream s USING (stream_id) WHERE u.address <> 0 ORDER BY u.rowid DESC LIMIT 4096",
              load_unmatched);
    database->pair->find_event = load_event;
    database->pair->find_context = database;
    return database->status;
}
