/*
 * Feeds rows to SQLite through virtual tables. One INSERT ... SELECT then writes a whole slice of the backlog, without
 * a statement and bindings for each row, at two to three times the rate of prepared inserts. The rows are read in
 * place, from the mapped backlog.
 *
 * A virtual table is one const struct tidei_bulk_table; everything else that SQLite needs for it is in bulk.c.
 */
#ifndef TIDEI_TRACE_DATABASE_BULK_H
#define TIDEI_TRACE_DATABASE_BULK_H

#include <stdbool.h>
#include <stddef.h>

#include <sqlite3.h>

#include "src/trace/database/database.h"
#include "src/trace/events/event-calls.h"

#define TIDEI_BULK_COLUMNS 20
_Static_assert(TIDEI_allocation_columns <= TIDEI_BULK_COLUMNS, "a row of allocation");
_Static_assert(TIDEI_driver_call_columns <= TIDEI_BULK_COLUMNS, "a row of driver_call");
_Static_assert(TIDEI_device_event_columns <= TIDEI_BULK_COLUMNS, "a row of device_event");

struct tidei_bulk_cursor {
    sqlite3_vtab_cursor base; /* first */
    struct tidei_database *database;
    const struct tidei_bulk_table *table;
    size_t row; /* from 0 */
    bool at_end;
    struct tidei_event_calls walk;      /* of tidei_bulk_calls */
    size_t next;                        /* of tidei_bulk_refusals: of the failed allocations */
    char text[TIDEI_REFUSAL_BYTES + 1]; /* of its row */
    struct tidei_value values[TIDEI_BULK_COLUMNS];
};

/* Set one value of the row: TIDEI_SET(cursor, mark, text, TIDEI_TEXT(text)). The values are those of insert.h. */
#define TIDEI_SET(cursor, table, column, ...)                                                                          \
    ((cursor)->values[TIDEI_##table##_##column] = (struct tidei_value)__VA_ARGS__)

struct tidei_bulk_table {
    const char *name;
    const char *verb;             /* "INSERT", "INSERT OR REPLACE" */
    enum tidei_table_number into; /* the table that gets the rows; the virtual table has its columns */
    /* Set all values of row cursor->row, which counts up from 0. False after the last row. */
    bool (*load)(struct tidei_bulk_cursor *cursor);
};

/* The allocations of this slice, and those of earlier slices that it ends. */
extern const struct tidei_bulk_table tidei_bulk_new;
extern const struct tidei_bulk_table tidei_bulk_closed;

/* Why allocations of this slice failed. */
extern const struct tidei_bulk_table tidei_bulk_refusals;

/* The driver calls within events, the driver calls outside of all logs, and the events of memory and pools. */
extern const struct tidei_bulk_table tidei_bulk_calls;
extern const struct tidei_bulk_table tidei_bulk_outside;
extern const struct tidei_bulk_table tidei_bulk_devices;

/* Register the virtual table, and prepare the statement that writes its rows. SQLite result codes. */
int tidei_bulk_register(struct tidei_database *database, const struct tidei_bulk_table *table);
int tidei_bulk_prepare(struct tidei_database *database, const struct tidei_bulk_table *table, sqlite3_stmt **out);

#endif
