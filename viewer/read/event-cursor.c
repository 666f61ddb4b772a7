/* Reads the rows of the virtual tables of events: of a stream in order, as they lie, of the view or of a copy. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/read/event-copy.h"
#include "viewer/read/event-cursor.h"

/* Where a cursor takes its rows from. */
enum cursor_source {
    CURSOR_STREAM,
    CURSOR_PAIRS,     /* rows of `allocation`, each an event or two, in their own order */
    CURSOR_STATEMENT, /* of the view or of the copy, whose columns are those of the table */
};

struct events_cursor {
    sqlite3_vtab_cursor base;
    enum cursor_source source;
    struct kept rows; /* not of a stream; with a key, the table keeps it for the next question */
    bool at_end;
    int64_t rowid;
    struct event_selection selection;
    int64_t from_ns;
    int kind; /* 0: only allocations; 1: only frees; -1: both */
    bool by_layer;
    struct event_stream stream;
    struct event event; /* the current one; of pairs, `is_free` alone */
    size_t layer;       /* the number of the layer that is read, if by_layer */
    int64_t *sums;      /* owns; of `usage`: live bytes and live count of each layer, by its number */
    size_t sum;         /* of the current event's layer */
};

int
event_cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    struct events_cursor *cursor = calloc(1, sizeof(*cursor));

    (void)base;
    if (cursor == NULL)
        return SQLITE_NOMEM;
    cursor->stream.at_end = true;
    *out = &cursor->base;
    return SQLITE_OK;
}

/* End what the cursor reads. */
static void
cursor_stop(struct events_cursor *cursor)
{
    struct events_table *table = (struct events_table *)cursor->base.pVtab;

    event_table_give(table, &cursor->rows);
    event_stream_close(&cursor->stream);
    free(cursor->sums);
    *cursor = (struct events_cursor){ .base = cursor->base, .stream = { .at_end = true } };
}

int
event_cursor_close(sqlite3_vtab_cursor *base)
{
    struct events_cursor *cursor = (struct events_cursor *)base;

    cursor_stop(cursor);
    free(cursor);
    return SQLITE_OK;
}

/* The columns of a row of `allocation` that make an allocation, and then those that a free has in their place. */
static const struct {
    const char *name;
    int column; /* of the event */
} pair_columns[] = {
    { "alloc_ns", EVENT_NS },
    { "'alloc'", EVENT_KIND },
    { "allocation_id", EVENT_ALLOCATION_ID },
    { "layer_id", EVENT_LAYER_ID },
    { "address", EVENT_ADDRESS },
    { "size", EVENT_SIZE },
    { "status", EVENT_STATUS },
    { "alloc_duration_ns", EVENT_DURATION_NS },
    { "alloc_thread_id", EVENT_THREAD_ID },
    { "alloc_stream_id", EVENT_STREAM_ID },
    { "free_ns", EVENT_NS },
    { "free_duration_ns", EVENT_DURATION_NS },
    { "free_thread_id", EVENT_THREAD_ID },
    { "free_stream_id", EVENT_STREAM_ID },
};

/* Prepare to look at rows of `allocation` as they lie: at one, or at all. Only the used columns are read. */
static int
pairs_prepare(struct events_table *table, bool one, unsigned used, sqlite3_stmt **out)
{
    char columns[256] = "";
    char sql[384];

    for (size_t i = 0; i < sizeof(pair_columns) / sizeof(pair_columns[0]); i++) {
        bool wanted = i == EVENT_COLUMNS || (used & 1u << pair_columns[i].column) != 0;

        event_plan_list(columns, sizeof(columns), wanted ? pair_columns[i].name : "NULL", "");
    }
    snprintf(sql, sizeof(sql), "SELECT %s FROM main.allocation%s", columns, one ? " WHERE allocation_id = ?" : "");
    return event_table_failed(table, sqlite3_prepare_v2(table->db, sql, -1, out, NULL));
}

/* Look at rows of `allocation` as they lie: of the one allocation that is asked for, or of all. */
static int
pairs_ask(struct events_table *table, struct events_cursor *cursor, int plan, sqlite3_value *id)
{
    unsigned used = (unsigned)plan / PLAN_USED;
    struct kept *rows = &cursor->rows;
    int code = SQLITE_OK;

    cursor->source = CURSOR_PAIRS;
    cursor->event.is_free = true; /* so that the first step reads a row */
    if (id != NULL)
        snprintf(rows->key, sizeof(rows->key), "one %x", used);
    rows->rows = id != NULL ? event_table_take(table, rows->key) : NULL;
    if (rows->rows == NULL)
        code = pairs_prepare(table, id != NULL, used, &rows->rows);
    return id != NULL && code == SQLITE_OK ? sqlite3_bind_value(rows->rows, 1, id) : code;
}

