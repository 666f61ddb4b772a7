/* Tables of text for people, with libsmartcols: the one way in which commands print them. */
#ifndef VIEWER_OUTPUT_TABLE_H
#define VIEWER_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/output/emit.h"

struct libscols_table;
struct libscols_line;

struct table {
    struct libscols_table *columns; /* owns */
    struct libscols_line *row;      /* borrows; the one that was begun last */
    bool color;                     /* titles stand out */
    bool failed;                    /* no memory: said by table_end */
};

enum table_align {
    TABLE_LEFT,
    TABLE_RIGHT, /* for numbers */
    TABLE_LINES, /* on the left, and a line end in a cell begins a new line */
};

void table_begin(struct table *table, bool color);
void table_column(struct table *table, const char *title, enum table_align align);

/* A column for each word of `words`; a word that begins with '>' is for numbers. */
void table_columns(struct table *table, const char *words);

/* Begin a row; its cells are empty. */
void table_row(struct table *table);

/* Fill a cell of that row; the text is copied. NULL leaves it empty. */
void table_cell(struct table *table, size_t column, const char *text);

/*
 * Write the table into `out` (NULL: nowhere), and free it. What is no printable character is escaped. `trim`: without
 * the blanks at the ends of lines, which would only break a narrow terminal's lines. False: no memory.
 */
bool table_end(struct table *table, struct emit *out, bool trim);

#endif
