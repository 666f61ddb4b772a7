/* Reads the allocations of a trace once and hands them to analyses as events in time order. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/command.h"
#include "viewer/due-queue.h"
#include "viewer/filter.h"
#include "viewer/progress.h"
#include "viewer/scan.h"

struct scan {
    const struct trace *trace;
    const struct scan_pass *passes;
    size_t pass_count;
    const struct filter *filter; /* NULL: everything */
    unsigned needs;
    struct scan_life *kept; /* owns; SCAN_LIVE: those that are never freed */
    size_t kept_count;
    size_t kept_capacity;
    char *lives;          /* owns; by slot: those that will be freed, `life_bytes` of each */
    size_t life_bytes;    /* up to the last column that is needed: fewer lines of the cache are touched */
    uint64_t *free_slots; /* owns; a stack of slots of `lives` that are not in use */
    size_t capacity;      /* of both arrays */
    size_t slot_count;    /* slots of `lives` that were ever in use */
    size_t free_count;
    struct due_queue due;   /* slots */
    struct scan_life freed; /* the one that is handed out */
    int64_t last_ns;
    uint64_t events;
};

/* The rows, for all scans that share them. */
struct reading {
    const struct trace *trace;
    struct scan *scans; /* owns */
    size_t scan_count;
    unsigned needs; /* of any of them */
    struct progress progress;
    uint64_t row;
    uint64_t total;
    int64_t previous_ns; /* when the row before began */
    int status;          /* other than COMMAND_FINE: why no more rows are wanted */
    bool disordered;     /* a row began before the one in front of it, and no more are wanted */
};

/* The first columns of the statement. */
enum {
    SCAN_ID,
    SCAN_ALLOC_NS,
    SCAN_FREE_NS,
    SCAN_LAYER,
    SCAN_SIZE,
    SCAN_STATUS,
    SCAN_COLUMNS, /* those of scan_extras that are needed follow */
};

#define SCAN_FIRST  "allocation_id, alloc_ns, free_ns, layer_id, size, status"
#define SCAN_EXTRAS 10

/* How many of those that are freed next are asked for ahead. */
#define SCAN_AHEAD 3

/* Of a life, without what only some units need. */
#define SCAN_HEAD_BYTES offsetof(struct scan_life, tag_id)

/* What follows where it is needed. NULL, where it is allowed, is 0. */
static const struct scan_extra {
    unsigned need;
    bool null;
    const char *column;
    size_t offset;
} scan_extras[SCAN_EXTRAS] = {
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

static int
scan_grow(struct scan *scan)
{
    size_t capacity = scan->capacity == 0 ? 1024 : 2 * scan->capacity;
    char *lives = realloc(scan->lives, capacity * scan->life_bytes);
    uint64_t *free_slots = lives != NULL ? realloc(scan->free_slots, capacity * sizeof(*free_slots)) : NULL;

    if (lives != NULL)
        scan->lives = lives;
    if (free_slots == NULL)
        return trace_broken(scan->trace, "no memory for %zu live allocations", capacity);
    scan->free_slots = free_slots;
    scan->capacity = capacity;
    return COMMAND_FINE;
}

/* Copy what is kept of a life. Two lengths that the compiler knows: a call costs more than the copy. */
static inline void
scan_copy(const struct scan *scan, void *to, const void *from)
{
    memcpy(to, from, SCAN_HEAD_BYTES);
    if (scan->life_bytes > SCAN_HEAD_BYTES)
        memcpy((char *)to + SCAN_HEAD_BYTES, (const char *)from + SCAN_HEAD_BYTES,
               sizeof(struct scan_life) - SCAN_HEAD_BYTES);
}

/* Keep a life until its free is due. */
static int
scan_push(struct scan *scan, const struct scan_life *life)
{
    uint64_t slot;

    if (scan->free_count == 0 && scan->slot_count == scan->capacity && scan_grow(scan) != COMMAND_FINE)
        return COMMAND_WRONG;
    slot = scan->free_count > 0 ? scan->free_slots[--scan->free_count] : scan->slot_count++;
    scan_copy(scan, scan->lives + slot * scan->life_bytes, life);
    if (!due_queue_add(&scan->due, life->free_ns, slot))
        return trace_broken(scan->trace, "no memory for %zu live allocations", scan->due.count);
    return COMMAND_FINE;
}

/* The life in a slot; what was not needed of it stays as it is. */
static inline void
scan_load(const struct scan *scan, uint64_t slot, struct scan_life *out)
{
    scan_copy(scan, out, scan->lives + slot * scan->life_bytes);
}

/* Have what is freed next come into the cache while rows are read: a third of the time of a free was waiting for it. */
static inline void
scan_prefetch(const struct scan *scan)
{
    uint64_t slots[SCAN_AHEAD];
    size_t count = due_queue_peek(&scan->due, slots, SCAN_AHEAD);

    for (size_t i = 0; i < count; i++) {
        const char *life = scan->lives + slots[i] * scan->life_bytes;

        __builtin_prefetch(life);
        __builtin_prefetch(life + scan->life_bytes - 1);
    }
}

/* Hand out a free. */
static int
scan_free(struct scan *scan, uint64_t slot)
{
    int status = COMMAND_FINE;

    scan_load(scan, slot, &scan->freed);
    scan_prefetch(scan);
    scan->free_slots[scan->free_count++] = slot;
    scan->last_ns = scan->freed.free_ns;
    scan->events++;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++)
        status = scan->passes[i].unit->free(scan->passes[i].context, &scan->freed);
    return status;
}

