/* Sums the time in driver calls, for each group of the allocations that the calls were made for. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/driver-calls.h"

/* The number of recent allocations that are remembered, a power of two: 4 MiB. */
#define DRIVER_SEEN 262144

/* Instead of a group: the slot is empty, or the filter does not take the allocation. */
#define DRIVER_UNSEEN   GROUPS_FULL
#define DRIVER_LEFT_OUT (GROUPS_FULL - 1)

struct driver_seen {
    int64_t allocation_id;
    uint32_t group;
    bool began_before; /* the allocating call is before the selected time range */
    bool ends_behind;  /* the freeing call is after it */
};

static int
driver_no_memory(const struct driver_calls *calls)
{
    return trace_broken(&calls->view->trace, "no memory for its groups");
}

/* Advance to the next call that was made for an allocation. */
static int
driver_next(struct driver_calls *calls)
{
    int code;

    do
        code = sqlite3_step(calls->rows);
    while (code == SQLITE_ROW && sqlite3_column_type(calls->rows, 0) != SQLITE_INTEGER);
    calls->has_next = code == SQLITE_ROW;
    calls->allocation_id = calls->has_next ? sqlite3_column_int64(calls->rows, 0) : 0;
    return code == SQLITE_ROW || code == SQLITE_DONE ? COMMAND_FINE : trace_failed(&calls->view->trace);
}

/* Describe an allocation in *seen. The filter may clip it. False: no memory. */
static bool
driver_see(struct driver_calls *calls, struct scan_life *life, struct driver_seen *seen)
{
    bool was_freed = life->freed;

    *seen = (struct driver_seen){ .allocation_id = life->allocation_id, .group = DRIVER_LEFT_OUT };
    if (!filter_takes(&calls->filter, life))
        return true;
    seen->group = groups_of(&calls->groups, life);
    seen->began_before = life->clipped;
    seen->ends_behind = was_freed && !life->freed;
    return seen->group != GROUPS_FULL;
}

/* Look up an allocation that is not remembered. It may be missing from the trace. */
static int
driver_look_up(struct driver_calls *calls, struct driver_seen *seen)
{
    sqlite3_stmt *row = calls->row_of;
    bool fits = true;

    *seen = (struct driver_seen){ .allocation_id = calls->allocation_id, .group = DRIVER_LEFT_OUT };
    sqlite3_bind_int64(row, 1, calls->allocation_id);
    if (sqlite3_step(row) == SQLITE_ROW) {
        struct scan_life life = {
            .allocation_id = calls->allocation_id,
            .layer_id = sqlite3_column_int64(row, 0),
            .size = (uint64_t)sqlite3_column_int64(row, 1),
            .status = sqlite3_column_int64(row, 2),
            .alloc_ns = sqlite3_column_int64(row, 3),
            .free_ns = sqlite3_column_int64(row, 4),
            .freed = sqlite3_column_int64(row, 2) == 0 && sqlite3_column_type(row, 4) == SQLITE_INTEGER,
            .tag_id = sqlite3_column_int64(row, 5),
            .callstack_id = sqlite3_column_int64(row, 6),
            .alloc_thread_id = sqlite3_column_int64(row, 7),
            .alloc_stream_id = sqlite3_column_int64(row, 8),
        };

        if (life.freed && life.free_ns < life.alloc_ns)
            life.free_ns = life.alloc_ns;
        fits = driver_see(calls, &life, seen);
    }
    if (sqlite3_reset(row) != SQLITE_OK)
        return trace_failed(&calls->view->trace);
    return fits ? COMMAND_FINE : driver_no_memory(calls);
}

static int
driver_add(struct driver_calls *calls, uint32_t group, int64_t duration_ns)
{
    if (group >= calls->capacity && !groups_reach(&calls->sums, &calls->capacity, group))
        return driver_no_memory(calls);
    calls->sums[group].ns += (uint64_t)duration_ns;
    calls->sums[group].calls++;
    return COMMAND_FINE;
}

/* Add the next call to the group of its allocation, and advance. */
static int
driver_add_next(struct driver_calls *calls)
{
    struct driver_seen seen = calls->seen[(uint64_t)calls->allocation_id % DRIVER_SEEN];
    int64_t duration_ns = sqlite3_column_int64(calls->rows, 1);
    bool is_free = sqlite3_column_int64(calls->rows, 2) != 0;
    int status = COMMAND_FINE;

    if (seen.group == DRIVER_UNSEEN || seen.allocation_id != calls->allocation_id)
        status = driver_look_up(calls, &seen);
    if (status == COMMAND_FINE && seen.group != DRIVER_LEFT_OUT && duration_ns >= 0 &&
        !(is_free ? seen.ends_behind : seen.began_before))
        status = driver_add(calls, seen.group, duration_ns);
    return status == COMMAND_FINE ? driver_next(calls) : status;
}

