/* Reads the allocations of a trace once and passes them to analyses as events in time order. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "src/trace/database/schema.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/due-queue.h"
#include "viewer/base/lanes.h"
#include "viewer/base/message.h"
#include "viewer/base/progress.h"
#include "viewer/read/filter.h"
#include "viewer/read/scan.h"
#include "viewer/read/table-rows.h"

struct scan {
    const struct trace *trace;
    const struct scan_pass *passes;
    size_t pass_count;
    const struct filter *filter; /* NULL: everything */
    unsigned needs;
    bool has_frees;         /* a unit has a `free` callback or needs SCAN_LIVE */
    struct scan_life *kept; /* owns; for SCAN_LIVE: lives that are never freed */
    size_t kept_count;
    size_t kept_capacity;
    char *lives;          /* owns; by slot: lives that will be freed, `life_bytes` of each */
    size_t life_bytes;    /* up to the last column that is needed, so that fewer cache lines are touched */
    uint64_t *free_slots; /* owns; a stack of unused slots of `lives` */
    size_t capacity;      /* of both arrays */
    size_t slot_count;    /* slots of `lives` that were ever in use */
    size_t free_count;
    uint64_t spare; /* the slot of the next life; valid if has_spare */
    bool has_spare;
    struct due_queue due;   /* slots */
    struct scan_life freed; /* the life whose free is passed to the units, where `lives` lack columns */
    int64_t last_ns;
    uint64_t events;
    unsigned lane;    /* the thread that it runs on; 0: the one that reads */
    size_t slot_most; /* so many lives are kept at most; 0: any number */
    bool enough;      /* its units want no further events */
};

/*
 * Each lane keeps lives of its own. More than so many, 76 MB, of a scan in a lane end the reading, which then begins
 * again without lanes.
 */
#define SCAN_LANE_LIVES 524288

/* The number of upcoming frees whose lives are prefetched. */
#define SCAN_AHEAD      3
#define SCAN_LINE_BYTES 64 /* of a cache line */

/* The size of a life without the columns that only some units need. */
#define SCAN_HEAD_BYTES offsetof(struct scan_life, tag_id)

/* Make room for another slot in both arrays. */
static bool
scan_grow(struct scan *scan)
{
    size_t lives = scan->capacity;
    size_t free_slots = scan->capacity;

    if (scan->slot_most > 0 && scan->slot_count >= scan->slot_most)
        return false;
    if (!tidei_grow_items(&scan->lives, scan->life_bytes, &lives, scan->slot_count, 1) ||
        !tidei_grow(&scan->free_slots, &free_slots, scan->slot_count, 1))
        return false;
    scan->capacity = lives;
    return true;
}

/* Copy the needed columns of a life. Both lengths are compile-time constants: a call would cost more than the copy. */
static inline void
scan_copy(const struct scan *scan, void *to, const void *from)
{
    memcpy(to, from, SCAN_HEAD_BYTES);
    if (scan->life_bytes > SCAN_HEAD_BYTES)
        memcpy((char *)to + SCAN_HEAD_BYTES, (const char *)from + SCAN_HEAD_BYTES,
               sizeof(struct scan_life) - SCAN_HEAD_BYTES);
}

/* The place where the next life will be kept; NULL: no memory. */
static inline char *
scan_place(struct scan *scan)
{
    if (!scan->has_spare) {
        if (scan->free_count == 0 && scan->slot_count == scan->capacity && !scan_grow(scan))
            return NULL;
        scan->spare = scan->free_count > 0 ? scan->free_slots[--scan->free_count] : scan->slot_count++;
        scan->has_spare = true;
    }
    return scan->lives + scan->spare * scan->life_bytes;
}

/* Keep a life until its free is due. It may be in its place already. */
static int
scan_push(struct scan *scan, const struct scan_life *life)
{
    char *place = scan_place(scan);

    if (place != NULL && place != (const char *)life)
        scan_copy(scan, place, life);
    if (place == NULL || !due_queue_add(&scan->due, life->free_ns, scan->spare))
        return trace_broken(scan->trace, "no memory for %zu live allocations", scan->due.count + 1);
    scan->has_spare = false;
    return COMMAND_FINE;
}

/* Load the life in a slot. Columns that no unit needs stay as they are in *out. */
static inline void
scan_load(const struct scan *scan, uint64_t slot, struct scan_life *out)
{
    scan_copy(scan, out, scan->lives + slot * scan->life_bytes);
}

