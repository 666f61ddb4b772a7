/* What `tidemark ranks` answers, for another command. */
#ifndef VIEWER_COMMANDS_RANKS_H
#define VIEWER_COMMANDS_RANKS_H

#include "viewer/output/report.h"
#include "viewer/ranks/ranks.h"

/*
 * Fill `report`, which has begun, as `tidemark ranks` does. COMMAND_FINE; with a bound `max_skew` (less than 0: none)
 * also COMMAND_FINDING, and COMMAND_INCOMPLETE after a message. Of groups at most `most_groups` are listed.
 */
int ranks_answer(struct report *report, const struct ranks *ranks, double max_skew, uint64_t most_groups);

/* COMMAND_INCOMPLETE after a message where ranks are missing or incomplete; else COMMAND_FINE. */
int ranks_verdict(const struct ranks *ranks);

#endif
