/* The figures of a trace for comparing it with another: totals, and what was live at the peak. */
#ifndef VIEWER_ANALYSIS_SNAPSHOT_H
#define VIEWER_ANALYSIS_SNAPSHOT_H

#include "viewer/analysis/reserved.h"
#include "viewer/analysis/tallies.h"
#include "viewer/read/view.h"

/* The most groupings of one snapshot. */
#define SNAPSHOT_GROUPS 3

struct snapshot_groups {
    struct groups groups;
    struct marked_amount *list; /* owns; by group number; marked at the peak */
    size_t capacity;
};

struct snapshot {
    struct view *view;     /* borrows */
    bool asked;            /* snapshot_next has asked for its reading */
    struct scan_unit unit; /* of that reading */
    struct tally all;
    uint64_t peaks; /* the number of times that the live bytes reached a new peak: the mark of the groups */
    int64_t end_ns;
    struct reserved reserved;
    struct reserved_figure most; /* reserved; its source is RESERVED_UNKNOWN where there are several kinds of memory */
    struct snapshot_groups by[SNAPSHOT_GROUPS];
    size_t by_count;
};

/*
 * Take a snapshot of the allocations that `view` selects, grouped by each of `by`. COMMAND_FINE, or another status and
 * there is nothing to free.
 */
int snapshot_make(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out);

/* The same as one of several analyses (viewer/read/view.h). Call snapshot_free also if a turn fails. */
int snapshot_begin(struct view *view, const enum groups_by *by, size_t by_count, struct snapshot *out);
int snapshot_next(void *snapshot, struct scan_pass *pass);

void snapshot_free(void *snapshot);

/*
 * The default groupings for comparing two traces, into an array of SNAPSHOT_GROUPS; returns their number. Call stacks
 * and tags are among them if a trace has any; sizes always are.
 */
size_t snapshot_groups_default(const struct names *a, const struct names *b, enum groups_by *by);

/* Whether `b` exceeds `a` by more than the share `tolerance` of `a`. */
bool snapshot_exceeds(uint64_t a, uint64_t b, double tolerance);

/*
 * The groups of two snapshots: groups of the same name, or of the same size, share a row. Where both have as many call
 * stacks of the same functions, these share rows in the order of their lines, so that an inserted line changes nothing.
 */
struct align_row {
    char *name;            /* owns; NULL if grouped by size */
    const char *functions; /* GROUPS_CALLSTACK: without lines; borrows; valid until the rows are merged */
    bool is_b;             /* likewise: the row is of B */
    uint64_t size;         /* valid if name is NULL */
    struct amount a;
    struct amount b;
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