/* Hand out every free that is due before `ns`. */
static int
scan_free_before(struct scan *scan, int64_t ns)
{
    uint64_t slot;

    for (;;) {
        enum due_found found = due_queue_take(&scan->due, ns, &slot);
        int status;

        if (found == DUE_NOTHING)
            return COMMAND_FINE;
        if (found == DUE_NO_MEMORY)
            return trace_broken(scan->trace, "no memory for %zu live allocations", scan->due.count);
        status = scan_free(scan, slot);
        if (status != COMMAND_FINE)
            return status;
    }
}

/* Keep a life that is never freed. */
static int
scan_keep(struct scan *scan, const struct scan_life *life)
{
    if (scan->kept_count == scan->kept_capacity) {
        size_t capacity = scan->kept_capacity == 0 ? 256 : 2 * scan->kept_capacity;
        struct scan_life *grown = realloc(scan->kept, capacity * sizeof(*grown));

        if (grown == NULL)
            return trace_broken(scan->trace, "no memory for %zu live allocations", capacity);
        scan->kept = grown;
        scan->kept_capacity = capacity;
    }
    scan->kept[scan->kept_count++] = *life;
    return COMMAND_FINE;
}

static int
scan_alloc(struct scan *scan, struct scan_life *life)
{
    int status = scan_free_before(scan, life->alloc_ns);

    scan->last_ns = life->alloc_ns;
    life->event = scan->events;
    scan->events += life->status == 0;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++)
        status = scan->passes[i].unit->alloc(scan->passes[i].context, life);
    if (status == COMMAND_FINE && life->freed)
        return scan_push(scan, life);
    if (status == COMMAND_FINE && life->status == 0 && scan->needs & SCAN_LIVE)
        return scan_keep(scan, life);
    return status;
}

/* What scan_each_live calls. */
struct scan_each {
    const struct scan *scan;
    void (*each)(void *context, const struct scan_life *life);
    void *context;
};

static void
scan_each_due(void *context, uint64_t slot)
{
    const struct scan_each *self = context;
    struct scan_life life = { 0 };

    scan_load(self->scan, slot, &life);
    self->each(self->context, &life);
}

void
scan_each_live(const struct scan *scan, void (*each)(void *context, const struct scan_life *life), void *context)
{
    struct scan_each self = { scan, each, context };

    due_queue_each(&scan->due, scan_each_due, &self);
    for (size_t i = 0; i < scan->kept_count; i++)
        each(context, &scan->kept[i]);
}

uint64_t
scan_events(const struct scan *scan)
{
    return scan->events;
}

/* An integer of the row. SQLite lets a column hold anything: *broken is set where this one does not hold an integer. */
static inline int64_t
scan_integer(sqlite3_value **values, int column, int *broken)
{
    if (sqlite3_value_type(values[column]) != SQLITE_INTEGER)
        *broken = column;
    return sqlite3_value_int64(values[column]);
}

