/* How `summary` ends for the trace of an unmodified program: what was tracked, and what else its devices had in use. */
#ifndef VIEWER_COMMANDS_ACCOUNT_H
#define VIEWER_COMMANDS_ACCOUNT_H

#include "viewer/analysis/account.h"
#include "viewer/output/report.h"

/* The lines for people. Nothing where the trace is of a program with stacks of its own. */
void account_report(struct report *report, const struct account *account);

/* The tables for programs; empty likewise. */
void account_report_tables(struct report *report, const struct account *account);

#endif
