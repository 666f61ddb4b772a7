/* Reads the rows of `allocation`. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "viewer/cli/command.h"
#include "viewer/base/progress.h"
#include "viewer/read/rows.h"

struct reading {
    const struct trace *trace;
    const struct reading_taker *taker;
    unsigned needs;
    struct progress progress;
    uint64_t row;
    uint64_t total;
    int64_t previous_ns; /* when the row before began */
    int status;          /* other than COMMAND_FINE: why no more rows are wanted */
    bool disordered;     /* a row began before the one in front of it, and no more are wanted */
};

/* The first columns of the statement. */
enum {
    READING_ID,
    READING_ALLOC_NS,
    READING_FREE_NS,
    READING_LAYER,
    READING_SIZE,
    READING_STATUS,
    READING_COLUMNS, /* those of reading_extra_columns that are needed follow */
};

#define READING_FIRST  "allocation_id, alloc_ns, free_ns, layer_id, size, status"
#define READING_EXTRAS 10

/* What follows where it is needed. NULL, where it is allowed, is 0. */
static const struct reading_extra {
    unsigned need;
    bool null;
    const char *column;
    size_t offset;
} reading_extra_columns[READING_EXTRAS] = {
    { SCAN_PLACE | SCAN_ALIGNMENT, false, "alignment", offsetof(struct scan_life, alignment) },
    { SCAN_PLACE, false, "address", offsetof(struct scan_life, address) },
    { SCAN_ORIGIN, true, "tag_id", offsetof(struct scan_life, tag_id) },
    { SCAN_ORIGIN, true, "callstack_id", offsetof(struct scan_life, callstack_id) },
    { SCAN_CALLER, false, "alloc_thread_id", offsetof(struct scan_life, alloc_thread_id) },
    { SCAN_CALLER, false, "alloc_stream_id", offsetof(struct scan_life, alloc_stream_id) },
    { SCAN_FREER, true, "free_thread_id", offsetof(struct scan_life, free_thread_id) },
    { SCAN_FREER, true, "free_stream_id", offsetof(struct scan_life, free_stream_id) },
    { SCAN_DURATION, false, "alloc_duration_ns", offsetof(struct scan_life, alloc_duration_ns) },
    { SCAN_DURATION, true, "free_duration_ns", offsetof(struct scan_life, free_duration_ns) },
};

/* An integer of the row. SQLite lets a column hold anything: *broken is set where this one does not hold an integer. */
static inline int64_t
reading_integer(sqlite3_value **values, int column, int *broken)
{
    if (sqlite3_value_type(values[column]) != SQLITE_INTEGER)
        *broken = column;
    return sqlite3_value_int64(values[column]);
}

static void
reading_extras(const struct reading *reading, sqlite3_value **values, struct scan_life *life, int *broken)
{
    int column = READING_COLUMNS;

    for (size_t i = 0; i < READING_EXTRAS; i++) {
        const struct reading_extra *extra = &reading_extra_columns[i];
        int64_t value = 0;

        if (!(reading->needs & extra->need))
            continue;
        if (!extra->null || sqlite3_value_type(values[column]) != SQLITE_NULL)
            value = reading_integer(values, column, broken);
        memcpy((char *)life + extra->offset, &value, sizeof(value));
        column++;
    }
}

/* What the column of a row is called. */
static const char *
reading_column_name(const struct reading *reading, int column)
{
    static const char *const names[READING_COLUMNS] = { "allocation_id", "alloc_ns", "free_ns",
                                                        "layer_id",      "size",     "status" };
    int at = READING_COLUMNS;

    if (column < READING_COLUMNS)
        return names[column];
    for (size_t i = 0; i < READING_EXTRAS; i++) {
        if (reading->needs & reading_extra_columns[i].need && at++ == column)
            return reading_extra_columns[i].column;
    }
    return "";
}

/* 146 years to either side are no time that was recorded; nearer ones can be subtracted from each other. */
static inline bool
reading_is_no_time(int64_t ns)
{
    return (uint64_t)ns + (UINT64_C(1) << 62) > UINT64_C(1) << 63;
}

static int
reading_life(const struct reading *reading, sqlite3_value **values, struct scan_life *life)
{
    int broken = -1;

    life->allocation_id = reading_integer(values, READING_ID, &broken);
    life->alloc_ns = reading_integer(values, READING_ALLOC_NS, &broken);
    life->layer_id = reading_integer(values, READING_LAYER, &broken);
    life->size = (uint64_t)reading_integer(values, READING_SIZE, &broken);
    life->status = reading_integer(values, READING_STATUS, &broken);
    life->freed = life->status == 0 && sqlite3_value_type(values[READING_FREE_NS]) != SQLITE_NULL;
    life->free_ns = life->freed ? reading_integer(values, READING_FREE_NS, &broken) : 0;
    if (life->freed && life->free_ns < life->alloc_ns)
        life->free_ns = life->alloc_ns;
    if (reading->needs & ~(unsigned)SCAN_LIVE)
        reading_extras(reading, values, life, &broken);
    if (broken >= 0)
        return trace_broken(reading->trace, "allocation %lld: %s is no integer",
                            sqlite3_value_int64(values[READING_ID]), reading_column_name(reading, broken));
    if (reading_is_no_time(life->alloc_ns) || reading_is_no_time(life->free_ns))
        return trace_broken(reading->trace, "allocation %" PRId64 ": its time is out of range", life->allocation_id);
    if (life->status == 0 && (int64_t)life->size < 0)
        return trace_broken(reading->trace, "allocation %" PRId64 ": size is negative", life->allocation_id);
    return COMMAND_FINE;
}

