/* Reads the allocations of a trace once and hands them to analyses as events in time order. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/command.h"
#include "viewer/filter.h"
#include "viewer/progress.h"
#include "viewer/scan.h"

/* A free that is due; its life waits in `lives`. */
struct scan_due {
    int64_t ns;
    uint64_t slot;
};

struct scan {
    const struct trace *trace;
    const struct scan_pass *passes;
    size_t pass_count;
    const struct filter *filter; /* NULL: everything */
    unsigned needs;
    struct scan_life *kept; /* owns; SCAN_LIVE: those that are never freed */
    size_t kept_count;
    size_t kept_capacity;
    struct scan_life *lives; /* owns; by slot */
    uint64_t *free_slots;    /* owns; a stack of slots of `lives` that are not in use */
    struct scan_due *heap;   /* owns; the next free first */
    size_t heap_count;
    size_t slot_count; /* slots of `lives` that were ever in use */
    size_t free_count;
    size_t capacity; /* of all three arrays */
    int64_t last_ns;
};

/* What row_read finds. */
enum scan_row {
    SCAN_ROW_FINE,
    SCAN_ROW_BROKEN,     /* a message was printed */
    SCAN_ROW_DISORDERED, /* it begins before the row in front of it */
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

#define SCAN_SELECT "SELECT allocation_id, alloc_ns, free_ns, layer_id, size, status"
#define SCAN_EXTRAS 10

/* What follows where it is needed. NULL, where it is allowed, is 0. */
static const struct scan_extra {
    unsigned need;
    bool null;
    const char *column;
    size_t offset;
} scan_extras[SCAN_EXTRAS] = {
    { SCAN_PLACE, false, "alignment", offsetof(struct scan_life, alignment) },
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

static bool
scan_is_before(const struct scan *scan, const struct scan_due *a, const struct scan_due *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    return scan->lives[a->slot].allocation_id < scan->lives[b->slot].allocation_id;
}

static int
scan_grow(struct scan *scan)
{
    size_t capacity = scan->capacity == 0 ? 1024 : 2 * scan->capacity;
    struct scan_life *lives = realloc(scan->lives, capacity * sizeof(*lives));
    uint64_t *free_slots = lives != NULL ? realloc(scan->free_slots, capacity * sizeof(*free_slots)) : NULL;
    struct scan_due *heap = free_slots != NULL ? realloc(scan->heap, capacity * sizeof(*heap)) : NULL;

    if (lives != NULL)
        scan->lives = lives;
    if (free_slots != NULL)
        scan->free_slots = free_slots;
    if (heap == NULL)
        return trace_broken(scan->trace, "no memory for %zu live allocations", capacity);
    scan->heap = heap;
    scan->capacity = capacity;
    return COMMAND_FINE;
}

/* Keep a life until its free is due. */
static int
scan_push(struct scan *scan, const struct scan_life *life)
{
    struct scan_due due = { .ns = life->free_ns };
    size_t at = scan->heap_count;

    if (at == scan->capacity && scan_grow(scan) != COMMAND_FINE)
        return COMMAND_WRONG;
    due.slot = scan->free_count > 0 ? scan->free_slots[--scan->free_count] : scan->slot_count++;
    scan->lives[due.slot] = *life;
    scan->heap_count++;
    for (; at > 0 && scan_is_before(scan, &due, &scan->heap[(at - 1) / 2]); at = (at - 1) / 2)
        scan->heap[at] = scan->heap[(at - 1) / 2];
    scan->heap[at] = due;
    return COMMAND_FINE;
}

/* Take the next free off the heap; its life stays valid until the next push. */
static const struct scan_life *
scan_pop(struct scan *scan)
{
    uint64_t slot = scan->heap[0].slot;
    struct scan_due last = scan->heap[--scan->heap_count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= scan->heap_count)
            break;
        if (child + 1 < scan->heap_count && scan_is_before(scan, &scan->heap[child + 1], &scan->heap[child]))
            child++;
        if (!scan_is_before(scan, &scan->heap[child], &last))
            break;
        scan->heap[at] = scan->heap[child];
        at = child;
    }
    scan->heap[at] = last;
    scan->free_slots[scan->free_count++] = slot;
    return &scan->lives[slot];
}

/* Hand out every free that is due before `ns`. */
static int
scan_free_before(struct scan *scan, int64_t ns)
{
    while (scan->heap_count > 0 && scan->heap[0].ns < ns) {
        const struct scan_life *life = scan_pop(scan);

        scan->last_ns = life->free_ns;
        for (size_t i = 0; i < scan->pass_count; i++) {
            int status = scan->passes[i].unit->free(scan->passes[i].context, life);

            if (status != COMMAND_FINE)
                return status;
        }
    }
    return COMMAND_FINE;
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
scan_alloc(struct scan *scan, const struct scan_life *life)
{
    int status = scan_free_before(scan, life->alloc_ns);

    scan->last_ns = life->alloc_ns;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++)
        status = scan->passes[i].unit->alloc(scan->passes[i].context, life);
    if (status == COMMAND_FINE && life->freed)
        return scan_push(scan, life);
    if (status == COMMAND_FINE && life->status == 0 && scan->needs & SCAN_LIVE)
        return scan_keep(scan, life);
    return status;
}

void
scan_each_live(const struct scan *scan, void (*each)(void *context, const struct scan_life *life), void *context)
{
    for (size_t i = 0; i < scan->heap_count; i++)
        each(context, &scan->lives[scan->heap[i].slot]);
    for (size_t i = 0; i < scan->kept_count; i++)
        each(context, &scan->kept[i]);
}

/* An integer of the row. SQLite lets a column hold anything: *broken is set where this one does not hold an integer. */
static inline int64_t
scan_integer(sqlite3_stmt *statement, int column, int *broken)
{
    if (sqlite3_column_type(statement, column) != SQLITE_INTEGER)
        *broken = column;
    return sqlite3_column_int64(statement, column);
}

static void
scan_row_extras(const struct scan *scan, sqlite3_stmt *statement, struct scan_life *life, int *broken)
{
    int column = SCAN_COLUMNS;

    for (size_t i = 0; i < SCAN_EXTRAS; i++) {
        const struct scan_extra *extra = &scan_extras[i];
        int64_t value = 0;

        if (!(scan->needs & extra->need))
            continue;
        if (!extra->null || sqlite3_column_type(statement, column) != SQLITE_NULL)
            value = scan_integer(statement, column, broken);
        memcpy((char *)life + extra->offset, &value, sizeof(value));
        column++;
    }
}

static enum scan_row
scan_row_read(const struct scan *scan, sqlite3_stmt *statement, int64_t previous_ns, struct scan_life *life)
{
    int broken = -1;

    life->allocation_id = scan_integer(statement, SCAN_ID, &broken);
    life->alloc_ns = scan_integer(statement, SCAN_ALLOC_NS, &broken);
    life->layer_id = scan_integer(statement, SCAN_LAYER, &broken);
    life->size = (uint64_t)scan_integer(statement, SCAN_SIZE, &broken);
    life->status = scan_integer(statement, SCAN_STATUS, &broken);
    life->freed = life->status == 0 && sqlite3_column_type(statement, SCAN_FREE_NS) != SQLITE_NULL;
    life->free_ns = life->freed ? scan_integer(statement, SCAN_FREE_NS, &broken) : 0;
    if (life->freed && life->free_ns < life->alloc_ns)
        life->free_ns = life->alloc_ns;
    life->clipped = false;
    if (scan->needs & ~(unsigned)SCAN_LIVE)
        scan_row_extras(scan, statement, life, &broken);
    if (broken >= 0) {
        trace_broken(scan->trace, "allocation %lld: %s is no integer", sqlite3_column_int64(statement, SCAN_ID),
                     sqlite3_column_name(statement, broken));
        return SCAN_ROW_BROKEN;
    }
    if (life->free_ns == INT64_MAX) {
        trace_broken(scan->trace, "allocation %" PRId64 ": free_ns is out of range", life->allocation_id);
        return SCAN_ROW_BROKEN;
    }
    if (life->status == 0 && (int64_t)life->size < 0) {
        trace_broken(scan->trace, "allocation %" PRId64 ": size is negative", life->allocation_id);
        return SCAN_ROW_BROKEN;
    }
    return life->alloc_ns < previous_ns ? SCAN_ROW_DISORDERED : SCAN_ROW_FINE;
}

static int
scan_begin(struct scan *scan)
{
    int status = COMMAND_FINE;

    scan->heap_count = scan->slot_count = scan->free_count = scan->kept_count = 0;
    scan->last_ns = 0;
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

/* All rows of `statement`. Where they turn out not to be in time order, *disordered is set and the rest left. */
static int
scan_rows(struct scan *scan, sqlite3_stmt *statement, uint64_t total, bool *disordered)
{
    struct scan_life life = { 0 };
    int64_t previous_ns = INT64_MIN;
    struct progress progress;
    int status = COMMAND_FINE;
    int code = SQLITE_ROW;

    progress_begin(&progress, "reading");
    for (uint64_t row = 0; status == COMMAND_FINE && (code = sqlite3_step(statement)) == SQLITE_ROW; row++) {
        enum scan_row found = scan_row_read(scan, statement, previous_ns, &life);

        if (found == SCAN_ROW_DISORDERED) {
            *disordered = true;
            break;
        }
        previous_ns = life.alloc_ns;
        if (found == SCAN_ROW_BROKEN)
            status = COMMAND_WRONG;
        else if (scan->filter == NULL || filter_takes(scan->filter, &life))
            status = scan_alloc(scan, &life);
        if (row % 4096 == 0)
            progress_update(&progress, row, total);
    }
    progress_end(&progress);
    if (status == COMMAND_FINE && code != SQLITE_DONE && code != SQLITE_ROW)
        status = trace_failed(scan->trace);
    return status;
}

/* One attempt, with `order` after the SELECT. */
static int
scan_attempt(struct scan *scan, const char *order, bool *disordered)
{
    char sql[512] = SCAN_SELECT;
    size_t length = strlen(sql);
    sqlite3_stmt *statement = NULL;
    int64_t total = 0;
    int status = trace_integer(scan->trace, "SELECT max(allocation_id) FROM allocation", &total);

    for (size_t i = 0; i < SCAN_EXTRAS; i++) {
        if (scan->needs & scan_extras[i].need)
            length += (size_t)snprintf(sql + length, sizeof(sql) - length, ", %s", scan_extras[i].column);
    }
    snprintf(sql + length, sizeof(sql) - length, " FROM allocation ORDER BY %s", order);
    *disordered = false;
    if (status == COMMAND_FINE && sqlite3_prepare_v2(scan->trace->db, sql, -1, &statement, NULL) != SQLITE_OK)
        status = trace_failed(scan->trace);
    if (status == COMMAND_FINE)
        status = scan_begin(scan);
    if (status == COMMAND_FINE)
        status = scan_rows(scan, statement, total > 0 ? (uint64_t)total : 0, disordered);
    if (status == COMMAND_FINE && !*disordered)
        status = scan_end(scan);
    sqlite3_finalize(statement);
    return status;
}

int
scan_run_filtered(const struct trace *trace, const struct filter *filter, const struct scan_pass *passes,
                  size_t pass_count)
{
    struct scan scan = { .trace = trace, .filter = filter, .passes = passes, .pass_count = pass_count };
    bool disordered;
    int status;

    scan.needs = filter != NULL ? filter->needs : 0;
    for (size_t i = 0; i < pass_count; i++) {
        scan.needs |= passes[i].unit->needs;
        if (passes[i].unit->attach != NULL)
            passes[i].unit->attach(passes[i].context, &scan);
    }
    status = scan_attempt(&scan, "allocation_id", &disordered);
    if (status == COMMAND_FINE && disordered)
        status = scan_attempt(&scan, "alloc_ns, allocation_id", &disordered);
    free(scan.lives);
    free(scan.free_slots);
    free(scan.heap);
    free(scan.kept);
    return status;
}

int
scan_run(const struct trace *trace, const struct scan_pass *passes, size_t pass_count)
{
    return scan_run_filtered(trace, NULL, passes, pass_count);
}
