/* `tidemark stack`: checks stack text, and prints it with the defaults filled in. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/message.h"
#include "viewer/base/shown.h"
#include "viewer/commands/commands.h"

/* For people: the text a line at a time, because a path in it may hold control characters. */
static void
stack_report_lines(struct report *report, const char *full)
{
    while (*full != '\0') {
        size_t length = strcspn(full, "\n");
        char *line = strndup(full, length);
        char *clean = line != NULL ? shown_copy(line) : NULL;

        report_lines(report, "%s\n", clean != NULL ? clean : "");
        free(clean);
        free(line);
        full += length + (full[length] == '\n');
    }
}

static int
stack_report(struct invocation *call, const char *text, const char *full)
{
    struct report report;
    int status;

    report_begin(&report, &call->common.report, call->command->name);
    report_field(&report, "text", NULL, REPORT_TEXT, cell_text(text));
    report_field(&report, "full", NULL, REPORT_TEXT, cell_text(full));
    stack_report_lines(&report, full);
    status = report_print(&report, COMMAND_FINE);
    report_end(&report);
    return status;
}

/* `subject` begins the message. */
static int
stack_check(struct invocation *call, const char *text, const char *subject)
{
    char *full = NULL;
    size_t needed;
    int status;

    if (tide_stack_check(text, NULL, 0, &needed) != TIDE_OK) {
        message("tidemark stack: %s%s", subject, tide_error_text());
        return COMMAND_WRONG;
    }
    full = malloc(needed + 1);
    if (full != NULL && tide_stack_check(text, full, needed + 1, NULL) == TIDE_OK) {
        status = stack_report(call, text, full);
    } else {
        message("tidemark stack: no memory");
        status = COMMAND_WRONG;
    }
    free(full);
    return status;
}

static int
stack_run(struct invocation *call)
{
    const char *text = getenv("TIDEMARK_STACK");

    if (call->count > 1)
        return command_misused(call->command, "one text at a time; put it in quotes, because it has blanks and bars");
    if (call->count == 1)
        return stack_check(call, call->arguments[0], "");
    if (text == NULL || text[0] == '\0')
        return command_misused(call->command, "which text? TIDEMARK_STACK is not set");
    return stack_check(call, text, "TIDEMARK_STACK: ");
}

const struct command command_stack = {
    .name = "stack",
    .arguments = "[--json] [TEXT]",
    .purpose = "Check stack text, and print it with the defaults filled in",
    .help =
        "\nWithout TEXT it is that of TIDEMARK_STACK. Nothing is created. `tidemark help LAYER` explains a layer.\n",
    .wanted = &(const struct command_arguments){ .count = -1 },
    .common = OPTIONS_JSON,
    .run = stack_run,
};
