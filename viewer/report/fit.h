/*
 * Keeps the page of any trace within a number of bytes. A trace may have names, times and sizes that hardly compress.
 * Where its page is too large, that part of it which takes the most bytes is halved, again and again. What each halving
 * saves is estimated; the page is written again where the estimates are enough.
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

/* Bounds of a length: FIT_SHORTEST and its doubles. */
#define FIT_SHORTEST 16
#define FIT_STEPS    16

/* The page is written so many times at most. */
#define FIT_WRITINGS 8

/* Lengths that are written no longer than `most`. */
struct fit_lengths {
    size_t most;
    size_t longest;
    size_t cut;             /* so many are longer than `most` */
    size_t sum;             /* as they are written */
    size_t sums[FIT_STEPS]; /* as they would be with each of the bounds */
};

/* The most answers of commands. */
#define FIT_ANSWER_COUNT 16

struct fit {
    size_t bytes[FIT_PARTS];                   /* of each part as it was written last */
    size_t seen;                               /* bytes that are among these */
    size_t writings;                           /* so often the page was written */
    bool is_cut;                               /* anything is */
    bool is_larger;                            /* the page has more bytes than it should have, and stays so */
    size_t instants, instant_lives;            /* that there were, and lives kept for them, before anything was cut */
    struct fit_lengths names;                  /* the bytes of names */
    struct fit_lengths stacks;                 /* the frames of call stacks */
    size_t stack_bytes;                        /* of the lists of frames, not compressed */
    size_t frame_bytes, frame_sums[FIT_STEPS]; /* of the names of frames; with each of the bounds on `stacks` */
    size_t answer_most;                        /* a longer answer of a command is left out */
    size_t answers[FIT_ANSWER_COUNT];          /* the bytes of those that are not */
    size_t answer_count;
    size_t notes_left_out;                        /* of the summary: behind the most bytes of all notes */
    size_t diff_bytes;                            /* of the answer of `diff`; 0: none */
    size_t memory_most;                           /* so many memories are listed */
    size_t timelines, groups, map;                /* how often two buckets became one */
    size_t life_count, failure_count, mark_count; /* of `gather`, while it is planned what is cut */
};

/* Nothing is cut yet. The trace has `memories`. */
void fit_begin(struct fit *fit, const struct gather *gather, size_t memories);

/* The page is written, again: no part has bytes. */
void fit_restart(struct fit *fit);

/* The page has `bytes` by now, of which those since the last call are of `part`. */
void fit_note(struct fit *fit, enum fit_part part, size_t bytes);

/* Such a length is written. */
void fit_note_length(struct fit_lengths *lengths, size_t length);

/* A different frame is written that has a name of `bytes`. Of each stack that has it, `depth` or more are inside it. */
void fit_note_frame(struct fit *fit, size_t bytes, size_t depth);

/* An answer of a command has `bytes`. False: it is not to be written. */
bool fit_note_answer(struct fit *fit, size_t bytes);

/*
 * Halve what is largest until `excess` bytes less are expected. False: all that may be cut does not reach that, and
 * nothing is cut. No memory sets `failed` of the gathered instants.
 */
bool fit_cut(struct fit *fit, struct gather *gather, size_t excess);

#endif
