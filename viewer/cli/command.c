/* Runs a command: parses its arguments, opens the trace, and prints the answer. */
#include "config.h"

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/cli/command.h"

int
command_run(const struct command *command, int argc, char **argv)
{
    static const struct command_arguments trace = { 1, "which trace?", "one trace at a time" };
    const struct command_arguments *wanted = command->wanted != NULL ? command->wanted : &trace;
    struct invocation call = { .command = command };
    int status;

    assert(command->own_bytes <= sizeof(call.own));
    if (command->defaults != NULL)
        memcpy(call.own, command->defaults, command->own_bytes);
    status = options_parse(command, argc, argv, call.own, &call.common);
    if (status != OPTIONS_GO)
        return status;
    call.arguments = argv + optind;
    call.count = argc - optind;
    if (wanted->count >= 0 && call.count < wanted->count)
        return command_misused(command, "%s", wanted->missing);
    if (wanted->count >= 0 && call.count > wanted->count)
        return command_misused(command, "%s", wanted->excess);
    return command->run(&call);
}

int
command_answer(struct invocation *call)
{
    struct report report;
    struct view view;
    int status = view_open(&view, &call->common.filter, call->arguments[0]);

    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &call->common.report, call->command->name);
    return command_finish(&view, &report, call->command->analyse(&view, &report, call->own));
}

int
command_finish(struct view *view, struct report *report, int status)
{
    if (status == COMMAND_FINE || status == COMMAND_FINDING) {
        int verdict = trace_verdict(&view->trace);

        status = report_print(report, verdict != COMMAND_FINE ? verdict : status);
    }
    report_end(report);
    view_close(view);
    return status;
}

void
command_subject(struct report *report, const struct view *view)
{
    char *subject = view_subject(view);

    report_field(report, "of", "of", REPORT_TEXT, cell_text(subject));
    free(subject);
}

int
command_misused(const struct command *command, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "tidemark %s: ", command->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nUsage: tidemark %s %s\n", command->name, command->arguments);
    return COMMAND_WRONG;
}
