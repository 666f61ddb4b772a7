/*
 * Keeps the page of any trace within a number of bytes. A trace may have names, times and sizes that hardly compress.
 * Where its page is too large, that part of it which takes the most bytes is halved, again and again.
 */
#ifndef VIEWER_REPORT_FIT_H
#define VIEWER_REPORT_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/report/gather.h"

/* The parts of a page, and what else it has. */
enum fit_part {
    FIT_TIMELINES,
    FIT_GROUPS,
    FIT_MAP,
    FIT_RESERVED,
    FIT_LIVES,
    FIT_FAILURES,
    FIT_MARKS,
    FIT_NAMES,
    FIT_ANSWERS,
    FIT_REST,
    FIT_PARTS,
};

struct fit {
    size_t bytes[FIT_PARTS];       /* of each part as it was written last */
    size_t seen;                   /* bytes that are among these */
    bool is_cut;                   /* anything is */
    size_t name_most;              /* a name is cut off behind so many bytes */
    size_t names_cut;              /* so many were, as the page was written last */
    size_t name_longest;           /* of those that are written */
    size_t answer_most;            /* a longer answer of a command is left out */
    size_t answer_longest;         /* of those that are not */
    size_t diff_bytes;             /* of the answer of `diff`; 0: none */
    size_t memory_most;            /* so many memories are listed */
    size_t timelines, groups, map; /* how often two buckets became one */
};

/* Nothing is cut yet. */
void fit_begin(struct fit *fit);

/* The page is written, again: no part has bytes. */
void fit_restart(struct fit *fit);

/* The page has `bytes` by now, of which those since the last call are of `part`. */
void fit_note(struct fit *fit, enum fit_part part, size_t bytes);

/* Halve the largest part. False: there is nothing to halve. No memory sets `failed` of the gathered instants. */
bool fit_cut(struct fit *fit, struct gather *gather);

#endif
