/* Text from elsewhere as it is shown to people: what a trace, a file or a command line brings is escaped. */
#ifndef VIEWER_BASE_SHOWN_H
#define VIEWER_BASE_SHOWN_H

#include <stddef.h>
#include <stdio.h>

/*
 * Write text from a file. What is not shown as it is (src/resource/visible.h) becomes \x1b, \u202e or \U000e0001, so
 * that no file can send escape sequences to a terminal, or make it show another text than there is.
 */
void shown_put(FILE *out, const char *text, size_t length);

/* The same into a copy, which the caller frees; NULL: no memory. */
char *shown_copy(const char *text);

/* The columns of a terminal that a text without control characters takes: 2 for a wide character, 0 for an accent. */
size_t shown_width(const char *text);

#endif
