/* Looks at the trace of a dead process without a change to it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/resource/resource.h"
#include "src/trace/database/database.h"
#include "src/trace/database/look.h"
#include "src/trace/database/vfs.h"

struct look {
    const char *path;
    sqlite3 *db;
    bool (*busy)(void *context, uint64_t waited_ns);
    uint64_t since_ns;
};

static int
look_busy(void *context, int tries)
{
    const struct timespec pause = { 0, 2000000 };
    struct look *look = context;

    if (tries == 0)
        look->since_ns = tidei_monotonic_ns();
    nanosleep(&pause, NULL);
    return look->busy(NULL, tidei_monotonic_ns() - look->since_ns);
}

static enum tide_status
look_failed(const struct look *look, int code)
{
    bool damaged = (code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT;

    if ((code & 0xff) == SQLITE_NOMEM)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    return tide_error_set(damaged ? TIDE_EFORMAT : TIDE_EIO, "%s: %s", look->path, sqlite3_errmsg(look->db));
}

/* A result code of SQLite. */
static int
look_read(struct look *look, struct tidei_look *out)
{
    sqlite3_stmt *select = NULL;
    int code = sqlite3_prepare_v2(look->db, "SELECT key, value FROM meta", -1, &select, NULL);

    memset(out, 0, sizeof(*out));
    while (code == SQLITE_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(select, 0);
        int64_t value = sqlite3_column_int64(select, 1);

        code = SQLITE_OK;
        if (key == NULL)
            continue;
        out->ended = out->ended || strcmp(key, "ended") == 0;
        out->exit_recovered = out->exit_recovered || strcmp(key, "exit_recovered") == 0;
        if (strcmp(key, "trace_id") == 0)
            out->trace_id = value;
        else if (strcmp(key, "epoch") == 0)
            out->epoch = value;
        else if (strcmp(key, "epoch_records") == 0)
            out->epoch_records = value;
    }
    sqlite3_finalize(select);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/*
 * Connect and read. In the exclusive mode the index of the write-ahead log is in memory, and no file beside the trace
 * is made or touched. Others that have the trace open have an index already, which is then used.
 */
static int
look_connect(struct look *look, bool alone, struct tidei_look *out)
{
    int code = sqlite3_open_v2(look->path, &look->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, tidei_vfs());

    if (code != SQLITE_OK)
        return code;
    tidei_database_distrust(look->db);
    sqlite3_db_config(look->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (alone)
        code = sqlite3_exec(look->db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL);
    else
        sqlite3_busy_handler(look->db, look_busy, look);
    return code == SQLITE_OK ? look_read(look, out) : code;
}

enum tide_status
tidei_database_look(const char *path, bool (*busy)(void *context, uint64_t waited_ns), struct tidei_look *out)
{
    struct look look = { .path = path, .busy = busy };
    int code = look_connect(&look, true, out);
    enum tide_status status;

    if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_READONLY) {
        sqlite3_close(look.db);
        code = look_connect(&look, false, out);
    }
    status = code == SQLITE_OK ? TIDE_OK : look_failed(&look, code);
    sqlite3_close(look.db);
    return status;
}

void
tidei_database_spare_log(struct tidei_database *database)
{
    sqlite3_db_config(database->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}
