/* `tidemark recover`: moves the ring files of a killed program into its trace. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "viewer/base/output.h"
#include "viewer/commands/commands.h"
#include "viewer/read/trace.h"

/* For people: one line. */
static void
recover_report_line(struct report *report, const struct trace *trace, const struct tide_trace_recovery *found)
{
    char *path = output_clean(trace->path); /* it may hold control characters */

    report_lines(report, "%s", path != NULL ? path : "");
    free(path);
    if (found->state == TIDE_TRACE_RECORDING)
        report_lines(report, ": process %" PRIu32 " still records: nothing was touched\n", found->pid);
    else if (found->state == TIDE_TRACE_RECOVERED)
        report_lines(report, ": %" PRIu64 " records of process %" PRIu32 " were taken over%s\n", found->events,
                     found->pid, trace->complete ? "" : "; its recording had ended early");
    else
        report_lines(report, ": nothing was left: the trace is %s\n",
                     trace->complete ? "complete" : "cut off, and nothing is there of what it lacks");
}

static int
recover_run(struct invocation *call)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    const char *path = call->arguments[0];
    struct report report;
    struct trace trace;
    int status;

    if (tide_trace_recover(path, &found) != TIDE_OK) {
        fprintf(stderr, "%s: not recovered: %s\n", path, tide_error_text());
        return COMMAND_WRONG;
    }
    /* This checks that there is a trace at all. */
    status = trace_open(path, &trace);
    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &call->common.report, call->command->name);
    recover_report_line(&report, &trace, &found);
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

const struct command command_recover = {
    .name = "recover",
    .arguments = "[--json] TRACE",
    .purpose = "Take over what a killed program has left beside its trace",
    .help = "",
    .common = OPTIONS_JSON,
    .run = recover_run,
};
