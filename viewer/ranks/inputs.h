/* The traces to merge: where they are, of which rank each is, and which of them are left out. */
#ifndef VIEWER_RANKS_INPUTS_H
#define VIEWER_RANKS_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/trace.h"

/* Ranks from here on are refused: no job has as many. */
#define INPUTS_RANKS (INT64_C(1) << 31)

struct input {
    char *path;         /* owns */
    char *trace;        /* owns; what tells it from other traces; NULL: it could not be read */
    char *job;          /* owns; NULL: nothing names it */
    int64_t rank;       /* -1: not known */
    int64_t world_size; /* -1: not known */
    bool is_in;         /* the file of the job has it */
    bool is_in_whole;   /* as it was complete when it was read: it is not read again */
    char *reason;       /* owns; why it is left out; NULL: it is not */
};

struct inputs {
    struct input *list; /* owns; in the order of the command line, of a folder by name */
    size_t count, capacity;
    char *job;          /* owns; of which the ranks are; NULL: nothing names it */
    int64_t world_size; /* the largest that a trace says, or the file they go into; -1: none does */
};

/* Find the traces. COMMAND_FINE, or COMMAND_WRONG after a message. Call inputs_free in any case. */
int inputs_find(struct inputs *inputs, char *const *paths, size_t count);

/* Read what each says of itself. What cannot be read is left out, after a message. COMMAND_FINE or COMMAND_WRONG. */
int inputs_look(struct inputs *inputs);

/*
 * Leave out what is of another job, twice, or of a rank that another one is. Of several the first stays. Number those
 * that have no rank, behind the ranks of the job. `job` (NULL: none yet) is the file that they go into. Says what is
 * left out and what is numbered. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int inputs_choose(struct inputs *inputs, const struct trace *job);

/* Leave one out, after a message that says so. */
__attribute__((format(printf, 2, 3))) void input_leave(struct input *input, const char *format, ...);

void inputs_free(struct inputs *inputs);

#endif
