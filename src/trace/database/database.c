/* Creates, opens and completes the SQLite file of a trace. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/database/replaced.h"
#include "src/trace/database/schema.h"
#include "src/trace/database/database.h"

#define STORE_OPEN_LIMIT_NS 10000000000u /* how long who makes a trace waits for a reader that has just come */

#define STORE_COLUMNS                                                                                                  \
    "(allocation_id, layer_id, address, size, alignment, status, tag_id, callstack_id, alloc_ns,"                      \
    " alloc_duration_ns, alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id)"

#define STORE_CALL_COLUMNS "(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result, correlation)"

#define STORE_DEVICE_COLUMNS                                                                                           \
    "(ns, kind, address, bytes, memory_kind, device, context, stream, pool_kind, pool_address, pool_bytes,"            \
    " pool_used_bytes, pool_release_threshold_bytes, pool_pid, keep_bytes, pid, correlation, function, os_tid,"        \
    " allocation_id)"

enum tide_status
tidei_database_error(struct tidei_database *database, const char *what)
{
    int code = sqlite3_extended_errcode(database->db);
    int system_error = sqlite3_system_errno(database->db);

    if ((code & 0xff) == SQLITE_IOERR && system_error != 0)
        return tide_error_set(TIDE_EIO, "log: %s: %s: %s (%s)", database->path, what, sqlite3_errmsg(database->db),
                              strerror(system_error));
    return tide_error_set(TIDE_EIO, "log: %s: %s: %s", database->path, what, sqlite3_errmsg(database->db));
}

