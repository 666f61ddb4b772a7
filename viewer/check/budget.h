/*
 * Budgets for a trace, from options or from a file with one a line, in the same words.
 *
 *     # for the nightly job
 *     max-peak 4GiB
 *     max-peak tag=train/forward:2GiB
 *     no-leaks
 *     suppressions known.txt
 *     baseline last-release.db
 *     tolerance 2%
 *
 * Paths in such a file start from its folder.
 */
#ifndef VIEWER_CHECK_BUDGET_H
#define VIEWER_CHECK_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum budget_kind {
    BUDGET_PEAK,
    BUDGET_RESERVED,
    BUDGET_FRAGMENTATION,
    BUDGET_ALLOCATIONS,
    BUDGET_FAILURES,
    BUDGET_LEAKS,
    BUDGET_BASELINE,
    BUDGET_SKEW,   /* of a job: the highest peak over the median of the ranks */
    BUDGET_GROWTH, /* of a job: by how much a rank may grow more than the median */
};

struct budget {
    enum budget_kind kind;
    char *tag;      /* owns; only allocations under this tag count; NULL: all */
    char *layer;    /* owns; likewise for a layer */
    char *memory;   /* owns; of a job: only this memory counts */
    uint64_t limit; /* bytes, or a count */
    double share;   /* BUDGET_FRAGMENTATION, BUDGET_SKEW */
    char *path;     /* owns; BUDGET_BASELINE */
};

struct budgets {
    struct budget *list; /* owns */
    size_t count;
    size_t capacity;
    double tolerance;   /* of all baselines */
    bool even_killed;   /* judge leaks although the program was killed, or still runs */
    char *suppressions; /* owns; the path of a file; NULL: none */
    char wrong[160];    /* the text that budgets_set returns for a share */
};

/*
 * Add one setting: "max-peak" and "4GiB", or "no-leaks" and "". `folder` (NULL: none) is prepended to a relative path.
 * Returns NULL, or what was expected instead: a text that holds until the next call.
 */
const char *budgets_set(struct budgets *self, const char *word, const char *value, const char *folder);

/* Add the settings of the file at `path`. COMMAND_FINE, or COMMAND_WRONG after a message. */
int budgets_read(struct budgets *self, const char *path);

void budgets_free(struct budgets *self);

/* "max-peak tag=train/forward", in `buffer`. */
const char *budget_name(const struct budget *budget, char *buffer, size_t size);

/* Whether a trace alone has nothing that the budget could be judged by. */
bool budget_is_of_job(const struct budget *budget);

#endif
