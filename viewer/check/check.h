/* Judges whether a trace keeps to a budget, and says in a few lines why it does not. */
#ifndef VIEWER_CHECK_CHECK_H
#define VIEWER_CHECK_CHECK_H

#include "viewer/check/budget.h"
#include "viewer/read/view.h"

/* A failure names its cause in so many lines. */
#define CHECK_LINES 5

struct check_result {
    const struct budget *budget; /* borrows */
    bool passed;
    uint64_t seen; /* in the unit of the budget's limit; of a baseline the peak of the trace */
    uint64_t limit;
    double seen_share;        /* BUDGET_FRAGMENTATION */
    char *lines[CHECK_LINES]; /* owns */
    size_t line_count;
};

/* What is judged with. */
struct check {
    const char *path;                     /* borrows; of the trace */
    const struct trace *trace;            /* borrows; open, and read through */
    const struct filter_options *options; /* borrows; what all budgets are filtered by */
    const struct budgets *budgets;        /* borrows */
    bool baseline_incomplete;             /* one of them was, as a message has said */
};

/*
 * Judge all budgets, which read the trace together. `results` has as many places as there are budgets; each is to be
 * freed on every return. COMMAND_FINE, or another status after a message.
 */
int check_judge(struct check *check, struct check_result *results);

void check_free(struct check_result *result);

/* Limit and value in words: "4 GiB", "10.0%", "3". */
const char *check_limit_words(const struct check_result *result, char *buffer, size_t size);
const char *check_seen_words(const struct check_result *result, char *buffer, size_t size);

#endif
