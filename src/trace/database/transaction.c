/* Writes slices of the backlog into the trace as transactions. */
#include "config.h"

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/bulk.h"
#include "src/trace/database/common-rows.h"

static const struct tidei_bulk_table *const transaction_bulk[TIDEI_BULKS] = {
    [TIDEI_BULK_CLOSED] = &tidei_bulk_closed,     [TIDEI_BULK_NEW] = &tidei_bulk_new,
    [TIDEI_BULK_REFUSALS] = &tidei_bulk_refusals, [TIDEI_BULK_CALLS] = &tidei_bulk_calls,
    [TIDEI_BULK_OUTSIDE] = &tidei_bulk_outside,   [TIDEI_BULK_DEVICES] = &tidei_bulk_devices,
};

void
tidei_database_register(struct tidei_database *database)
{
    for (unsigned i = 0; database->status == TIDE_OK && i < TIDEI_BULKS; i++) {
        if (tidei_bulk_register(database, transaction_bulk[i]) != SQLITE_OK)
            tidei_database_fail(database, "virtual tables");
    }
}

void
tidei_database_prepare(struct tidei_database *database)
{
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } statements[] = {
        { &database->stack, "INSERT INTO meta(key, value) VALUES (?1, ?2)"
                            " ON CONFLICT(key) DO UPDATE SET value = ?2 WHERE ?2 <> ''" },
        { &database->frame, "INSERT INTO frame(address, module_id, function, file, line) SELECT ?1, ?2, ?3, ?4, ?5"
                            " WHERE NOT EXISTS (SELECT 1 FROM frame WHERE address = ?1 AND module_id IS ?2)" },
        { &database->callstack, "INSERT OR IGNORE INTO callstack SELECT ?3, ?4, frame_id FROM frame"
                                " WHERE address = ?1 AND module_id IS ?2" },
        { &database->revoke, "DELETE FROM unmatched_free WHERE rowid = ?1" },
    };
    int code;

    if (database->status != TIDE_OK)
        return;
    code = tidei_inserts_prepare(&database->inserts, database->db, true);
    for (size_t i = 0; code == SQLITE_OK && i < sizeof(statements) / sizeof(statements[0]); i++)
        code = sqlite3_prepare_v3(database->db, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                  statements[i].statement, NULL);
    for (unsigned i = 0; code == SQLITE_OK && i < TIDEI_BULKS; i++)
        code = tidei_bulk_prepare(database, transaction_bulk[i], &database->bulk[i]);
    database->is_prepared = code == SQLITE_OK;
    if (code != SQLITE_OK)
        tidei_database_fail(database, "prepare");
}

/* Run the bulk statements from `first` on; one without rows writes nothing. */
static void
transaction_bulk_from(struct tidei_database *database, enum tidei_bulk first)
{
    for (unsigned i = first; i < TIDEI_BULKS; i++)
        tidei_database_run(database, database->bulk[i], tidei_tables[transaction_bulk[i]->into].name);
}

void
tidei_database_write_devices(struct tidei_database *database)
{
    transaction_bulk_from(database, TIDEI_BULK_OUTSIDE);
}

/* How many allocations the rows show that may be freed or not: what a kill must not forget. */
static void
transaction_write_assumed(struct tidei_database *database)
{
    database->assumed = tidei_pair_assumed(database->pair) + tidei_pair_doubtful(database->pair);
    if (database->assumed != database->assumed_written)
        tidei_database_meta_number(database, "assumed_frees", (int64_t)database->assumed);
}

/*
 * The connection has lost its index in the transaction: connect again, and look whether that has been committed. A
 * process that had the trace open all the while may keep an index in which it has not.
 */
static bool
transaction_has_held(struct tidei_database *database, uint64_t epoch, uint64_t records)
{
    int64_t epoch_there, records_there;

    if (!tidei_database_is_torn(database) || database->connect == NULL || tidei_database_reopen(database) != TIDE_OK)
        return false;
    tidei_database_meta_read(database, "epoch", &epoch_there);
    tidei_database_meta_read(database, "epoch_records", &records_there);
    return database->status == TIDE_OK && (uint64_t)epoch_there == epoch && (uint64_t)records_there == records;
}

enum tide_status
tidei_database_write(struct tidei_database *database, uint64_t epoch, uint64_t records,
                     const struct tidei_pool_sample *samples, size_t sample_count)
{
    enum tide_status status;
    int moved = 0;

    /* What is written to a trace without a name is lost with the process. */
    if (database->db != NULL)
        sqlite3_file_control(database->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return tide_error_set(TIDE_EIO, "log: %s: removed or replaced while it was being written", database->path);
    tidei_database_begin(database);
    /* Layers first: they say on which device a stream is. */
    tidei_database_write_definitions(database);
    transaction_bulk_from(database, TIDEI_BULK_CLOSED);
    tidei_database_write_streams(database);
    for (size_t i = 0; i < sample_count; i++) {
        struct tidei_pool_sample sample = samples[i];

        sample.ns = tidei_timeline_since_start(&database->timeline, sample.ns);
        tidei_database_sample(database, &sample);
    }
    tidei_database_write_device_samples(database);
    tidei_database_write_layer_counts(database);
    if (database->cupti != NULL)
        tidei_database_meta_text(database, "cupti", database->cupti);
    tidei_database_meta_number(database, "epoch", (int64_t)epoch);
    tidei_database_meta_number(database, "epoch_records", (int64_t)records);
    transaction_write_assumed(database);
    if (database->no_memory)
        tidei_database_fail_memory(database);
    /* Its records are where they were, or the rows are wrong. */
    if (database->status == TIDE_OK && database->pair->file != NULL)
        database->status = tidei_ringfile_check_sound(database->pair->file, false);
    TIDEI_TEST_POINT("database.before-commit");
    status = tidei_database_end(database);
    if (status != TIDE_OK && transaction_has_held(database, epoch, records))
        status = TIDE_OK;
    tidei_database_rows_ended(database, status == TIDE_OK);
    if (status != TIDE_OK)
        return status;
    database->cupti = NULL;
    database->assumed_written = database->assumed;
    if (database->devices != NULL)
        tidei_device_events_written(database->devices);
    return TIDE_OK;
}