/* Prefetch the lives that are freed next while rows are read: cache misses took a third of the time of a free. */
static inline void
scan_prefetch(const struct scan *scan)
{
    uint64_t slots[SCAN_AHEAD];
    size_t count = due_queue_peek(&scan->due, slots, SCAN_AHEAD);

    for (size_t i = 0; i < count; i++) {
        const char *life = scan->lives + slots[i] * scan->life_bytes;

        for (size_t at = 0; at < scan->life_bytes; at += SCAN_LINE_BYTES)
            __builtin_prefetch(life + at);
        __builtin_prefetch(life + scan->life_bytes - 1);
    }
}

/* The life in a slot, in its place if all columns are there. No unit adds a life, so it stays there for all of them. */
static inline const struct scan_life *
scan_find(struct scan *scan, uint64_t slot)
{
    if (scan->life_bytes == sizeof(struct scan_life))
        return (const struct scan_life *)(const void *)(scan->lives + slot * sizeof(struct scan_life));
    scan_load(scan, slot, &scan->freed);
    return &scan->freed;
}

/* Pass a free to all units. */
static int
scan_free(struct scan *scan, uint64_t slot)
{
    const struct scan_life *life = scan_find(scan, slot);
    int status = COMMAND_FINE;

    scan_prefetch(scan);
    scan->free_slots[scan->free_count++] = slot;
    scan->last_ns = life->free_ns;
    scan->events++;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        if (scan->passes[i].unit->free != NULL)
            status = scan->passes[i].unit->free(scan->passes[i].context, life);
    }
    return status;
}

/* Pass every free that is due before `ns` to all units. */
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
    if ((scan->slot_most > 0 && scan->kept_count >= scan->slot_most) ||
        !tidei_grow(&scan->kept, &scan->kept_capacity, scan->kept_count, 1))
        return trace_broken(scan->trace, "no memory for %zu live allocations", 2 * scan->kept_capacity);
    scan->kept[scan->kept_count++] = *life;
    return COMMAND_FINE;
}

static int
scan_alloc(struct scan *scan, struct scan_life *life)
{
    int status = scan_free_before(scan, life->alloc_ns);
    size_t enough = 0;

    scan->last_ns = life->alloc_ns;
    life->event = scan->events;
    scan->events += life->status == 0;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        status = scan->passes[i].unit->alloc(scan->passes[i].context, life);
        if (status == SCAN_ENOUGH) {
            scan->enough = ++enough == scan->pass_count;
            status = COMMAND_FINE;
        }
    }
    if (status == COMMAND_FINE && life->freed)
        return scan->has_frees ? scan_push(scan, life) : COMMAND_FINE;
    if (status == COMMAND_FINE && life->status == 0 && scan_live_count(life) != 0 && scan->needs & SCAN_LIVE)
        return scan_keep(scan, life);
    return status;
}

/* The context of scan_each_due. */
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
    if (scan_live_count(&life) != 0)
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

static int
scan_begin(struct scan *scan)
{
    int status = COMMAND_FINE;

    due_queue_clear(&scan->due);
    scan->slot_count = scan->free_count = scan->kept_count = 0;
    scan->has_spare = false;
    scan->last_ns = 0;
    scan->events = 0;
    scan->enough = false;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        if (scan->passes[i].unit->begin != NULL)
            status = scan->passes[i].unit->begin(scan->passes[i].context);
    }
    return status;
}

static int
scan_end(struct scan *scan)
{
    int status = scan->enough ? COMMAND_FINE : scan_free_before(scan, INT64_MAX);

    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        if (scan->passes[i].unit->end != NULL)
            status = scan->passes[i].unit->end(scan->passes[i].context, scan->last_ns);
    }
    return status;
}

/* The order of frees at equal times, if ids do not increase. */
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

