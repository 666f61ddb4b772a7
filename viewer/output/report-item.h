/* The items of a report, for the files that print it. */
#ifndef VIEWER_OUTPUT_REPORT_ITEM_H
#define VIEWER_OUTPUT_REPORT_ITEM_H

#include <string.h>

#include "viewer/output/report.h"

enum report_item_kind {
    REPORT_ITEM_FIELD, /* one cell */
    REPORT_ITEM_TABLE,
    REPORT_ITEM_NOTE,
    REPORT_ITEM_LINES,
};

struct report_item {
    enum report_item_kind kind;
    struct report_column field;    /* of a field: name, title and kind of its cell */
    const char *name;              /* of a table */
    const char *title;             /* of a table; NULL: none */
    struct report_column *columns; /* owns; NULL: a field */
    size_t column_count;
    struct report_cell *cells; /* owns, with their texts; row by row */
    size_t row_count;
    size_t cell_capacity;
    const char *spare; /* borrows; see report_spare; NULL: nothing */
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

#endif
