/* Resolves the frames of a trace's call stacks to names, from the files that the program ran from. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/trace.h>

#include "src/resource/resource.h"
#include "src/context/symbols.h"
#include "src/sync/inside.h"
#include "src/tables/grow.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/database/database.h"
#include "src/trace/database/vfs.h"

/* How long a lock on the trace is waited for. */
#define RESOLVE_BUSY_MS 2000

/*
 * After so long no further frame is looked up: what has names is written, and the next lookup goes on. A hostile trace
 * may name any number of large files.
 */
#define RESOLVE_SECONDS 30

struct resolve {
    sqlite3 *db;
    const char *path;
    bool is_here;          /* it was recorded on this machine */
    int64_t start_unix_ns; /* of the trace */
    time_t deadline;       /* in seconds of CLOCK_MONOTONIC */
    struct tide_trace_resolution *out;
};

/* A module with unresolved frames. */
struct resolve_module {
    int64_t id;
    char *path; /* owned, as the next one */
    char *build_id;
    uint64_t base;
};

static enum tide_status
resolve_failed(const struct resolve *resolve)
{
    return tide_error_set(TIDE_EIO, "trace: %s: call stacks: %s", resolve->path, sqlite3_errmsg(resolve->db));
}

static enum tide_status
resolve_unwritable(const struct resolve *resolve)
{
    return tide_error_set(TIDE_EIO, "trace: %s: call stacks: the names of their frames cannot be written to it",
                          resolve->path);
}

/* Whether the time is over. */
static bool
resolve_is_late(const struct resolve *resolve)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > resolve->deadline;
}

/* The first column of the first row; 0 where there is none. */
static enum tide_status
resolve_number(const struct resolve *resolve, const char *sql, int64_t *out)
{
    sqlite3_stmt *select = NULL;
    int code = sqlite3_prepare_v2(resolve->db, sql, -1, &select, NULL);

    *out = 0;
    if (code == SQLITE_OK && sqlite3_step(select) == SQLITE_ROW)
        *out = sqlite3_column_int64(select, 0);
    if (code == SQLITE_OK)
        code = sqlite3_finalize(select);
    return code == SQLITE_OK ? TIDE_OK : resolve_failed(resolve);
}

/* Check that this is a trace, and read when and where it was recorded. *has_stacks: it has tables of call stacks. */
static enum tide_status
resolve_look(struct resolve *resolve, bool *has_stacks)
{
    char host[256] = "";
    sqlite3_stmt *select = NULL;
    enum tide_status status;
    int64_t number;

    *has_stacks = false;
    status = resolve_number(resolve, "PRAGMA application_id", &number);
    if (status != TIDE_OK)
        return status;
    if (number != TIDEI_TRACE_APPLICATION_ID)
        return tide_error_set(TIDE_EFORMAT, "trace: %s: no trace", resolve->path);
    status = resolve_number(resolve,
                            "SELECT count(*) = 2 FROM sqlite_master WHERE name IN ('frame', 'module')"
                            " AND type = 'table' AND rootpage <> 0",
                            &number);
    if (status != TIDE_OK || number == 0)
        return status;
    *has_stacks = true;
    status = resolve_number(resolve, "SELECT value FROM meta WHERE key = 'start_unix_ns'", &resolve->start_unix_ns);
    gethostname(host, sizeof(host) - 1);
    if (sqlite3_prepare_v2(resolve->db, "SELECT 1 FROM meta WHERE key = 'hostname' AND value = ?1", -1, &select,
                           NULL) == SQLITE_OK) {
        sqlite3_bind_text(select, 1, host, -1, SQLITE_STATIC);
        resolve->is_here = sqlite3_step(select) == SQLITE_ROW;
    }
    sqlite3_finalize(select);
    return status;
}

/*
 * Open the file of a module, if it is the file that ran: it has the same build id, or, without build ids, the trace was
 * recorded on this machine and the file has not changed since.
 */
static struct tidei_symbols *
resolve_open(const struct resolve *resolve, const struct resolve_module *module)
{
    struct stat file;

    if (module->build_id[0] == '\0' &&
        (!resolve->is_here || stat(module->path, &file) != 0 ||
         file.st_mtim.tv_sec * INT64_C(1000000000) + file.st_mtim.tv_nsec > resolve->start_unix_ns))
        return NULL;
    return tidei_symbols_open(module->path, module->build_id, module->base);
}