static void
scan_prepare(struct scan *scan, const struct trace *trace, const struct scan_part *part)
{
    *scan =
        (struct scan){ .trace = trace, .filter = part->filter, .passes = part->passes, .pass_count = part->pass_count };
    scan->due.context = scan;
    scan->needs = part->filter != NULL ? part->filter->needs : 0;
    for (size_t i = 0; i < part->pass_count; i++) {
        scan->needs |= part->passes[i].unit->needs;
        scan->has_frees = scan->has_frees || part->passes[i].unit->free != NULL;
        if (part->passes[i].unit->attach)
            *(const struct scan **)part->passes[i].context = scan;
    }
    scan->has_frees = scan->has_frees || scan->needs & SCAN_LIVE;
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

/* The first columns of the statement, which every reading needs. */
enum {
    READING_ID,
    READING_ALLOC_NS,
    READING_FREE_NS,
    READING_LAYER,
    READING_SIZE,
    READING_STATUS,
    READING_FIRST, /* their number */
};

#define READING_COLUMN(need, name)                                                                                     \
    {                                                                                                                  \
        need, TIDEI_allocation_##name, offsetof(struct scan_life, name)                                                \
    }

/* The columns of the statement: the first ones, and those of the others that a scan needs. */
static const struct reading_column {
    unsigned need;
    unsigned column; /* of the table `allocation` */
    size_t offset;
} reading_columns[] = {
    READING_COLUMN(0, allocation_id),
    READING_COLUMN(0, alloc_ns),
    READING_COLUMN(0, free_ns),
    READING_COLUMN(0, layer_id),
    READING_COLUMN(0, size),
    READING_COLUMN(0, status),
    READING_COLUMN(SCAN_PLACE | SCAN_ALIGNMENT, alignment),
    READING_COLUMN(SCAN_PLACE, address),
    READING_COLUMN(SCAN_ORIGIN, tag_id),
    READING_COLUMN(SCAN_ORIGIN, callstack_id),
    READING_COLUMN(SCAN_CALLER | SCAN_CALL, alloc_thread_id),
    READING_COLUMN(SCAN_CALLER, alloc_stream_id),
    READING_COLUMN(SCAN_FREER, free_thread_id),
    READING_COLUMN(SCAN_FREER, free_stream_id),
    READING_COLUMN(SCAN_DURATION | SCAN_CALL, alloc_duration_ns),
    READING_COLUMN(SCAN_DURATION, free_duration_ns),
};

#define READING_COLUMNS (sizeof(reading_columns) / sizeof(reading_columns[0]))

/* One reading of the rows, for all scans that share it. */
struct reading {
    const struct trace *trace;
    struct scan *scans; /* owns */
    size_t scan_count;
    const struct reading_column *columns[READING_COLUMNS]; /* those of the statement */
    int column_count;
    struct reading_other {
        size_t offset; /* in the life */
        bool has_null;
    } others[READING_COLUMNS]; /* what each row asks of the columns after the first ones */
    struct scan_life life;     /* the row; columns that no unit needs stay 0 */
    struct lanes threads;      /* those of a reading in lanes */
    struct lanes *lanes;       /* NULL: all scans run on this thread; else the row is the next item of `threads` */
    struct table_rows *pages;  /* borrows; NULL: a statement reads the rows */
    struct progress progress;
    uint64_t row;
    uint64_t total;
    int64_t previous_ns; /* alloc_ns of the previous row */
    int status;          /* if not COMMAND_FINE, why the reading ended early */
    bool disordered;     /* a row began before the previous one, which ended the reading */
    bool unusual;        /* a page is for SQLite to read, which ended the reading */
    bool enough;         /* no scan wants further events, which ended the reading */
};

static const struct tidei_column *
reading_column(const struct reading *reading, int column)
{
    return &tidei_tables[TIDEI_TABLE_allocation].columns[reading->columns[column]->column];
}

/* An integer of the row. SQLite lets a column hold any type; *broken is set if the value is not an integer. */
static inline int64_t
reading_integer(sqlite3_value **values, int column, int *broken)
{
    if (sqlite3_value_type(values[column]) != SQLITE_INTEGER)
        *broken = column;
    return sqlite3_value_int64(values[column]);
}

/* Read the columns after the first ones. NULL, where the schema allows it, is 0. */
static void
reading_others(const struct reading *reading, sqlite3_value **values, struct scan_life *life, int *broken)
{
    int count = reading->column_count; /* not asked again for each column, as the life might have changed it */

    for (int i = READING_FIRST; i < count; i++) {
        const struct reading_other *other = &reading->others[i];
        int type = sqlite3_value_type(values[i]);
        int64_t value = sqlite3_value_int64(values[i]); /* of NULL: 0 */

        if (type != SQLITE_INTEGER && (type != SQLITE_NULL || !other->has_null))
            *broken = i;
        memcpy((char *)life + other->offset, &value, sizeof(value));
    }
}

/* A time more than 146 years from the start was not recorded. Nearer times can be subtracted without overflow. */
static inline bool
reading_is_no_time(int64_t ns)
{
    return (uint64_t)ns + (UINT64_C(1) << 62) > UINT64_C(1) << 63;
}

/* Complete a life whose columns have been read, and check it. */
static inline int
reading_check(const struct reading *reading, struct scan_life *life)
{
    life->clipped = false;
    if (life->freed && life->free_ns < life->alloc_ns)
        life->free_ns = life->alloc_ns;
    if (reading_is_no_time(life->alloc_ns) || reading_is_no_time(life->free_ns))
        return trace_broken(reading->trace, "allocation %" PRId64 ": its time is out of range", life->allocation_id);
    if (life->status == 0 && (int64_t)life->size < 0)
        return trace_broken(reading->trace, "allocation %" PRId64 ": size is negative", life->allocation_id);
    return COMMAND_FINE;
}

/* Make a life of the values of a row that a statement gives. */
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
    if (reading->column_count > READING_FIRST)
        reading_others(reading, values, life, &broken);
    if (broken >= 0)
        return trace_broken(reading->trace, "allocation %lld: %s is no integer",
                            sqlite3_value_int64(values[READING_ID]), reading_column(reading, broken)->name);
    return reading_check(reading, life);
}

