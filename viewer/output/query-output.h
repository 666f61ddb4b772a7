/* The rows of a question as a table, as CSV or as JSON. */
#ifndef VIEWER_OUTPUT_QUERY_OUTPUT_H
#define VIEWER_OUTPUT_QUERY_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include <sqlite3.h>

enum query_format {
    QUERY_TABLE, /* holds all rows, since widths depend on them */
    QUERY_CSV,
    QUERY_JSON,
};

struct query_output {
    enum query_format format;
    bool terminal;                /* standard output is one: control characters in CSV are escaped */
    struct libscols_table *table; /* owns; QUERY_TABLE */
    char **names;                 /* owns; QUERY_JSON: of the columns, each one different */
    int columns;
    size_t rows;
};

/* Each: COMMAND_FINE, or COMMAND_WRONG after a message. `statement` has not been stepped yet. */
int query_output_begin(struct query_output *output, enum query_format format, sqlite3_stmt *statement);
int query_output_row(struct query_output *output, sqlite3_stmt *statement);

/* Print what is left where `status` is COMMAND_FINE, and free everything in any case. */
int query_output_end(struct query_output *output, int status);

#endif
