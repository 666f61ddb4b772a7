/* A table of single allocations, as `peak` and `leaks` print them. */
#ifndef VIEWER_ANALYSIS_LIVES_TABLE_H
#define VIEWER_ANALYSIS_LIVES_TABLE_H

#include "viewer/analysis/top-lives.h"
#include "viewer/read/view.h"

/* The table `blocks`. They need SCAN_ORIGIN, SCAN_CALLER and SCAN_PLACE. */
void lives_table(struct view *view, const struct top_lives *lives);

#endif
