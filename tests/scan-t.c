/* Tests the scan against brute force: small random traces, in order and with their rows out of order. */
#include "tests/draw.h"
#include "tests/tap.h"

#include <time.h>
#include <unistd.h>

#include "src/trace/database/schema.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/filter.h"
#include "viewer/read/scan.h"

#define LIVES     60
#define ROUNDS    300
#define FILES     20
#define FILE_NAME "scan-t.db"
#define NEVER     INT64_MIN

struct life {
    int64_t id;
    int64_t alloc_ns;
    int64_t free_ns; /* NEVER */
    int64_t size;
    int64_t status;
};

struct seen {
    int64_t ns;
    int64_t id;
    bool is_free;
};

struct log {
    const struct scan *scan;
    struct seen events[2 * LIVES];
    size_t count;
    int begun;
    int64_t last_ns;
    uint64_t succeeded;
    bool counted; /* the scan counts events as this test does */
};

static int
log_begin(void *context)
{
    struct log *log = context;

    log->count = log->succeeded = 0;
    log->counted = true;
    log->begun++;
    return COMMAND_FINE;
}

static int
log_alloc(void *context, const struct scan_life *life)
{
    struct log *log = context;

    log->events[log->count++] = (struct seen){ life->alloc_ns, life->allocation_id, false };
    log->counted = log->counted && life->event == log->succeeded;
    log->succeeded += life->status == 0;
    return COMMAND_FINE;
}

static int
log_free(void *context, const struct scan_life *life)
{
    struct log *log = context;

    log->events[log->count++] = (struct seen){ life->free_ns, life->allocation_id, true };
    log->succeeded++;
    log->counted = log->counted && scan_events(log->scan) == log->succeeded;
    return COMMAND_FINE;
}

static int
log_end(void *context, int64_t last_ns)
{
    ((struct log *)context)->last_ns = last_ns;
    return COMMAND_FINE;
}

static const struct scan_unit log_unit = {
    .attach = true, .begin = log_begin, .alloc = log_alloc, .free = log_free, .end = log_end
};
static const struct scan_unit details_unit = {
    .needs = SCAN_DETAILS, .attach = true, .begin = log_begin, .alloc = log_alloc, .free = log_free, .end = log_end
};

/*
 * Allocations in the order of time: in every other round with few different times, so that many are equal; else far
 * apart.
 */
static size_t
make_lives(struct life *lives)
{
    size_t count = draw(LIVES + 1);
    bool far = draw(2) == 0;
    int64_t ns = far ? -(INT64_C(1) << 50) : 0;

    for (size_t i = 0; i < count; i++) {
        ns += (int64_t)(far ? draw(UINT64_C(1) << draw(45)) : draw(3));
        lives[i] = (struct life){ .id = (int64_t)(i + 1), .alloc_ns = ns, .size = (int64_t)draw(1000) };
        lives[i].status = draw(10) == 0 ? 3 : 0;
        lives[i].free_ns = NEVER;
        if (lives[i].status == 0 && draw(4) != 0)
            lives[i].free_ns = ns + (int64_t)(far ? draw(UINT64_C(1) << draw(52)) : draw(20));
    }
    return count;
}

/* Whether `a` must come before `b`, as scan.h says. */
static bool
comes_before(const struct seen *a, const struct seen *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    if (a->is_free != b->is_free)
        return b->is_free;
    return a->id < b->id;
}

/* Brute force: take the event that comes before all others, again and again. */
static size_t
expect(const struct life *lives, size_t count, struct seen *out)
{
    struct seen left[2 * LIVES];
    size_t left_count = 0;
    size_t done = 0;

    for (size_t i = 0; i < count; i++) {
        left[left_count++] = (struct seen){ lives[i].alloc_ns, lives[i].id, false };
        if (lives[i].free_ns != NEVER)
            left[left_count++] = (struct seen){ lives[i].free_ns, lives[i].id, true };
    }
    while (left_count > 0) {
        size_t first = 0;

        for (size_t i = 1; i < left_count; i++) {
            if (comes_before(&left[i], &left[first]))
                first = i;
        }
        out[done++] = left[first];
        left[first] = left[--left_count];
    }
    return done;
}

