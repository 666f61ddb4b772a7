/* `tidemark stack`: checks stack text, and prints it with the defaults filled in. */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "viewer/base/output.h"
#include "viewer/cli/options.h"
#include "viewer/commands/commands.h"
#include "viewer/output/report.h"

static int
stack_json(const char *text, const char *full)
{
    const struct report_options options = { .format = REPORT_JSON };
    struct report report;
    int status;

    report_begin(&report, &options, "stack");
    report_field(&report, "text", NULL, REPORT_TEXT, cell_text(text));
    report_field(&report, "full", NULL, REPORT_TEXT, cell_text(full));
    status = report_print(&report, COMMAND_FINE);
    report_end(&report);
    return status;
}

/* Print the text a line at a time, because a path in it may hold control characters. */
static void
stack_print(const char *full)
{
    for (; *full != '\0'; full += full[0] == '\n') {
        size_t length = strcspn(full, "\n");

        output_text(stdout, full, length);
        fputc('\n', stdout);
        full += length;
    }
}

static int
stack_check(const char *text, const char *subject, bool json)
{
    char *full = NULL;
    size_t needed;
    int status;

    if (tide_stack_check(text, NULL, 0, &needed) != TIDE_OK) {
        fprintf(stderr, "tidemark stack: %s%s\n", subject, tide_error_text());
        return COMMAND_WRONG;
    }
    full = malloc(needed + 1);
    if (full == NULL || tide_stack_check(text, full, needed + 1, NULL) != TIDE_OK) {
        fputs("tidemark stack: no memory\n", stderr);
        status = COMMAND_WRONG;
    } else if (json) {
        status = stack_json(text, full);
    } else {
        stack_print(full);
        status = output_finish(COMMAND_FINE);
    }
    free(full);
    return status;
}

struct stack_options {
    bool json;
};

static const struct option_def stack_defs[] = {
    { "json", 'j', OPTION_FLAG, NULL, "print one JSON object", offsetof(struct stack_options, json), NULL, 0 },
    { NULL, 0, 0, NULL, NULL, 0, NULL, 0 },
};

static int
stack_run(const struct command *self, int argc, char **argv)
{
    const char *text = getenv("TIDEMARK_STACK");
    const char *subject = "TIDEMARK_STACK: ";
    struct stack_options options = { 0 };
    struct view_options common;
    int status = options_parse(self, argc, argv, &options, &common);

    if (status != OPTIONS_GO)
        return status;
    if (argc - optind > 1)
        return command_misused(self, "one text at a time; put it in quotes, because it has blanks and bars");
    if (optind < argc) {
        text = argv[optind];
        subject = "";
    } else if (text == NULL || text[0] == '\0') {
        return command_misused(self, "which text? TIDEMARK_STACK is not set");
    }
    return stack_check(text, subject, options.json);
}

const struct command command_stack = {
    .name = "stack",
    .arguments = "[--json] [TEXT]",
    .purpose = "Check stack text, and print it with the defaults filled in",
    .help = "\nWithout TEXT it is that of TIDEMARK_STACK. Nothing is created. `tidemark help LAYER` explains a layer.\n",
    .options = stack_defs,
    .run = stack_run,
};
