/* Runs several analyses of one trace together, so that they share its readings. */
#ifndef VIEWER_READ_TURNS_H
#define VIEWER_READ_TURNS_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/read/view.h"

/*
 * An analysis and its filter. `next` is called before each reading of the trace and sets pass->unit to the unit for
 * that reading. It leaves pass->unit NULL when the analysis is done. COMMAND_FINE, or another status after a message.
 */
struct turns {
    const struct filter *filter; /* borrows */
    int (*next)(void *context, struct scan_pass *pass);
    void *context;
    bool done;
};

/*
 * Run all analyses. The trace is read as often as the analysis with the most turns needs. COMMAND_FINE, or another
 * status after a message.
 */
int turns_run(const struct trace *trace, struct turns *list, size_t count);

/*
 * Run one analysis with the filter of `view`, unless `status`, that of its beginning, is a failure. Calls `release` on
 * any failure. COMMAND_FINE, or another status.
 */
int turns_run_one(struct view *view, int status, int (*next)(void *context, struct scan_pass *pass),
                  void (*release)(void *context), void *context);

#endif