static void
write_trace(sqlite3 *db, const struct life *lives, size_t count)
{
    sqlite3_stmt *statement = NULL;

    sqlite3_exec(db, "DELETE FROM allocation; BEGIN", NULL, NULL, NULL);
    sqlite3_prepare_v2(db, "INSERT INTO allocation VALUES (?, 1, 0, ?, 256, ?, NULL, NULL, ?, 1, 1, 1, ?, 1, 1, 1)", -1,
                       &statement, NULL);
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(statement, 1, lives[i].id);
        sqlite3_bind_int64(statement, 2, lives[i].size);
        sqlite3_bind_int64(statement, 3, lives[i].status);
        sqlite3_bind_int64(statement, 4, lives[i].alloc_ns);
        if (lives[i].free_ns != NEVER)
            sqlite3_bind_int64(statement, 5, lives[i].free_ns);
        else
            sqlite3_bind_null(statement, 5);
        sqlite3_step(statement);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}

static bool
same_events(const struct log *log, const struct seen *wanted, size_t count)
{
    for (size_t i = 0; i < count && i < log->count; i++) {
        if (log->events[i].ns != wanted[i].ns || log->events[i].id != wanted[i].id ||
            log->events[i].is_free != wanted[i].is_free) {
            diag("event %zu: seen %s of %" PRId64 " at %" PRId64 ", wanted %s of %" PRId64 " at %" PRId64, i,
                 log->events[i].is_free ? "free" : "alloc", log->events[i].id, log->events[i].ns,
                 wanted[i].is_free ? "free" : "alloc", wanted[i].id, wanted[i].ns);
            return false;
        }
    }
    return log->count == count;
}

static bool
run_round(sqlite3 *db, const struct trace *trace, bool shuffled)
{
    struct life lives[LIVES];
    struct seen wanted[2 * LIVES];
    struct log first = { 0 };
    struct log second = { 0 };
    struct scan_pass passes[] = { { &log_unit, &first }, { &details_unit, &second } };
    size_t count = make_lives(lives);
    size_t events;

    for (size_t i = 0; shuffled && i < count; i++)
        lives[i].id = 1000 - lives[i].id;
    events = expect(lives, count, wanted);
    write_trace(db, lives, count);
    if (scan_run(trace, NULL, passes, 2) != COMMAND_FINE)
        return false;
    if (first.last_ns != (events > 0 ? wanted[events - 1].ns : 0) || second.count != first.count || !first.counted ||
        !second.counted)
        return false;
    return same_events(&first, wanted, events) && (shuffled || first.begun == 1);
}

static int
count_reading(unsigned type, void *context, void *statement, void *text)
{
    (void)type;
    (void)statement;
    *(int *)context += strstr(text, "tidemark_row") != NULL;
    return 0;
}

/* Two parts, of which each sees some of the allocations: in one reading, each sees what it would see alone. */
static bool
run_parts(sqlite3 *db, const struct trace *trace)
{
    struct filter filter = { .from_ns = 5, .to_ns = 40, .min_size = 300, .active = true };
    struct life lives[LIVES];
    struct log all = { 0 }, some = { 0 }, all_alone = { 0 }, some_alone = { 0 };
    struct scan_pass passes[] = { { &log_unit, &some }, { &details_unit, &all } };
    struct scan_pass alone[] = { { &log_unit, &some_alone }, { &details_unit, &all_alone } };
    struct scan_part parts[] = { { &filter, &passes[0], 1 }, { NULL, &passes[1], 1 } };
    int readings = 0;

    write_trace(db, lives, make_lives(lives));
    if (scan_run(trace, &filter, &alone[0], 1) != COMMAND_FINE || scan_run(trace, NULL, &alone[1], 1) != COMMAND_FINE)
        return false;
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count_reading, &readings);
    if (scan_run_parts(trace, parts, 2) != COMMAND_FINE)
        return false;
    sqlite3_trace_v2(db, 0, NULL, NULL);
    return readings == 1 && some.counted && all.counted && some.last_ns == some_alone.last_ns &&
           all.last_ns == all_alone.last_ns && same_events(&some, some_alone.events, some_alone.count) &&
           same_events(&all, all_alone.events, all_alone.count);
}

