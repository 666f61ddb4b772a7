/*
 * Tests how a trace is resolved: it does not wait for readers if nothing can be, opens no other file than a regular one
 * of the same build, and ends after its time.
 */
#include "config.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

/* LeakSanitizer's own thread, which has no thread-local storage, calls the function below. */
__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *
__lsan_default_options(void)
{
    return "detect_leaks=0";
}

/* Seconds by which the clock of the library is ahead, and by which each look at it moves it. */
static time_t clock_ahead, clock_step;

/* In place of the C library's, for the library, too. */
int
clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);

    out->tv_sec += clock_ahead;
    clock_ahead += clock_step;
    return result;
}

static sqlite3 *
opened(const char *path, const char *sql)
{
    sqlite3 *db;

    if (sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return db;
    printf("Bail out! %s: %s\n", path, sqlite3_errmsg(db));
    exit(99);
}

/* A frame in each of two modules whose files do not exist, and a reader. */
static void
test_reader(void)
{
    static const char sql[] = "INSERT INTO module VALUES (1, '/nowhere/a.so', '00ff', 4096, 4096),"
                              " (2, '/nowhere/b.so', '', 8192, 4096);"
                              "INSERT INTO frame(frame_id, address, module_id) VALUES (1, 4100, 1), (2, 8200, 2);"
                              "BEGIN; SELECT count(*) FROM frame";
    const char *path = scratch("read.db");
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };
    enum tide_status status;
    sqlite3 *db;

    tide_resource_release(stack_of("log(%s) | host", path));
    db = opened(path, sql);
    status = tide_trace_resolve(path, &frames);
    ok(status == TIDE_OK, "if no module's file can be opened, resolving does not wait for a reader");
    diag("%s", status != TIDE_OK ? tide_error_text() : "fine");
    ok(all_of(frames.resolved == 0, frames.unresolved == 2),
       "if no module's file can be opened, all frames stay unresolved");
    sqlite3_close(db);
    ok(all_of(tide_trace_resolve(path, &frames) == TIDE_OK, frames.unresolved == 2),
       "without a reader all frames stay unresolved, too");
}

/* A trace with a call stack of this program. */
static void
record(const char *path)
{
    struct tide_resource *stack = stack_of("log(%s, callstack=16) | host", path);

    give(stack, take(stack, 100), 100);
    tide_resource_release(stack);
}

static void
test_time(void)
{
    const char *path = scratch("late.db");
    struct tide_trace_resolution first = { TIDE_FIGURES(first) }, second = { TIDE_FIGURES(second) };
    enum tide_status status;
    int64_t frames;

    record(path);
    frames = sql_number(path, "SELECT count(*) FROM frame");
    clock_step = 60;
    ok(all_of(tide_trace_resolve(path, &first) == TIDE_OK, first.postponed == 1, first.resolved == 0,
              (int64_t)first.unresolved == frames),
       "where the time is over before the first file, no frame is resolved, and that is said");
    clock_step = 12;
    status = tide_trace_resolve(path, &first);
    ok(all_of(status == TIDE_OK, first.postponed == 1, first.resolved > 0, (int64_t)first.resolved < frames),
       "where the time is over behind some frames (%d of %d), those are resolved", (int)first.resolved, (int)frames);
    clock_step = 0;
    ok(all_of(tide_trace_resolve(path, &second) == TIDE_OK, second.postponed == 0,
              (int64_t)(first.resolved + second.resolved + second.unresolved) >= frames,
              sql_number(path, "SELECT count(*) FROM frame WHERE function IS NULL") == (int64_t)second.unresolved),
       "the next call resolves the rest");
}

/* How often the file was opened since the watch began; -1: no watch. */
static int
opens_of(int watch)
{
    char events[4096];
    ssize_t count = read(watch, events, sizeof(events));

    return watch < 0 ? -1 : count > 0 ? (int)(count / (ssize_t)sizeof(struct inotify_event)) : 0;
}

static void
test_kind(const char *what, mode_t kind)
{
    const char *path = scratch("kind-%o.db", (unsigned)kind), *file = strdup(scratch("file-%o", (unsigned)kind));
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char folder[4096] = "", sql[8192];

    tide_resource_release(stack_of("log(%s) | host", path));
    if (getcwd(folder, sizeof(folder)) == NULL || file == NULL || mknod(file, kind | 0600, 0x0103) != 0 ||
        inotify_add_watch(watch, file, IN_OPEN) < 0) {
        skip(1, "no pipe or device can be made or watched here");
    } else {
        snprintf(sql, sizeof(sql),
                 "INSERT INTO module VALUES (900, '%s/%s', '00ff', 4096, 4096);"
                 "INSERT INTO frame(frame_id, address, module_id) VALUES (900, 4100, 900)",
                 folder, file);
        sqlite3_close(opened(path, sql));
        ok(all_of(tide_trace_resolve(path, &frames) == TIDE_OK, opens_of(watch) == 0,
                  sql_number(path, "SELECT function IS NULL FROM frame WHERE frame_id = 900") == 1),
           "%s that a trace names as a module is not opened", what);
    }
    close(watch);
    unlink(file);
    free((void *)file);
}

/* The module of this program with another build id; the trace says that it was recorded here, later than the file. */
static void
test_build(void)
{
    const char *path = scratch("build.db");
    struct tide_trace_resolution frames = { TIDE_FIGURES(frames) };

    record(path);
    if (sql_number(path, "SELECT count(*) FROM module WHERE build_id = ''") > 0) {
        skip(2, "a file of this program has no build id");
        return;
    }
    sqlite3_close(opened(path, "UPDATE module SET build_id = '00ff'"));
    ok(all_of(tide_trace_resolve(path, &frames) == TIDE_OK, frames.resolved == 0),
       "files of other build ids give no names");
    sqlite3_close(opened(path, "UPDATE module SET build_id = ''"));
    ok(all_of(tide_trace_resolve(path, &frames) == TIDE_OK, frames.resolved == 0),
       "files with build ids give no names to modules that had none");
}

int
main(void)
{
    plan(10);
    test_reader();
    test_time();
    test_kind("a pipe", S_IFIFO);
    test_kind("a device", S_IFCHR);
    test_build();
    return done();
}
