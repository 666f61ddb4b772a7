/* The items of a report, and the layout of its tables on a screen, for the files that print it. */
#ifndef VIEWER_OUTPUT_REPORT_ITEM_H
#define VIEWER_OUTPUT_REPORT_ITEM_H

#include <string.h>

#include "viewer/output/emit.h"
#include "viewer/output/report.h"

enum report_item_kind {
    REPORT_ITEM_FIELD, /* a column and a row */
    REPORT_ITEM_TABLE,
    REPORT_ITEM_NOTE,
    REPORT_ITEM_LINES,
};

#define REPORT_COLUMNS_MAX 32

struct report_item {
    enum report_item_kind kind;
    const char *name;                                 /* of a table */
    const char *title;                                /* of a table; NULL: none */
    struct report_column columns[REPORT_COLUMNS_MAX]; /* a field has one */
    size_t column_count;
    struct report_cell *cells; /* owns, with their texts; row by row */
    size_t row_count;
    size_t cell_capacity;
    bool absent;         /* a table that was not asked for; see report_no_table */
    uint64_t rest_count; /* of a table: rows that a limit left out */
    struct report_cell rest_bytes;
    const char *spare; /* borrows; see report_spare; NULL: nothing */
    const char *keep;  /* borrows; see report_keep; NULL: nothing */
    char *text;        /* owns; of a note or lines */
};

static inline bool
report_is_name(enum report_kind kind)
{
    return kind == REPORT_NAME || kind == REPORT_STACK;
}

/* Whether cells of this kind are aligned left. */
static inline bool
report_is_left(enum report_kind kind)
{
    return kind < REPORT_FIGURE || kind == REPORT_FLAG;
}

/* Whether --only lets the item be printed. */
static inline bool
report_shows(const struct report *report, const struct report_item *item)
{
    if (report->options.only == NULL)
        return true;
    return item->kind == REPORT_ITEM_TABLE && strcmp(report->options.only, item->name) == 0;
}

/* Mark the cells of a column of sizes that differ from another and would read the same. Without memory, none. */
void report_mark_exact(struct report_item *item, size_t column);

/* The layout of a table on a screen: which columns are shown, in which order, and how wide the last may be. */
struct report_layout {
    size_t columns[REPORT_COLUMNS_MAX]; /* of the item, those that are shown, from left to right */
    size_t count;
    size_t name_at;                    /* the place of a long text that must be wrapped; `count`: there is none */
    size_t name_width;                 /* its characters; 0: there is none */
    bool left_out[REPORT_COLUMNS_MAX]; /* by column of the item: the terminal is too narrow for it */
};

/* Lay a table out for a terminal of `screen` characters a line; 0: not a terminal. */
struct report_layout report_layout_make(const struct report_item *item, size_t screen);

/* Write the report in the table format. Sets out->failed if there is no memory. */
void report_write_table(const struct report *report, struct emit *out);

#endif
