/* Draws a timeline with block characters, or with plain ones where the terminal has no others. */
#ifndef VIEWER_OUTPUT_DRAWING_H
#define VIEWER_OUTPUT_DRAWING_H

#include <stdbool.h>
#include <stdio.h>

#include "viewer/analysis/timeline.h"

/* What stands to the left of the columns, in characters. */
#define DRAWING_MARGIN 12

struct drawing_options {
    size_t height; /* rows */
    bool ascii;
    bool color;
};

/* A bar of `width` characters and a share of it filled, in `buffer` of 3 bytes for each of them and 1 more. */
const char *drawing_bar(double share, size_t width, bool ascii, char *buffer);

/* Whether the locale has no block characters. */
bool drawing_is_ascii(void);

/* Write the drawing, its axes and what its signs mean. */
void drawing_write(const struct timeline *timeline, const struct drawing_options *options, FILE *out);

#endif
