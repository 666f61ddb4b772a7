/* The schema of a trace, format 1. */
#ifndef TIDEI_TRACE_DATABASE_SCHEMA_H
#define TIDEI_TRACE_DATABASE_SCHEMA_H

#include <stdbool.h>

#define TIDEI_TRACE_FORMAT 1

/* PRAGMA application_id of a trace: "TIDE". */
#define TIDEI_TRACE_APPLICATION_ID 0x54494445

/* SQL that creates all tables and views. */
extern const char tidei_trace_schema[];

enum tidei_column_type {
    TIDEI_COLUMN_ID,
    TIDEI_COLUMN_TEXT_ID,
    TIDEI_COLUMN_INTEGER,
    TIDEI_COLUMN_INTEGER_OR_NULL,
    TIDEI_COLUMN_ADDED,
    TIDEI_COLUMN_TEXT,
    TIDEI_COLUMN_TEXT_OR_NULL,
    TIDEI_COLUMN_ANY,
};

struct tidei_column {
    const char *name;
    enum tidei_column_type type;
};

struct tidei_table {
    const char *name;
    const struct tidei_column *columns;
    unsigned column_count;
    bool required;     /* commands refuse a trace without it, or without one of its columns that are not ADDED */
    const char *names; /* of all columns: "layer_id, limit_bytes" */
};

enum { TIDEI_TABLE_LATER, TIDEI_TABLE_REQUIRED };

/* TIDEI_TABLE_allocation: the number of a table. */
enum tidei_table_number {
#define TABLE(table, needed) TIDEI_TABLE_##table,
#define COLUMN(place, table, name, type)
#define END(table, rest)
#include "src/trace/database/columns.def"
    TIDEI_TABLES
};

/* TIDEI_allocation_free_ns: the number of a column in its table; TIDEI_allocation_columns: how many it has. */
/* clang-format off */
#define TABLE(table, needed) enum {
#define COLUMN(place, table, name, type) TIDEI_##table##_##name,
#define END(table, rest) TIDEI_##table##_columns };
#include "src/trace/database/columns.def"
/* clang-format on */

extern const struct tidei_table tidei_tables[TIDEI_TABLES];

/* The table of that name, ignoring case as SQL does; NULL if there is none. */
const struct tidei_table *tidei_table_find(const char *name);

#endif
