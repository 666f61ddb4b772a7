/* `tidemark recover`: moves the ring files of a killed program into its trace. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tidemark/tidemark.h>

#include "viewer/base/message.h"
#include "viewer/base/file.h"
#include "viewer/base/shown.h"
#include "viewer/base/temporary.h"
#include "viewer/commands/commands.h"
#include "viewer/read/trace.h"

struct recover_options {
    const char *into; /* NULL: into the trace itself */
};

static void
recover_report_into(struct report *report, const char *into)
{
    char *name = into != NULL ? shown_copy(into) : NULL;

    if (name != NULL)
        report_lines(report, " is copied to %s", name);
    free(name);
}

/* For people: one line. `path`: the trace that was recovered, or copied where `into` is given. */
static void
recover_report_line(struct report *report, const char *name, const char *into, const struct trace *trace,
                    const struct tide_trace_recovery *found)
{
    char *path = shown_copy(name); /* it may hold control characters */

    report_lines(report, "%s", path != NULL ? path : "");
    free(path);
    recover_report_into(report, into);
    if (found->state == TIDE_TRACE_RECORDING)
        report_lines(report, ": process %" PRIu32 " still records: nothing was touched\n", found->pid);
    else if (found->state == TIDE_TRACE_RECOVERED)
        report_lines(report, ": %" PRIu64 " records of process %" PRIu32 " were taken over%s\n", found->events,
                     found->pid, trace->complete ? "" : "; the trace is incomplete");
    else
        report_lines(report, ": nothing was left: the trace is %s\n",
                     trace->complete ? "complete"
                     : trace->failed ? "incomplete, and nothing is there of what it lacks"
                                     : "cut off, and nothing is there of what it lacks");
}

/* Complete a copy of the trace, which gets its name then. */
static int
recover_copy(const char *path, const struct temporary *copy, const char *into, bool no_symbols,
             struct tide_trace_recovery *found)
{
    struct trace trace;
    struct stat info;

    if (lstat(path, &info) != 0) {
        message("%s: %s", path, strerror(errno));
        return COMMAND_WRONG;
    }
    if (!file_is_sqlite(path)) {
        message("%s: no trace: not an SQLite file", path);
        return COMMAND_WRONG;
    }
    if (tide_trace_copy(path, copy->path) != TIDE_OK || tide_trace_recover(copy->path, found) != TIDE_OK) {
        message("%s: not recovered into %s: %s", path, into, tide_error_text());
        return COMMAND_WRONG;
    }
    if (trace_open(copy->path, no_symbols, &trace) != COMMAND_FINE)
        return COMMAND_WRONG;
    trace_close(&trace);
    return COMMAND_FINE;
}

static int
recover_into(const char *path, const char *into, bool no_symbols, struct tide_trace_recovery *found)
{
    struct temporary copy;
    struct stat info;
    int status;

    if (lstat(into, &info) == 0) {
        message("%s: exists: it is not overwritten", into);
        return COMMAND_WRONG;
    }
    if (!temporary_open(&copy, into, "recover", 0600)) {
        message("%s: %s", into, strerror(errno));
        return COMMAND_WRONG;
    }
    status = recover_copy(path, &copy, into, no_symbols, found);
    if (status == COMMAND_FINE && !temporary_publish(&copy, into, false)) {
        message("%s: %s", into, strerror(errno));
        status = COMMAND_WRONG;
    }
    temporary_close(&copy);
    return status;
}

/* The trace itself, or the copy that is completed. */
static int
recover_files(const char *path, const struct recover_options *options, bool no_symbols,
              struct tide_trace_recovery *found)
{
    enum tide_status status;

    if (trace_is_gone(path))
        return COMMAND_WRONG;
    if (options->into != NULL)
        return recover_into(path, options->into, no_symbols, found);
    status = tide_trace_recover(path, found);
    if (status != TIDE_OK)
        trace_not_recovered(path, "not recovered", status);
    return status == TIDE_OK ? COMMAND_FINE : COMMAND_WRONG;
}

static int
recover_run(struct invocation *call)
{
    const struct recover_options *options = (const struct recover_options *)call->own;
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    const char *path = call->arguments[0];
    bool no_symbols = call->common.filter.no_symbols;
    struct report report;
    struct trace trace;
    int status = recover_files(path, options, no_symbols, &found);

    if (status != COMMAND_FINE)
        return status;
    /* This checks that there is a trace at all. */
    status = trace_open(options->into != NULL ? options->into : path, no_symbols, &trace);
    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &call->common.report, call->command->name);
    recover_report_line(&report, call->arguments[0], options->into, &trace, &found);
    if (options->into != NULL)
        report_field(&report, "into", NULL, REPORT_TEXT, cell_text(options->into));
    report_field(&report, "state", NULL, REPORT_TEXT,
                 cell_text(found.state == TIDE_TRACE_RECORDING   ? "recording"
                           : found.state == TIDE_TRACE_RECOVERED ? "recovered"
                                                                 : "closed"));
    report_field(&report, "pid", NULL, REPORT_COUNT, cell_unsigned(found.pid));
    report_field(&report, "records", NULL, REPORT_COUNT, cell_unsigned(found.events));
    report_field(&report, "complete", NULL, REPORT_FLAG, cell_unsigned(trace.complete));
    status = report_print(&report, COMMAND_FINE);
    report_end(&report);
    trace_close(&trace);
    return status;
}

static const struct option_def recover_defs[] = {
    { "into", 'i', OPTION_TEXT, "FILE",
      "make FILE, a complete copy, and leave TRACE as it is:\nwhere its disk is full or read-only",
      offsetof(struct recover_options, into), NULL, 0 },
    { 0 },
};

const struct command command_recover = {
    .name = "recover",
    .arguments = "[--into FILE] [--json] [--no-symbols] TRACE",
    .purpose = "Take over what a killed program has left beside its trace",
    .help = "",
    .options = recover_defs,
    COMMAND_OWN(struct recover_options, .into = NULL),
    .common = OPTIONS_JSON | OPTIONS_SYMBOLS,
    .run = recover_run,
};
