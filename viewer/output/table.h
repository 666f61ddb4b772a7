/* Prints tables of text for all commands, with libsmartcols. */
#ifndef VIEWER_OUTPUT_TABLE_H
#define VIEWER_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/output/emit.h"

struct libscols_table;
struct libscols_line;

struct table {
    struct libscols_table *columns; /* owns */
    struct libscols_line *row;      /* borrows; the current row */
    bool color;                     /* titles stand out */
    bool failed;                    /* no memory; table_end says so */
};

enum table_align {
    TABLE_LEFT,
    TABLE_RIGHT, /* for numbers */
    TABLE_LINES, /* left, and a newline in a cell begins a new line */
};

void table_begin(struct table *table, bool color);
void table_column(struct table *table, const char *title, enum table_align align);

/* Add a column for each word of `words`. A leading '>' marks a column of numbers. */
void table_columns(struct table *table, const char *words);

/* Begin a row of empty cells. */
void table_row(struct table *table);

/* Fill a cell of the current row; the text is copied. NULL leaves the cell empty. What is not shown as it is must be
   escaped (shown_copy) but for the line ends of TABLE_LINES. */
void table_cell(struct table *table, size_t column, const char *text);

/*
 * Write the table into `out` (NULL: nowhere), and free it. `trim` drops the blanks at line ends, which would make lines
 * wrap on a narrow terminal. False: no memory.
 */
bool table_end(struct table *table, struct emit *out, bool trim);

/*
 * The same for tables of which no column may be left out: on a terminal that is too narrow for them, each row is a
 * block of lines, "TITLE  cell", with an empty line between two rows.
 */
bool table_end_whole(struct table *table, struct emit *out);

#endif
