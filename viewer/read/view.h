/* What an analysis of one trace works with: the trace, its layers, its names, and what the filters take. */
#ifndef VIEWER_READ_VIEW_H
#define VIEWER_READ_VIEW_H

#include "viewer/read/filter.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace-open.h"

struct view {
    const struct filter_options *options; /* borrows */
    struct trace trace;
    struct trace_layers layers;
    struct names names;
    struct filter filter;
};

/* Open all of it. `path` and `options` are borrowed. COMMAND_FINE, or another status and there is nothing to close. */
int view_open(struct view *view, const struct filter_options *options, const char *path);

/* Run units over what the filters take. */
int view_scan(struct view *view, const struct scan_pass *passes, size_t pass_count);

void view_close(struct view *view);

/* The lowest bound in bytes of the layers `limit` that what is looked at passes through; 0: there is none. */
uint64_t view_limit(const struct view *view);

/* "all of layer 1 log" and such: which allocations are looked at, to be freed; NULL: no memory. */
char *view_subject(const struct view *view);

#endif
