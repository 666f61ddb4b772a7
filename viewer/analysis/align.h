/* Groups of two traces side by side: those of one name, or of one size, belong together. */
#ifndef VIEWER_ANALYSIS_ALIGN_H
#define VIEWER_ANALYSIS_ALIGN_H

#include "viewer/analysis/snapshot.h"

struct align_row {
    char *name;    /* owns; NULL where they are grouped by size: */
    uint64_t size; /* then that size */
    struct snapshot_group a;
    struct snapshot_group b;
};

struct align {
    struct align_row *rows; /* owns; the greatest change first */
    size_t count;
};

/* How many bytes more B has. */
int64_t align_change(const struct align_row *row);

/*
 * Those of both snapshots that are number `by` of what they group by. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int align_make(const struct snapshot *a, const struct snapshot *b, size_t by, struct align *out);

void align_free(struct align *align);

/* The name of a row, or its size in words. */
const char *align_name(const struct align_row *row, char *buffer, size_t size);

/* The same for a sentence, of rows that are aligned by `by`: of a call stack its two innermost frames alone. */
const char *align_brief(const struct align_row *row, enum groups_by by, char *buffer, size_t size);

#endif
