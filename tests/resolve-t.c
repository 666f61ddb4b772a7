/* Tests that resolving a trace does not wait for its readers if none of its frames can be resolved. */
#include "tests/tap.h"

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "tests/trace.h"

/* Add a frame in each of two modules whose files do not exist, and begin to read. */
static sqlite3 *
reader_of(const char *path)
{
    static const char sql[] = "INSERT INTO module VALUES (1, '/nowhere/a.so', '00ff', 4096, 4096),"
                              " (2, '/nowhere/b.so', '', 8192, 4096);"
                              "INSERT INTO frame(frame_id, address, module_id) VALUES (1, 4100, 1), (2, 8200, 2);"
                              "BEGIN; SELECT count(*) FROM frame";
    sqlite3 *db;

    if (sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return db;
    printf("Bail out! %s: %s\n", path, sqlite3_errmsg(db));
    exit(99);
}

int
main(void)
{
    const char *path = scratch("read.db");
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };
    enum tide_status status;
    sqlite3 *db;

    plan(3);
    tide_resource_release(stack_of("log(%s) | host", path));
    db = reader_of(path);
    status = tide_trace_resolve(path, &frames);
    ok(status == TIDE_OK, "if no module's file can be opened, resolving does not wait for a reader");
    diag("%s", status != TIDE_OK ? tide_error_text() : "fine");
    ok(all_of(frames.resolved == 0, frames.unresolved == 2),
       "if no module's file can be opened, all frames stay unresolved");
    sqlite3_close(db);
    ok(all_of(tide_trace_resolve(path, &frames) == TIDE_OK, frames.unresolved == 2),
       "without a reader all frames stay unresolved, too");
    return done();
}
