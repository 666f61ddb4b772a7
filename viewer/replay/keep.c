/* Gives the new trace of a replay the call stacks and the times of the trace that was replayed. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "src/tables/grow.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/replayed.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"
#include "viewer/replay/keep.h"

/* A moment of the replay, and when that was in the recording. */
struct keep_point {
    int64_t ns;
    int64_t recorded_ns;
};

/* An allocation of the new trace with its recorded times. */
struct keep_life {
    int64_t allocation_id;
    int64_t alloc_ns;
    int64_t free_ns; /* valid if freed */
    bool freed;
};

struct keep {
    const char *path; /* borrows */
    const struct replay *replay;
    struct trace source; /* the trace that was replayed */
    sqlite3 *db;         /* owns; the new trace */
    /* For recorded times: */
    struct trace_layers layers;
    char *logs;          /* owns; the ids of the logs that see the requests first: "1,5" */
    int64_t *free_times; /* owns; by allocation of the input; -1: it was not freed */
    int64_t last_ns;     /* of the events that were replayed */
    size_t next;         /* the next event of the input that the rows have not come to */
    uint64_t matched;
    struct keep_life *lives; /* owns */
    size_t life_count, life_capacity;
    struct keep_point *points; /* owns; in the order of ns */
    size_t point_count, point_capacity;
};

static int
keep_failed(const struct keep *keep)
{
    message("%s: keeps the times and call stacks of the replay: %s", keep->path,
            keep->db != NULL ? sqlite3_errmsg(keep->db) : "no memory");
    return COMMAND_WRONG;
}

static int
keep_no_memory(const struct keep *keep)
{
    message("%s: keeps the times and call stacks of the replay: no memory", keep->path);
    return COMMAND_WRONG;
}

static int
keep_run(const struct keep *keep, const char *sql)
{
    return sqlite3_exec(keep->db, sql, NULL, NULL, NULL) == SQLITE_OK ? COMMAND_FINE : keep_failed(keep);
}

/* Where the rows of a table of the input go. */
struct keep_copy {
    const struct keep *keep;
    sqlite3_stmt *insert; /* owns */
};

static int
keep_copy_row(void *context, const struct trace *trace, sqlite3_stmt *row)
{
    const struct keep_copy *copy = context;

    (void)trace;
    for (int i = 0; i < sqlite3_column_count(row); i++)
        sqlite3_bind_value(copy->insert, i + 1, sqlite3_column_value(row, i));
    if (sqlite3_step(copy->insert) != SQLITE_DONE)
        return keep_failed(copy->keep);
    sqlite3_reset(copy->insert);
    return COMMAND_FINE;
}

/* Replace the rows of `table` by those of the input; `marks` has a ? for each of `columns`. */
static int
keep_copy_table(const struct keep *keep, const char *table, const char *columns, const char *marks)
{
    struct keep_copy copy = { .keep = keep };
    char sql[256];
    int status;

    snprintf(sql, sizeof(sql), "DELETE FROM %s", table);
    status = keep_run(keep, sql);
    snprintf(sql, sizeof(sql), "INSERT INTO %s(%s) VALUES (%s)", table, columns, marks);
    if (status == COMMAND_FINE && sqlite3_prepare_v2(keep->db, sql, -1, &copy.insert, NULL) != SQLITE_OK)
        status = keep_failed(keep);
    if (status == COMMAND_FINE)
        status = trace_each(&keep->source, keep_copy_row, &copy, "SELECT %s FROM %s", columns, table);
    sqlite3_finalize(copy.insert);
    return status;
}

/* Make call stacks of the tags that stand for them (REPLAY_CALLSTACK_TAG), and bring the tables of call stacks over. */
static int
keep_callstacks(const struct keep *keep)
{
    static const char sql[] =
        "CREATE TEMP TABLE kept(tag_id INTEGER PRIMARY KEY, parent_tag_id INTEGER, callstack_id INTEGER);"
        "INSERT INTO kept SELECT tag_id, parent_tag_id, CAST(substr(name, 12) AS INTEGER) FROM tag"
        " WHERE name GLOB '" REPLAY_CALLSTACK_TAG "[0-9]*';"
        "UPDATE allocation SET callstack_id = NULL WHERE callstack_id IS NOT NULL;"
        "UPDATE misuse SET callstack_id = NULL, alloc_callstack_id = NULL, free_callstack_id = NULL;"
        "UPDATE allocation SET (callstack_id, tag_id) = (SELECT callstack_id, parent_tag_id FROM kept"
        " WHERE kept.tag_id = allocation.tag_id) WHERE tag_id IN (SELECT tag_id FROM kept);"
        "DELETE FROM tag WHERE tag_id IN (SELECT tag_id FROM kept);";
    int status = keep_run(keep, sql);

    if (status == COMMAND_FINE)
        status = keep_copy_table(keep, "module", "module_id, path, build_id, base, size", "?, ?, ?, ?, ?");
    if (status == COMMAND_FINE)
        status =
            keep_copy_table(keep, "frame", "frame_id, address, module_id, function, file, line", "?, ?, ?, ?, ?, ?");
    if (status == COMMAND_FINE)
        status = keep_copy_table(keep, "callstack", "callstack_id, position, frame_id", "?, ?, ?");
    return status;
}

