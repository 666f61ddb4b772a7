/* Runs a command that answers a question about one trace. */
#include "config.h"

#include <getopt.h>
#include <stdlib.h>

#include "viewer/cli/answer.h"
#include "viewer/cli/command.h"

int
answer_run(const struct command *self, int argc, char **argv, void *own,
           int (*analyse)(struct view *view, struct report *report, const void *own))
{
    struct view_options options;
    struct report report;
    struct view view;
    int status = options_parse_arguments(self, argc, argv, own, &options, 1, "trace");

    if (status != OPTIONS_GO)
        return status;
    status = view_open(&view, &options.filter, argv[optind]);
    if (status != COMMAND_FINE)
        return status;
    report_begin(&report, &options.report, self->name);
    return answer_finish(&view, &report, analyse(&view, &report, own));
}

int
answer_finish(struct view *view, struct report *report, int status)
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
answer_subject(struct report *report, const struct view *view)
{
    char *subject = view_subject(view);

    report_field(report, "of", "of", REPORT_TEXT, cell_text(subject));
    free(subject);
}
