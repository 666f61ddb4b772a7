/* Judges whether the ranks of a job meet their budgets, from the file that `tidemark merge` has made. */
#ifndef VIEWER_CHECK_JOB_CHECK_H
#define VIEWER_CHECK_JOB_CHECK_H

#include "viewer/check/budget.h"
#include "viewer/check/result.h"
#include "viewer/read/trace.h"

/* The input of a check of a job. */
struct job_check {
    const struct trace *file;      /* borrows; of job_read */
    const struct budgets *budgets; /* borrows */
    const char *kind;              /* of groups: "tag", "function" or "class"; NULL: the first that a rank has */
    bool baseline_incomplete;      /* ranks of a baseline were missing or incomplete; a message was printed */
};

/*
 * Judge all budgets, which each rank has to keep by itself. `results` has one element for each budget; call check_free
 * for each on every return. COMMAND_FINE, or another status after a message.
 */
int job_check_judge(struct job_check *check, struct check_result *results);

/*
 * Why the file has not all of the job, in `buffer`: "ranks are missing: 5, 7-9"; NULL in *out: it has. COMMAND_FINE, or
 * COMMAND_WRONG after a message.
 */
int job_check_lacks(const struct trace *file, char *buffer, size_t size, const char **out);

#endif
