/* Aligns the groups of two traces: groups of the same name, or of the same size, share a row. */
#ifndef VIEWER_ANALYSIS_ALIGN_H
#define VIEWER_ANALYSIS_ALIGN_H

#include "viewer/analysis/snapshot.h"

struct align_row {
    char *name;    /* owns; NULL if grouped by size */
    uint64_t size; /* valid if name is NULL */
    struct snapshot_group a;
    struct snapshot_group b;
};

struct align {
    struct align_row *rows; /* owns; the greatest change first */
    size_t count;
};

/* The bytes of B less those of A. */
int64_t align_change(const struct align_row *row);

/* Align the groups `a->by[by]` and `b->by[by]`. COMMAND_FINE, or COMMAND_WRONG after a message. */
int align_make(const struct snapshot *a, const struct snapshot *b, size_t by, struct align *out);

void align_free(struct align *align);

/* The name of a row, or its size as text. */
const char *align_name(const struct align_row *row, char *buffer, size_t size);

/* The same for use in a sentence, for rows aligned by `by`: only the two innermost frames of a call stack. */
const char *align_brief(const struct align_row *row, enum groups_by by, char *buffer, size_t size);

#endif
