/* Reads and checks the rows of `allocation` in the order of their allocation time, with only the columns needed. */
#ifndef VIEWER_READ_ROWS_H
#define VIEWER_READ_ROWS_H

#include <stdbool.h>

#include "viewer/read/scan.h"

/*
 * The consumer of the rows. Each function returns COMMAND_FINE, or another exit status after a message, which ends the
 * reading.
 */
struct reading_taker {
    void *context;
    int (*begin)(void *context, bool sorted); /* a second call discards all rows before it */
    int (*row)(void *context, const struct scan_life *life);
    int (*end)(void *context);
};

/*
 * Pass all rows of `trace` to `taker`, with the columns of `needs` (SCAN_*).
 *
 * Rows are read in the order of allocation_id, which normally is the order of alloc_ns. If a row breaks that order, the
 * file is read again, sorted by SQLite by alloc_ns and then allocation_id; `begin` is then called with `sorted`, and
 * ids need not increase. COMMAND_FINE, or another exit status after a message.
 */
int reading_run(const struct trace *trace, unsigned needs, const struct reading_taker *taker);

#endif
