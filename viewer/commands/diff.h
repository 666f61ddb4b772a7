/* What `tidemark diff` answers, for another command. */
#ifndef VIEWER_COMMANDS_DIFF_H
#define VIEWER_COMMANDS_DIFF_H

#include "viewer/output/report.h"
#include "viewer/read/view.h"

/*
 * Fill `out`, which the caller ends with report_end in any case, as `tidemark diff` without options of its own does for
 * these traces. Their filters may be extended. COMMAND_FINE, COMMAND_FINDING, or another status after a message.
 */
int diff_answer(const struct view *a, const struct view *b, const struct report_options *options, struct report *out);

#endif
