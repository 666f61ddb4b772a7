/* `tidemark report` of the file of a job. */
#ifndef VIEWER_COMMANDS_REPORT_JOB_H
#define VIEWER_COMMANDS_REPORT_JOB_H

#include "viewer/cli/command.h"
#include "viewer/report/block.h"

/* Whether the arguments are the file of a job, as a command decides that asks for no trace. */
bool report_is_job(const struct invocation *call);

/*
 * Write the manifest of its page into `blocks`, at a level of `--detail`. COMMAND_FINE, COMMAND_INCOMPLETE where ranks
 * are missing or incomplete, or COMMAND_WRONG, both after a message.
 */
int report_job_write(const struct invocation *call, int detail, bool no_names, struct blocks *blocks);

#endif
