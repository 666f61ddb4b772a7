/* The input of an analysis: a trace with its layers, its names, and the filter. */
#ifndef VIEWER_READ_VIEW_H
#define VIEWER_READ_VIEW_H

#include "viewer/read/filter.h"
#include "viewer/read/names.h"
#include "viewer/read/scan.h"
#include "viewer/read/trace-layers.h"
#include "viewer/read/trace.h"

struct view {
    const struct filter_options *options; /* borrows */
    struct trace trace;
    struct trace_layers layers;
    struct names names;
    struct filter filter;
};

/* Open the trace at `path`. Both are borrowed. COMMAND_FINE, or another status and there is nothing to close. */
int view_open(struct view *view, const struct filter_options *options, const char *path);

/* Run units over the allocations that pass the filter. */
int view_scan(struct view *view, const struct scan_pass *passes, size_t pass_count);

void view_close(struct view *view);

/* The lowest bound, in bytes, of the `limit` layers below the selected layers; 0: there is none. */
uint64_t view_limit(const struct view *view);

/* Describe the selected allocations: "layer 1 log, tag step". The caller frees the text; NULL: no memory. */
char *view_subject(const struct view *view);

#endif
