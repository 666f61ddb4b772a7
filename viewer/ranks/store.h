/* Writes the rollups of a rank into the file of its job. */
#ifndef VIEWER_RANKS_STORE_H
#define VIEWER_RANKS_STORE_H

#include "viewer/ranks/job.h"
#include "viewer/ranks/rollup.h"

/* The most failures and marks of a rank; `rank.failures` counts all of them. */
#define STORE_FAILURES 100
#define STORE_MARKS    1000

struct failures;

struct store_rank {
    int64_t rank;
    const char *trace; /* borrows; what tells this trace from others */
    const char *path;  /* borrows */
    const char *steps; /* borrows; the pattern of the marks of steps; NULL: by their text */
};

/*
 * Replace the rows of a rank, in one transaction. `failures` (NULL: none) are of the same trace. COMMAND_FINE, or
 * COMMAND_WRONG after a message: nothing has changed.
 */
int store_rank(struct job *job, const struct store_rank *who, struct rollup *rollup, const struct failures *failures);

#endif