/* Make a life of the values that stand in a page; a bit of `nulls` says that one is NULL, and 0 here. */
static inline int
reading_page_life(const struct reading *reading, const int64_t *values, uint32_t nulls, struct scan_life *life)
{
    int count = reading->column_count; /* as above */

    life->allocation_id = values[READING_ID];
    life->alloc_ns = values[READING_ALLOC_NS];
    life->layer_id = values[READING_LAYER];
    life->size = (uint64_t)values[READING_SIZE];
    life->status = values[READING_STATUS];
    life->freed = life->status == 0 && (nulls & 1u << READING_FREE_NS) == 0;
    life->free_ns = life->freed ? values[READING_FREE_NS] : 0;
    for (int i = READING_FIRST; i < count; i++)
        memcpy((char *)life + reading->others[i].offset, &values[i], sizeof(values[i]));
    return reading_check(reading, life);
}

/*
 * Pass the row to a scan. Its filter may clip the life, so it is copied: to where it is kept, if all its columns are
 * there, or to `own`, which may be the row.
 */
static inline int
reading_pass_to(struct scan *scan, const struct scan_life *row, struct scan_life *own)
{
    struct scan_life *life = own;

    if (scan->enough)
        return COMMAND_FINE;
    if (scan->has_frees && scan->life_bytes == sizeof(struct scan_life))
        life = (struct scan_life *)(void *)scan_place(scan);
    if (life == NULL)
        return trace_broken(scan->trace, "no memory for %zu live allocations", scan->due.count + 1);
    if (life != row)
        *life = *row;
    return scan->filter == NULL || filter_takes(scan->filter, life) ? scan_alloc(scan, life) : COMMAND_FINE;
}

/* Pass the row to all scans of this thread, and to the lanes. */
static int
reading_pass_lanes(struct reading *reading, const struct scan_life *life)
{
    int status = COMMAND_FINE;
    bool enough = true;

    for (size_t i = 0; i < reading->scan_count && status == COMMAND_FINE; i++) {
        struct scan *scan = &reading->scans[i];
        struct scan_life own;

        if (scan->lane != 0)
            continue;
        status = reading_pass_to(scan, life, &own);
        enough = enough && scan->enough;
    }
    if (status == COMMAND_FINE) {
        enum lane_answer answer = lanes_add(reading->lanes);

        reading->enough = enough && answer == LANE_ENOUGH;
        status = answer == LANE_FAILED ? COMMAND_WRONG : COMMAND_FINE;
    }
    return status;
}

/* Pass the row to all scans; only the last one need not leave it as it is. */
static int
reading_pass(struct reading *reading)
{
    size_t last = reading->scan_count - 1;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < last && status == COMMAND_FINE; i++) {
        struct scan_life own;

        status = reading_pass_to(&reading->scans[i], &reading->life, &own);
    }
    if (status == COMMAND_FINE)
        status = reading_pass_to(&reading->scans[last], &reading->life, &reading->life);
    reading->enough = reading->scans[last].enough;
    for (size_t i = 0; i < last && reading->enough; i++)
        reading->enough = reading->scans[i].enough;
    return status;
}

