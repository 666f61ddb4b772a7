/* Copies a virtual table of events, and asks the copy. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "viewer/read/event-copy.h"

/* A copy is made once so many times the rows of a table were read. Making it takes about as long as three readings. */
#define COPY_AFTER 3

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

    event_plan_names(kind, names, sizeof(names));
    snprintf(sql, sizeof(sql), "INSERT INTO copy VALUES (?%s)", kind->sums ? ",?,?,?,?,?" : ",?,?,?,?,?,?,?,?,?");
    code = sqlite3_prepare_v2(copy, sql, -1, &to, NULL);
    snprintf(sql, sizeof(sql), "SELECT %s FROM temp.%s", names, kind->view);
    if (code == SQLITE_OK)
        code = event_table_failed(table, sqlite3_prepare_v2(table->db, sql, -1, &from, NULL));
    while (code == SQLITE_OK && (code = event_table_step(table, from)) == SQLITE_ROW)
        code = copy_row(to, from, kind->column_count);
    sqlite3_finalize(from);
    sqlite3_finalize(to);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

int
event_copy_failed(struct events_table *table, sqlite3 *copy, int code)
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

    event_plan_names(table->kind, names, sizeof(names));
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
    event_copy_failed(table, copy, code);
    sqlite3_close(copy);
    return code;
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
    const char *as_it_lies = (plan & PLAN_BACKWARD) != 0 ? "rowid DESC" : "rowid";
    char names[160];
    char order[256];
    char where[512];
    char sql[1280];
    unsigned equal = copy_where(kind, list, count, where, sizeof(where));
    int code = SQLITE_OK;

    event_plan_names(kind, names, sizeof(names));
    event_plan_order(kind, plan & ~PLAN_BACKWARD, equal, order, sizeof(order));
    snprintf(sql, sizeof(sql), "CREATE INDEX IF NOT EXISTS by_%x_%d ON copy(%s)", equal, (plan & PLAN_BY_LAYER) != 0,
             order);
    if (!as_it_is)
        code = sqlite3_exec(table->copy, sql, NULL, NULL, NULL);
    event_plan_order(kind, plan, equal, order, sizeof(order));
    snprintf(sql, sizeof(sql), "SELECT %s FROM copy WHERE %s ORDER BY %s", names, where, as_it_is ? as_it_lies : order);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(table->copy, sql, -1, out, NULL);
    return code == SQLITE_OK ? code : event_copy_failed(table, table->copy, code);
}

int
event_copy_ask(struct events_table *table, int plan, const struct condition *list, int count, struct kept *rows)
{
    int code = SQLITE_OK;

    snprintf(rows->key, sizeof(rows->key), "%d", plan);
    for (int i = 0; i < count; i++) {
        size_t length = strlen(rows->key);

        snprintf(rows->key + length, sizeof(rows->key) - length, "%c%c", list[i].relation,
                 PLAN_COLUMN_A + list[i].column);
    }
    rows->rows = event_table_take(table, rows->key);
    if (rows->rows == NULL)
        code = copy_prepare(table, plan, list, count, &rows->rows);
    for (int i = 0; i < count && code == SQLITE_OK; i++)
        code = sqlite3_bind_value(rows->rows, i + 1, list[i].value);
    return code;
}

int
event_copy_wanted(struct events_table *table, int plan, bool *wanted)
{
    bool needed = (plan & PLAN_BACKWARD) != 0;
    int code = SQLITE_OK;

    *wanted = false;
    if (table->copying || (plan & PLAN_ONE) != 0)
        return SQLITE_OK;
    if (table->streamed > 0 && table->copy == NULL)
        code = event_table_check(table, false);
    if (code == SQLITE_OK && table->copy == NULL && (needed || table->streamed > COPY_AFTER * table->check.events))
        code = copy_make(table);
    *wanted = table->copy != NULL;
    return code;
}