/* The view itself, for a trace in which the rows cannot be streamed. */
static int
view_ask(struct events_table *table, struct events_cursor *cursor, int plan)
{
    const struct events_kind *kind = table->kind;
    char names[160];
    char order[256];
    char sql[512];

    event_plan_names(kind, names, sizeof(names));
    event_plan_order(kind, plan, 0, order, sizeof(order));
    snprintf(sql, sizeof(sql), "SELECT %s FROM main.%s ORDER BY %s", names, kind->view, order);
    cursor->source = CURSOR_STATEMENT;
    return event_table_failed(table, sqlite3_prepare_v2(table->db, sql, -1, &cursor->rows.rows, NULL));
}

/* Ask the view for the first few rows. Those that OFFSET leaves out are among them: SQLite counts them here, too. */
static int
top_ask(struct events_table *table, struct events_cursor *cursor, int plan, const char *text, sqlite3_value **values)
{
    const struct events_kind *kind = table->kind;
    unsigned used = (unsigned)plan / PLAN_USED;
    char sql[1024] = "SELECT ";
    sqlite3_int64 rows = 0;
    int bound = 0;
    int code;

    for (int i = 0; i < kind->column_count; i++) {
        size_t length = strlen(sql);

        snprintf(sql + length, sizeof(sql) - length, "%s%s", i > 0 ? ", " : "",
                 (used & 1u << i) != 0 ? kind->names[i] : "NULL");
    }
    snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql), " FROM main.%s", kind->view);
    event_plan_top_sql(kind, text, sql, sizeof(sql));
    cursor->source = CURSOR_STATEMENT;
    code = event_table_failed(table, sqlite3_prepare_v2(table->db, sql, -1, &cursor->rows.rows, NULL));
    for (int i = 0; text[2 * i] != PLAN_BAR && code == SQLITE_OK; i++) {
        if (text[2 * i] == PLAN_LIMIT || text[2 * i] == PLAN_OFFSET)
            rows += sqlite3_value_int64(values[i]);
        else
            code = sqlite3_bind_value(cursor->rows.rows, ++bound, values[i]);
    }
    return code == SQLITE_OK ? sqlite3_bind_int64(cursor->rows.rows, bound + 1, rows) : code;
}

/* Begin to stream, the layer at `cursor->layer` or all. */
static int
stream_begin(struct events_table *table, struct events_cursor *cursor)
{
    if (cursor->by_layer) {
        cursor->selection.one_layer = table->check.layer_count > 1;
        cursor->selection.layer_id = table->check.layers[cursor->layer];
    }
    event_stream_close(&cursor->stream);
    return event_table_failed(table, event_stream_open(&cursor->stream, table->db, &cursor->selection));
}

/* Take from the conditions what a stream need not read or return. */
static void
stream_narrow(struct events_table *table, struct events_cursor *cursor, const struct condition *list, int count)
{
    const struct events_kind *kind = table->kind;

    for (int i = 0; i < count; i++) {
        int64_t value = sqlite3_value_int64(list[i].value);

        if (list[i].column == kind->kind) {
            cursor->kind = strcmp((const char *)sqlite3_value_text(list[i].value), "free") == 0;
        } else if (list[i].column == kind->ns) {
            if (list[i].relation != '<' && value > cursor->from_ns)
                cursor->from_ns = value;
            if (list[i].relation != '>' && value < cursor->selection.until_ns)
                cursor->selection.until_ns = value;
        } else if (list[i].column == kind->layer_id) {
            cursor->by_layer = false;
            cursor->selection.one_layer = true;
            cursor->selection.layer_id = value;
        }
    }
    /* The sums need the frees, too. */
    cursor->selection.frees = kind->sums || cursor->kind != 0;
}

/* Read events in order. */
static int
stream_ask(struct events_table *table, struct events_cursor *cursor, int plan, const struct condition *list, int count)
{
    cursor->source = CURSOR_STREAM;
    cursor->by_layer = (plan & PLAN_BY_LAYER) != 0;
    cursor->selection = (struct event_selection){ .details = (plan & PLAN_DETAILS) != 0,
                                                  .succeeded = table->kind->sums,
                                                  .until_ns = INT64_MAX };
    stream_narrow(table, cursor, list, count);
    if (table->kind->sums) {
        cursor->sums = calloc(2 * table->check.layer_count + 2, sizeof(*cursor->sums));
        if (cursor->sums == NULL)
            return SQLITE_NOMEM;
    }
    cursor->at_end = table->check.layer_count == 0;
    return cursor->at_end ? SQLITE_OK : stream_begin(table, cursor);
}

