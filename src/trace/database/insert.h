/*
 * Inserts rows into the tables of a trace. A row is one value for each column, in the order of columns.def:
 *
 *     code = tidei_insert(&inserts, tag, TIDEI_NUMBER(tag_id), TIDEI_ID(parent_id), TIDEI_TEXT(name));
 *
 * Values that are not given are NULL.
 */
#ifndef TIDEI_TRACE_DATABASE_INSERT_H
#define TIDEI_TRACE_DATABASE_INSERT_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"

enum tidei_value_kind { TIDEI_VALUE_NULL, TIDEI_VALUE_INTEGER, TIDEI_VALUE_TEXT };

struct tidei_value {
    enum tidei_value_kind kind;
    int64_t integer;  /* for a text: its length; -1: NUL-terminated */
    const char *text; /* borrowed until the row is inserted; NULL is NULL */
};

/* clang-format off */
/*
 * In this order: NULL; an integer; an integer if the condition holds, else NULL; an integer if it is not 0, else NULL;
 * a NUL-terminated text; a text of `bytes` bytes.
 */
#define TIDEI_NULL { TIDEI_VALUE_NULL, 0, NULL }
#define TIDEI_NUMBER(number) { TIDEI_VALUE_INTEGER, (int64_t)(number), NULL }
#define TIDEI_NUMBER_IF(condition, number) \
    { (condition) ? TIDEI_VALUE_INTEGER : TIDEI_VALUE_NULL, (int64_t)(number), NULL }
#define TIDEI_ID(number) TIDEI_NUMBER_IF((number) != 0, number)
#define TIDEI_TEXT(text) TIDEI_TEXT_OF(text, -1)
#define TIDEI_TEXT_OF(text, bytes) { TIDEI_VALUE_TEXT, (int64_t)(bytes), (text) }
/* clang-format on */

/* A prepared statement for each table but `status`. Initialize to zeros. */
struct tidei_inserts {
    sqlite3_stmt *rows[TIDEI_TABLES]; /* owned; finalized with the connection, or by tidei_inserts_finalize */
};

/*
 * Prepare the statements. With `known_stay`, a row whose id the table already has is skipped, and an existing key of
 * `meta` gets the new value; otherwise both are errors. A count of a layer replaces the one before. Returns an SQLite
 * result code.
 */
int tidei_inserts_prepare(struct tidei_inserts *inserts, sqlite3 *db, bool known_stay);
void tidei_inserts_finalize(struct tidei_inserts *inserts);

/* Insert a row into the table named `table`. Returns an SQLite result code. */
#define tidei_insert(inserts, table, ...)                                                                              \
    tidei_insert_row((inserts), TIDEI_TABLE_##table, (const struct tidei_value[TIDEI_##table##_columns]){ __VA_ARGS__ })
int tidei_insert_row(struct tidei_inserts *inserts, enum tidei_table_number table, const struct tidei_value *values);

/* Fill the table `status` with this version's status codes. Returns an SQLite result code. */
int tidei_insert_statuses(sqlite3 *db);

/*
 * Prepare "VERB INTO table(its columns) SOURCE". `source` may be "SELECT * FROM other"; NULL stands for one parameter
 * for each column. Returns an SQLite result code.
 */
int tidei_insert_prepare(sqlite3 *db, const char *verb, enum tidei_table_number table, const char *source,
                         sqlite3_stmt **out);

#endif
