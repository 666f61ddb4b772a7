/* The input of an analysis: a trace with its layers, its names, and the filter; and how analyses read it. */
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

/*
 * An analysis and its filter. `next` is called before each reading of the trace and sets pass->unit to the unit for
 * that reading. It leaves pass->unit NULL when the analysis is done. COMMAND_FINE, or another status after a message.
 */
struct view_analysis {
    const struct filter *filter; /* borrows */
    int (*next)(void *context, struct scan_pass *pass);
    void *context;
    struct scan_pass pass; /* of the current reading */
    bool done;
};

/*
 * Run analyses of one trace together, so that they share its readings: there are as many as the analysis with the most
 * units needs. COMMAND_FINE, or another status after a message.
 */
int view_run_analyses(const struct trace *trace, struct view_analysis *list, size_t count);

/*
 * Run one analysis with the filter of `view`, unless `status`, that of its beginning, is a failure. Calls `release` on
 * any failure. COMMAND_FINE, or another status.
 */
int view_run_analysis(struct view *view, int status, int (*next)(void *context, struct scan_pass *pass),
                      void (*release)(void *context), void *context);

void view_close(struct view *view);

/* The selected layers, and all below them. */
void view_covered(const struct view *view, struct trace_layer_set *out);

/* "live when it was killed": what is live at the end of the trace, or "live at the end" of a range of time. */
const char *view_live_words(const struct view *view);

/* Describe the selected allocations: "layer 1 log, tag step". The caller frees the text; NULL: no memory. */
char *view_subject(const struct view *view);

#endif