/*
 * The SQL function that takes in a row. It is never true, so that SQLite steps through all rows in one call and each
 * value is handed over once: with the types checked that costs 0.8 of what stepping from row to row does without.
 */
static void
reading_row(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct reading *reading = sqlite3_user_data(context);
    struct scan_life life = { 0 };

    (void)count;
    reading->status = reading_life(reading, values, &life);
    reading->disordered = reading->status == COMMAND_FINE && life.alloc_ns < reading->previous_ns;
    reading->previous_ns = life.alloc_ns;
    if (reading->status == COMMAND_FINE && !reading->disordered)
        reading->status = reading->taker->row(reading->taker->context, &life);
    if (reading->status != COMMAND_FINE || reading->disordered)
        sqlite3_result_error(context, "enough", -1);
    if (reading->row++ % 4096 == 0)
        progress_update(&reading->progress, reading->row, reading->total);
}

/* All rows of `sql`. Where they turn out not to be in time order, reading->disordered is set and the rest left. */
static int
reading_rows(struct reading *reading, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(reading->trace->db, sql, -1, &statement, NULL);

    if (code == SQLITE_OK) {
        progress_begin(&reading->progress, "reading");
        do
            code = sqlite3_step(statement);
        while (code == SQLITE_ROW);
        progress_end(&reading->progress);
    }
    if (code != SQLITE_DONE && reading->status == COMMAND_FINE && !reading->disordered)
        reading->status = trace_failed(reading->trace);
    sqlite3_finalize(statement);
    return reading->status;
}

/* The columns that are needed. */
static void
reading_columns(const struct reading *reading, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "%s", READING_FIRST);

    for (size_t i = 0; i < READING_EXTRAS; i++) {
        if (reading->needs & reading_extra_columns[i].need)
            length += (size_t)snprintf(out + length, size - length, ", %s", reading_extra_columns[i].column);
    }
}

/* Read in the order of ids, or sorted. LIMIT keeps SQLite from taking the function into what it sorts. */
static int
reading_attempt(struct reading *reading, bool sorted)
{
    char columns[256];
    char sql[768];
    int status;

    reading->row = 0;
    reading->previous_ns = INT64_MIN;
    reading->status = COMMAND_FINE;
    reading->disordered = false;
    status = reading->taker->begin(reading->taker->context, sorted);
    reading_columns(reading, columns, sizeof(columns));
    if (sorted)
        snprintf(sql, sizeof(sql),
                 "SELECT 1 FROM (SELECT %s FROM allocation ORDER BY alloc_ns, allocation_id LIMIT -1)"
                 " WHERE tidemark_row(%s)",
                 columns, columns);
    else
        snprintf(sql, sizeof(sql), "SELECT 1 FROM allocation WHERE tidemark_row(%s) ORDER BY allocation_id", columns);
    if (status == COMMAND_FINE)
        status = reading_rows(reading, sql);
    if (status == COMMAND_FINE && !reading->disordered)
        status = reading->taker->end(reading->taker->context);
    return status;
}

/* The function is there for this reading alone, and nothing in the file may call it. */
static int
reading_define(struct reading *reading, void (*row)(sqlite3_context *, int, sqlite3_value **))
{
    int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    int code = sqlite3_create_function(reading->trace->db, "tidemark_row", -1, flags, reading, row, NULL, NULL);

    return code == SQLITE_OK ? COMMAND_FINE : trace_failed(reading->trace);
}

int
reading_run(const struct trace *trace, unsigned needs, const struct reading_taker *taker)
{
    struct reading reading = { .trace = trace, .needs = needs, .taker = taker };
    int64_t total = 0;
    int status = trace_integer(trace, "SELECT max(allocation_id) FROM allocation", &total);

    reading.total = total > 0 ? (uint64_t)total : 0;
    if (status == COMMAND_FINE)
        status = reading_define(&reading, reading_row);
    if (status == COMMAND_FINE)
        status = reading_attempt(&reading, false);
    if (status == COMMAND_FINE && reading.disordered)
        status = reading_attempt(&reading, true);
    reading_define(&reading, NULL);
    return status;
}
