/* Draws bars with block characters, or with ASCII where the locale has no block characters. */
#ifndef VIEWER_OUTPUT_DRAWING_H
#define VIEWER_OUTPUT_DRAWING_H

#include <stdbool.h>
#include <stddef.h>

/* A bar of `width` characters, `share` of it filled. `buffer` has 3 * width + 1 bytes. */
const char *drawing_bar(double share, size_t width, bool ascii, char *buffer);

/* Whether the locale has no block characters. */
bool drawing_is_ascii(void);

#endif