static void
reading_extras(const struct reading *reading, sqlite3_value **values, struct scan_life *life, int *broken)
{
    int column = SCAN_COLUMNS;

    for (size_t i = 0; i < SCAN_EXTRAS; i++) {
        const struct scan_extra *extra = &scan_extras[i];
        int64_t value = 0;

        if (!(reading->needs & extra->need))
            continue;
        if (!extra->null || sqlite3_value_type(values[column]) != SQLITE_NULL)
            value = scan_integer(values, column, broken);
        memcpy((char *)life + extra->offset, &value, sizeof(value));
        column++;
    }
}

/* What the column of a row is called. */
static const char *
reading_column_name(const struct reading *reading, int column)
{
    static const char *const names[SCAN_COLUMNS] = { "allocation_id", "alloc_ns", "free_ns",
                                                     "layer_id",      "size",     "status" };
    int at = SCAN_COLUMNS;

    if (column < SCAN_COLUMNS)
        return names[column];
    for (size_t i = 0; i < SCAN_EXTRAS; i++) {
        if (reading->needs & scan_extras[i].need && at++ == column)
            return scan_extras[i].column;
    }
    return "";
}

/* 146 years to either side are no time that was recorded; nearer ones can be subtracted from each other. */
static inline bool
scan_is_no_time(int64_t ns)
{
    return (uint64_t)ns + (UINT64_C(1) << 62) > UINT64_C(1) << 63;
}

static int
reading_life(const struct reading *reading, sqlite3_value **values, struct scan_life *life)
{
    int broken = -1;

    life->allocation_id = scan_integer(values, SCAN_ID, &broken);
    life->alloc_ns = scan_integer(values, SCAN_ALLOC_NS, &broken);
    life->layer_id = scan_integer(values, SCAN_LAYER, &broken);
    life->size = (uint64_t)scan_integer(values, SCAN_SIZE, &broken);
    life->status = scan_integer(values, SCAN_STATUS, &broken);
    life->freed = life->status == 0 && sqlite3_value_type(values[SCAN_FREE_NS]) != SQLITE_NULL;
    life->free_ns = life->freed ? scan_integer(values, SCAN_FREE_NS, &broken) : 0;
    if (life->freed && life->free_ns < life->alloc_ns)
        life->free_ns = life->alloc_ns;
    if (reading->needs & ~(unsigned)SCAN_LIVE)
        reading_extras(reading, values, life, &broken);
    if (broken >= 0)
        return trace_broken(reading->trace, "allocation %lld: %s is no integer", sqlite3_value_int64(values[SCAN_ID]),
                            reading_column_name(reading, broken));
    if (scan_is_no_time(life->alloc_ns) || scan_is_no_time(life->free_ns))
        return trace_broken(reading->trace, "allocation %" PRId64 ": its time is out of range", life->allocation_id);
    if (life->status == 0 && (int64_t)life->size < 0)
        return trace_broken(reading->trace, "allocation %" PRId64 ": size is negative", life->allocation_id);
    return COMMAND_FINE;
}

/* Hand a row to all. */
static int
reading_hand_out(struct reading *reading, const struct scan_life *life)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < reading->scan_count && status == COMMAND_FINE; i++) {
        struct scan *scan = &reading->scans[i];
        struct scan_life own = *life; /* a filter may clip it */

        if (scan->filter == NULL || filter_takes(scan->filter, &own))
            status = scan_alloc(scan, &own);
    }
    return status;
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
        reading->status = reading_hand_out(reading, &life);
    if (reading->status != COMMAND_FINE || reading->disordered)
        sqlite3_result_error(context, "enough", -1);
    if (reading->row++ % 4096 == 0)
        progress_update(&reading->progress, reading->row, reading->total);
}

static int
scan_begin(struct scan *scan)
{
    int status = COMMAND_FINE;

    due_queue_clear(&scan->due);
    scan->slot_count = scan->free_count = scan->kept_count = 0;
    scan->last_ns = 0;
    scan->events = 0;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++)
        status = scan->passes[i].unit->begin(scan->passes[i].context);
    return status;
}

