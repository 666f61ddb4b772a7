/*
 * Reads the integers of a table's rows from the pages of its file, in the order of the rows' ids.
 *
 * SQLite's statements take much longer for a row of some integers than to find them in its page. What is read here is
 * what such a statement reads: pages through the connection's own file, under its own lock. All that is unusual is left
 * to SQLite: a write-ahead log, another kind of table or column, a value that is neither an integer nor NULL, a row
 * that does not fit into its page, and whatever does not look as the documentation of the format
 * (https://www.sqlite.org/fileformat2.html) says, so that SQLite finds what is damaged.
 */
#ifndef VIEWER_READ_TABLE_ROWS_H
#define VIEWER_READ_TABLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#define TABLE_ROWS_COLUMNS 32 /* of the table, up to the last one that is read */
#define TABLE_ROWS_DEPTH   20 /* as SQLite's */

/* A page on the way from the root to the row. */
struct table_page {
    const unsigned char *bytes;
    unsigned cell, cells; /* the next one, and their number */
    bool is_leaf;
};

struct table_rows {
    sqlite3_stmt *lock; /* owns; in the middle of what it reads, so that nobody writes the file */
    sqlite3_file *file; /* borrows */
    uint32_t page_bytes, usable_bytes;
    uint32_t page_count;
    uint32_t pages_left;            /* the pages that were not read yet, if each is read once */
    unsigned field_count;           /* up to the last column that is read */
    int fields[TABLE_ROWS_COLUMNS]; /* the place of each field among the columns; -1: not read */
    unsigned key;                   /* the place of the row's id */
    unsigned char *bytes;           /* owns; of a page at each depth */
    struct table_page path[TABLE_ROWS_DEPTH];
    unsigned depth;
};

enum table_row {
    TABLE_ROW,
    TABLE_END,
    TABLE_UNUSUAL, /* what follows, or all that was, is for SQLite */
};

/*
 * Begin to read `columns` of the table `table`, whose rows have their ids in the column `key`. False: that is for
 * SQLite. Call table_rows_close in any case.
 */
bool table_rows_open(struct table_rows *rows, sqlite3 *db, const char *table, const char *key,
                     const char *const *columns, unsigned column_count);

/* Read the next row: the values of the columns, NULL as 0, and a bit for each that is NULL. */
enum table_row table_rows_next(struct table_rows *rows, int64_t *values, uint32_t *nulls);

void table_rows_close(struct table_rows *rows);

#endif
