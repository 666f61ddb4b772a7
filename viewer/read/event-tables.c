/* `usage` and `event` as virtual tables, which read events in order instead of sorting them. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/trace/database/schema.h"
#include "viewer/read/event-stream.h"
#include "viewer/read/event-tables.h"

/* The columns of the view `usage`, in order. */
enum {
    USAGE_LAYER_ID,
    USAGE_NS,
    USAGE_KIND,
    USAGE_ALLOCATION_ID,
    USAGE_LIVE_BYTES,
    USAGE_LIVE_COUNT,
    USAGE_COLUMNS,
};

/* One of the two views, and the numbers of the columns that both have. */
struct events_kind {
    const char *view;
    const char *module;
    const char *columns; /* as a table declares them: those that come from a column have its type */
    const char *const *names;
    int column_count;
    int layer_id;
    int ns;
    int kind;
    int allocation_id;
    bool sums; /* it is `usage` */
};

static const char *const usage_names[] = { "layer_id", "ns", "kind", "allocation_id", "live_bytes", "live_count" };
static const char *const event_names[] = { "ns",   "kind",   "allocation_id", "layer_id",  "address",
                                           "size", "status", "duration_ns",   "thread_id", "stream_id" };

static const struct events_kind events_kinds[] = {
    { "event", "tidemark_event",
      "ns INTEGER, kind, allocation_id INTEGER, layer_id INTEGER, address INTEGER, size INTEGER, status INTEGER, "
      "duration_ns INTEGER, thread_id INTEGER, stream_id INTEGER",
      event_names, EVENT_COLUMNS, EVENT_LAYER_ID, EVENT_NS, EVENT_KIND, EVENT_ALLOCATION_ID, false },
    { "usage", "tidemark_usage", "layer_id INTEGER, ns INTEGER, kind, allocation_id INTEGER, live_bytes, live_count",
      usage_names, USAGE_COLUMNS, USAGE_LAYER_ID, USAGE_NS, USAGE_KIND, USAGE_ALLOCATION_ID, true },
};

/* How a question wants the rows: bits of idxNum. */
enum {
    PLAN_BY_TIME = 1,   /* in the order of ns, kind, allocation_id */
    PLAN_BY_LAYER = 2,  /* of `usage`: of layer_id, and then the same */
    PLAN_ANY = 4,       /* of `event`: in any order, as SQLite sorts them or does not look at them */
    PLAN_DETAILS = 8,   /* of `event`: with the details */
    PLAN_ONE = 16,      /* of `event`: a single allocation_id */
    PLAN_BACKWARD = 32, /* from the latest to the earliest, of one layer in `usage` */
    PLAN_TOP = 64,      /* of `event`: the first few in any order */
    PLAN_FIRST = 128,   /* of `event`: a few, of which no order is asked */
    PLAN_USED = 256,    /* of `event`: this bit and those above it: the columns that the question uses */
};

/* Conditions `column` OP value: idxStr has OP and the column for each, in the order of the values. */
#define PLAN_MOST     12
#define PLAN_COLUMN_A 'a'

/*
 * In a plan for the first few rows, LIMIT and OFFSET come behind the conditions, and the columns of ORDER BY behind a
 * bar: "=bL?|h-a+" has layer_id = the first value, LIMIT the second, ORDER BY duration_ns DESC, ns.
 */
#define PLAN_LIMIT  'L'
#define PLAN_OFFSET 'O'
#define PLAN_BAR    '|'

/* More rows than these are streamed: SQLite would hold them all while it looks for the first ones. */
#define TOP_MOST 10000

/* A copy is made once so many times the rows of a table were read. Making it takes about as long as three readings. */
#define COPY_AFTER 3

/* A statement that no cursor uses. A join asks the same again for each row, and to prepare takes longer than to run. */
#define KEPT_MOST 4

struct kept {
    sqlite3_stmt *rows; /* owns */
    char key[2 * PLAN_MOST + 12];
};

struct events_table {
    sqlite3_vtab base;
    sqlite3 *db; /* borrows */
    const struct events_kind *kind;
    int64_t rows; /* a guess of how many rows the table has */
    struct event_check check;
    bool checked;
    int64_t streamed; /* rows that were read since the table was made, for all questions */
    sqlite3 *copy;    /* owns; NULL: none was needed */
    bool copying;     /* rows are read for the copy */
    struct kept kept[KEPT_MOST];
};

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

