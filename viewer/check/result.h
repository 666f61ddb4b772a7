/* The result of a budget: its figures, and the lines that explain it. */
#ifndef VIEWER_CHECK_RESULT_H
#define VIEWER_CHECK_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "viewer/check/budget.h"

/* The most lines that explain a failure. */
#define CHECK_LINES 5

struct check_result {
    const struct budget *budget; /* borrows */
    bool passed;
    bool is_of_job; /* of the ranks of a job, and not of a trace */
    bool unknown;   /* the trace does not tell whether the budget is kept; then it has not passed */
    uint64_t seen;  /* in the unit of the budget's limit; of a baseline the peak of the trace */
    uint64_t limit;
    double seen_share;        /* BUDGET_FRAGMENTATION and BUDGET_SKEW */
    bool seen_unknown;        /* there is no figure: neither of the two holds */
    char *lines[CHECK_LINES]; /* owns */
    size_t line_count;
};

/* Add a line to the explanation. Without memory, only that line is missing. */
void check_say(struct check_result *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "1.2 GiB (30.0%) over the 4 GiB allowed", in `buffer`; a share that would read 0.0% is left out. */
const char *check_over(const struct check_result *result, char *buffer, size_t size);

/* Set the measured value, which passes up to the budget's limit. Returns COMMAND_FINE. */
int check_measured(struct check_result *out, uint64_t seen);

void check_free(struct check_result *result);

/* Whether the figures of the budget are shares, and not bytes or counts. */
bool check_is_share(const struct check_result *result);

/* "ok", "FAILED" or "UNKNOWN". */
const char *check_word(const struct check_result *result);

/* The limit and the measured value as text: "4 GiB", "10.0%", "3"; "-": there is none. */
const char *check_limit_words(const struct check_result *result, char *buffer, size_t size);
const char *check_seen_words(const struct check_result *result, char *buffer, size_t size);

#endif
