/* The events of a trace one by one, in the order of the view `event`. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/read/event-stream.h"

/* The columns of the statement; from ROW_ADDRESS on they are the details. */
enum {
    ROW_ID,
    ROW_ALLOC_NS,
    ROW_FREE_NS,
    ROW_LAYER,
    ROW_SIZE,
    ROW_STATUS,
    ROW_ADDRESS,
    ROW_ALLOC_DETAILS,
    ROW_FREE_DETAILS = ROW_ALLOC_DETAILS + EVENT_DETAILS - 1,
    ROW_COLUMNS = ROW_FREE_DETAILS + EVENT_DETAILS - 1,
};

#define ROW_HEAD "allocation_id, alloc_ns, free_ns, layer_id, size, status"
#define ROW_MORE                                                                                                       \
    ", address, alloc_duration_ns, alloc_thread_id, alloc_stream_id, free_duration_ns, free_thread_id, free_stream_id"

/* Prepare the statement that reads the rows of `selection`. An SQLite result code. */
static int
event_prepare(sqlite3 *db, const struct event_selection *selection, sqlite3_stmt **out)
{
    char sql[512];
    char layer[64] = "";

    if (selection->one_layer)
        snprintf(layer, sizeof(layer), " AND layer_id = %" PRId64, selection->layer_id);
    snprintf(sql, sizeof(sql), "SELECT " ROW_HEAD "%s FROM main.allocation WHERE 1%s%s ORDER BY allocation_id",
             selection->details ? ROW_MORE : "", layer, selection->succeeded ? " AND status = 0" : "");
    return sqlite3_prepare_v2(db, sql, -1, out, NULL);
}

/* Whether a column of the row is an integer, or NULL where `null` allows it. */
static bool
row_is_integer(sqlite3_stmt *row, int column, bool null)
{
    int type = sqlite3_column_type(row, column);

    return type == SQLITE_INTEGER || (null && type == SQLITE_NULL);
}

/* The sums of the check so far. */
struct check_state {
    int64_t id; /* of the row before */
    int64_t alloc_ns;
    int64_t bytes; /* of all allocations that succeeded: where these can be added, all sums over some of them can be */
    bool any;
};

/* Note the layer of a row. */
static void
check_layer(struct event_check *check, int64_t layer_id)
{
    size_t i = 0;

    if (check->layer_count > EVENT_LAYERS)
        return;
    while (i < check->layer_count && check->layers[i] < layer_id)
        i++;
    if (i < check->layer_count && check->layers[i] == layer_id)
        return;
    if (check->layer_count < EVENT_LAYERS) {
        memmove(check->layers + i + 1, check->layers + i, (check->layer_count - i) * sizeof(check->layers[0]));
        check->layers[i] = layer_id;
    }
    check->layer_count++;
}

/* Whether a time is one that can be recorded, within 146 years of the start. */
static bool
check_ns(int64_t ns)
{
    return ns > -(INT64_C(1) << 62) && ns < INT64_C(1) << 62;
}

/* Whether a row is as the schema and the recorder make it. */
static bool
check_row(struct event_check *check, struct check_state *state, sqlite3_stmt *row)
{
    int64_t id = sqlite3_column_int64(row, ROW_ID);
    int64_t alloc_ns = sqlite3_column_int64(row, ROW_ALLOC_NS);
    int64_t free_ns = sqlite3_column_int64(row, ROW_FREE_NS); /* NULL: 0 */
    int64_t size = sqlite3_column_int64(row, ROW_SIZE);
    bool freed = sqlite3_column_type(row, ROW_FREE_NS) != SQLITE_NULL;
    bool fine = true;

    for (int i = ROW_ID; fine && i <= ROW_STATUS; i++)
        fine = row_is_integer(row, i, i == ROW_FREE_NS);
    for (int i = ROW_ADDRESS; fine && check->details && i < ROW_COLUMNS; i++)
        fine = row_is_integer(row, i, true);
    fine = fine && (!state->any || (id > state->id && alloc_ns >= state->alloc_ns));
    fine = fine && check_ns(alloc_ns) && check_ns(free_ns) && (!freed || free_ns >= alloc_ns);
    if (fine && sqlite3_column_int64(row, ROW_STATUS) == 0)
        fine = size >= 0 && !__builtin_add_overflow(state->bytes, size, &state->bytes);
    *state = (struct check_state){ id, alloc_ns, state->bytes, true };
    check->events += 1 + freed;
    return fine;
}

