/* Draws with block characters, or with plain ones where the terminal has no others. */
#ifndef VIEWER_OUTPUT_DRAWING_H
#define VIEWER_OUTPUT_DRAWING_H

#include <stdbool.h>
#include <stddef.h>

/* A bar of `width` characters and a share of it filled, in `buffer` of 3 bytes for each of them and 1 more. */
const char *drawing_bar(double share, size_t width, bool ascii, char *buffer);

/* Whether the locale has no block characters. */
bool drawing_is_ascii(void);

#endif
