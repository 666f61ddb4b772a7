/*
 * Feeds rows to SQLite through virtual tables, so that one INSERT ... SELECT writes a whole slice of the backlog:
 * without binding and without a statement for each row, at two to three times the rate of prepared inserts. Rows are
 * read where they lie, in the mapped backlog.
 *
 * A virtual table is one const struct tidei_bulk_table; everything that SQLite wants beyond that is in bulk.c.
 */
#ifndef TIDEI_TRACE_DATABASE_BULK_H
#define TIDEI_TRACE_DATABASE_BULK_H

#include <stdbool.h>
#include <stddef.h>

#include <sqlite3.h>

#include "src/trace/database/database.h"

struct tidei_bulk_cursor {
    sqlite3_vtab_cursor base; /* first */
    struct tidei_database *database;
    const struct tidei_bulk_table *table;
    size_t row; /* from 0 */
    bool at_end;
};

struct tidei_bulk_table {
    const char *name;
    const char *verb;             /* "INSERT", "INSERT OR REPLACE" */
    enum tidei_table_number into; /* the trace's table that gets the rows; the virtual table has the same columns */
    size_t cursor_bytes;          /* of the table's own cursor, which begins with a struct tidei_bulk_cursor */
    /* Whether there is anything to write. */
    bool (*any)(const struct tidei_database *database);
    /* Load the row of cursor->row, which is 0 and then one more each time. False: there is no such row. */
    bool (*load)(struct tidei_bulk_cursor *cursor);
    /* xColumn itself, so that a value costs no second call. */
    int (*column)(sqlite3_vtab_cursor *base, sqlite3_context *context, int column);
};

/* The allocations of this slice, and those of earlier ones that it ends. */
extern const struct tidei_bulk_table tidei_bulk_new;
extern const struct tidei_bulk_table tidei_bulk_closed;

/* The driver's calls within events and past all logs, and what happened to memory and pools. */
extern const struct tidei_bulk_table tidei_bulk_calls;
extern const struct tidei_bulk_table tidei_bulk_outside;
extern const struct tidei_bulk_table tidei_bulk_devices;

/* Make the virtual table known to the connection, and prepare the statement that writes its rows. SQLite's codes. */
int tidei_bulk_register(struct tidei_database *database, const struct tidei_bulk_table *table);
int tidei_bulk_prepare(struct tidei_database *database, const struct tidei_bulk_table *table, sqlite3_stmt **out);

/* Results of a column that are NULL for NULL, and for `none`. */
static inline void
tidei_bulk_text(sqlite3_context *context, const char *text)
{
    if (text != NULL)
        sqlite3_result_text(context, text, -1, SQLITE_STATIC);
}

static inline void
tidei_bulk_number(sqlite3_context *context, uint64_t number, uint64_t none)
{
    if (number != none)
        sqlite3_result_int64(context, (sqlite3_int64)number);
}

#endif
