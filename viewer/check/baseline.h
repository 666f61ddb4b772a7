/* Whether what is judged is higher than a baseline, of two traces or of the files of two jobs. */
#ifndef VIEWER_CHECK_BASELINE_H
#define VIEWER_CHECK_BASELINE_H

#include "viewer/analysis/snapshot.h"
#include "viewer/check/result.h"

/* Judge the peak, and what was reserved, of each memory by itself; A is the baseline. Sets the figures of `out`. */
void baseline_judge(const struct snapshot_memories *memories, double tolerance, struct snapshot_worst *worst,
                    struct check_result *out);

/* Say by how much the worst figure is too high; or of what it is unknown whether it is. */
void baseline_say(const struct snapshot_memories *memories, double tolerance, const struct snapshot_worst *worst,
                  struct check_result *out);

#endif
