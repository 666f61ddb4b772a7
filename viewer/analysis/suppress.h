/*
 * Suppressions: a file of patterns, one a line, for allocations that are known to stay live and not reported as leaks.
 *
 *     # the handles of the libraries
 *     callstack:cublasCreate|cudnnCreate
 *     tag:model/weights
 *     thread:loader*
 *     size:4096
 *
 * `tag`, `thread` and `callstack` match as the filters of those names do; `size` matches exactly.
 */
#ifndef VIEWER_ANALYSIS_SUPPRESS_H
#define VIEWER_ANALYSIS_SUPPRESS_H

#include "viewer/read/filter.h"

enum suppression_kind {
    SUPPRESS_TAG,
    SUPPRESS_THREAD,
    SUPPRESS_CALLSTACK,
    SUPPRESS_SIZE,
};

struct suppression {
    char *text; /* owns; the line */
    size_t line;
    enum suppression_kind kind;
    struct filter_set ids; /* of tags, threads or call stacks */
    uint64_t size;
    uint64_t bytes; /* of the matched allocations; counted by the caller, as `count` */
    uint64_t count;
};

struct suppress {
    struct suppression *list; /* owns */
    size_t count;
    size_t capacity;
    unsigned needs; /* SCAN_*: the columns that the patterns need */
};

/* Read the file at `path`; NULL: no patterns. COMMAND_FINE, or COMMAND_WRONG after a message. */
int suppress_read(const struct names *names, const char *path, struct suppress *out);

void suppress_free(struct suppress *self);

/* The first pattern that matches `life`; NULL: none does. */
struct suppression *suppress_find(const struct suppress *self, const struct scan_life *life);

#endif
