/* `tidemark recover`: takes over what a program that was killed has left beside its trace. */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <jansson.h>
#include <tidemark/tidemark.h>

#include "viewer/cli/command.h"
#include "viewer/base/output.h"
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
    struct tide_trace_recovery found;
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

static int
recover_run(const struct command *self, int argc, char **argv)
{
    static const struct option options[] = {
        { "help", no_argument, NULL, 'h' },
        { "json", no_argument, NULL, 'j' },
        { NULL, 0, NULL, 0 },
    };
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "hj", options, NULL)) != -1) {
        switch (option) {
        case 'h':
            return command_help(self);
        case 'j':
            json = true;
            break;
        default:
            return COMMAND_WRONG;
        }
    }
    if (argc - optind != 1)
        return command_misused(self, "%s", argc == optind ? "which trace?" : "one trace at a time");
    return recover_trace(argv[optind], json);
}

const struct command command_recover = {
    .name = "recover",
    .arguments = "[--json] TRACE",
    .purpose = "Take over what a killed program has left beside its trace",
    .help = "  -j, --json  print one JSON object\n"
            "  -h, --help  print this\n",
    .run = recover_run,
};
