/* Shows text that is longer than the screen through a pager. */
#ifndef VIEWER_BASE_PAGER_H
#define VIEWER_BASE_PAGER_H

#include <stddef.h>

/*
 * Write `text` to standard output through TIDEMARK_PAGER, PAGER or less. The text is written directly if standard
 * output is not a terminal, if the text fits the screen, or if there is no pager. Leaving the pager early is no error.
 */
void pager_print(const char *text, size_t length);

#endif
