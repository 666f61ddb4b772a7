/* A command that answers a question about one trace: from its arguments to what it prints. */
#ifndef VIEWER_CLI_ANSWER_H
#define VIEWER_CLI_ANSWER_H

#include "viewer/cli/options.h"
#include "viewer/output/report.h"
#include "viewer/read/view.h"

/*
 * Run a command from its arguments: parse, open, `analyse`, print, close. `own` has the defaults of the command's own
 * options. `analyse` fills the report, and returns COMMAND_FINE, COMMAND_FINDING or another status after a message.
 */
int answer_run(const struct command *self, int argc, char **argv, void *own,
               int (*analyse)(struct view *view, struct report *report, const void *own));

/*
 * Where `status` is COMMAND_FINE or COMMAND_FINDING: say what the trace lacks, and print the report. Free the report
 * and close the view in any case. Returns the exit status.
 */
int answer_finish(struct view *view, struct report *report, int status);

/* Report as "of" which allocations are looked at. */
void answer_subject(struct report *report, const struct view *view);

#endif
