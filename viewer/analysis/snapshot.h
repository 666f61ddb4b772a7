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
    struct reserved reserved; /* the memory of each kind of each stack */
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

/* What one memory of A and the same of B had live and reserved at most, and what is live at the end. */
struct snapshot_memory {
    const char *name; /* borrows; NULL: each trace has one memory alone */
    uint64_t a_peak_bytes, b_peak_bytes;
    uint64_t a_live_bytes, b_live_bytes;
    struct reserved_figure a_most, b_most; /* the source is RESERVED_UNKNOWN where nothing says it */
};

struct snapshot_memories {
    struct snapshot_memory *list; /* owns */
    size_t count;
};

/*
 * Pair the memory of two snapshots: the kinds of memory of each stack, which are never added up. What only one has is 0
 * in the other. Where both have one memory alone, these are a pair, whatever their names. COMMAND_FINE, or
 * COMMAND_WRONG after a message.
 */
int snapshot_pair(const struct snapshot *a, const struct snapshot *b, struct snapshot_memories *out);
void snapshot_memories_free(struct snapshot_memories *self);

/*
 * Whether what both have reserved can be compared: of B at least so much, of A the exact peak. What is not exact is the
 * least that it can be: of A that says nothing.
 */
bool snapshot_judges_reserved(const struct snapshot_memory *memory);

/*
 * Whether it cannot be told that B has reserved no more than A: one of them says the least alone, or nothing. False
 * where neither says anything, or where B is exact and no more than the least of A.
 */
bool snapshot_is_unsure(const struct snapshot_memory *memory, double tolerance);

/* A figure that is judged: the peak of a memory, or the most that was reserved. */
struct snapshot_worst {
    const char *memory; /* borrows; NULL: as in struct snapshot_memory */
    bool is_reserved;
    uint64_t a_bytes, b_bytes;
};

/* The figure of B that exceeds that of A the most, or else the peak that comes nearest. Whether it exceeds it. */
bool snapshot_find_worst(const struct snapshot_memories *memories, double tolerance, struct snapshot_worst *out);

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