/* Name the logs of the new trace that have no log above them. */
static int
keep_find_logs(struct keep *keep, const struct trace *made)
{
    const struct trace_layers *layers = &keep->layers;
    struct trace_layer_set logs, inner;
    size_t length;
    FILE *out;
    int status = trace_layers_read(made, &keep->layers);

    if (status != COMMAND_FINE)
        return status;
    out = open_memstream(&keep->logs, &length);
    layer_graph_logs(layers, &logs, &inner);
    for (size_t i = 0; out != NULL && i < layers->count; i++) {
        if (trace_layer_set_has(&logs, i) && !trace_layer_set_has(&inner, i))
            fprintf(out, "%s%" PRId64, ftell(out) > 0 ? "," : "", layers->layers[i].layer_id);
    }
    return out != NULL && fclose(out) == 0 ? COMMAND_FINE : keep_no_memory(keep);
}

/* Find when each allocation of the input was freed, up to the event at which the replay stopped. */
static int
keep_find_frees(struct keep *keep)
{
    const struct replay_input *input = keep->replay->input;
    size_t stopped_at = keep->replay->result.stopped_at;
    size_t number = 0;

    keep->free_times = malloc((input->allocation_count + 1) * sizeof(*keep->free_times));
    if (keep->free_times == NULL)
        return keep_no_memory(keep);
    for (size_t i = 0; i < input->allocation_count; i++)
        keep->free_times[i] = -1;
    for (size_t i = 0; i < input->event_count && (stopped_at == 0 || number < stopped_at); i++) {
        number += input->events[i].kind != REPLAY_MARK;
        if (input->events[i].kind == REPLAY_FREE)
            keep->free_times[input->events[i].allocation] = input->times[i];
        keep->last_ns = input->times[i];
    }
    return COMMAND_FINE;
}

/* The next allocation among the events, from `from` on. */
static size_t
keep_next(const struct keep *keep, size_t from)
{
    const struct replay_input *input = keep->replay->input;

    while (from < input->event_count && input->events[from].kind != REPLAY_ALLOCATE)
        from++;
    return from;
}

static bool
keep_add_point(struct keep *keep, int64_t ns, int64_t recorded_ns)
{
    if (!tidei_grow(&keep->points, &keep->point_capacity, keep->point_count, 1))
        return false;
    keep->points[keep->point_count++] = (struct keep_point){ ns, recorded_ns };
    return true;
}

/*
 * The event of a failed row of `size` bytes, which is one that the stack refused, or the next that it did not: a layer
 * above has tried again then.
 */
static size_t
keep_refused(const struct keep *keep, uint64_t size)
{
    const struct replay_input *input = keep->replay->input;
    size_t first = keep_next(keep, keep->next);

    for (size_t at = first; at < input->event_count; at = keep_next(keep, at + 1)) {
        uint32_t allocation = input->events[at].allocation;

        if (input->sizes[allocation] == size)
            return at;
        if (!replay_has_failed(keep->replay, allocation))
            break;
    }
    return first;
}

/* The event of a row that succeeded: the next that the stack did not refuse. */
static size_t
keep_granted(const struct keep *keep)
{
    const struct replay_input *input = keep->replay->input;
    size_t at = keep_next(keep, keep->next);

    while (at < input->event_count && replay_has_failed(keep->replay, input->events[at].allocation))
        at = keep_next(keep, at + 1);
    return at;
}

/*
 * Match a row of the new trace with its event. Allocations that succeeded have a row each, in the same order. One that
 * failed may have none, where a layer above refused it, or several, where a layer above tried again.
 */
