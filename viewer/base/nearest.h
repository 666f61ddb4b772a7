/* Finds the word of a list that is nearest to a mistyped one, for "did you mean". */
#ifndef VIEWER_BASE_NEAREST_H
#define VIEWER_BASE_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *typed; /* borrows */
    const char *word;  /* borrows; the best so far; NULL: none is near */
    unsigned distance;
};

void nearest_begin(struct nearest *nearest, const char *typed);

/* Consider one word of the list. */
void nearest_try(struct nearest *nearest, const char *word);

#endif
