/*
 * The formats of `tidemark export`: one file and one const entry each. Read csv.c first.
 */
#ifndef VIEWER_EXPORT_EXPORT_H
#define VIEWER_EXPORT_EXPORT_H

#include <stdbool.h>

#include "viewer/analysis/groups.h"
#include "viewer/cli/command.h"
#include "viewer/output/emit.h"
#include "viewer/read/view.h"

/* Every format, in the order of --help. The first is the default. */
#define EXPORT_FORMATS(each) each(csv) each(jsonl) each(rmm) each(chrome) each(collapsed) each(speedscope) each(pprof)

/* What a format groups by: see export_groups. */
#define EXPORT_GROUPS "callstack|function|file|tag"

/* The values of the options of all formats. */
struct export_options {
    int format;         /* the index in EXPORT_FORMATS */
    const char *output; /* NULL: standard output */
    int weight;         /* of collapsed: enum profile_weight */
    int by;             /* of formats that group: the place in EXPORT_GROUPS */
    bool lifetimes;     /* of chrome */
};

/* The input of an export; all pointers are borrowed. */
struct export_job {
    struct view *view;
    struct emit *out;
    const struct export_options *options;
};

struct export_format {
    const char *name;
    const char *purpose;              /* one line, for --help */
    const struct option_def *options; /* those that only this format looks at, in struct export_options; NULL: none */
    bool compress;                    /* the file is compressed with gzip */
    bool groups;                      /* by call stacks or tags: takes --by, --frames, --skip and --depth */
    int (*run)(const struct export_job *export); /* COMMAND_FINE, or COMMAND_WRONG after a message */
};

#define EXPORT_DECLARE(name) extern const struct export_format export_##name;
EXPORT_FORMATS(EXPORT_DECLARE)
#undef EXPORT_DECLARE

/* What --by names; without it call stacks, or tags where --depth is given. */
enum groups_by export_groups(const struct export_options *options, const struct filter_options *filter);

/* The name of a row's `status`: "TIDE_OK", or the error. */
const char *export_status(int64_t status);

/* The system's id of a thread, and the handle of a stream; the trace's own id if those are unknown. */
uint64_t export_thread(const struct export_job *export, int64_t thread_id);
uint64_t export_stream(const struct export_job *export, int64_t stream_id);

/* Whether an event that is not an allocation passes the filters; `life` has its known properties. */
bool export_takes(const struct export_job *export, const struct scan_life *life);

#endif
