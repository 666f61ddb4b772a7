/* Judges whether a trace meets its budgets, and explains in a few lines why not. */
#ifndef VIEWER_CHECK_CHECK_H
#define VIEWER_CHECK_CHECK_H

#include "viewer/check/result.h"
#include "viewer/read/view.h"

/* The input of a check. */
struct check {
    const char *path;                     /* borrows; of the trace */
    const struct trace *trace;            /* borrows; open, and read through */
    const struct filter_options *options; /* borrows; what all budgets are filtered by */
    const struct budgets *budgets;        /* borrows */
    int by;                               /* enum groups_by, of the explanations; -1: what the trace has */
    bool baseline_incomplete;             /* a baseline was incomplete; a message was printed */
};

/*
 * Judge all budgets in shared readings of the trace. `results` has one element for each budget; call check_free for
 * each on every return. COMMAND_FINE, or another status after a message.
 */
int check_judge(struct check *check, struct check_result *results);

/* Whether what is said of such a budget names groups, so that it matters what they are by. */
bool check_has_groups(enum budget_kind kind);

/* What of the input is incomplete. Each adds a failed test. */
struct check_lacks {
    const char *recording; /* borrows; why the trace or the job is incomplete; NULL: it is not */
    bool baseline;         /* a baseline is */
};

/* Write the results on standard output for test runners, as TAP or JUnit XML. -1: no memory. */
int check_write_tap(const struct trace *trace, const struct check_result *results, size_t count,
                    const struct check_lacks *lacks);
int check_write_junit(const struct trace *trace, const struct check_result *results, size_t count,
                      const struct check_lacks *lacks);

#endif