static int
driver_begin(void *context)
{
    struct driver_calls *calls = context;

    for (size_t i = 0; i < DRIVER_SEEN; i++)
        calls->seen[i].group = DRIVER_UNSEEN;
    if (calls->sums != NULL)
        memset(calls->sums, 0, calls->capacity * sizeof(*calls->sums));
    sqlite3_reset(calls->rows);
    return driver_next(calls);
}

static int
driver_alloc(void *context, const struct scan_life *life)
{
    struct driver_calls *calls = context;
    struct driver_seen *seen = &calls->seen[(uint64_t)life->allocation_id % DRIVER_SEEN];
    struct scan_life own = *life;
    int status = COMMAND_FINE;

    if (!driver_see(calls, &own, seen))
        return driver_no_memory(calls);
    while (status == COMMAND_FINE && calls->has_next && calls->allocation_id <= life->allocation_id)
        status = driver_add_next(calls);
    return status;
}

static int
driver_end(void *context, int64_t last_ns)
{
    struct driver_calls *calls = context;
    int status = COMMAND_FINE;

    (void)last_ns;
    while (status == COMMAND_FINE && calls->has_next)
        status = driver_add_next(calls);
    return status;
}

/* Make the view's filter, extended to all layers below the selected ones. */
static int
driver_filter(struct driver_calls *calls)
{
    const struct view *view = calls->view;
    int status = filter_make(&view->names, view->options, &calls->filter);

    for (size_t i = 0; status == COMMAND_FINE && i < view->layers.count; i++) {
        if (!filter_has_layer(&view->filter, view->layers.layers[i].layer_id))
            continue;
        TRACE_LAYER_SETS_EACH(j, &view->layers.below, i)
        {
            if (status == COMMAND_FINE)
                status = filter_set_add(&calls->filter.layers, view->layers.layers[j].layer_id);
        }
    }
    return status;
}

static int
driver_prepare(struct driver_calls *calls)
{
    static const char rows[] = "SELECT allocation_id, duration_ns, is_free FROM driver_call";
    static const char row_of[] = "SELECT layer_id, size, status, alloc_ns, free_ns, tag_id, callstack_id,"
                                 " alloc_thread_id, alloc_stream_id FROM allocation WHERE allocation_id = ?";
    const struct trace *trace = &calls->view->trace;

    calls->seen = malloc(DRIVER_SEEN * sizeof(*calls->seen));
    if (calls->seen == NULL)
        return driver_no_memory(calls);
    if (sqlite3_prepare_v2(trace->db, rows, -1, &calls->rows, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(trace->db, row_of, -1, &calls->row_of, NULL) != SQLITE_OK)
        return trace_failed(trace);
    return driver_filter(calls);
}

int
driver_calls_open(struct view *view, enum groups_by by, struct driver_calls *calls)
{
    int64_t any = 0;
    int status = COMMAND_FINE;

    *calls = (struct driver_calls){ .view = view };
    if (trace_has(&view->trace, "driver_call", "allocation_id is_free duration_ns"))
        status = trace_integer(&view->trace, "SELECT 1 FROM driver_call LIMIT 1", &any);
    if (status != COMMAND_FINE || any == 0)
        return status;
    groups_begin(&calls->groups, by, &view->names);
    calls->has_calls = true;
    status = driver_prepare(calls);
    calls->unit = (struct scan_unit){
        .needs = groups_needs(by) | calls->filter.needs,
        .begin = driver_begin,
        .alloc = driver_alloc,
        .asks = true,
        .end = driver_end,
    };
    calls->pass = (struct scan_pass){ &calls->unit, calls };
    if (status != COMMAND_FINE)
        driver_calls_close(calls);
    return status;
}

void
driver_calls_close(struct driver_calls *calls)
{
    groups_end(&calls->groups);
    filter_free(&calls->filter);
    sqlite3_finalize(calls->rows);
    sqlite3_finalize(calls->row_of);
    free(calls->sums);
    free(calls->seen);
    *calls = (struct driver_calls){ 0 };
}