/* The number of a layer; those of a regular trace are all known. */
static size_t
sum_of(const struct events_table *table, size_t near, int64_t layer_id)
{
    const struct event_check *check = &table->check;

    if (check->layers[near] == layer_id)
        return near;
    for (size_t i = 0; i < check->layer_count; i++) {
        if (check->layers[i] == layer_id)
            return i;
    }
    return 0;
}

/* Add the event to the sums of its layer. */
static void
sum_add(const struct events_table *table, struct events_cursor *cursor)
{
    const struct event *event = &cursor->event;

    cursor->sum = sum_of(table, cursor->sum, event->layer_id);
    cursor->sums[2 * cursor->sum] += event->is_free ? -event->size : event->size;
    cursor->sums[2 * cursor->sum + 1] += event->is_free ? -1 : 1;
}

/* Go to the next event that the question may want. */
static int
stream_step(struct events_table *table, struct events_cursor *cursor)
{
    for (;;) {
        int code = event_stream_next(&cursor->stream, &cursor->event);

        if (code == SQLITE_DONE && cursor->by_layer && ++cursor->layer < table->check.layer_count) {
            code = stream_begin(table, cursor);
            if (code == SQLITE_OK)
                continue;
        }
        cursor->at_end = code == SQLITE_DONE;
        if (code != SQLITE_ROW)
            return code == SQLITE_DONE ? SQLITE_OK : event_table_failed(table, code);
        table->streamed++;
        if (table->kind->sums)
            sum_add(table, cursor);
        if (cursor->event.ns >= cursor->from_ns && (cursor->kind < 0 || cursor->event.is_free == cursor->kind))
            return SQLITE_OK;
    }
}

/* Go from an allocation to its free, or to the next row. */
static int
rows_step(struct events_table *table, struct events_cursor *cursor)
{
    int code;

    if (cursor->source == CURSOR_PAIRS && !cursor->event.is_free &&
        sqlite3_column_type(cursor->rows.rows, EVENT_COLUMNS) != SQLITE_NULL) {
        cursor->event.is_free = true;
        return SQLITE_OK;
    }
    if (sqlite3_db_handle(cursor->rows.rows) == table->db) {
        code = event_table_step(table, cursor->rows.rows);
        table->streamed++;
    } else {
        code = sqlite3_step(cursor->rows.rows);
    }
    cursor->event.is_free = false;
    cursor->at_end = code != SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return SQLITE_OK;
    return event_copy_failed(table, sqlite3_db_handle(cursor->rows.rows), code);
}

int
event_cursor_next(sqlite3_vtab_cursor *base)
{
    struct events_cursor *cursor = (struct events_cursor *)base;
    struct events_table *table = (struct events_table *)base->pVtab;

    cursor->rowid++;
    return cursor->source == CURSOR_STREAM ? stream_step(table, cursor) : rows_step(table, cursor);
}

/*
 * Read a few events in order. As many rows as that, and the one that the stream reads ahead, have all of them: only
 * these are checked. Where one of them is not as it must be, rows come as they lie.
 */
static int
first_ask(struct events_table *table, struct events_cursor *cursor, int plan, int argc, sqlite3_value **values)
{
    struct event_check check;
    int64_t rows = 2;
    int code;

    for (int i = 0; i < argc; i++)
        rows += sqlite3_value_int64(values[i]);
    code = event_check(table->db, (plan & PLAN_DETAILS) != 0, rows, &check);
    if (code != SQLITE_OK)
        return event_table_failed(table, code);
    if (!check.regular)
        return pairs_ask(table, cursor, plan, NULL);
    cursor->source = CURSOR_STREAM;
    cursor->selection =
        (struct event_selection){ .details = (plan & PLAN_DETAILS) != 0, .frees = true, .until_ns = INT64_MAX };
    return stream_begin(table, cursor);
}

/* Choose where the rows come from. */
static int
events_ask(struct events_table *table, struct events_cursor *cursor, int plan, const struct condition *list, int count)
{
    bool copied;
    int code = event_copy_wanted(table, plan, &copied);

    if (code != SQLITE_OK)
        return code;
    if (copied) {
        cursor->source = CURSOR_STATEMENT;
        return event_copy_ask(table, plan, list, count, &cursor->rows);
    }
    if ((plan & PLAN_ANY) != 0)
        return pairs_ask(table, cursor, plan, NULL);
    code = event_table_check(table, (plan & PLAN_DETAILS) != 0);
    if (code != SQLITE_OK)
        return code;
    if (!table->check.regular || (table->kind->sums && table->check.layer_count > EVENT_LAYERS))
        return view_ask(table, cursor, plan);
    return stream_ask(table, cursor, plan, list, count);
}

