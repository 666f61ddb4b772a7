/* The layout of a table on a screen: which columns are shown, in which order, and how wide the last may be. */
#ifndef VIEWER_OUTPUT_REPORT_LAYOUT_H
#define VIEWER_OUTPUT_REPORT_LAYOUT_H

#include "viewer/output/report-item.h"

struct report_layout {
    size_t *columns; /* owns; the columns of the item that are shown, from left to right */
    size_t count;
    size_t name_width; /* characters of the last column if it is a long name that must be wrapped; else 0 */
    bool *left_out;    /* owns; by column of the item: the terminal is too narrow for it */
};

/* Whether any column of the table is shown. */
bool report_layout_has_any(const struct report_item *item);

/* Lay a table out for a terminal of `screen` characters a line; 0: not a terminal. False: no memory. */
bool report_layout_make(const struct report_item *item, size_t screen, struct report_layout *out);

void report_layout_free(struct report_layout *layout);

#endif