static int
scan_end(struct scan *scan)
{
    int status = scan_free_before(scan, INT64_MAX);

    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++)
        status = scan->passes[i].unit->end(scan->passes[i].context, scan->last_ns);
    return status;
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
    size_t length = (size_t)snprintf(out, size, "%s", SCAN_FIRST);

    for (size_t i = 0; i < SCAN_EXTRAS; i++) {
        if (reading->needs & scan_extras[i].need)
            length += (size_t)snprintf(out + length, size - length, ", %s", scan_extras[i].column);
    }
}

/* The order that rows of one time are freed in where their ids do not grow. */
static int
scan_compare(const void *context, uint64_t one, uint64_t other)
{
    const struct scan *scan = context;
    struct scan_life a = { 0 };
    struct scan_life b = { 0 };

    scan_load(scan, one, &a);
    scan_load(scan, other, &b);
    return (a.allocation_id > b.allocation_id) - (a.allocation_id < b.allocation_id);
}

static int
reading_begin(struct reading *reading, bool sorted)
{
    int status = COMMAND_FINE;

    reading->row = 0;
    reading->previous_ns = INT64_MIN;
    reading->status = COMMAND_FINE;
    reading->disordered = false;
    for (size_t i = 0; i < reading->scan_count && status == COMMAND_FINE; i++) {
        reading->scans[i].due.compare = sorted ? scan_compare : NULL;
        status = scan_begin(&reading->scans[i]);
    }
    return status;
}

/* Read in the order of ids, or sorted. LIMIT keeps SQLite from taking the function into what it sorts. */
static int
reading_attempt(struct reading *reading, bool sorted)
{
    char columns[256];
    char sql[768];
    int status = reading_begin(reading, sorted);

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
    for (size_t i = 0; i < reading->scan_count && status == COMMAND_FINE && !reading->disordered; i++)
        status = scan_end(&reading->scans[i]);
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

static void
scan_prepare(struct scan *scan, const struct trace *trace, const struct scan_part *part)
{
    *scan =
        (struct scan){ .trace = trace, .filter = part->filter, .passes = part->passes, .pass_count = part->pass_count };
    scan->due.context = scan;
    scan->needs = part->filter != NULL ? part->filter->needs : 0;
    for (size_t i = 0; i < part->pass_count; i++) {
        scan->needs |= part->passes[i].unit->needs;
        if (part->passes[i].unit->attach != NULL)
            part->passes[i].unit->attach(part->passes[i].context, scan);
    }
    scan->life_bytes = scan->needs & ~(unsigned)SCAN_LIVE ? sizeof(struct scan_life) : SCAN_HEAD_BYTES;
}

static void
scan_release(struct scan *scan)
{
    due_queue_free(&scan->due);
    free(scan->lives);
    free(scan->free_slots);
    free(scan->kept);
}

int
scan_run_parts(const struct trace *trace, const struct scan_part *parts, size_t part_count)
{
    struct reading reading = { .trace = trace, .scan_count = part_count };
    int64_t total = 0;
    int status = trace_integer(trace, "SELECT max(allocation_id) FROM allocation", &total);

    reading.total = total > 0 ? (uint64_t)total : 0;
    reading.scans = calloc(part_count, sizeof(*reading.scans));
    if (reading.scans == NULL)
        return trace_broken(trace, "no memory");
    for (size_t i = 0; i < part_count; i++) {
        scan_prepare(&reading.scans[i], trace, &parts[i]);
        reading.needs |= reading.scans[i].needs;
    }
    if (status == COMMAND_FINE)
        status = reading_define(&reading, reading_row);
    if (status == COMMAND_FINE)
        status = reading_attempt(&reading, false);
    if (status == COMMAND_FINE && reading.disordered)
        status = reading_attempt(&reading, true);
    reading_define(&reading, NULL);
    for (size_t i = 0; i < part_count; i++)
        scan_release(&reading.scans[i]);
    free(reading.scans);
    return status;
}

int
scan_run_filtered(const struct trace *trace, const struct filter *filter, const struct scan_pass *passes,
                  size_t pass_count)
{
    struct scan_part part = { filter, passes, pass_count };

    return scan_run_parts(trace, &part, 1);
}

int
scan_run(const struct trace *trace, const struct scan_pass *passes, size_t pass_count)
{
    return scan_run_filtered(trace, NULL, passes, pass_count);
}
