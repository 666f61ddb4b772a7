/* Runs a command that answers a question about one trace. */
#ifndef VIEWER_CLI_ANSWER_H
#define VIEWER_CLI_ANSWER_H

#include "viewer/cli/options.h"
#include "viewer/output/report.h"
#include "viewer/read/view.h"

/*
 * Parse the arguments, open the trace, call `analyse`, print the report, and close. `own` has the defaults of the
 * command's own options. `analyse` fills the report and returns COMMAND_FINE, COMMAND_FINDING, or another status after
 * a message.
 */
int answer_run(const struct command *self, int argc, char **argv, void *own,
               int (*analyse)(struct view *view, struct report *report, const void *own));

/*
 * If `status` is COMMAND_FINE or COMMAND_FINDING, warn about an incomplete trace and print the report. Always free the
 * report and close the view. Returns the exit status.
 */
int answer_finish(struct view *view, struct report *report, int status);

/* Add the field "of": a text that says which allocations the report covers. */
void answer_subject(struct report *report, const struct view *view);

#endif