int
event_check(sqlite3 *db, bool details, int64_t most, struct event_check *out)
{
    struct event_selection selection = { .details = details };
    struct check_state state = { .any = false };
    sqlite3_stmt *rows = NULL;
    int64_t last_layer = 0;
    int code = event_prepare(db, &selection, &rows);

    *out = (struct event_check){ .regular = true, .details = details };
    for (; most > 0 && (code == SQLITE_OK || code == SQLITE_ROW); most--) {
        int64_t layer_id;

        code = sqlite3_step(rows);
        if (code != SQLITE_ROW)
            break;
        out->regular = check_row(out, &state, rows) && out->regular;
        layer_id = sqlite3_column_int64(rows, ROW_LAYER);
        if (out->layer_count == 0 || layer_id != last_layer)
            check_layer(out, layer_id);
        last_layer = layer_id;
    }
    sqlite3_finalize(rows);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

int
event_stream_open(struct event_stream *stream, sqlite3 *db, const struct event_selection *selection)
{
    *stream = (struct event_stream){ .selection = *selection };
    stream->event_bytes = selection->details ? sizeof(struct event) : offsetof(struct event, details);
    return event_prepare(db, selection, &stream->rows);
}

void
event_stream_close(struct event_stream *stream)
{
    sqlite3_finalize(stream->rows);
    due_queue_free(&stream->due);
    free(stream->pending);
    free(stream->free_slots);
    *stream = (struct event_stream){ .at_end = true };
}

/* An integer of the row; a NULL sets its bit. */
static int64_t
row_detail(sqlite3_stmt *row, int column, unsigned bit, unsigned *nulls)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        *nulls |= 1u << bit;
    return sqlite3_column_int64(row, column);
}

/* Read the details of the allocation, or of the free, which lie at `first`. */
static void
row_details(sqlite3_stmt *row, int first, struct event_details *out)
{
    out->nulls = 0;
    out->address = row_detail(row, ROW_ADDRESS, 0, &out->nulls);
    out->duration_ns = row_detail(row, first, 1, &out->nulls);
    out->thread_id = row_detail(row, first + 1, 2, &out->nulls);
    out->stream_id = row_detail(row, first + 2, 3, &out->nulls);
}

/* Make room for another slot in both arrays. */
static bool
stream_grow(struct event_stream *stream)
{
    size_t pending = stream->capacity;
    size_t free_slots = stream->capacity;

    if (!tidei_grow_items(&stream->pending, stream->event_bytes, &pending, stream->slot_count, 1) ||
        !tidei_grow(&stream->free_slots, &free_slots, stream->slot_count, 1))
        return false;
    stream->capacity = pending;
    return true;
}

/* Keep a free until it is due. */
static int
stream_push(struct event_stream *stream, const struct event *event)
{
    uint64_t slot;

    if (stream->free_count == 0 && stream->slot_count == stream->capacity && !stream_grow(stream))
        return SQLITE_NOMEM;
    slot = stream->free_count > 0 ? stream->free_slots[--stream->free_count] : stream->slot_count++;
    memcpy(stream->pending + slot * stream->event_bytes, event, stream->event_bytes);
    return due_queue_add(&stream->due, event->ns, slot) ? SQLITE_OK : SQLITE_NOMEM;
}

/* Read the next row into stream->row. An SQLite result code. */
static int
stream_read(struct event_stream *stream)
{
    sqlite3_stmt *row = stream->rows;
    struct event *event = &stream->row;
    int code = sqlite3_step(row);

    if (code != SQLITE_ROW) {
        stream->at_end = true;
        return code == SQLITE_DONE ? SQLITE_OK : code;
    }
    event->allocation_id = sqlite3_column_int64(row, ROW_ID);
    event->layer_id = sqlite3_column_int64(row, ROW_LAYER);
    event->size = sqlite3_column_int64(row, ROW_SIZE);
    event->status = sqlite3_column_int64(row, ROW_STATUS);
    event->ns = sqlite3_column_int64(row, ROW_ALLOC_NS);
    event->is_free = false;
    if (stream->selection.details)
        row_details(row, ROW_ALLOC_DETAILS, &event->details);
    stream->has_row = event->ns <= stream->selection.until_ns;
    stream->at_end = !stream->has_row;
    return SQLITE_OK;
}

/* The row is an event now; its free waits from now on. */
static int
stream_take_row(struct event_stream *stream, struct event *out)
{
    sqlite3_stmt *row = stream->rows;
    struct event freed;

    stream->has_row = false;
    memcpy(out, &stream->row, stream->event_bytes);
    if (!stream->selection.frees || sqlite3_column_type(row, ROW_FREE_NS) == SQLITE_NULL)
        return SQLITE_OK;
    memcpy(&freed, &stream->row, stream->event_bytes);
    freed.is_free = true;
    freed.ns = sqlite3_column_int64(row, ROW_FREE_NS);
    if (freed.ns > stream->selection.until_ns)
        return SQLITE_OK;
    if (stream->selection.details)
        row_details(row, ROW_FREE_DETAILS, &freed.details);
    return stream_push(stream, &freed);
}

int
event_stream_next(struct event_stream *stream, struct event *out)
{
    uint64_t slot;
    int code = SQLITE_OK;

    if (!stream->has_row && !stream->at_end)
        code = stream_read(stream);
    if (code != SQLITE_OK)
        return code;
    switch (due_queue_take(&stream->due, stream->has_row ? stream->row.ns : INT64_MAX, &slot)) {
    case DUE_FOUND:
        memcpy(out, stream->pending + slot * stream->event_bytes, stream->event_bytes);
        stream->free_slots[stream->free_count++] = slot;
        return SQLITE_ROW;
    case DUE_NO_MEMORY:
        return SQLITE_NOMEM;
    default:
        if (!stream->has_row)
            return SQLITE_DONE;
        code = stream_take_row(stream, out);
        return code == SQLITE_OK ? SQLITE_ROW : code;
    }
}