/* The place of the row's life. */
static inline struct scan_life *
reading_place(struct reading *reading)
{
    return reading->lanes != NULL ? lanes_next(reading->lanes) : &reading->life;
}

/* Take the row, whose life has been made unless `status` says why not. False: the reading ends. */
static inline bool
reading_take_row(struct reading *reading, const struct scan_life *life, int status)
{
    int64_t ns = life->alloc_ns;
    bool disordered = status == COMMAND_FINE && ns < reading->previous_ns, more;

    reading->previous_ns = ns;
    if (status == COMMAND_FINE && !disordered)
        status = reading->lanes != NULL ? reading_pass_lanes(reading, life) : reading_pass(reading);
    /* Of values at hand: the compiler reads neighbouring fields as one, which waits for the stores to them. */
    more = status == COMMAND_FINE && !disordered && !reading->enough;
    if (!more) {
        reading->status = status;
        reading->disordered = disordered;
    }
    if (reading->row++ % 4096 == 0)
        progress_update(&reading->progress, reading->row, reading->total);
    return more;
}

/*
 * The SQL function that takes a row. It always returns false, so that SQLite steps through all rows in one call and
 * passes each value once. Including the type checks, this takes 0.8 of the time of stepping row by row without checks.
 */
static void
reading_row(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct reading *reading = sqlite3_user_data(context);
    struct scan_life *life = reading_place(reading);

    (void)count;
    if (!reading_take_row(reading, life, reading_life(reading, values, life)))
        sqlite3_result_error(context, "enough", -1);
}

/* The scans of one lane. */
struct reading_lane {
    const struct reading *reading;
    unsigned lane;
    int status;
};

/* Pass rows to the scans of a lane, on its thread. */
static enum lane_answer
reading_take(void *context, const void *items, size_t count)
{
    struct reading_lane *lane = context;
    const struct reading *reading = lane->reading;
    const struct scan_life *lives = items;
    bool enough = false;

    for (size_t row = 0; row < count && lane->status == COMMAND_FINE && !enough; row++) {
        enough = true;
        for (size_t i = 0; i < reading->scan_count && lane->status == COMMAND_FINE; i++) {
            struct scan *scan = &reading->scans[i];
            struct scan_life own;

            if (scan->lane != lane->lane)
                continue;
            lane->status = reading_pass_to(scan, &lives[row], &own);
            enough = enough && scan->enough;
        }
    }
    return lane->status != COMMAND_FINE ? LANE_FAILED : enough ? LANE_ENOUGH : LANE_MORE;
}

/* End the scans of one lane, or of the thread that reads. */
static int
reading_end(const struct reading *reading, unsigned lane)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < reading->scan_count && status == COMMAND_FINE; i++) {
        if (reading->lanes == NULL || reading->scans[i].lane == lane)
            status = scan_end(&reading->scans[i]);
    }
    return status;
}

static void
reading_end_lane(void *context)
{
    struct reading_lane *lane = context;

    if (lane->status == COMMAND_FINE)
        lane->status = reading_end(lane->reading, lane->lane);
}

/* Read all rows of `sql`, or up to the first that is not in time order, which sets reading->disordered. */
static int
reading_rows(struct reading *reading, const char *sql)
{
    int code;

    progress_begin(&reading->progress, "reading");
    code = sqlite3_exec(reading->trace->db, sql, NULL, NULL, NULL);
    progress_end(&reading->progress);
    if (code != SQLITE_OK && reading->status == COMMAND_FINE && !reading->disordered && !reading->enough)
        reading->status = trace_failed(reading->trace);
    return reading->status;
}

/* The columns of the statement: "a, b". */
static void
reading_list(const struct reading *reading, char *out, size_t size)
{
    size_t length = 0;

    for (int i = 0; i < reading->column_count; i++)
        length +=
            (size_t)snprintf(out + length, size - length, "%s%s", i > 0 ? ", " : "", reading_column(reading, i)->name);
}

/* Take rows from the pages of the file as long as these are as usual. */
static int
reading_pages(struct reading *reading)
{
    int64_t values[READING_COLUMNS];
    uint32_t nulls, no_nulls = 0;
    bool more = true;

    for (int i = 0; i < reading->column_count; i++)
        no_nulls |= (uint32_t)!reading->others[i].has_null << i;
    progress_begin(&reading->progress, "reading");
    while (more) {
        enum table_row found = table_rows_next(reading->pages, values, &nulls);
        struct scan_life *life = reading_place(reading);

        reading->unusual = found == TABLE_UNUSUAL || (found == TABLE_ROW && (nulls & no_nulls) != 0);
        more = found == TABLE_ROW && !reading->unusual &&
               reading_take_row(reading, life, reading_page_life(reading, values, nulls, life));
    }
    progress_end(&reading->progress);
    return reading->status;
}