/* Whether a statement's `text` is part of the schema that the recorder writes. */
static bool
view_is_known(const struct trace *trace, const char *view)
{
    sqlite3_stmt *statement = NULL;
    bool known = false;

    if (sqlite3_prepare_v2(trace->db, "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = ?", -1,
                           &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_text(statement, 1, view, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(statement, 0);
        const char *at = sql != NULL && sql[0] != '\0' ? strstr(tidei_trace_schema, sql) : NULL;

        known = at != NULL && at[strlen(sql)] == ';';
    }
    sqlite3_finalize(statement);
    return known;
}

/* Keep the reason of a failure of a statement for the one who asked. */
static int
events_failed(struct events_table *table, int code)
{
    if (code != SQLITE_OK && code != SQLITE_NOMEM) {
        sqlite3_free(table->base.zErrMsg);
        table->base.zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(table->db));
    }
    return code;
}

static int
events_connect(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    const struct events_kind *kind = context;
    struct events_table *table;
    sqlite3_stmt *statement = NULL;
    char sql[512];
    int code;

    (void)argc;
    /* A file may declare tables of any module; only our own, in the temporary schema, is one. */
    if (strcmp(argv[1], "temp") != 0) {
        *message = sqlite3_mprintf("no such module: %s", kind->module);
        return SQLITE_ERROR;
    }
    snprintf(sql, sizeof(sql), "CREATE TABLE x(%s)", kind->columns);
    code = sqlite3_declare_vtab(db, sql);
    if (code != SQLITE_OK)
        return code;
    table = calloc(1, sizeof(*table));
    if (table == NULL)
        return SQLITE_NOMEM;
    table->db = db;
    table->kind = kind;
    if (sqlite3_prepare_v2(db, "SELECT max(allocation_id) FROM main.allocation", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        table->rows = 2 * (sqlite3_column_int64(statement, 0) & INT32_MAX);
    sqlite3_finalize(statement);
    table->rows += 1000;
    *out = &table->base;
    return SQLITE_OK;
}

/* Not the same as events_connect: else the module's own name would be a table, too. */
static int
events_create(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    return events_connect(db, context, argc, argv, out, message);
}

static int
events_disconnect(sqlite3_vtab *base)
{
    struct events_table *table = (struct events_table *)base;

    for (size_t i = 0; i < KEPT_MOST; i++)
        sqlite3_finalize(table->kept[i].rows);
    sqlite3_close(table->copy);
    free(table);
    return SQLITE_OK;
}

/* The conditions that a plan uses, so far. */
struct plan {
    const struct events_kind *kind;
    char text[2 * PLAN_MOST + 2 * EVENT_COLUMNS + 2];
    int count;
    unsigned equal; /* bit n: column n equals a value */
    unsigned ends;  /* ends of a range of ns */
    bool varies;    /* an end is not the same for the whole question: of a join or a subquery */
};

/* Whether a condition is `IN (...)`, which would be asked for value by value. */
static bool
plan_is_in(sqlite3_index_info *info, int i)
{
#if SQLITE_VERSION_NUMBER >= 3038000
    return sqlite3_vtab_in(info, i, -1) != 0;
#else
    (void)info;
    (void)i;
    return false;
#endif
}

/* Whether a condition's value is known before the question runs. */
static bool
plan_is_constant(sqlite3_index_info *info, int i)
{
#if SQLITE_VERSION_NUMBER >= 3038000
    sqlite3_value *value;

    return sqlite3_vtab_rhs_value(info, i, &value) == SQLITE_OK;
#else
    (void)info;
    (void)i;
    return true;
#endif
}

/* The character of a condition in a plan; 0: it is not used, and SQLite alone sees to it. */
static char
plan_operator(const struct plan *plan, sqlite3_index_info *info, int i)
{
    const struct sqlite3_index_constraint *each = &info->aConstraint[i];
    bool is_id = !plan->kind->sums && each->iColumn == plan->kind->allocation_id;

    if (!each->usable || each->iColumn < 0 || plan->count == PLAN_MOST)
        return 0;
    switch (each->op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        if ((plan->equal & 1u << each->iColumn) != 0 || strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
            return 0;
        return is_id || !plan_is_in(info, i) ? '=' : 0;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE:
        return each->iColumn == plan->kind->ns ? '>' : 0;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE:
        return each->iColumn == plan->kind->ns ? '<' : 0;
    default:
        return 0;
    }
}

/* Choose the conditions. All are approximate: SQLite checks each row again, with its own rules for types. */
static void
plan_conditions(struct plan *plan, sqlite3_index_info *info)
{
    for (int i = 0; i < info->nConstraint; i++) {
        char relation = plan_operator(plan, info, i);

        if (relation == 0)
            continue;
        info->aConstraintUsage[i].argvIndex = plan->count + 1;
        plan->text[2 * plan->count] = relation;
        plan->text[2 * plan->count + 1] = (char)(PLAN_COLUMN_A + info->aConstraint[i].iColumn);
        plan->count++;
        if (relation == '=') {
            plan->equal |= 1u << info->aConstraint[i].iColumn;
            continue;
        }
        plan->ends++;
        plan->varies = plan->varies || !plan_is_constant(info, i);
    }
}

/* Whether the ORDER BY is a beginning of `columns`, which the rows are sorted by. Those that equal a value may lack. */
static bool
plan_orders(const struct plan *plan, const sqlite3_index_info *info, const int *columns, int count, bool backward)
{
    int next = 0;

    for (int i = 0; i < info->nOrderBy; i++) {
        int column = info->aOrderBy[i].iColumn;

        if (column >= 0 && (plan->equal & 1u << column) != 0)
            continue;
        while (next < count && (plan->equal & 1u << columns[next]) != 0)
            next++;
        if (next == count || column != columns[next] || (info->aOrderBy[i].desc != 0) != backward)
            return false;
        next++;
    }
    return true;
}

/* Choose the order of the rows, and say whether it is the one that was asked for. */
static int
plan_order(const struct plan *plan, sqlite3_index_info *info)
{
    const struct events_kind *kind = plan->kind;
    const int columns[] = { kind->layer_id, kind->ns, kind->kind, kind->allocation_id };
    bool by_time = plan_orders(plan, info, columns + 1, 3, false);

    if (!kind->sums && (plan->equal & 1u << kind->allocation_id) != 0)
        return PLAN_ONE | PLAN_ANY;
    if (kind->sums && plan_orders(plan, info, columns, 4, false)) {
        info->orderByConsumed = info->nOrderBy > 0;
        return PLAN_BY_LAYER;
    }
    if (info->nOrderBy > 0 && by_time) {
        info->orderByConsumed = 1;
        return PLAN_BY_TIME;
    }
    /* What was before a moment, for each of many moments: the copy finds it at once. */
    if (info->nOrderBy > 0 && plan->varies && (!kind->sums || (plan->equal & 1u << kind->layer_id) != 0) &&
        plan_orders(plan, info, columns + 1, 3, true)) {
        info->orderByConsumed = 1;
        return PLAN_BY_TIME | PLAN_BACKWARD;
    }
    if (kind->sums)
        return PLAN_BY_LAYER;
    return info->nOrderBy > 0 || info->colUsed == 0 ? PLAN_ANY : PLAN_BY_TIME;
}

#if SQLITE_VERSION_NUMBER >= 3038000
/* The sign of a condition of a plan for the first few rows, or of their number; 0: it is another condition. */
static char
top_operator(int op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return '=';
    case SQLITE_INDEX_CONSTRAINT_GT:
        return '>';
    case SQLITE_INDEX_CONSTRAINT_GE:
        return 'g';
    case SQLITE_INDEX_CONSTRAINT_LT:
        return '<';
    case SQLITE_INDEX_CONSTRAINT_LE:
        return 'l';
    case SQLITE_INDEX_CONSTRAINT_LIMIT:
        return PLAN_LIMIT;
    case SQLITE_INDEX_CONSTRAINT_OFFSET:
        return PLAN_OFFSET;
    default:
        return 0;
    }
}

/*
 * Take a condition into a plan for the first few rows: its value is known, and of the type that the column has, so that
 * the view finds the same rows. A number of rows is added to *rows. False: there is no such plan.
 */
static bool
top_take(struct plan *plan, sqlite3_index_info *info, int i, int64_t *rows)
{
    const struct sqlite3_index_constraint *each = &info->aConstraint[i];
    char sign = top_operator(each->op);
    bool is_number = sign == PLAN_LIMIT || sign == PLAN_OFFSET;
    int type = !is_number && each->iColumn == plan->kind->kind ? SQLITE_TEXT : SQLITE_INTEGER;
    sqlite3_value *value;

    if (sign == 0 || !each->usable || plan->count == PLAN_MOST || (!is_number && each->iColumn < 0) ||
        sqlite3_vtab_rhs_value(info, i, &value) != SQLITE_OK || sqlite3_value_type(value) != type)
        return false;
    if (!is_number && (strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0 || plan_is_in(info, i)))
        return false;
    if (is_number && (sqlite3_value_int64(value) < 0 || sqlite3_value_int64(value) > TOP_MOST))
        return false;
    if (is_number)
        *rows += sqlite3_value_int64(value);
    plan->text[2 * plan->count] = sign;
    plan->text[2 * plan->count + 1] = (char)(PLAN_COLUMN_A + (is_number ? 0 : each->iColumn));
    plan->count++;
    return true;
}

/*
 * Plan to ask the view for the first few rows in an order: SQLite then keeps only these while it reads the trace, which
 * takes half as long as to check the trace for a stream, and less than to take each row from here.
 */
static bool
plan_top(struct plan *plan, sqlite3_index_info *info)
{
    int64_t rows = 0;
    bool limited = false;
    int at;

    for (int i = 0; i < info->nConstraint; i++) {
        limited = limited || info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_LIMIT;
        if (!top_take(plan, info, i, &rows))
            return false;
    }
    if (!limited || rows > TOP_MOST || info->nOrderBy < 1 || info->nOrderBy > EVENT_COLUMNS)
        return false;
    at = 2 * plan->count;
    plan->text[at++] = PLAN_BAR;
    for (int i = 0; i < info->nOrderBy; i++) {
        if (info->aOrderBy[i].iColumn < 0)
            return false;
        plan->text[at++] = (char)(PLAN_COLUMN_A + info->aOrderBy[i].iColumn);
        plan->text[at++] = info->aOrderBy[i].desc ? '-' : '+';
    }
    for (int i = 0; i < info->nConstraint; i++)
        info->aConstraintUsage[i].argvIndex = i + 1;
    info->orderByConsumed = 1;
    info->estimatedRows = rows + 1;
    return true;
}
/* Plan to stream a few rows of all, where no order is asked: only the rows that these come from need be checked. */
static bool
plan_first(struct plan *plan, sqlite3_index_info *info)
{
    int64_t rows = 0;
    bool limited = false;

    for (int i = 0; i < info->nConstraint; i++) {
        char sign = top_operator(info->aConstraint[i].op);

        limited = limited || sign == PLAN_LIMIT;
        if ((sign != PLAN_LIMIT && sign != PLAN_OFFSET) || !top_take(plan, info, i, &rows))
            return false;
    }
    if (!limited || rows > TOP_MOST || info->nOrderBy > 0)
        return false;
    for (int i = 0; i < info->nConstraint; i++)
        info->aConstraintUsage[i].argvIndex = i + 1;
    info->estimatedRows = rows + 1;
    return true;
}
#else
/* Older versions tell nothing of LIMIT. */
static bool
plan_first(struct plan *plan, sqlite3_index_info *info)
{
    (void)plan;
    (void)info;
    return false;
}

static bool
plan_top(struct plan *plan, sqlite3_index_info *info)
{
    (void)plan;
    (void)info;
    return false;
}
#endif

/* Guess what a plan costs. A condition is worth the most where it saves reading the whole table. */
static void
plan_cost(const struct plan *plan, const struct events_table *table, sqlite3_index_info *info)
{
    const struct events_kind *kind = plan->kind;
    unsigned others = plan->equal & ~(1u << kind->layer_id | 1u << kind->kind);
    double rows = (double)table->rows;

    info->estimatedCost = rows;
    if ((info->idxNum & PLAN_ONE) != 0) {
        info->estimatedRows = 2;
        info->estimatedCost = 20;
        return;
    }
    if ((plan->equal & 1u << kind->layer_id) != 0)
        rows /= 4;
    if ((plan->equal & 1u << kind->kind) != 0)
        rows /= 2;
    for (unsigned i = 0; i < plan->ends; i++)
        rows /= 2;
    info->estimatedCost = info->estimatedCost / 2 + rows / 2;
    if (others != 0) {
        rows = rows / 100000 + 4;
        info->estimatedCost /= 10;
    }
    info->estimatedRows = (sqlite3_int64)rows + 1;
}

static int
events_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct events_table *table = (const struct events_table *)base;
    struct plan plan = { .kind = table->kind };
    uint64_t details = 0;

    plan_conditions(&plan, info);
    info->idxNum = plan_order(&plan, info);
    if (!table->kind->sums && (info->idxNum & PLAN_ONE) == 0) {
        struct plan top = { .kind = table->kind }, first = { .kind = table->kind };

        if (plan_top(&top, info)) {
            memcpy(plan.text, top.text, sizeof(plan.text));
            info->idxNum = PLAN_TOP;
        } else if (plan_first(&first, info)) {
            memcpy(plan.text, first.text, sizeof(plan.text));
            info->idxNum = PLAN_FIRST;
        }
    }
    for (int i = 0; !table->kind->sums && i < EVENT_COLUMNS; i++)
        details |= EVENT_IS_DETAIL(i) ? UINT64_C(1) << i : 0;
    if ((info->colUsed & details) != 0)
        info->idxNum |= PLAN_DETAILS;
    info->idxNum |= (int)(info->colUsed & ((1u << EVENT_COLUMNS) - 1)) * PLAN_USED;
    if ((info->idxNum & (PLAN_TOP | PLAN_FIRST)) == 0)
        plan_cost(&plan, table, info);
    else
        info->estimatedCost = (info->idxNum & PLAN_TOP) != 0 ? (double)table->rows : (double)info->estimatedRows;
    info->idxStr = sqlite3_mprintf("%s", plan.text);
    info->needToFreeIdxStr = 1;
    return info->idxStr != NULL ? SQLITE_OK : SQLITE_NOMEM;
}

static int
events_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    struct events_cursor *cursor = calloc(1, sizeof(*cursor));

    (void)base;
    if (cursor == NULL)
        return SQLITE_NOMEM;
    cursor->stream.at_end = true;
    *out = &cursor->base;
    return SQLITE_OK;
}

/* Take the statement with `key` from those that the table keeps. NULL: there is none. */
static sqlite3_stmt *
kept_take(struct events_table *table, const char *key)
{
    for (size_t i = 0; i < KEPT_MOST; i++) {
        sqlite3_stmt *rows = table->kept[i].rows;

        if (rows == NULL || strcmp(table->kept[i].key, key) != 0)
            continue;
        table->kept[i].rows = NULL;
        return rows;
    }
    return NULL;
}

/* Keep a statement if it has a key and there is room; else end it. */
static void
kept_give(struct events_table *table, const struct kept *done)
{
    size_t i = 0;

    while (i < KEPT_MOST && table->kept[i].rows != NULL)
        i++;
    if (i == KEPT_MOST || done->key[0] == '\0') {
        sqlite3_finalize(done->rows);
        return;
    }
    sqlite3_reset(done->rows);
    table->kept[i] = *done;
}

/* End what the cursor reads. */
static void
cursor_stop(struct events_cursor *cursor)
{
    struct events_table *table = (struct events_table *)cursor->base.pVtab;

    kept_give(table, &cursor->rows);
    event_stream_close(&cursor->stream);
    free(cursor->sums);
    *cursor = (struct events_cursor){ .base = cursor->base, .stream = { .at_end = true } };
}

static int
events_close(sqlite3_vtab_cursor *base)
{
    struct events_cursor *cursor = (struct events_cursor *)base;

    cursor_stop(cursor);
    free(cursor);
    return SQLITE_OK;
}

/* Check the trace, once, or once more with the details. */
static int
events_check(struct events_table *table, bool details)
{
    int code;

    if (table->checked && (!details || table->check.details))
        return SQLITE_OK;
    code = event_check(table->db, details, INT64_MAX, &table->check);
    table->checked = code == SQLITE_OK;
    return events_failed(table, code);
}

/* Step a statement of the trace. */
static int
events_step(struct events_table *table, sqlite3_stmt *rows)
{
    int code = sqlite3_step(rows);

    return code == SQLITE_ROW || code == SQLITE_DONE ? code : events_failed(table, code);
}

/* Add a row to the table's copy. */
static int
copy_row(sqlite3_stmt *to, sqlite3_stmt *from, int columns)
{
    int code = SQLITE_OK;

    for (int i = 0; i < columns && code == SQLITE_OK; i++)
        code = sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
    if (code == SQLITE_OK)
        code = sqlite3_step(to);
    return code == SQLITE_DONE ? sqlite3_reset(to) : code;
}

/* The names of the columns, separated by commas. */
static void
copy_names(const struct events_kind *kind, char *out, size_t size)
{
    size_t length = 0;

    for (int i = 0; i < kind->column_count; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s", i > 0 ? ", " : "", kind->names[i]);
}

/* Fill the copy with all rows of the table, in its order. */
static int
copy_fill(struct events_table *table, sqlite3 *copy)
{
    const struct events_kind *kind = table->kind;
    sqlite3_stmt *from = NULL;
    sqlite3_stmt *to = NULL;
    char sql[256];
    char names[160];
    int code;

    copy_names(kind, names, sizeof(names));
    snprintf(sql, sizeof(sql), "INSERT INTO copy VALUES (?%s)", kind->sums ? ",?,?,?,?,?" : ",?,?,?,?,?,?,?,?,?");
    code = sqlite3_prepare_v2(copy, sql, -1, &to, NULL);
    snprintf(sql, sizeof(sql), "SELECT %s FROM temp.%s", names, kind->view);
    if (code == SQLITE_OK)
        code = events_failed(table, sqlite3_prepare_v2(table->db, sql, -1, &from, NULL));
    while (code == SQLITE_OK && (code = events_step(table, from)) == SQLITE_ROW)
        code = copy_row(to, from, kind->column_count);
    sqlite3_finalize(from);
    sqlite3_finalize(to);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Keep the reason why there is no copy, such as a full disk, unless it is that of the trace. */
static int
copy_failed(struct events_table *table, sqlite3 *copy, int code)
{
    if (table->base.zErrMsg == NULL)
        table->base.zErrMsg = sqlite3_mprintf("no temporary copy of %s: %s", table->kind->view, sqlite3_errmsg(copy));
    return code;
}

/* Copy the table into a temporary database, which SQLite keeps in a file that has no name as soon as it is large. */
static int
copy_make(struct events_table *table)
{
    sqlite3 *copy = NULL;
    char names[160];
    char sql[512];
    int code = sqlite3_open_v2("", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

    copy_names(table->kind, names, sizeof(names));
    snprintf(sql, sizeof(sql),
             "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; CREATE TABLE copy(%s);"
             "BEGIN",
             names);
    if (code == SQLITE_OK)
        code = sqlite3_exec(copy, sql, NULL, NULL, NULL);
    table->copying = true;
    if (code == SQLITE_OK)
        code = copy_fill(table, copy);
    table->copying = false;
    if (code == SQLITE_OK)
        code = sqlite3_exec(copy, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        table->copy = copy;
        return code;
    }
    copy_failed(table, copy, code);
    sqlite3_close(copy);
    return code;
}

/* A condition of a question whose value is one that the copy has. */
struct condition {
    char relation;
    int column;
    sqlite3_value *value;
};

/* The conditions of a plan whose values are integers, or texts for the kind. The others are left to SQLite. */
static int
conditions_read(const struct events_kind *kind, const char *plan, sqlite3_value **values, struct condition *out)
{
    int count = 0;

    for (int i = 0; plan[2 * i] != '\0'; i++) {
        int column = plan[2 * i + 1] - PLAN_COLUMN_A;

        if (sqlite3_value_type(values[i]) == (column == kind->kind ? SQLITE_TEXT : SQLITE_INTEGER))
            out[count++] = (struct condition){ plan[2 * i], column, values[i] };
    }
    return count;
}

/* Append a column to a list. */
static void
copy_list(char *list, size_t size, const char *name, const char *direction)
{
    size_t length = strlen(list);

    snprintf(list + length, size - length, "%s%s%s", length > 0 ? ", " : "", name, direction);
}

/* Write the columns of the index that serves a question: those that equal a value, then the order of the rows. */
static void
copy_index_columns(const struct events_kind *kind, int plan, unsigned equal, char *out, size_t size)
{
    const int order[] = { kind->layer_id, kind->ns, kind->kind, kind->allocation_id };
    const char *direction = (plan & PLAN_BACKWARD) != 0 ? " DESC" : "";

    out[0] = '\0';
    for (int i = 0; i < kind->column_count; i++) {
        if ((equal & 1u << i) != 0)
            copy_list(out, size, kind->names[i], direction);
    }
    for (int i = (plan & PLAN_BY_LAYER) != 0 ? 0 : 1; i < 4; i++) {
        if ((equal & 1u << order[i]) == 0)
            copy_list(out, size, kind->names[order[i]], direction);
    }
}

/* Write the conditions as SQL, and note which columns equal a value. */
static unsigned
copy_where(const struct events_kind *kind, const struct condition *list, int count, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "1");
    unsigned equal = 0;

    for (int i = 0; i < count; i++) {
        length += (size_t)snprintf(out + length, size - length, " AND %s %s ?", kind->names[list[i].column],
                                   list[i].relation == '='   ? "="
                                   : list[i].relation == '<' ? "<="
                                                             : ">=");
        equal |= list[i].relation == '=' ? 1u << list[i].column : 0;
    }
    return equal;
}

/* Prepare a question to the copy, which gets an index for it where it has none. */
static int
copy_prepare(struct events_table *table, int plan, const struct condition *list, int count, sqlite3_stmt **out)
{
    const struct events_kind *kind = table->kind;
    bool as_it_is = count == 0 && (plan & (kind->sums ? PLAN_BY_LAYER : PLAN_BY_TIME | PLAN_ANY)) != 0;
    char names[160];
    char order[256];
    char where[512];
    char sql[1280];
    unsigned equal = copy_where(kind, list, count, where, sizeof(where));
    int code = SQLITE_OK;

    copy_names(kind, names, sizeof(names));
    copy_index_columns(kind, plan & ~PLAN_BACKWARD, equal, order, sizeof(order));
    snprintf(sql, sizeof(sql), "CREATE INDEX IF NOT EXISTS by_%x_%d ON copy(%s)", equal, (plan & PLAN_BY_LAYER) != 0,
             order);
    if (!as_it_is)
        code = sqlite3_exec(table->copy, sql, NULL, NULL, NULL);
    copy_index_columns(kind, plan, equal, order, sizeof(order));
    snprintf(sql, sizeof(sql), "SELECT %s FROM copy WHERE %s ORDER BY %s", names, where, as_it_is ? "rowid" : order);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(table->copy, sql, -1, out, NULL);
    return code == SQLITE_OK ? code : copy_failed(table, table->copy, code);
}

/* Ask the copy. */
static int
copy_ask(struct events_table *table, struct events_cursor *cursor, int plan, const struct condition *list, int count)
{
    struct kept *rows = &cursor->rows;
    int code = SQLITE_OK;

    snprintf(rows->key, sizeof(rows->key), "%d", plan);
    for (int i = 0; i < count; i++) {
        size_t length = strlen(rows->key);

        snprintf(rows->key + length, sizeof(rows->key) - length, "%c%c", list[i].relation,
                 PLAN_COLUMN_A + list[i].column);
    }
    rows->rows = kept_take(table, rows->key);
    if (rows->rows == NULL)
        code = copy_prepare(table, plan, list, count, &rows->rows);
    for (int i = 0; i < count && code == SQLITE_OK; i++)
        code = sqlite3_bind_value(rows->rows, i + 1, list[i].value);
    return code;
}

/* Whether to ask the copy, which is made where that is worth it, or where it alone has the order that is wanted. */
static int
copy_wanted(struct events_table *table, int plan, bool *wanted)
{
    bool needed = (plan & PLAN_BACKWARD) != 0;
    int code = SQLITE_OK;

    *wanted = false;
    if (table->copying || (plan & PLAN_ONE) != 0)
        return SQLITE_OK;
    if (table->streamed > 0 && table->copy == NULL)
        code = events_check(table, false);
    if (code == SQLITE_OK && table->copy == NULL && (needed || table->streamed > COPY_AFTER * table->check.events))
        code = copy_make(table);
    *wanted = table->copy != NULL;
    return code;
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

        copy_list(columns, sizeof(columns), wanted ? pair_columns[i].name : "NULL", "");
    }
    snprintf(sql, sizeof(sql), "SELECT %s FROM main.allocation%s", columns, one ? " WHERE allocation_id = ?" : "");
    return events_failed(table, sqlite3_prepare_v2(table->db, sql, -1, out, NULL));
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
    rows->rows = id != NULL ? kept_take(table, rows->key) : NULL;
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

    copy_names(kind, names, sizeof(names));
    copy_index_columns(kind, plan, 0, order, sizeof(order));
    snprintf(sql, sizeof(sql), "SELECT %s FROM main.%s ORDER BY %s", names, kind->view, order);
    cursor->source = CURSOR_STATEMENT;
    return events_failed(table, sqlite3_prepare_v2(table->db, sql, -1, &cursor->rows.rows, NULL));
}

static const char *
top_relation(char sign)
{
    switch (sign) {
    case 'g':
        return ">=";
    case 'l':
        return "<=";
    case '>':
        return ">";
    default:
        return sign == '<' ? "<" : "=";
    }
}

/* Write the conditions and the order of a plan for the first few rows as SQL. */
static void
top_sql(const struct events_kind *kind, const char *text, char *out, size_t size)
{
    const char *separator = " WHERE ";
    size_t length = strlen(out);

    for (; text[0] != PLAN_BAR; text += 2) {

        if (text[0] == PLAN_LIMIT || text[0] == PLAN_OFFSET)
            continue;
        length += (size_t)snprintf(out + length, size - length, "%s%s %s ?", separator,
                                   kind->names[text[1] - PLAN_COLUMN_A], top_relation(text[0]));
        separator = " AND ";
    }
    separator = " ORDER BY ";
    for (text++; text[0] != '\0'; text += 2) {
        length += (size_t)snprintf(out + length, size - length, "%s%s%s", separator,
                                   kind->names[text[0] - PLAN_COLUMN_A], text[1] == '-' ? " DESC" : "");
        separator = ", ";
    }
    snprintf(out + length, size - length, " LIMIT ?");
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
    top_sql(kind, text, sql, sizeof(sql));
    cursor->source = CURSOR_STATEMENT;
    code = events_failed(table, sqlite3_prepare_v2(table->db, sql, -1, &cursor->rows.rows, NULL));
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
    return events_failed(table, event_stream_open(&cursor->stream, table->db, &cursor->selection));
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
            return code == SQLITE_DONE ? SQLITE_OK : events_failed(table, code);
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
        code = events_step(table, cursor->rows.rows);
        table->streamed++;
    } else {
        code = sqlite3_step(cursor->rows.rows);
    }
    cursor->event.is_free = false;
    cursor->at_end = code != SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return SQLITE_OK;
    return copy_failed(table, sqlite3_db_handle(cursor->rows.rows), code);
}

static int
events_next(sqlite3_vtab_cursor *base)
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
        return events_failed(table, code);
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
    int code = copy_wanted(table, plan, &copied);

    if (code != SQLITE_OK)
        return code;
    if (copied) {
        cursor->source = CURSOR_STATEMENT;
        return copy_ask(table, cursor, plan, list, count);
    }
    if ((plan & PLAN_ANY) != 0)
        return pairs_ask(table, cursor, plan, NULL);
    code = events_check(table, (plan & PLAN_DETAILS) != 0);
    if (code != SQLITE_OK)
        return code;
    if (!table->check.regular || (table->kind->sums && table->check.layer_count > EVENT_LAYERS))
        return view_ask(table, cursor, plan);
    return stream_ask(table, cursor, plan, list, count);
}

