/*
 * Makes the file of a job of the traces of its ranks. Processes read the traces side by side, and each writes what it
 * has found in one transaction. What a killed merge has written stays: the next one goes on with the rest.
 */
#ifndef VIEWER_RANKS_MERGE_H
#define VIEWER_RANKS_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/filter.h"

struct merge_options {
    const char *output;
    const char *steps; /* the pattern of the marks of steps; NULL: the text that most have */
    uint64_t jobs;     /* processes; 0: as many as there are processors */
};

/*
 * Merge `count` traces and folders of such. COMMAND_FINE: all is in, and complete. COMMAND_INCOMPLETE: something is
 * missing, as messages say. COMMAND_WRONG after a message.
 */
int merge_run(char *const *inputs, size_t count, const struct filter_options *filter,
              const struct merge_options *options);

#endif
