/* The tables of `tidemark peak` about a training step. */
#ifndef VIEWER_COMMANDS_TRAINING_H
#define VIEWER_COMMANDS_TRAINING_H

#include "viewer/analysis/peak.h"
#include "viewer/output/report.h"
#include "viewer/read/view.h"

/* Add what the memory of a step is at the moment of `peak`; tables without rows, if the trace has no training. */
int training_report(struct view *view, struct report *report, const struct peak *peak);

/* Whether it is a word of the column `kind` of that table. */
bool training_is_kind(const char *word);

#endif
