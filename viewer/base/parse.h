/* Parses counts, sizes, shares and moments of the command line, and corrects mistyped words. */
#ifndef VIEWER_BASE_PARSE_H
#define VIEWER_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The arguments of an option that may be repeated. */
#define OPTION_LIST_MAX 16

struct option_list {
    const char *items[OPTION_LIST_MAX]; /* borrow from argv */
    size_t count;
};

/* A position in a trace: a time, a share of its duration, an allocation, a mark, or the peak. */
enum moment_kind {
    MOMENT_NONE, /* not given */
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
    const char *text; /* borrows; the mark's text */
};

/* Each function below returns whether all of `text` is valid. If it is not, *out stays unchanged. */

/* "4096", "64KiB", "1.5GiB", "64k": powers of 1024, at most 2^63 - 1 bytes. */
bool parse_size(const char *text, uint64_t *out);

/* "123" */
bool parse_count(const char *text, uint64_t *out);

/* "12", "0.1" */
bool parse_number(const char *text, double *out);

/* "2%", "0.02": at most 100% */
bool parse_share(const char *text, double *out);

/*
 * A time since the start as "1500" (ns), "10us", "1.5ms", "2s" or "3min"; "50%", "#123" (allocation 123), "mark:TEXT"
 * (the first mark with that text), "peak".
 */
bool parse_moment(const char *text, struct moment *out);

/* Why parse_share refuses `text`, and what was probably meant: "5 is 500%, ...: write 5%". Returns `buffer`. */
const char *parse_share_refusal(const char *text, char *buffer, size_t size);

/*
 * For "did you mean": the one of `nearest` (NULL: none yet) and `word` that is nearer to the mistyped word `typed`.
 * NULL if neither is near.
 */
const char *parse_nearest(const char *typed, const char *nearest, const char *word);

#endif
