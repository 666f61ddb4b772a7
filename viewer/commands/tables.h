/* Tables that several commands print. */
#ifndef VIEWER_COMMANDS_TABLES_H
#define VIEWER_COMMANDS_TABLES_H

#include "viewer/analysis/groups.h"
#include "viewer/analysis/top-lives.h"
#include "viewer/output/report.h"

/* The column "name" of a table with a row for each group. Its texts are constants. */
struct report_column report_group_column(enum groups_by by);

/* The table "blocks" of single allocations, which need SCAN_ORIGIN, SCAN_CALLER and SCAN_PLACE. */
void report_lives(struct report *report, const struct names *names, const struct top_lives *lives);

#endif