/* Read in the order of ids, or sorted. LIMIT keeps SQLite from moving the function into the sorted subquery. */
static int
reading_select(struct reading *reading, bool sorted)
{
    char columns[256];
    char sql[768];

    if (reading->pages != NULL)
        return reading_pages(reading);
    reading_list(reading, columns, sizeof(columns));
    if (sorted)
        snprintf(sql, sizeof(sql),
                 "SELECT 1 FROM (SELECT %s FROM allocation ORDER BY alloc_ns, allocation_id LIMIT -1)"
                 " WHERE tidemark_row(%s)",
                 columns, columns);
    else
        snprintf(sql, sizeof(sql), "SELECT 1 FROM allocation WHERE tidemark_row(%s) ORDER BY allocation_id", columns);
    return reading_rows(reading, sql);
}

/* Start the lanes that have scans. False: there is none, or no thread. */
static bool
reading_start_lanes(struct reading *reading, struct lanes *lanes, struct reading_lane works[SCAN_LANES])
{
    struct lane_work list[SCAN_LANES];
    size_t count = 0;

    for (unsigned lane = 1; lane <= SCAN_LANES; lane++) {
        bool has_scans = false;

        for (size_t i = 0; i < reading->scan_count; i++)
            has_scans = has_scans || reading->scans[i].lane == lane;
        if (!has_scans)
            continue;
        works[count] = (struct reading_lane){ .reading = reading, .lane = lane };
        list[count] = (struct lane_work){ .take = reading_take, .end = reading_end_lane, .context = &works[count] };
        count++;
    }
    return count > 0 && lanes_begin(lanes, sizeof(struct scan_life), list, count);
}

/* Whether the reading ended where all is to be read in another way. */
static bool
reading_is_cut(const struct reading *reading)
{
    return reading->disordered || reading->unusual;
}

/* Read while other threads run the scans of lanes. */
static int
reading_select_lanes(struct reading *reading, bool sorted)
{
    struct reading_lane works[SCAN_LANES];
    int status;

    if (!reading_start_lanes(reading, &reading->threads, works))
        return COMMAND_WRONG;
    reading->lanes = &reading->threads;
    status = reading_select(reading, sorted);
    lanes_end(&reading->threads, status == COMMAND_FINE && !reading_is_cut(reading));
    for (size_t i = 0; i < reading->threads.count && status == COMMAND_FINE; i++)
        status = works[i].status;
    return status;
}

/* Read all rows, once, with lanes or without. */
static int
reading_attempt(struct reading *reading, bool sorted, bool in_lanes)
{
    int status = COMMAND_FINE;

    reading->row = 0;
    reading->previous_ns = INT64_MIN;
    reading->disordered = reading->unusual = reading->enough = false;
    reading->status = COMMAND_FINE;
    reading->lanes = NULL;
    for (size_t i = 0; i < reading->scan_count && status == COMMAND_FINE; i++) {
        reading->scans[i].due.compare = sorted ? scan_compare : NULL;
        reading->scans[i].slot_most = in_lanes && reading->scans[i].lane != 0 ? SCAN_LANE_LIVES : 0;
        status = scan_begin(&reading->scans[i]);
    }
    if (status == COMMAND_FINE)
        status = in_lanes ? reading_select_lanes(reading, sorted) : reading_select(reading, sorted);
    if (status == COMMAND_FINE && !reading_is_cut(reading))
        status = reading_end(reading, 0);
    return status;
}

/* Read from the pages of the file, if that is possible; else nothing is begun, and reading->unusual is set. */
static int
reading_attempt_pages(struct reading *reading, bool in_lanes)
{
    const char *columns[READING_COLUMNS];
    struct table_rows rows;
    int status = COMMAND_FINE;

    for (int i = 0; i < reading->column_count; i++)
        columns[i] = reading_column(reading, i)->name;
    reading->disordered = false;
    reading->unusual = !table_rows_open(&rows, reading->trace->db, "allocation", columns[READING_ID], columns,
                                        (unsigned)reading->column_count);
    if (!reading->unusual) {
        reading->pages = &rows;
        status = reading_attempt(reading, false, in_lanes);
        reading->pages = NULL;
    }
    table_rows_close(&rows);
    return status;
}

