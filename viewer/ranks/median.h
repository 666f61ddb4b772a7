/* What the median of all ranks of a job has: at its peak, and in each step. */
#ifndef VIEWER_RANKS_MEDIAN_H
#define VIEWER_RANKS_MEDIAN_H

#include <stddef.h>
#include <stdint.h>

#include "viewer/ranks/job.h"

/*
 * The median of values, which are put in another order: of an even number of them the lower one in the middle, so that
 * it is a figure that some rank has. 0: there are none.
 */
int64_t median_of(int64_t *values, size_t count);

/* Fill the tables of medians. COMMAND_FINE, or COMMAND_WRONG after a message. Within a transaction. */
int median_fill(struct job *job);

#endif
