/* What a replay came to, for people and for programs. */
#ifndef VIEWER_REPLAY_OUTPUT_H
#define VIEWER_REPLAY_OUTPUT_H

#include "viewer/replay/run.h"
#include "viewer/replay/stack-report.h"

/*
 * Print on standard output, as one JSON object where `json` says so; `text` is the stack's, and may be NULL.
 * COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int replay_output(const struct replay *replay, const struct stack_report *report, const char *text, bool json);

#endif
