/* `tidemark recover`: moves the ring files of a killed program into its trace. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/cli/answer.h"
#include "viewer/commands/commands.h"
#include "viewer/base/output.h"
#include "viewer/cli/options.h"
#include "viewer/read/trace.h"

static const char *
recover_state(enum tide_trace_state state)
{
    switch (state) {
    case TIDE_TRACE_RECORDING:
        return "recording";
    case TIDE_TRACE_RECOVERED:
        return "recovered";
    default:
        return "closed";
    }
}

static int
recover_json(const struct trace *trace, const struct tide_trace_recovery *found)
{
    const struct report_options options = { .format = REPORT_JSON };
    struct report report;
    int status;

    report_begin(&report, &options, "recover");
    report_field(&report, "state", NULL, REPORT_TEXT, cell_text(recover_state(found->state)));
    report_field(&report, "process", NULL, REPORT_COUNT, cell_unsigned(found->pid));
    report_field(&report, "records", NULL, REPORT_COUNT, cell_unsigned(found->events));
    report_field(&report, "complete", NULL, REPORT_FLAG, cell_flag(trace->complete));
    status = report_print(&report, COMMAND_FINE);
    report_end(&report);
    return status;
}

static void
recover_print(const struct trace *trace, const struct tide_trace_recovery *found)
{
    output_text(stdout, trace->path, strlen(trace->path));
    switch (found->state) {
    case TIDE_TRACE_RECORDING:
        printf(": process %" PRIu32 " still records: nothing was touched\n", found->pid);
        break;
    case TIDE_TRACE_RECOVERED:
        printf(": %" PRIu64 " records of process %" PRIu32 " were taken over%s\n", found->events, found->pid,
               trace->complete ? "" : "; its recording had ended early");
        break;
    default:
        printf(": nothing was left: the trace is %s\n",
               trace->complete ? "complete" : "cut off, and nothing is there of what it lacks");
        break;
    }
}

static int
recover_trace(const char *path, bool json)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    struct trace trace;
    int status;

    if (tide_trace_recover(path, &found) != TIDE_OK) {
        fprintf(stderr, "%s: not recovered: %s\n", path, tide_error_text());
        return COMMAND_WRONG;
    }
    /* It checks that there is a trace at all. */
    status = trace_open(path, &trace);
    if (status != COMMAND_FINE)
        return status;
    if (json) {
        status = recover_json(&trace, &found);
    } else {
        recover_print(&trace, &found);
        status = output_finish(COMMAND_FINE);
    }
    trace_close(&trace);
    return status;
}

struct recover_options {
    bool json;
};

static const struct option_def recover_defs[] = {
    { "json", 'j', OPTION_FLAG, NULL, "print one JSON object", offsetof(struct recover_options, json), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
recover_run(const struct command *self, int argc, char **argv)
{
    struct recover_options options = { 0 };
    struct view_options common;
    int status = options_parse_arguments(self, argc, argv, &options, &common, 1, "trace");

    return status == OPTIONS_GO ? recover_trace(argv[optind], options.json) : status;
}

const struct command command_recover = {
    .name = "recover",
    .arguments = "[--json] TRACE",
    .purpose = "Take over what a killed program has left beside its trace",
    .help = "",
    .options = recover_defs,
    .run = recover_run,
};