static int
keep_match(void *context, const struct trace *made, sqlite3_stmt *row)
{
    struct keep *keep = context;
    const struct replay_input *input = keep->replay->input;
    bool failed = sqlite3_column_int64(row, 1) != 0;
    struct keep_life life = { .allocation_id = sqlite3_column_int64(row, 0),
                              .freed = sqlite3_column_type(row, 3) != SQLITE_NULL };
    size_t at = failed ? keep_refused(keep, (uint64_t)sqlite3_column_int64(row, 4)) : keep_granted(keep);
    uint32_t allocation;

    life.alloc_ns = at < input->event_count ? input->times[at] : keep->last_ns;
    life.free_ns = keep->last_ns;
    if (at < input->event_count && !failed) {
        allocation = input->events[at].allocation;
        if (keep->free_times[allocation] >= 0)
            life.free_ns = keep->free_times[allocation];
        keep->matched++;
    }
    if (at < input->event_count && (!failed || replay_has_failed(keep->replay, input->events[at].allocation)))
        keep->next = at + 1;
    if (!tidei_grow(&keep->lives, &keep->life_capacity, keep->life_count, 1) ||
        !keep_add_point(keep, sqlite3_column_int64(row, 2), life.alloc_ns) ||
        (life.freed && !keep_add_point(keep, sqlite3_column_int64(row, 3), life.free_ns)))
        return trace_broken(made, "no memory for the recorded times");
    keep->lives[keep->life_count++] = life;
    return COMMAND_FINE;
}

static int
keep_compare_points(const void *left, const void *right)
{
    const struct keep_point *a = left, *b = right;

    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->recorded_ns > b->recorded_ns) - (a->recorded_ns < b->recorded_ns);
}

/* Match the events of the replay with the rows of the new trace. */
static int
keep_find_times(struct keep *keep)
{
    struct trace made;
    int status = keep_find_frees(keep);

    if (status == COMMAND_FINE)
        status = trace_open(keep->path, true, &made);
    if (status != COMMAND_FINE)
        return status;
    status = keep_find_logs(keep, &made);
    if (status == COMMAND_FINE)
        status =
            trace_each(&made, keep_match, keep,
                       "SELECT allocation_id, status, alloc_ns, free_ns, size FROM allocation WHERE layer_id IN (%s)"
                       " ORDER BY allocation_id",
                       keep->logs);
    if (status == COMMAND_FINE && keep->matched != keep->replay->result.allocations)
        status =
            made.lost_events > 0
                ? trace_broken(&made, "has the times of the replay: %" PRId64 " events of it could not be recorded",
                               made.lost_events)
                : trace_broken(&made, "has the times of the replay: no log sees every request as it is; begin the "
                                      "stack with one");
    trace_close(&made);
    if (keep->point_count > 0)
        qsort(keep->points, keep->point_count, sizeof(*keep->points), keep_compare_points);
    return status;
}

