/*
 * Inserts rows into the tables of a trace. A row is one value for each column, in the order of columns.def:
 *
 *     code = tidei_insert(&inserts, tag, TIDEI_NUMBER(tag_id), TIDEI_ID(parent_id), TIDEI_TEXT(name));
 *
 * Values that are not said are NULL.
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
    int64_t integer;  /* of a text: its length; -1: it ends in '\0' */
    const char *text; /* borrowed until the row is inserted; NULL is NULL */
};

/* clang-format off */
/*
 * NULL; an integer; an integer where the condition holds, else NULL; an integer where it is not 0, else NULL; a text
 * that ends in '\0'; a text of some bytes.
 */
#define TIDEI_NULL { TIDEI_VALUE_NULL, 0, NULL }
#define TIDEI_NUMBER(number) { TIDEI_VALUE_INTEGER, (int64_t)(number), NULL }
#define TIDEI_NUMBER_IF(condition, number) \
    { (condition) ? TIDEI_VALUE_INTEGER : TIDEI_VALUE_NULL, (int64_t)(number), NULL }
#define TIDEI_ID(number) TIDEI_NUMBER_IF((number) != 0, number)
#define TIDEI_TEXT(text) TIDEI_TEXT_OF(text, -1)
#define TIDEI_TEXT_OF(text, bytes) { TIDEI_VALUE_TEXT, (int64_t)(bytes), (text) }
/* clang-format on */

/* A prepared statement for each table but `status`. All zeros has none. */
struct tidei_inserts {
    sqlite3_stmt *rows[TIDEI_TABLES]; /* owned by the connection: closed with it, or by tidei_inserts_finalize */
};

/*
 * Prepare them. With `known_stay`, a row whose id the table already has is left out, and a key of `meta` gets its new
 * value; otherwise both are errors. An SQLite result code.
 */
int tidei_inserts_prepare(struct tidei_inserts *inserts, sqlite3 *db, bool known_stay);
void tidei_inserts_finalize(struct tidei_inserts *inserts);

/* Insert a row into the table named `table`. An SQLite result code. */
#define tidei_insert(inserts, table, ...)                                                                              \
    tidei_insert_row((inserts), TIDEI_TABLE_##table, (const struct tidei_value[TIDEI_##table##_columns]){ __VA_ARGS__ })
int tidei_insert_row(struct tidei_inserts *inserts, enum tidei_table_number table, const struct tidei_value *values);

/* Fill the table `status` with what this version of the library returns. An SQLite result code. */
int tidei_insert_statuses(sqlite3 *db);

/*
 * Prepare "INSERT_VERB INTO table(its columns) SOURCE", where SOURCE may be "SELECT * FROM other" or, with NULL, stands
 * for one parameter for each column. An SQLite result code.
 */
int tidei_insert_prepare(sqlite3 *db, const char *verb, enum tidei_table_number table, const char *source,
                         sqlite3_stmt **out);

#endif
