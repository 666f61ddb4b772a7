/* Writes slices of the backlog into the trace as transactions. */
#include "config.h"

#include "src/resource/resource.h"
#include "src/sync/testpoint.h"
#include "src/trace/cupti/device-events.h"
#include "src/trace/database/bulk.h"
#include "src/trace/database/common-rows.h"
#include "src/trace/database/definitions.h"
#include "src/trace/database/transaction.h"

static const struct tidei_bulk_table *const transaction_bulk[TIDEI_BULKS] = {
    [TIDEI_BULK_CLOSED] = &tidei_bulk_closed,   [TIDEI_BULK_NEW] = &tidei_bulk_new,
    [TIDEI_BULK_CALLS] = &tidei_bulk_calls,     [TIDEI_BULK_OUTSIDE] = &tidei_bulk_outside,
    [TIDEI_BULK_DEVICES] = &tidei_bulk_devices,
};

int
tidei_database_register(struct tidei_database *database)
{
    int code = SQLITE_OK;

    for (unsigned i = 0; code == SQLITE_OK && i < TIDEI_BULKS; i++)
        code = tidei_bulk_register(database, transaction_bulk[i]);
    return code;
}

enum tide_status
tidei_database_prepare(struct tidei_database *database)
{
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } statements[] = {
        { &database->begin, "BEGIN IMMEDIATE" },
        { &database->commit, "COMMIT" },
        { &database->rollback, "ROLLBACK" },
        { &database->stack, "INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2"
                            " WHERE value = ''" },
        { &database->frame, "INSERT INTO frame(address, module_id) SELECT ?1, ?2"
                            " WHERE NOT EXISTS (SELECT 1 FROM frame WHERE address = ?1 AND module_id IS ?2)" },
        { &database->callstack, "INSERT OR IGNORE INTO callstack SELECT ?3, ?4, frame_id FROM frame"
                                " WHERE address = ?1 AND module_id IS ?2" },
    };
    int code = tidei_inserts_prepare(&database->inserts, database->db, true);

    for (size_t i = 0; code == SQLITE_OK && i < sizeof(statements) / sizeof(statements[0]); i++)
        code = sqlite3_prepare_v3(database->db, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                  statements[i].statement, NULL);
    for (unsigned i = 0; code == SQLITE_OK && i < TIDEI_BULKS; i++)
        code = tidei_bulk_prepare(database, transaction_bulk[i], &database->bulk[i]);
    return code == SQLITE_OK ? TIDE_OK : tidei_database_error(database, "prepare");
}

/* Run the bulk statements from `first` on that have rows to write. */
static enum tide_status
transaction_bulk_from(struct tidei_database *database, enum tidei_bulk first)
{
    enum tide_status status = TIDE_OK;

    for (unsigned i = first; status == TIDE_OK && i < TIDEI_BULKS; i++) {
        const struct tidei_bulk_table *table = transaction_bulk[i];

        if (table->any(database))
            status = tidei_database_run(database, database->bulk[i], tidei_tables[table->into].name);
    }
    return status;
}

enum tide_status
tidei_database_write_devices(struct tidei_database *database)
{
    return transaction_bulk_from(database, TIDEI_BULK_OUTSIDE);
}

static enum tide_status
transaction_samples(struct tidei_database *database, const struct tidei_pool_sample *samples, size_t count)
{
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; status == TIDE_OK && i < count; i++)
        status = tidei_database_sample(database, tidei_timeline_since_start(&database->timeline, samples[i].ns),
                                       samples[i].layer_id, samples[i].used_bytes, samples[i].reserved_bytes);
    return status;
}

/* The trace still has its name: what is written to one that was removed is lost with the process. */
static enum tide_status
transaction_check_name(struct tidei_database *database)
{
    int moved = 0;

    sqlite3_file_control(database->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return tide_error_set(TIDE_EIO, "log: %s: removed or replaced while it was being written", database->path);
    return TIDE_OK;
}

enum tide_status
tidei_database_write(struct tidei_database *database, uint64_t epoch, uint64_t records,
                     const struct tidei_pool_sample *samples, size_t sample_count)
{
    enum tide_status status = transaction_check_name(database);

    if (status == TIDE_OK)
        status = tidei_database_begin(database);
    if (status != TIDE_OK)
        return status;
    /* Layers first: they say on which device a stream is. */
    status = tidei_database_write_definitions(database);
    if (status == TIDE_OK)
        status = transaction_bulk_from(database, TIDEI_BULK_CLOSED);
    if (status == TIDE_OK)
        status = tidei_database_write_streams(database);
    if (status == TIDE_OK)
        status = transaction_samples(database, samples, sample_count);
    if (status == TIDE_OK && database->cupti != NULL)
        status = tidei_database_meta_text(database, "cupti", database->cupti);
    if (status == TIDE_OK)
        status = tidei_database_meta_number(database, "epoch", (int64_t)epoch);
    if (status == TIDE_OK)
        status = tidei_database_meta_number(database, "epoch_records", (int64_t)records);
    if (status == TIDE_OK && database->no_memory)
        status = tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", database->path);
    TIDEI_TEST_POINT("database.before-commit");
    status = tidei_database_end(database, status);
    tidei_database_rows_settle(database, status == TIDE_OK);
    if (status == TIDE_OK && database->devices != NULL)
        tidei_device_events_written(database->devices);
    if (status == TIDE_OK)
        database->cupti = NULL;
    return status;
}