/* When a moment of the replay was in the recording: between the events before and after it. */
static int64_t
keep_recorded_ns(const struct keep *keep, int64_t ns)
{
    const struct keep_point *points = keep->points;
    size_t low = 0, high = keep->point_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (points[middle].ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return keep->point_count > 0 ? points[0].recorded_ns : 0;
    if (low == keep->point_count || points[low].recorded_ns < points[low - 1].recorded_ns)
        return points[low - 1].recorded_ns;
    return points[low - 1].recorded_ns +
           (int64_t)((double)(points[low].recorded_ns - points[low - 1].recorded_ns) *
                     ((double)(ns - points[low - 1].ns) / (double)(points[low].ns - points[low - 1].ns)));
}

/* The SQL function recorded(ns). */
static void
keep_recorded(sqlite3_context *call, int count, sqlite3_value **values)
{
    (void)count;
    if (sqlite3_value_type(values[0]) != SQLITE_NULL)
        sqlite3_result_int64(call, keep_recorded_ns(sqlite3_user_data(call), sqlite3_value_int64(values[0])));
}

/* Set the times of the allocations, one by one. */
static int
keep_set_lives(const struct keep *keep)
{
    sqlite3_stmt *update = NULL;
    int code = sqlite3_prepare_v2(keep->db, "UPDATE allocation SET alloc_ns = ?, free_ns = ? WHERE allocation_id = ?",
                                  -1, &update, NULL);

    for (size_t i = 0; (code == SQLITE_OK || code == SQLITE_DONE) && i < keep->life_count; i++) {
        const struct keep_life *life = &keep->lives[i];

        sqlite3_bind_int64(update, 1, life->alloc_ns);
        if (life->freed)
            sqlite3_bind_int64(update, 2, life->free_ns);
        else
            sqlite3_bind_null(update, 2);
        sqlite3_bind_int64(update, 3, life->allocation_id);
        code = sqlite3_step(update);
        sqlite3_reset(update);
    }
    sqlite3_finalize(update);
    return code == SQLITE_OK || code == SQLITE_DONE ? COMMAND_FINE : keep_failed(keep);
}

/* Set the times of the program's marks, which stand in the order in which they were made. */
static int
keep_set_marks(const struct keep *keep)
{
    const struct replay_notes *notes = &keep->replay->input->notes;
    sqlite3_stmt *row = NULL, *update = NULL;
    int code =
        sqlite3_prepare_v2(keep->db, "SELECT rowid FROM mark WHERE kind = 'mark' ORDER BY rowid", -1, &row, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(keep->db, "UPDATE mark SET ns = ? WHERE rowid = ?", -1, &update, NULL);
    for (size_t i = 0; code == SQLITE_OK && i < notes->mark_count && sqlite3_step(row) == SQLITE_ROW; i++) {
        sqlite3_bind_int64(update, 1, notes->marks[i].ns);
        sqlite3_bind_int64(update, 2, sqlite3_column_int64(row, 0));
        sqlite3_step(update);
        code = sqlite3_reset(update);
    }
    sqlite3_finalize(update);
    sqlite3_finalize(row);
    return code == SQLITE_OK ? COMMAND_FINE : keep_failed(keep);
}

/* The facts about time are those of the input. */
static int
keep_meta(void *context, const struct trace *source, sqlite3_stmt *row)
{
    const struct keep *keep = context;
    sqlite3_stmt *replace = NULL;
    int code = sqlite3_prepare_v2(keep->db, "INSERT OR REPLACE INTO meta VALUES (?, ?)", -1, &replace, NULL);

    (void)source;
    sqlite3_bind_value(replace, 1, sqlite3_column_value(row, 0));
    sqlite3_bind_value(replace, 2, sqlite3_column_value(row, 1));
    if (code == SQLITE_OK)
        code = sqlite3_step(replace);
    sqlite3_finalize(replace);
    return code == SQLITE_DONE ? COMMAND_FINE : keep_failed(keep);
}

static int
keep_times(struct keep *keep)
{
    char sql[256];
    int status;

    if (sqlite3_create_function(keep->db, "recorded", 1, SQLITE_UTF8, keep, keep_recorded, NULL, NULL) != SQLITE_OK)
        return keep_failed(keep);
    snprintf(sql, sizeof(sql), "UPDATE meta SET value = max(%" PRId64 ", 0) WHERE key = 'end_ns'", keep->last_ns);
    status = keep_run(keep, sql);
    if (status == COMMAND_FINE)
        status = keep_run(keep, "UPDATE allocation SET alloc_ns = recorded(alloc_ns), free_ns = recorded(free_ns);"
                                "UPDATE pool_sample SET ns = recorded(ns);"
                                "UPDATE device_sample SET ns = recorded(ns);"
                                "UPDATE driver_call SET start_ns = recorded(start_ns);"
                                "UPDATE device_event SET ns = recorded(ns);"
                                "UPDATE unmatched_free SET ns = recorded(ns);"
                                "UPDATE misuse SET ns = recorded(ns);"
                                "UPDATE mark SET ns = recorded(ns) WHERE kind <> 'mark';");
    if (status == COMMAND_FINE)
        status = keep_set_lives(keep);
    if (status == COMMAND_FINE)
        status = keep_set_marks(keep);
    if (status == COMMAND_FINE)
        status =
            trace_each(&keep->source, keep_meta, keep,
                       "SELECT key, value FROM meta WHERE key IN ('start_unix_ns', 'clock') OR (key = 'end_ns' AND %d)",
                       keep->replay->result.stopped_at == 0);
    return status;
}

static int
keep_write(struct keep *keep, bool recorded_times)
{
    int status = COMMAND_FINE;

    if (sqlite3_open_v2(keep->path, &keep->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return keep_failed(keep);
    sqlite3_busy_timeout(keep->db, 10000);
    status = keep_run(keep, "PRAGMA synchronous = OFF; BEGIN IMMEDIATE");
    if (status == COMMAND_FINE && keep->replay->input->notes.has_callstacks)
        status = keep_callstacks(keep);
    if (status == COMMAND_FINE && recorded_times)
        status = keep_times(keep);
    return status == COMMAND_FINE ? keep_run(keep, "COMMIT") : status;
}

int
replay_keep(const char *path, const struct replay *replay, bool recorded_times)
{
    struct keep keep = { .path = path, .replay = replay };
    int status;

    if (replay->input->notes.path == NULL || (!recorded_times && !replay->input->notes.has_callstacks))
        return COMMAND_FINE;
    status = trace_open(replay->input->notes.path, true, &keep.source);
    if (status != COMMAND_FINE)
        return status;
    if (recorded_times)
        status = keep_find_times(&keep);
    if (status == COMMAND_FINE)
        status = keep_write(&keep, recorded_times);
    sqlite3_close(keep.db);
    trace_layers_free(&keep.layers);
    trace_close(&keep.source);
    free(keep.logs);
    free(keep.free_times);
    free(keep.lives);
    free(keep.points);
    return status;
}