/* Read; by a statement if something is unusual, and again sorted if the rows are not in time order. */
static int
reading_attempts(struct reading *reading, bool in_lanes)
{
    int status = reading_attempt_pages(reading, in_lanes);

    if (status == COMMAND_FINE && reading->unusual)
        status = reading_attempt(reading, false, in_lanes);
    if (status == COMMAND_FINE && reading->disordered)
        status = reading_attempt(reading, true, in_lanes);
    return status;
}

/* Define the function for this reading alone; nothing in the file may call it. NULL: it goes. */
static int
reading_define(struct reading *reading, void (*row)(sqlite3_context *, int, sqlite3_value **))
{
    int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    int code = sqlite3_create_function(reading->trace->db, "tidemark_row", -1, flags, reading, row, NULL, NULL);

    /* Behind a failure, others may still be in the middle of their statements; that has been said. */
    return code == SQLITE_OK || row == NULL ? COMMAND_FINE : trace_failed(reading->trace);
}

/* Read the rows with the columns of `needs`: in lanes, or without where that is not possible or has failed. */
static int
reading_run(struct reading *reading, unsigned needs, bool in_lanes)
{
    bool done = false;
    int64_t total = 0;
    int status = trace_integer(reading->trace, "SELECT max(allocation_id) FROM allocation", &total);

    for (size_t i = 0; i < READING_COLUMNS; i++) {
        if (i >= READING_FIRST && (needs & reading_columns[i].need) == 0)
            continue;
        reading->columns[reading->column_count] = &reading_columns[i];
        reading->others[reading->column_count] = (struct reading_other){
            .offset = reading_columns[i].offset,
            .has_null = reading_column(reading, reading->column_count)->type == TIDEI_COLUMN_INTEGER_OR_NULL,
        };
        reading->column_count++;
    }
    reading->total = total > 0 ? (uint64_t)total : 0;
    if (status == COMMAND_FINE)
        status = reading_define(reading, reading_row);
    if (status == COMMAND_FINE && in_lanes) {
        /* Whatever fails there fails here again, or was a lack of threads or memory: then the message is said. */
        message_hold(true);
        done = reading_attempts(reading, true) == COMMAND_FINE;
        message_hold(false);
    }
    if (status == COMMAND_FINE && !done)
        status = reading_attempts(reading, false);
    reading_define(reading, NULL);
    return status;
}

/* `lanes` may be NULL: there are none. */
static int
scan_read_parts(const struct trace *trace, const struct scan_part *parts, unsigned *lanes, size_t part_count)
{
    struct reading reading = { .trace = trace, .scans = calloc(part_count, sizeof(struct scan)) };
    unsigned needs = 0;
    bool in_lanes = false;
    int status;

    if (reading.scans == NULL)
        return trace_broken(trace, "no memory");
    for (; reading.scan_count < part_count; reading.scan_count++) {
        scan_prepare(&reading.scans[reading.scan_count], trace, &parts[reading.scan_count]);
        needs |= reading.scans[reading.scan_count].needs;
        reading.scans[reading.scan_count].lane = lanes != NULL ? lanes[reading.scan_count] : 0;
        in_lanes = in_lanes || reading.scans[reading.scan_count].lane != 0;
    }
    status = reading_run(&reading, needs, in_lanes);
    for (size_t i = 0; i < part_count && in_lanes && reading.lanes == NULL; i++)
        lanes[i] = 0;
    for (size_t i = 0; i < part_count; i++)
        scan_release(&reading.scans[i]);
    free(reading.scans);
    return status;
}

int
scan_run_parts(const struct trace *trace, const struct scan_part *parts, size_t part_count)
{
    return trace->share != NULL ? trace->share->run(trace->share->context, parts, part_count)
                                : scan_read_parts(trace, parts, NULL, part_count);
}

int
scan_run_lanes(const struct trace *trace, const struct scan_part *parts, unsigned *lanes, size_t part_count)
{
    return scan_read_parts(trace, parts, lanes, part_count);
}

int
scan_run(const struct trace *trace, const struct filter *filter, const struct scan_pass *passes, size_t pass_count)
{
    struct scan_part part = { filter, passes, pass_count };

    return scan_run_parts(trace, &part, 1);
}
