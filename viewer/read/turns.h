/* Analyses of one trace that read it together. */
#ifndef VIEWER_READ_TURNS_H
#define VIEWER_READ_TURNS_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/read/view.h"

/*
 * An analysis, and what its filter lets pass. `next` says what it wants to see of the trace: at first, and again each
 * time that it has seen it; pass->unit stays NULL where it has seen all. COMMAND_FINE, or another status after a
 * message.
 */
struct turns {
    const struct filter *filter; /* borrows */
    int (*next)(void *context, struct scan_pass *pass);
    void *context;
    bool done;
};

/* Until all are done: as many readings of the trace as the longest of them takes turns. COMMAND_FINE, or another. */
int turns_run(const struct trace *trace, struct turns *list, size_t count);

/* One analysis, of what the filters of `view` take. */
int turns_run_one(struct view *view, int (*next)(void *context, struct scan_pass *pass), void *context);

#endif
