/* What a command that answers a question about one trace works with: the trace, its names, its filters, its report. */
#ifndef VIEWER_READ_VIEW_H
#define VIEWER_READ_VIEW_H

#include "viewer/read/filter.h"
#include "viewer/read/names.h"
#include "viewer/cli/options.h"
#include "viewer/output/report.h"
#include "viewer/read/scan.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace-open.h"

struct view {
    const struct view_options *options; /* borrows */
    struct trace trace;
    struct trace_layers layers;
    struct names names;
    struct filter filter;
    struct report report;
};

/* Open all of it. `path` and `options` are borrowed. COMMAND_FINE, or another status and there is nothing to close. */
int view_open(struct view *view, const char *command, const struct view_options *options, const char *path);

/* Run units over what the filters take. */
int view_scan(struct view *view, const struct scan_pass *passes, size_t pass_count);

/*
 * Where `status` is COMMAND_FINE or COMMAND_FINDING: say what the trace lacks, and print the report. Close in any case.
 * Returns the exit status.
 */
int view_finish(struct view *view, int status);

/* The lowest bound in bytes of the layers `limit` that what is looked at passes through; 0: there is none. */
uint64_t view_limit(const struct view *view);

/* "all of layer 1 log" and such: which allocations are looked at, to be freed; NULL: no memory. */
char *view_subject(const struct view *view);

/*
 * Run an analysis of one trace from the arguments of its command: parse, open, `analyse`, print, close. `own` has the
 * defaults of the command's own options.
 */
int view_run(const struct command *self, int argc, char **argv, void *own,
             int (*analyse)(struct view *view, const void *own));

#endif
