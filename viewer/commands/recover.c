/* `tidemark recover`: takes over what a program that was killed has left beside its trace. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <jansson.h>
#include <tidemark/tidemark.h>

#include "viewer/commands/commands.h"
#include "viewer/base/output.h"
#include "viewer/cli/options.h"
#include "viewer/read/trace-open.h"

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

static json_t *
recover_json(const struct trace *trace, const struct tide_trace_recovery *found)
{
    json_t *object = json_object();

    json_object_set_new(object, "format_version", json_integer(1));
    json_object_set_new(object, "state", json_string(recover_state(found->state)));
    json_object_set_new(object, "process", json_integer(found->pid));
    json_object_set_new(object, "records", json_integer((json_int_t)found->events));
    json_object_set_new(object, "complete", json_boolean(trace->complete));
    return object;
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
        status = output_json(recover_json(&trace, &found), COMMAND_FINE);
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
