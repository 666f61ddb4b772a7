/* `tidemark export`: a trace in the formats of other tools. */
#include "config.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>

#include <tidemark/status.h>

#include "viewer/cli/command.h"
#include "viewer/export/export.h"
#include "viewer/cli/options.h"

/* In the order of EXPORT_FORMATS. */
static const struct {
    int (*run)(const struct export_job *export);
    bool compress;
} export_formats[] = {
    { export_csv, false },       { export_jsonl, false },      { export_rmm, false },  { export_chrome, false },
    { export_collapsed, false }, { export_speedscope, false }, { export_pprof, true },
};

#define EXPORT_FORMATS "csv|jsonl|rmm|chrome|collapsed|speedscope|pprof"

static const struct option_def export_defs[] = {
    { "format", 'f', OPTION_CHOICE, "FORMAT", "csv, jsonl, rmm, chrome, collapsed, speedscope or pprof",
      offsetof(struct export_options, format), EXPORT_FORMATS, 0 },
    { "output", 'o', OPTION_TEXT, "FILE", "write to FILE; else to standard output",
      offsetof(struct export_options, output), NULL, 0 },
    { "weight", 'w', OPTION_CHOICE, "WEIGHT", "of collapsed: bytes live at the peak, live at the end, or allocated",
      offsetof(struct export_options, weight), "peak|live|allocated", 0 },
    { "lifetimes", 0, OPTION_FLAG, NULL, "of chrome: a slice for each allocation",
      offsetof(struct export_options, lifetimes), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

const char *
export_status(int64_t status)
{
    return tide_status_name(status >= 0 && status <= INT_MAX ? (enum tide_status)status : (enum tide_status)INT_MAX);
}

uint64_t
export_thread(const struct export_job *export, int64_t thread_id)
{
    const struct name *thread = names_find(&export->view->names.threads, thread_id);

    return (uint64_t)(thread != NULL ? thread->number : thread_id);
}

uint64_t
export_stream(const struct export_job *export, int64_t stream_id)
{
    const struct name *stream = names_find(&export->view->names.streams, stream_id);

    return (uint64_t)(stream != NULL ? stream->number : stream_id);
}

bool
export_takes(const struct export_job *export, const struct scan_life *life)
{
    struct scan_life own = *life;

    return life->alloc_ns >= export->view->filter.from_ns && filter_takes(&export->view->filter, &own);
}

static int
export_run(const struct command *self, int argc, char **argv)
{
    struct export_options own = { 0 };
    struct view_options options;
    struct view view;
    struct emit out;
    struct export_job export = { .view = &view, .out = &out, .options = &own };
    int status;

    options_defaults(&options);
    options.report.no_pager = true;
    status = options_parse_arguments(self, argc, argv, &own, &options, 1, "trace");
    if (status != OPTIONS_GO)
        return status;
    status = view_open(&view, self->name, &options, argv[optind]);
    if (status != COMMAND_FINE)
        return status;
    status = emit_open(&out, own.output, export_formats[own.format].compress);
    if (status == COMMAND_FINE)
        status = emit_close(&out, export_formats[own.format].run(&export));
    return view_finish(&view, status);
}

const struct command command_export = {
    .name = "export",
    .arguments = "[OPTIONS] TRACE",
    .purpose = "Write a trace in the format of another tool",
    .help = "\n  csv         a row for each allocation, with its whole life\n"
            "  jsonl       the same as JSON, an object to a line\n"
            "  rmm         the log of RMM's logging adaptor, which `tidemark replay` and `import` read\n"
            "  chrome      for Perfetto and chrome://tracing: counters, driver calls, marks\n"
            "  collapsed   a line for each call stack, or tag, with its weight: for flame graphs\n"
            "  speedscope  the same for speedscope.app, with every weight\n"
            "  pprof       the same for `go tool pprof`, with every weight, compressed with gzip\n",
    .options = export_defs,
    .common = OPTIONS_FILTER,
    .run = export_run,
};