static enum tide_status
database_exec(struct tidei_database *database, const char *sql, const char *what)
{
    if (sqlite3_exec(database->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return tidei_database_error(database, what);
    return TIDE_OK;
}

/* Wait for whoever holds a lock, in small steps in which the rings are drained, until the writer gives up. */
static int
database_busy(void *context, int tries)
{
    struct tidei_database *database = context;
    struct timespec pause = { 0, 2000000 };
    uint64_t waited_ns;

    if (tries == 0)
        database->busy_since_ns = tidei_monotonic_ns();
    nanosleep(&pause, NULL);
    waited_ns = tidei_monotonic_ns() - database->busy_since_ns;
    return database->poll != NULL ? database->poll(database->poll_context, waited_ns) : waited_ns < STORE_OPEN_LIMIT_NS;
}

static enum tide_status
database_prepare(struct tidei_database *database)
{
    const struct {
        sqlite3_stmt **statement;
        const char *sql;
    } statements[] = {
        { &database->begin, "BEGIN IMMEDIATE" },
        { &database->commit, "COMMIT" },
        { &database->rollback, "ROLLBACK" },
        { &database->insert_rows, "INSERT INTO allocation" STORE_COLUMNS " SELECT * FROM tidei_new" },
        { &database->insert_closed, "INSERT OR REPLACE INTO allocation" STORE_COLUMNS " SELECT * FROM tidei_closed" },
        { &database->meta, "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)" },
        { &database->stack, "INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2"
                            " WHERE value = ''" },
        { &database->unmatched, "INSERT INTO unmatched_free VALUES (?1, ?2, ?3, ?4, ?5, ?6)" },
        { &database->mark, "INSERT INTO mark(ns, thread_id, kind, text, value) VALUES (?1, ?2, ?3, ?4, ?5)" },
        { &database->tag, "INSERT OR IGNORE INTO tag VALUES (?1, ?2, ?3)" },
        { &database->layer, "INSERT OR IGNORE INTO layer VALUES (?1, ?2, ?3, ?4, ?5)" },
        { &database->bin, "INSERT INTO layer_bin VALUES (?1, ?2, ?3)" },
        { &database->thread, "INSERT OR IGNORE INTO thread VALUES (?1, ?2, ?3)" },
        { &database->stream, "INSERT OR IGNORE INTO stream VALUES (?1, ?2, ?3)" },
        { &database->loss, "INSERT INTO loss VALUES (?1, ?2, ?3)" },
        { &database->insert_calls, "INSERT INTO driver_call" STORE_CALL_COLUMNS " SELECT * FROM tidei_calls" },
        { &database->insert_outside, "INSERT INTO driver_call" STORE_CALL_COLUMNS " SELECT * FROM tidei_outside" },
        { &database->insert_devices,
          "INSERT INTO device_event" STORE_DEVICE_COLUMNS " SELECT * FROM tidei_device_events" },
        { &database->module, "INSERT OR IGNORE INTO module VALUES (?1, ?2, ?3, ?4, ?5)" },
        { &database->frame, "INSERT INTO frame(address, module_id) SELECT ?1, ?2"
                            " WHERE NOT EXISTS (SELECT 1 FROM frame WHERE address = ?1 AND module_id IS ?2)" },
        { &database->callstack, "INSERT OR IGNORE INTO callstack SELECT ?3, ?4, frame_id FROM frame"
                                " WHERE address = ?1 AND module_id IS ?2" },
        { &database->misuse, "INSERT INTO misuse VALUES (?1, ?2, ?3, ?4, ?5, ?6, nullif(?7, 0), ?8, ?9, nullif(?10, 0),"
                             " nullif(?11, 0), nullif(?12, 0), nullif(?13, 0))" },
        { &database->sample, "INSERT INTO pool_sample VALUES (?1, ?2, ?3, ?4)" },
    };

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (sqlite3_prepare_v3(database->db, statements[i].sql, -1, SQLITE_PREPARE_PERSISTENT, statements[i].statement,
                               NULL) != SQLITE_OK)
            return tidei_database_error(database, "prepare");
    }
    return TIDE_OK;
}

/* What every connection to a trace is set to before its first statement. */
static enum tide_status
database_configure(struct tidei_database *database)
{
    sqlite3_extended_result_codes(database->db, 1);
    /* A trace that was left behind may come from anywhere: nothing that its schema brings along is run. */
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_busy_handler(database->db, database_busy, database);
    if (tidei_feed_register(database) != SQLITE_OK || tidei_feed_calls_register(database) != SQLITE_OK)
        return tidei_database_error(database, "virtual tables");
    /*
     * Without fsync: what is lost with the power is not what this file is for, and a killed process loses nothing.
     * The log is folded in every 64 MiB, in a 32 MiB cache.
     */
    return database_exec(database,
                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
                         "PRAGMA wal_autocheckpoint = 4096; PRAGMA journal_size_limit = 67108864;"
                         "PRAGMA temp_store = MEMORY",
                         "journal mode");
}

static struct tidei_database *
database_new(const char *path)
{
    struct tidei_database *database = calloc(1, sizeof(*database));

    if (database == NULL)
        return NULL;
    database->path = strdup(path);
    if (database->path == NULL) {
        free(database);
        return NULL;
    }
    return database;
}

static enum tide_status
database_fill_status(struct tidei_database *database)
{
    enum tide_status status = TIDE_OK;
    sqlite3_stmt *insert;

    if (sqlite3_prepare_v2(database->db, "INSERT INTO status VALUES (?1, ?2, ?3)", -1, &insert, NULL) != SQLITE_OK)
        return tidei_database_error(database, "schema");
    for (int i = 0; status == TIDE_OK && strcmp(tide_status_name(i), "TIDE_UNKNOWN") != 0; i++) {
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_text(insert, 2, tide_status_name(i), -1, SQLITE_STATIC);
        sqlite3_bind_text(insert, 3, tide_status_text(i), -1, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE)
            status = tidei_database_error(database, "schema");
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    return status;
}

static enum tide_status
database_create_schema(struct tidei_database *database)
{
    enum tide_status status;
    char sql[128];

    /*
     * The id before there is a write-ahead log: so it stands in the file itself from the first page on, and another
     * program's file, which has none, is never taken for a trace that may be overwritten.
     */
    sqlite3_snprintf(sizeof(sql), sql, "PRAGMA page_size = 16384; PRAGMA synchronous = OFF; PRAGMA application_id = %d",
                     TIDEI_TRACE_APPLICATION_ID);
    status = database_exec(database, sql, "application id");
    if (status == TIDE_OK)
        status = database_configure(database);
    if (status == TIDE_OK)
        status = database_exec(database, "BEGIN IMMEDIATE", "schema");
    if (status == TIDE_OK)
        status = database_exec(database, tidei_trace_schema, "schema");
    if (status == TIDE_OK)
        status = database_fill_status(database);
    if (status == TIDE_OK)
        status = database_exec(database, "COMMIT", "schema");
    return status == TIDE_OK ? database_prepare(database) : status;
}

enum tide_status
tidei_database_create(const char *path, struct tidei_database **out)
{
    struct tidei_database *database = database_new(path);
    enum tide_status status;
    int fd;

    *out = NULL;
    if (database == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    /* SQLite would open what is there; this makes sure that the file is new, and ours. */
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = errno == EEXIST ? tide_error_set(TIDE_EEXIST, "log: %s exists; overwrite=true replaces it", path)
                                 : tide_error_set(TIDE_EIO, "log: %s: %s", path, strerror(errno));
        tidei_database_close(database);
        return status;
    }
    close(fd);
    if (sqlite3_open_v2(path, &database->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = tidei_database_error(database, "open");
    else
        status = database_create_schema(database);
    if (status != TIDE_OK) {
        tidei_database_close(database);
        tidei_replaced_drop(path, false); /* SQLite may have left its journal */
        return status;
    }
    *out = database;
    return TIDE_OK;
}

enum tide_status
tidei_database_open(const char *path, bool (*poll)(void *context, uint64_t waited_ns), struct tidei_database **out)
{
    struct tidei_database *database = database_new(path);
    enum tide_status status;

    *out = NULL;
    if (database == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    database->poll = poll;
    if (sqlite3_open_v2(path, &database->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = tidei_database_error(database, "open");
    else
        status = database_configure(database);
    if (status == TIDE_OK)
        status = database_prepare(database);
    if (status != TIDE_OK) {
        tidei_database_close(database);
        return status;
    }
    *out = database;
    return TIDE_OK;
}

void
tidei_database_close(struct tidei_database *database)
{
    sqlite3_stmt *statement;

    if (database == NULL)
        return;
    while (database->db != NULL && (statement = sqlite3_next_stmt(database->db, NULL)) != NULL)
        sqlite3_finalize(statement);
    sqlite3_close(database->db);
    free(database->path);
    free(database->streams);
    free(database->samples_latest);
    free(database->layer_devices);
    free(database->modules.items);
    free(database);
}

enum tide_status
tidei_database_run(struct tidei_database *database, sqlite3_stmt *statement, const char *what)
{
    enum tide_status status = sqlite3_step(statement) == SQLITE_DONE ? TIDE_OK : tidei_database_error(database, what);

    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

enum tide_status
tidei_database_meta_text(struct tidei_database *database, const char *key, const char *value)
{
    sqlite3_bind_text(database->meta, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(database->meta, 2, value, -1, SQLITE_STATIC);
    return tidei_database_run(database, database->meta, "meta");
}

enum tide_status
tidei_database_meta_number(struct tidei_database *database, const char *key, int64_t value)
{
    sqlite3_bind_text(database->meta, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(database->meta, 2, value);
    return tidei_database_run(database, database->meta, "meta");
}

/* The value of a key; *found says whether there is one. */
static enum tide_status
database_meta_find(struct tidei_database *database, const char *key, int64_t *out, bool *found)
{
    enum tide_status status = TIDE_OK;
    sqlite3_stmt *select;
    int result;

    *out = 0;
    *found = false;
    if (sqlite3_prepare_v2(database->db, "SELECT value FROM meta WHERE key = ?1", -1, &select, NULL) != SQLITE_OK)
        return tidei_database_error(database, "meta");
    sqlite3_bind_text(select, 1, key, -1, SQLITE_STATIC);
    result = sqlite3_step(select);
    if (result == SQLITE_ROW) {
        *out = sqlite3_column_int64(select, 0);
        *found = true;
    } else if (result != SQLITE_DONE) {
        status = tidei_database_error(database, "meta");
    }
    sqlite3_finalize(select);
    return status;
}

enum tide_status
tidei_database_meta_read(struct tidei_database *database, const char *key, int64_t *out)
{
    bool found;

    return database_meta_find(database, key, out, &found);
}

enum tide_status
tidei_database_meta_has(struct tidei_database *database, const char *key, bool *out)
{
    int64_t ignored;

    return database_meta_find(database, key, &ignored, out);
}

enum tide_status
tidei_database_begin(struct tidei_database *database)
{
    return tidei_database_run(database, database->begin, "begin");
}

enum tide_status
tidei_database_end(struct tidei_database *database, enum tide_status status)
{
    if (status == TIDE_OK)
        status = tidei_database_run(database, database->commit, "commit");
    if (status != TIDE_OK && sqlite3_get_autocommit(database->db) == 0) {
        sqlite3_step(database->rollback);
        sqlite3_reset(database->rollback);
    }
    return status;
}

enum tide_status
tidei_database_devices_cut_off(struct tidei_database *database)
{
    /* Before the first transaction the calls alone, which have their numbers with cupti=memory, tell what there was. */
    enum tide_status status = database_exec(
        database,
        "INSERT INTO meta SELECT 'cupti', iif(EXISTS (SELECT 1 FROM driver_call WHERE correlation IS NOT NULL),"
        "    'memory', 'calls')"
        " WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key = 'cupti') AND EXISTS (SELECT 1 FROM driver_call)",
        "meta");

    if (status != TIDE_OK)
        return status;
    return database_exec(database,
                         "UPDATE meta SET value = 'memory, but for what CUPTI still had when the process was killed'"
                         " WHERE key = 'cupti' AND value = 'memory'",
                         "meta");
}

enum tide_status
tidei_database_finish(struct tidei_database *database)
{
    sqlite3_stmt *statement;

    while ((statement = sqlite3_next_stmt(database->db, NULL)) != NULL)
        sqlite3_finalize(statement);
    if (sqlite3_wal_checkpoint_v2(database->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) != SQLITE_OK)
        return tidei_database_error(database, "checkpoint");
    return database_exec(database, "PRAGMA journal_mode = DELETE", "journal mode");
}