/*
 * A trace in a file. With `unusual`, its last row has a text that no unit reads: SQLite reads all rows then. They may
 * be out of order, too.
 */
static bool
run_file(bool unusual, bool shuffled)
{
    struct trace trace = { .path = FILE_NAME };
    struct life lives[LIVES + 1];
    struct seen wanted[2 * LIVES + 1];
    struct log log = { 0 };
    struct scan_pass pass = { &details_unit, &log };
    size_t count = make_lives(lives), events;
    int readings = 0;
    bool done;

    for (size_t i = 0; shuffled && i < count; i++)
        lives[i].id = 1000 - lives[i].id;
    if (unusual && count > 0) {
        struct life *last = &lives[shuffled ? 0 : count - 1];

        last->status = 3;
        last->free_ns = NEVER;
    }
    events = expect(lives, count, wanted);
    unlink(FILE_NAME);
    if (sqlite3_open(FILE_NAME, &trace.db) != SQLITE_OK ||
        sqlite3_exec(trace.db, "PRAGMA synchronous = OFF; PRAGMA page_size = 512", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(trace.db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK)
        return false;
    write_trace(trace.db, lives, count);
    if (unusual)
        sqlite3_exec(trace.db,
                     "UPDATE allocation SET free_ns = 'never'"
                     " WHERE allocation_id = (SELECT max(allocation_id) FROM allocation)",
                     NULL, NULL, NULL);
    sqlite3_close(trace.db);
    if (sqlite3_open_v2(FILE_NAME, &trace.db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return false;
    sqlite3_trace_v2(trace.db, SQLITE_TRACE_STMT, count_reading, &readings);
    done = scan_run(&trace, NULL, &pass, 1) == COMMAND_FINE && log.counted;
    sqlite3_close(trace.db);
    done = done && log.begun >= 1 + (unusual && count > 0) && readings == log.begun - 1;
    return done && same_events(&log, wanted, events);
}

int
main(void)
{
    struct trace trace = { .path = "memory" };
    bool files = true, others = true;
    bool ordered = true;
    bool shuffled = true;
    bool parts = true;

    plan(5);
    draw_begin();
    if (sqlite3_open(":memory:", &trace.db) != SQLITE_OK ||
        sqlite3_exec(trace.db, tidei_trace_schema, NULL, NULL, NULL) != SQLITE_OK)
        return 99;
    for (int i = 0; i < ROUNDS; i++) {
        ordered = ordered && run_round(trace.db, &trace, false);
        shuffled = shuffled && run_round(trace.db, &trace, true);
        parts = parts && run_parts(trace.db, &trace);
    }
    ok(ordered, "events come in time order, and at one nanosecond allocations before frees");
    ok(shuffled, "a trace whose rows are out of order gives its events in time order");
    ok(parts, "analyses with different filters share one pass, and each sees its own events");
    sqlite3_close(trace.db);
    for (int i = 0; i < FILES; i++) {
        files = files && run_file(false, i % 2 == 1);
        others = others && run_file(true, i % 2 == 1);
    }
    ok(files, "a trace in a file is read from its pages, and once more by SQLite where its rows are out of order");
    ok(others, "where a row is unusual SQLite reads all, and each analysis begins again");
    unlink(FILE_NAME);
    return done();
}
