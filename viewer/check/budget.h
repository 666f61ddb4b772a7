/*
 * Budgets that a trace has to keep to: from options, or from a file with one to a line, in the same words.
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
};

struct budget {
    enum budget_kind kind;
    char *tag;      /* owns; of these allocations alone. NULL: of all */
    char *layer;    /* owns; as the tag */
    uint64_t limit; /* bytes, or a count */
    double share;   /* BUDGET_FRAGMENTATION */
    char *path;     /* owns; BUDGET_BASELINE */
};

struct budgets {
    struct budget *list; /* owns */
    size_t count;
    size_t capacity;
    double tolerance;   /* of all baselines */
    char *suppressions; /* owns; the path of a file; NULL: none */
};

/*
 * Take in one setting: "max-peak" and "4GiB", "no-leaks" and "". `folder` is put before a path that does not begin
 * with "/"; NULL: nothing is. NULL, or what was expected instead.
 */
const char *budgets_set(struct budgets *self, const char *word, const char *value, const char *folder);

/* Take in the file at `path`. COMMAND_FINE, or COMMAND_WRONG after a message. */
int budgets_read(struct budgets *self, const char *path);

void budgets_free(struct budgets *self);

/* "max-peak tag=train/forward", in `buffer`. */
const char *budget_name(const struct budget *budget, char *buffer, size_t size);

#endif
