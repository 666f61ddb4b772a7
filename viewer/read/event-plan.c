/* Plans questions to the virtual tables of events. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "viewer/read/event-plan.h"

/* More rows than these are streamed: SQLite would hold them all while it looks for the first ones. */
#define TOP_MOST 10000

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

int
event_plan_make(sqlite3_vtab *base, sqlite3_index_info *info)
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

int
event_plan_conditions(const struct events_kind *kind, const char *plan, sqlite3_value **values, struct condition *out)
{
    int count = 0;

    for (int i = 0; plan[2 * i] != '\0'; i++) {
        int column = plan[2 * i + 1] - PLAN_COLUMN_A;

        if (sqlite3_value_type(values[i]) == (column == kind->kind ? SQLITE_TEXT : SQLITE_INTEGER))
            out[count++] = (struct condition){ plan[2 * i], column, values[i] };
    }
    return count;
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

void
event_plan_top_sql(const struct events_kind *kind, const char *text, char *out, size_t size)
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

void
event_plan_names(const struct events_kind *kind, char *out, size_t size)
{
    size_t length = 0;

    for (int i = 0; i < kind->column_count; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s", i > 0 ? ", " : "", kind->names[i]);
}

void
event_plan_list(char *list, size_t size, const char *name, const char *direction)
{
    size_t length = strlen(list);

    snprintf(list + length, size - length, "%s%s%s", length > 0 ? ", " : "", name, direction);
}

void
event_plan_order(const struct events_kind *kind, int plan, unsigned equal, char *out, size_t size)
{
    const int order[] = { kind->layer_id, kind->ns, kind->kind, kind->allocation_id };
    const char *direction = (plan & PLAN_BACKWARD) != 0 ? " DESC" : "";

    out[0] = '\0';
    for (int i = 0; i < kind->column_count; i++) {
        if ((equal & 1u << i) != 0)
            event_plan_list(out, size, kind->names[i], direction);
    }
    for (int i = (plan & PLAN_BY_LAYER) != 0 ? 0 : 1; i < 4; i++) {
        if ((equal & 1u << order[i]) == 0)
            event_plan_list(out, size, kind->names[order[i]], direction);
    }
}
