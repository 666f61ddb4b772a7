/* Creates the SQLite file of a trace, or opens that of a dead process. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/database/replaced.h"
#include "src/trace/database/transaction.h"

/* How long a thread that makes a trace waits for a reader that has just come. */
#define OPEN_LIMIT_NS 10000000000u

/* Wait for another's lock in small steps, between which the rings are drained, until the writer gives up. */
static int
open_busy(void *context, int tries)
{
    struct tidei_database *database = context;
    struct timespec pause = { 0, 2000000 };
    uint64_t waited_ns;

    if (tries == 0)
        database->busy_since_ns = tidei_monotonic_ns();
    nanosleep(&pause, NULL);
    waited_ns = tidei_monotonic_ns() - database->busy_since_ns;
    return database->poll != NULL ? database->poll(database->poll_context, waited_ns) : waited_ns < OPEN_LIMIT_NS;
}

/* What every connection to a trace is set to before its first statement. */
static enum tide_status
open_configure(struct tidei_database *database)
{
    sqlite3_extended_result_codes(database->db, 1);
    /* Do not trust a trace that was left behind: run no code that its schema contains. */
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_busy_handler(database->db, open_busy, database);
    if (tidei_database_register(database) != SQLITE_OK)
        return tidei_database_error(database, "virtual tables");
    /*
     * Without fsync: what is lost with the power is not what this file is for, and a killed process loses nothing.
     * The log is folded in every 64 MiB, in a 32 MiB cache.
     */
    return tidei_database_exec(database,
                               "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
                               "PRAGMA wal_autocheckpoint = 4096; PRAGMA journal_size_limit = 67108864;"
                               "PRAGMA temp_store = MEMORY",
                               "journal mode");
}

static enum tide_status
open_create_schema(struct tidei_database *database)
{
    enum tide_status status;
    char sql[128];

    /*
     * The id before there is a write-ahead log: so it stands in the file itself from the first page on, and another
     * program's file, which has none, is never taken for a trace that may be overwritten.
     */
    sqlite3_snprintf(sizeof(sql), sql, "PRAGMA page_size = 16384; PRAGMA synchronous = OFF; PRAGMA application_id = %d",
                     TIDEI_TRACE_APPLICATION_ID);
    status = tidei_database_exec(database, sql, "application id");
    if (status == TIDE_OK)
        status = open_configure(database);
    if (status == TIDE_OK)
        status = tidei_database_exec(database, "BEGIN IMMEDIATE", "schema");
    if (status == TIDE_OK)
        status = tidei_database_exec(database, tidei_trace_schema, "schema");
    if (status == TIDE_OK && tidei_insert_statuses(database->db) != SQLITE_OK)
        status = tidei_database_error(database, "schema");
    if (status == TIDE_OK)
        status = tidei_database_exec(database, "COMMIT", "schema");
    return status == TIDE_OK ? tidei_database_prepare(database) : status;
}

enum tide_status
tidei_database_create(const char *path, struct tidei_database **out)
{
    struct tidei_database *database = tidei_database_new(path);
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
        status = open_create_schema(database);
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
    struct tidei_database *database = tidei_database_new(path);
    enum tide_status status;

    *out = NULL;
    if (database == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    database->poll = poll;
    if (sqlite3_open_v2(path, &database->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = tidei_database_error(database, "open");
    else
        status = open_configure(database);
    if (status == TIDE_OK)
        status = tidei_database_prepare(database);
    if (status != TIDE_OK) {
        tidei_database_close(database);
        return status;
    }
    *out = database;
    return TIDE_OK;
}
