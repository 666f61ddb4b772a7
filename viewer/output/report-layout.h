/* How a table stands on a screen: which columns people see of it, in which order, and how wide the last may be. */
#ifndef VIEWER_OUTPUT_REPORT_LAYOUT_H
#define VIEWER_OUTPUT_REPORT_LAYOUT_H

#include "viewer/output/report-item.h"

struct report_layout {
    size_t *columns; /* owns; which of the item's columns people see, in their order */
    size_t count;
    size_t name_width; /* of the last column, which is a name, in characters; 0: as wide as it is */
    bool *left_out;    /* owns; by column of the item: what a wider terminal would show */
};

/* Whether people see anything of a table. */
bool report_layout_has_any(const struct report_item *item);

/* Lay a table out for a terminal of `screen` characters a line; 0: not a terminal. False: no memory. */
bool report_layout_make(const struct report_item *item, size_t screen, struct report_layout *out);

void report_layout_free(struct report_layout *layout);

#endif
