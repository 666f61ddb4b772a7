/* Sizes, shares, durations and moments as people type them: parsed in one place, the same for every command. */
#ifndef VIEWER_BASE_PARSE_H
#define VIEWER_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option was given, each time that it was given. */
#define OPTION_LIST_MAX 16

struct option_list {
    const char *items[OPTION_LIST_MAX]; /* borrow from argv */
    size_t count;
};

/* Where in a trace: a time, a share of its duration, an allocation, a mark, or the peak. */
enum moment_kind {
    MOMENT_NONE, /* nothing was said */
    MOMENT_TIME,
    MOMENT_SHARE,
    MOMENT_EVENT,
    MOMENT_MARK,
    MOMENT_PEAK,
};

struct moment {
    enum moment_kind kind;
    int64_t number;   /* ns since the start, or an allocation_id */
    double share;     /* 0 to 1 */
    const char *text; /* borrows; of a mark */
};

/* Each: whether all of `text` is one; *out is left alone where it is not. */

/* "4096", "64KiB", "1.5GiB", "64k": powers of 1024, at most 2^63 - 1 bytes. */
bool parse_size(const char *text, uint64_t *out);

/* "123" */
bool parse_count(const char *text, uint64_t *out);

/* "2%", "0.02" */
bool parse_share(const char *text, double *out);

/* "1500" (ns), "10us", "1.5ms", "2s", "3min" */
bool parse_duration(const char *text, int64_t *out);

/* A duration since the start, "50%", "#123" (allocation 123), "mark:TEXT" (the first of that text), "peak" */
bool parse_moment(const char *text, struct moment *out);

#endif