static int
events_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc, sqlite3_value **values)
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
        code = events_ask(table, cursor, plan, list, conditions_read(table->kind, text, values, list));
    }
    if (code != SQLITE_OK || cursor->at_end)
        return code;
    return cursor->source == CURSOR_STREAM ? stream_step(table, cursor) : rows_step(table, cursor);
}

static int
events_eof(sqlite3_vtab_cursor *base)
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

static int
events_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
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

static int
events_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((const struct events_cursor *)base)->rowid;
    return SQLITE_OK;
}

static const sqlite3_module events_module = {
    .iVersion = 0,
    .xCreate = events_create,
    .xConnect = events_connect,
    .xBestIndex = events_best_index,
    .xDisconnect = events_disconnect,
    .xDestroy = events_disconnect,
    .xOpen = events_open,
    .xClose = events_close,
    .xFilter = events_filter,
    .xNext = events_next,
    .xEof = events_eof,
    .xColumn = events_column,
    .xRowid = events_rowid,
};

void
event_tables_add(const struct trace *trace)
{
    bool known = true;

    /* query_only holds for the temporary schema, too. */
    sqlite3_exec(trace->db, "PRAGMA query_only = OFF", NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof(events_kinds) / sizeof(events_kinds[0]); i++) {
        const struct events_kind *kind = &events_kinds[i];
        char sql[128];

        /* `usage` is made of `event`, which comes first. */
        known = known && view_is_known(trace, kind->view);
        if (!known ||
            sqlite3_create_module_v2(trace->db, kind->module, &events_module, (void *)kind, NULL) != SQLITE_OK)
            continue;
        snprintf(sql, sizeof(sql), "CREATE VIRTUAL TABLE temp.%s USING %s", kind->view, kind->module);
        sqlite3_exec(trace->db, sql, NULL, NULL, NULL);
    }
    sqlite3_exec(trace->db, "PRAGMA query_only = ON", NULL, NULL, NULL);
}
