/* Creates the SQLite file of a trace, or opens that of a dead process. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/database/files.h"
#include "src/trace/database/database.h"
#include "src/trace/database/vfs.h"

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

void
tidei_database_distrust(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
}

/* Configure a connection before its first statement. */
static void
open_connection(struct tidei_database *database)
{
    sqlite3_extended_result_codes(database->db, 1);
    tidei_database_distrust(database->db);
    sqlite3_busy_handler(database->db, open_busy, database);
    tidei_database_register(database);
}

static void
open_configure(struct tidei_database *database)
{
    open_connection(database);
    /*
     * Without fsync: what is lost with the power is not what this file is for, and a killed process loses nothing.
     * The log is folded in every 64 MiB, in a 32 MiB cache.
     */
    tidei_database_exec(database,
                        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
                        "PRAGMA wal_autocheckpoint = 4096; PRAGMA journal_size_limit = 67108864;"
                        "PRAGMA temp_store = MEMORY",
                        "journal mode");
}

static void
open_create_schema(struct tidei_database *database)
{
    char sql[192];

    /*
     * The id is written by itself, so that the file has it from its first page on. A file of another program has none,
     * and is never taken for a trace that may be removed.
     */
    sqlite3_snprintf(sizeof(sql), sql,
                     "PRAGMA page_size = 16384; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                     "PRAGMA temp_store = MEMORY; PRAGMA application_id = %d",
                     TIDEI_TRACE_APPLICATION_ID);
    open_connection(database);
    tidei_database_exec(database, sql, "application id");
    tidei_database_exec(database, "BEGIN IMMEDIATE", "schema");
    tidei_database_exec(database, tidei_trace_schema, "schema");
    if (database->status == TIDE_OK && tidei_insert_statuses(database->db) != SQLITE_OK)
        tidei_database_fail(database, "schema");
    tidei_database_exec(database, "COMMIT", "schema");
}

/* The text of the schema that creates a table, to its semicolon; owned by the caller. */
static char *
open_table_sql(const char *table)
{
    char head[64];
    const char *begin, *end;

    sqlite3_snprintf(sizeof(head), head, "CREATE TABLE %s(", table);
    begin = strstr(tidei_trace_schema, head);
    end = begin != NULL ? strstr(begin, ";\n") : NULL;
    return end != NULL ? strndup(begin, (size_t)(end + 1 - begin)) : NULL;
}

/* Add what a trace of an earlier version lacks of a table. */
static void
open_complete_table(struct tidei_database *database, const struct tidei_table *table)
{
    char sql[128], *create;

    if (sqlite3_table_column_metadata(database->db, NULL, table->name, NULL, NULL, NULL, NULL, NULL, NULL) !=
        SQLITE_OK) {
        create = table->required ? NULL : open_table_sql(table->name);
        if (create != NULL)
            tidei_database_exec(database, create, table->name);
        free(create);
        return;
    }
    for (unsigned i = 0; i < table->column_count; i++) {
        const struct tidei_column *column = &table->columns[i];

        if (column->type != TIDEI_COLUMN_ADDED ||
            sqlite3_table_column_metadata(database->db, NULL, table->name, column->name, NULL, NULL, NULL, NULL,
                                          NULL) == SQLITE_OK)
            continue;
        sqlite3_snprintf(sizeof(sql), sql, "ALTER TABLE %s ADD COLUMN %s INTEGER", table->name, column->name);
        tidei_database_exec(database, sql, table->name);
    }
}

/* A program with an earlier version of the library may have recorded the trace, and been killed. */
static void
open_configure_left(struct tidei_database *database)
{
    open_configure(database);
    for (unsigned i = 0; database->status == TIDE_OK && i < TIDEI_TABLES; i++)
        open_complete_table(database, &tidei_tables[i]);
}

static enum tide_status
open_connect(struct tidei_database *database, void (*configure)(struct tidei_database *))
{
    if (sqlite3_open_v2(database->path, &database->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, tidei_vfs()) !=
        SQLITE_OK)
        tidei_database_fail(database, "open");
    else if (sqlite3_db_readonly(database->db, "main") == 1)
        /* SQLite does so where it gets no file to write, for want of a descriptor too. */
        database->status = tide_error_set(TIDE_EIO, "log: %s: it cannot be opened for writing", database->path);
    else
        configure(database);
    /* Again, now that SQLite has them open: somebody may have made one in between. */
    if (database->status == TIDE_OK)
        database->status = tidei_trace_check_beside(database->path);
    tidei_database_prepare(database);
    return database->status;
}

/* Open the file that is there, and set the connection up with `configure`. Closes the database on failure. */
static enum tide_status
open_file(struct tidei_database *database, void (*configure)(struct tidei_database *), struct tidei_database **out)
{
    enum tide_status status;

    status = open_connect(database, configure);
    if (status == TIDE_OK)
        *out = database;
    else
        tidei_database_close(database);
    return status;
}

/* A database without a connection; NULL without host memory. */
static struct tidei_database *
open_new(const char *path)
{
    struct tidei_database *database = calloc(1, sizeof(*database));

    if (database == NULL)
        return NULL;
    database->guard.trace.fd = database->guard.index.fd = -1;
    database->path = strdup(path);
    if (database->path == NULL) {
        free(database);
        return NULL;
    }
    return database;
}

enum tide_status
tidei_database_create(const char *path, mode_t mode, struct tidei_database **out)
{
    struct tidei_database *database = open_new(path);
    enum tide_status status;
    int fd;

    *out = NULL;
    if (database == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    /* SQLite would open what is there; this makes sure that the file is new, and ours. */
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) {
        status = tide_error_set(errno == EEXIST ? TIDE_EEXIST : TIDE_EIO, "log: %s: %s", path, strerror(errno));
        tidei_database_close(database);
        return status;
    }
    close(fd);
    status = open_file(database, open_create_schema, out);
    if (status != TIDE_OK)
        tidei_replaced_drop(path, false); /* SQLite may have left its journal */
    return status;
}

enum tide_status
tidei_database_born(struct tidei_database *database)
{
    enum tide_status status;

    /* While nobody else can have the file open: a reader would hold up the change of the mode. */
    tidei_database_exec(database, "PRAGMA journal_mode = WAL", "journal mode");
    status = database->status == TIDE_OK ? tidei_trace_check_beside(database->path) : database->status;
    tidei_database_close(database);
    return status;
}

static void
open_again(struct tidei_database *database)
{
    if (open_connect(database, open_configure) == TIDE_OK)
        tidei_guard_open(&database->guard, database->path);
}

enum tide_status
tidei_database_open(const char *path, bool (*poll)(void *context, uint64_t waited_ns), struct tidei_database **out)
{
    struct tidei_database *database = open_new(path);
    enum tide_status status;

    *out = NULL;
    if (database == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    database->poll = poll;
    database->connect = open_again;
    status = open_file(database, open_configure_left, out);
    if (status == TIDE_OK)
        tidei_guard_open(&database->guard, path);
    return status;
}
