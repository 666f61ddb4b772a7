/* Explains in a few lines why a trace exceeds a budget: what exceeded it, by how much, and the cause. */
#ifndef VIEWER_CHECK_EXPLAIN_H
#define VIEWER_CHECK_EXPLAIN_H

#include "viewer/check/check.h"
#include "viewer/analysis/failures.h"
#include "viewer/analysis/fragment.h"
#include "viewer/analysis/leaks.h"
#include "viewer/analysis/peak.h"
#include "viewer/analysis/snapshot.h"

/* Each function adds lines to `out`, which already has the measured value. */
void check_explain_peak(const struct check *check, const struct peak *peak, struct check_result *out);
void check_explain_reserved(const struct check *check, const struct view *view, const struct fragment *fragment,
                            struct check_result *out);
void check_explain_allocations(const struct check *check, const struct leaks *leaks, struct check_result *out);
void check_explain_killed(const struct check *check, struct check_result *out);
void check_explain_leaks(const struct check *check, const struct leaks *leaks, struct check_result *out);
void check_explain_failures(const struct check *check, const struct failures *failures, struct check_result *out);
void check_explain_baseline(const struct check *check, const struct snapshot *a, const struct snapshot *b,
                            struct check_result *out);

#endif
