/* Shared by all writers of a trace's SQLite file: running statements, transactions, meta, closing. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/resource/resource.h"
#include "src/trace/database/database.h"
#include "src/trace/database/vfs.h"

static const char *
database_index_text(enum tidei_vfs_index index)
{
    switch (index) {
    case TIDEI_VFS_INDEX_TORN:
        return "another process has cut it off, or no space";
    case TIDEI_VFS_INDEX_KEPT:
        return "it was cut off, and a connection that this process has open keeps what is left of it";
    default:
        return strerror(ENOSPC);
    }
}

void
tidei_database_fail(struct tidei_database *database, const char *what)
{
    int code = sqlite3_extended_errcode(database->db);
    int system_error = sqlite3_system_errno(database->db);
    enum tidei_vfs_index index = tidei_vfs_index(database->db);

    if (index == TIDEI_VFS_INDEX_CLOSED)
        database->status = tide_error_set(TIDE_EIO, "log: %s: %s", database->path, TIDEI_CLOSED_TEXT);
    else if (index != TIDEI_VFS_INDEX_FINE)
        database->status =
            tide_error_set(TIDE_EIO, "log: %s-shm: %s: %s", database->path, what, database_index_text(index));
    else if ((code & 0xff) == SQLITE_IOERR && system_error != 0)
        database->status = tide_error_set(TIDE_EIO, "log: %s: %s: %s (%s)", database->path, what,
                                          sqlite3_errmsg(database->db), strerror(system_error));
    else
        database->status =
            tide_error_set(TIDE_EIO, "log: %s: %s: %s", database->path, what, sqlite3_errmsg(database->db));
}

void
tidei_database_fail_memory(struct tidei_database *database)
{
    if (database->status == TIDE_OK)
        database->status = tide_error_set(TIDE_ENOMEM, "log: %s: no host memory", database->path);
}

void
tidei_database_exec(struct tidei_database *database, const char *sql, const char *what)
{
    if (database->status == TIDE_OK && sqlite3_exec(database->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        tidei_database_fail(database, what);
}

void
tidei_database_run(struct tidei_database *database, sqlite3_stmt *statement, const char *what)
{
    if (database->status == TIDE_OK && (statement == NULL || sqlite3_step(statement) != SQLITE_DONE))
        tidei_database_fail(database, what);
    if (statement == NULL)
        return; /* the file could not be opened again */
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

void
tidei_database_insert_row(struct tidei_database *database, enum tidei_table_number table,
                          const struct tidei_value *values)
{
    if (database->status == TIDE_OK && tidei_insert_row(&database->inserts, table, values) != SQLITE_OK)
        tidei_database_fail(database, tidei_tables[table].name);
}

void
tidei_database_meta_text(struct tidei_database *database, const char *key, const char *value)
{
    tidei_database_insert(database, meta, TIDEI_TEXT(key), TIDEI_TEXT(value));
}

void
tidei_database_meta_number(struct tidei_database *database, const char *key, int64_t value)
{
    tidei_database_insert(database, meta, TIDEI_TEXT(key), TIDEI_NUMBER(value));
}

bool
tidei_database_meta_read(struct tidei_database *database, const char *key, int64_t *out)
{
    sqlite3_stmt *select = NULL;
    int result = SQLITE_ERROR;

    *out = 0;
    if (database->status != TIDE_OK)
        return false;
    if (sqlite3_prepare_v2(database->db, "SELECT value FROM meta WHERE key = ?1", -1, &select, NULL) == SQLITE_OK) {
        sqlite3_bind_text(select, 1, key, -1, SQLITE_STATIC);
        result = sqlite3_step(select);
    }
    if (result == SQLITE_ROW)
        *out = sqlite3_column_int64(select, 0);
    else if (result != SQLITE_DONE)
        tidei_database_fail(database, "meta");
    sqlite3_finalize(select);
    return result == SQLITE_ROW;
}