/*
 * "" means that nothing is known, NULL that the frame is unresolved. Without libdw a frame gets only the name of its
 * function, so that the next process with libdw resolves the rest.
 */
static enum tide_status
resolve_frame(struct resolve *resolve, sqlite3_stmt *update, struct tidei_symbols *symbols, int64_t frame_id,
              uint64_t address)
{
    struct tidei_symbol symbol;
    int code;

    tidei_symbols_find(symbols, address - 1, &symbol);
    sqlite3_bind_text(update, 1, symbol.function, -1, SQLITE_STATIC);
    sqlite3_bind_text(update, 2, tidei_symbols_have_lines() ? symbol.file : NULL, -1, SQLITE_STATIC);
    sqlite3_bind_int64(update, 3, symbol.line);
    sqlite3_bind_int64(update, 4, frame_id);
    code = sqlite3_step(update);
    sqlite3_reset(update);
    resolve->out->resolved++;
    return code == SQLITE_DONE ? TIDE_OK : resolve_failed(resolve);
}

/*
 * Called just before the first write: at the end of even an empty transaction SQLite waits for all readers, so a
 * command that has the trace open already would wait for itself.
 */
static enum tide_status
resolve_begin(const struct resolve *resolve)
{
    if (sqlite3_get_autocommit(resolve->db) == 0 ||
        sqlite3_exec(resolve->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
        return TIDE_OK;
    return resolve_unwritable(resolve);
}

/* All frames of a module. */
static enum tide_status
resolve_module(struct resolve *resolve, const struct resolve_module *module)
{
    static const char select_sql[] =
        "SELECT frame_id, address FROM frame WHERE (function IS NULL OR file IS NULL AND ?3) AND module_id = ?1"
        " AND frame_id > ?2 ORDER BY frame_id LIMIT 1";
    static const char update_sql[] =
        "UPDATE frame SET function = ?1, file = ?2, line = nullif(?3, 0) WHERE frame_id = ?4";
    struct tidei_symbols *symbols = resolve_open(resolve, module);
    sqlite3_stmt *select = NULL, *update = NULL;
    enum tide_status status;
    int64_t frame_id = 0;

    if (symbols == NULL)
        return TIDE_OK;
    status = resolve_begin(resolve);
    if (status == TIDE_OK && (sqlite3_prepare_v2(resolve->db, select_sql, -1, &select, NULL) != SQLITE_OK ||
                              sqlite3_prepare_v2(resolve->db, update_sql, -1, &update, NULL) != SQLITE_OK))
        status = resolve_failed(resolve);
    while (status == TIDE_OK && !resolve_is_late(resolve)) {
        uint64_t address;

        sqlite3_bind_int64(select, 1, module->id);
        sqlite3_bind_int64(select, 2, frame_id);
        sqlite3_bind_int(select, 3, tidei_symbols_have_lines());
        if (sqlite3_step(select) != SQLITE_ROW)
            break;
        frame_id = sqlite3_column_int64(select, 0);
        address = (uint64_t)sqlite3_column_int64(select, 1);
        sqlite3_reset(select);
        status = resolve_frame(resolve, update, symbols, frame_id, address);
    }
    sqlite3_finalize(select);
    sqlite3_finalize(update);
    tidei_symbols_close(symbols);
    return status;
}

/* The modules that have frames without names; an array that ends in one with id 0, to be freed; NULL: none. */
static enum tide_status
resolve_list(const struct resolve *resolve, struct resolve_module **out)
{
    static const char sql[] =
        "SELECT module_id, path, build_id, base FROM module WHERE module_id IN"
        " (SELECT module_id FROM frame WHERE function IS NULL OR file IS NULL AND ?1) ORDER BY module_id";
    struct resolve_module *list = NULL;
    sqlite3_stmt *select = NULL;
    size_t count = 0, capacity = 0;
    int code = sqlite3_prepare_v2(resolve->db, sql, -1, &select, NULL);

    if (code == SQLITE_OK)
        sqlite3_bind_int(select, 1, tidei_symbols_have_lines());
    while (code == SQLITE_OK && sqlite3_step(select) == SQLITE_ROW) {
        const char *path = (const char *)sqlite3_column_text(select, 1);
        const char *build_id = (const char *)sqlite3_column_text(select, 2);

        if (path == NULL || build_id == NULL || sqlite3_column_int64(select, 0) == 0)
            continue;
        if (!tidei_grow(&list, &capacity, count, 2))
            break;
        list[count] = (struct resolve_module){ sqlite3_column_int64(select, 0), strdup(path), strdup(build_id),
                                               (uint64_t)sqlite3_column_int64(select, 3) };
        list[++count] = (struct resolve_module){ 0 };
        if (list[count - 1].path == NULL || list[count - 1].build_id == NULL)
            break;
    }
    if (code == SQLITE_OK)
        code = sqlite3_finalize(select);
    *out = list;
    return code == SQLITE_OK ? TIDE_OK : resolve_failed(resolve);
}

static void
resolve_free_list(struct resolve_module *list)
{
    for (struct resolve_module *module = list; module != NULL && module->id != 0; module++) {
        free(module->path);
        free(module->build_id);
    }
    free(list);
}

/* Resolve all frames without names. One transaction, if there is anything to write. */
static enum tide_status
resolve_all(struct resolve *resolve)
{
    struct resolve_module *list = NULL;
    enum tide_status status = TIDE_OK;

    if (sqlite3_db_readonly(resolve->db, "main") != 0)
        return resolve_unwritable(resolve);
    status = resolve_list(resolve, &list);
    for (struct resolve_module *module = list; status == TIDE_OK && module != NULL && module->id != 0; module++) {
        resolve->out->postponed = resolve_is_late(resolve);
        if (resolve->out->postponed)
            break;
        if (module->path != NULL && module->build_id != NULL)
            status = resolve_module(resolve, module);
    }
    resolve->out->postponed = resolve->out->postponed || resolve_is_late(resolve);
    resolve_free_list(list);
    if (status == TIDE_OK && sqlite3_get_autocommit(resolve->db) == 0 &&
        sqlite3_exec(resolve->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        status = resolve_failed(resolve);
    if (status != TIDE_OK && sqlite3_get_autocommit(resolve->db) == 0)
        sqlite3_exec(resolve->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static enum tide_status
resolve_opened(struct resolve *resolve)
{
    static const char unnamed_sql[] = "SELECT count(*) FROM frame WHERE function IS NULL";
    static const char without_file_sql[] = "SELECT count(*) FROM frame WHERE (function IS NULL OR file IS NULL)"
                                           " AND module_id IS NOT NULL";
    enum tide_status status, counted;
    bool has_stacks;
    int64_t left;

    tidei_database_distrust(resolve->db);
    /* A write-ahead log stays: this process may not have the right to fold it in. */
    sqlite3_db_config(resolve->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_busy_timeout(resolve->db, RESOLVE_BUSY_MS);
    status = resolve_look(resolve, &has_stacks);
    if (status != TIDE_OK || !has_stacks)
        return status;
    status = resolve_number(resolve, tidei_symbols_have_lines() ? without_file_sql : unnamed_sql, &left);
    if (status == TIDE_OK && left != 0) {
        status = resolve_all(resolve);
        if (status != TIDE_OK)
            resolve->out->resolved = 0;
    }
    counted = resolve_number(resolve, unnamed_sql, &left);
    resolve->out->unresolved = (uint64_t)left;
    return status != TIDE_OK ? status : counted;
}

enum tide_status
tide_trace_resolve(const char *path, struct tide_trace_resolution *out)
{
    TIDEI_INSIDE(NULL);
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };
    struct resolve resolve = { .path = path, .out = &frames };
    struct timespec now;
    enum tide_status status = tidei_figures_clear("trace", out);
    sigset_t before;

    if (status != TIDE_OK)
        return status;
    if (path == NULL)
        return tide_error_set(TIDE_EINVAL, "trace: the path is NULL");
    clock_gettime(CLOCK_MONOTONIC, &now);
    resolve.deadline = now.tv_sec + RESOLVE_SECONDS;
    tidei_filelimit_hold(&before);
    if (sqlite3_open_v2(path, &resolve.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, tidei_vfs()) != SQLITE_OK)
        status = tide_error_set(TIDE_EIO, "trace: %s: %s", path,
                                resolve.db != NULL ? sqlite3_errmsg(resolve.db) : "no host memory");
    else
        status = resolve_opened(&resolve);
    sqlite3_close(resolve.db);
    tidei_filelimit_release(&before);
    tidei_figures_copy(out, &frames, sizeof(frames));
    return status;
}
