/*
 * Reads the rows of `allocation`, checked, in the order in which they began, and no columns but those that are needed.
 */
#ifndef VIEWER_READ_ROWS_H
#define VIEWER_READ_ROWS_H

#include <stdbool.h>

#include "viewer/read/scan.h"

/*
 * What takes the rows. Each function returns COMMAND_FINE, or another exit status after a message, which ends the
 * reading.
 */
struct reading_taker {
    void *context;
    int (*begin)(void *context, bool sorted); /* may come twice: what came before the second is void */
    int (*row)(void *context, const struct scan_life *life);
    int (*end)(void *context);
};

/*
 * Give all rows of `trace` to `taker`, with the columns of `needs` (SCAN_*).
 *
 * They are read in the order of allocation_id, which is that of alloc_ns. A file in which it is not is read again,
 * `sorted` by SQLite: rows of one time stand in the order of allocation_id then, but their ids need not grow.
 * COMMAND_FINE, or another exit status after a message.
 */
int reading_run(const struct trace *trace, unsigned needs, const struct reading_taker *taker);

#endif