static void
database_finalize(struct tidei_database *database)
{
    sqlite3_stmt *statement;

    while (database->db != NULL && (statement = sqlite3_next_stmt(database->db, NULL)) != NULL)
        sqlite3_finalize(statement);
}

static void
database_disconnect(struct tidei_database *database)
{
    database_finalize(database);
    tidei_guard_release(&database->guard);
    sqlite3_close(database->db);
    tidei_guard_close(&database->guard);
    database->db = NULL;
    database->stack = database->frame = database->callstack = database->revoke = NULL;
    database->is_prepared = false;
    memset(database->bulk, 0, sizeof(database->bulk));
    memset(&database->inserts, 0, sizeof(database->inserts));
}

enum tide_status
tidei_database_reopen(struct tidei_database *database)
{
    database_disconnect(database);
    database->reopened++;
    database->status = TIDE_OK;
    database->connect(database);
    return database->status;
}

bool
tidei_database_is_torn(const struct tidei_database *database)
{
    enum tidei_vfs_index index = tidei_vfs_index(database->db);

    return index == TIDEI_VFS_INDEX_TORN || index == TIDEI_VFS_INDEX_KEPT;
}

void
tidei_database_begin(struct tidei_database *database)
{
    database->status = TIDE_OK;
    /* Without its statements it would write nothing, and say that it had. */
    if (database->connect != NULL && (!database->is_prepared || tidei_database_is_torn(database)))
        tidei_database_reopen(database);
    tidei_database_exec(database, "BEGIN IMMEDIATE", "begin");
    if (database->status == TIDE_OK)
        tidei_guard_begin(&database->guard, database->path);
}

enum tide_status
tidei_database_end(struct tidei_database *database)
{
    if (database->status == TIDE_OK && !tidei_database_is_torn(database) && !tidei_guard_check(&database->guard))
        database->status = tide_error_set(TIDE_EIO,
                                          "log: %s: another program has written into it, in the midst of a "
                                          "transaction whose lock it took",
                                          database->path);
    tidei_database_exec(database, "COMMIT", "commit");
    /* Others may not see what was committed, since its index did not reach the file. */
    if (database->status == TIDE_OK && tidei_database_is_torn(database))
        tidei_database_fail(database, "commit");
    if (database->status != TIDE_OK && database->db != NULL && sqlite3_get_autocommit(database->db) == 0)
        sqlite3_exec(database->db, "ROLLBACK", NULL, NULL, NULL);
    return database->status;
}

void
tidei_database_devices_cut_off(struct tidei_database *database)
{
    /* Before the first transaction the calls alone, which have their numbers with cupti=memory, tell what there was. */
    tidei_database_exec(
        database,
        "INSERT INTO meta SELECT 'cupti', iif(EXISTS (SELECT 1 FROM driver_call WHERE correlation IS NOT NULL),"
        "    'memory', 'calls')"
        " WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = 'cupti') AND EXISTS (SELECT 1 FROM driver_call)",
        "meta");
    tidei_database_exec(database,
                        "UPDATE meta SET value = 'memory, but for what CUPTI still had when the process was killed'"
                        " WHERE key = 'cupti' AND value = 'memory'",
                        "meta");
}

enum tide_status
tidei_database_finish(struct tidei_database *database)
{
    database_finalize(database);
    tidei_guard_release(&database->guard);
    if (sqlite3_wal_checkpoint_v2(database->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) != SQLITE_OK)
        tidei_database_fail(database, "checkpoint");
    tidei_database_exec(database, "PRAGMA journal_mode = DELETE", "journal mode");
    return database->status;
}

void
tidei_database_close(struct tidei_database *database)
{
    if (database == NULL)
        return;
    database_disconnect(database);
    free(database->path);
    free(database->streams);
    tidei_map_free(&database->stream_places);
    free(database->samples_latest);
    tidei_map_free(&database->sample_places);
    free(database->layer_devices);
    free(database->modules);
    free(database);
}
