/* The formats of `tidemark export`. */
#ifndef VIEWER_EXPORT_EXPORT_H
#define VIEWER_EXPORT_EXPORT_H

#include <stdbool.h>

#include "viewer/output/emit.h"
#include "viewer/read/view.h"

enum export_weight {
    EXPORT_PEAK,      /* bytes that were live at the peak */
    EXPORT_LIVE,      /* at the end */
    EXPORT_ALLOCATED, /* in all */
};

struct export_options {
    int format;
    int weight; /* enum export_weight, of the formats that have one only */
    bool lifetimes;
    const char *output; /* NULL: standard output */
};

/* What an export works with; all borrowed. */
struct export_job {
    struct view *view;
    struct emit *out;
    const struct export_options *options;
};

/* Each: COMMAND_FINE, or COMMAND_WRONG after a message. */
int export_rmm(const struct export_job *export);
int export_csv(const struct export_job *export);
int export_jsonl(const struct export_job *export);
int export_chrome(const struct export_job *export);
int export_collapsed(const struct export_job *export);
int export_speedscope(const struct export_job *export);
int export_pprof(const struct export_job *export);

/* What `status` of a row is called: TIDE_OK, or why it failed. */
const char *export_status(int64_t status);

/* The system's id of a thread and the handle of a stream; the trace's own id where it does not know more. */
uint64_t export_thread(const struct export_job *export, int64_t thread_id);
uint64_t export_stream(const struct export_job *export, int64_t stream_id);

/* Whether the filters take something that is no allocation, and at a time of its own: `life` as far as it is known. */
bool export_takes(const struct export_job *export, const struct scan_life *life);

#endif
