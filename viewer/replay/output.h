/* Prints the result of a replay as text or JSON. */
#ifndef VIEWER_REPLAY_OUTPUT_H
#define VIEWER_REPLAY_OUTPUT_H

#include "viewer/replay/run.h"
#include "viewer/replay/stack-report.h"

/*
 * Print on standard output, as one JSON object if `json` is set. `text` is the stack text and may be NULL.
 * COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int replay_output(const struct replay *replay, const struct stack_report *report, const char *text, bool json);

#endif
