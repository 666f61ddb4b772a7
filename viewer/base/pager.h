/* Shows text on a terminal through a pager where it is longer than the screen. */
#ifndef VIEWER_BASE_PAGER_H
#define VIEWER_BASE_PAGER_H

#include <stddef.h>

/*
 * Write `text` to standard output: as it is where that is no terminal, where it fits the screen, or where no pager is
 * found; else through TIDEMARK_PAGER, PAGER or less. A pager that is left early is no error.
 */
void pager_print(const char *text, size_t length);

#endif