int
event_cursor_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc, sqlite3_value **values)
{
    struct events_cursor *cursor = (struct events_cursor *)base;
    struct events_table *table = (struct events_table *)base->pVtab;
    struct condition list[PLAN_MOST];
    int code;

    cursor_stop(cursor);
    cursor->from_ns = INT64_MIN;
    cursor->kind = -1;
    for (int i = 0; i < argc; i++)
        cursor->at_end = cursor->at_end || sqlite3_value_type(values[i]) == SQLITE_NULL; /* nothing compares with it */
    if (cursor->at_end)
        return SQLITE_OK;
    if ((plan & PLAN_ONE) != 0) {
        int at = 0;

        while (text[2 * at + 1] != PLAN_COLUMN_A + table->kind->allocation_id || text[2 * at] != '=')
            at++;
        code = pairs_ask(table, cursor, plan, values[at]);
    } else if ((plan & PLAN_FIRST) != 0) {
        code = first_ask(table, cursor, plan, argc, values);
    } else if ((plan & PLAN_TOP) != 0) {
        code = top_ask(table, cursor, plan, text, values);
    } else {
        code = events_ask(table, cursor, plan, list, event_plan_conditions(table->kind, text, values, list));
    }
    if (code != SQLITE_OK || cursor->at_end)
        return code;
    return cursor->source == CURSOR_STREAM ? stream_step(table, cursor) : rows_step(table, cursor);
}

int
event_cursor_eof(sqlite3_vtab_cursor *base)
{
    return ((struct events_cursor *)base)->at_end;
}

/* A detail of the event of a stream. */
static void
column_detail(sqlite3_context *context, const struct event_details *details, unsigned place, int64_t value)
{
    if ((details->nulls & 1u << place) == 0)
        sqlite3_result_int64(context, value);
}

static void
column_of_event(sqlite3_context *context, const struct event *event, int column)
{
    const struct event_details *details = &event->details;

    switch (column) {
    case EVENT_NS:
        sqlite3_result_int64(context, event->ns);
        break;
    case EVENT_KIND:
        sqlite3_result_text(context, event->is_free ? "free" : "alloc", -1, SQLITE_STATIC);
        break;
    case EVENT_ALLOCATION_ID:
        sqlite3_result_int64(context, event->allocation_id);
        break;
    case EVENT_LAYER_ID:
        sqlite3_result_int64(context, event->layer_id);
        break;
    case EVENT_SIZE:
        sqlite3_result_int64(context, event->size);
        break;
    case EVENT_STATUS:
        sqlite3_result_int64(context, event->status);
        break;
    case EVENT_ADDRESS:
        column_detail(context, details, 0, details->address);
        break;
    case EVENT_DURATION_NS:
        column_detail(context, details, 1, details->duration_ns);
        break;
    case EVENT_THREAD_ID:
        column_detail(context, details, 2, details->thread_id);
        break;
    default:
        column_detail(context, details, 3, details->stream_id);
    }
}

/* The column of an event that a column of `usage` shows. */
static const int usage_events[] = { EVENT_LAYER_ID, EVENT_NS, EVENT_KIND, EVENT_ALLOCATION_ID };

/* The column of a row of `allocation`, as its allocation or its free. */
static void
column_of_pair(sqlite3_context *context, const struct events_cursor *cursor, int column)
{
    static const int of_free[EVENT_COLUMNS] = { [EVENT_NS] = EVENT_COLUMNS,
                                                [EVENT_DURATION_NS] = EVENT_COLUMNS + 1,
                                                [EVENT_THREAD_ID] = EVENT_COLUMNS + 2,
                                                [EVENT_STREAM_ID] = EVENT_COLUMNS + 3 };

    if (cursor->event.is_free && column == EVENT_KIND) {
        sqlite3_result_text(context, "free", -1, SQLITE_STATIC);
        return;
    }
    if (cursor->event.is_free && of_free[column] != 0)
        column = of_free[column];
    sqlite3_result_value(context, sqlite3_column_value(cursor->rows.rows, column));
}

int
event_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct events_cursor *cursor = (const struct events_cursor *)base;
    const struct events_table *table = (const struct events_table *)base->pVtab;

    if (cursor->source == CURSOR_STATEMENT)
        sqlite3_result_value(context, sqlite3_column_value(cursor->rows.rows, column));
    else if (cursor->source == CURSOR_PAIRS)
        column_of_pair(context, cursor, column);
    else if (!table->kind->sums)
        column_of_event(context, &cursor->event, column);
    else if (column >= USAGE_LIVE_BYTES)
        sqlite3_result_int64(context, cursor->sums[2 * cursor->sum + (column == USAGE_LIVE_COUNT)]);
    else
        column_of_event(context, &cursor->event, usage_events[column]);
    return SQLITE_OK;
}

int
event_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const struct events_cursor *)base)->rowid;
    return SQLITE_OK;
}
