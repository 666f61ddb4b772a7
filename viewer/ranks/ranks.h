/*
 * What the ranks of a job differ in, from the file of the job: peaks, the groups of allocations that make the
 * difference and since which step, growth, failures. Reads some thousand rows, whatever the number of ranks.
 */
#ifndef VIEWER_RANKS_RANKS_H
#define VIEWER_RANKS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/ranks/job.h"

/* More than this is no number of bytes. Of two such numbers any difference can be told. */
#define RANKS_MOST (INT64_MAX / 2)

/* So many ranks that grow from step to step are told, those that have grown most. */
#define RANKS_GROWTHS 8

struct ranks_memory {
    int64_t memory_id;
    char *name; /* owns */
    bool is_device;
    int64_t ranks, highest_bytes;
};

/* One rank, in one memory. */
struct ranks_rank {
    int64_t rank;
    char *path;     /* owns */
    char *hostname; /* owns; may be NULL */
    int64_t peak_bytes, peak_ns, peak_step, end_bytes;
    int64_t reserved_bytes; /* -1: not known */
    int64_t failures;
    int64_t whole_steps, first_step, last_step, grown_bytes, rose;
    bool is_complete;
};

/*
 * A figure that is known by its bounds. The file lists the largest groups of a rank: of another group the rank has at
 * most the bound of `group_cut`, which makes two ends of a median, too.
 */
struct ranks_range {
    int64_t least, most;
};

struct ranks_group {
    int64_t group_id;
    char *kind, *name;                /* own */
    struct ranks_range bytes, median; /* at the peak of the rank, and the median of all at theirs */
    int64_t count, without_bytes;     /* allocations, and the peak without the group; -1: it is not listed there */
    int64_t unlisted_bytes;           /* where the rank lists no steps of it: the most that it has in any */
    bool has_step;                    /* the next one is known */
    struct ranks_range step;          /* since when the difference is there */
};

/* A rank whose live bytes grow from step to step more than those of the median. */
struct ranks_growth {
    const struct ranks_rank *rank; /* borrows */
    int64_t first_step, last_step; /* its first and last whole step at whose end it is compared with others */
    int64_t grown_bytes;           /* from the end of the one to that of the other */
    int64_t median_bytes;          /* by which the median grows between them */
    int64_t rises;                 /* steps in which it came further above the median */
    char *kind, *group;            /* own; in which most of the growth is; NULL: not known */
    struct ranks_range group_more; /* by which it grows more than in the median */
};

/* Failures of one status, cause, layer and memory. */
struct ranks_failure {
    char *status, *cause, *layer, *tag, *text; /* own; the last three may be NULL */
    char *memory;                              /* owns; NULL: one that the file does not have */
    int64_t count, ranks;
    int64_t rank, ns, size, live_bytes; /* of the first one */
};

struct ranks_left {
    char *path, *reason; /* own */
};

struct ranks {
    const struct trace *file; /* borrows */
    struct ranks_memory *memories;
    size_t memory_count, memory_capacity;
    const struct ranks_memory *memory;
    struct ranks_rank *list; /* owns, as the next ones; the highest peak first */
    size_t count, capacity;
    const struct ranks_rank *highest, *median, *lowest, *outlier;
    struct ranks_group *groups; /* of all kinds; the largest excess first */
    size_t group_count, group_capacity;
    const char *kind; /* of groups, for people: "tag", "function" or "class" */
    struct ranks_growth *growths;
    size_t growth_count, growth_capacity;
    int64_t growth_unknown;       /* ranks of which it is not known whether they grow more than the median */
    int64_t first_growth_unknown; /* the first of these */
    struct ranks_failure *failures;
    size_t failure_count, failure_capacity;
    struct ranks_left *left;
    size_t left_count, left_capacity;
    int64_t failure_total; /* as `failures` of all memories, or of the one that was asked for */
    int64_t rank_total, world_size, incomplete;
    int64_t starts_unknown;      /* ranks of which it is not known when their traces began */
    int64_t first_without_start; /* the first of these; -1: none */
    char *job, *missing;         /* own; the second: "5, 7-9", NULL: none */
    int64_t missing_count;
    int64_t beyond_count; /* ranks whose numbers are not below `world_size` */
    bool is_merged;       /* else a merge was interrupted */
    bool is_wrong;        /* figures were read that cannot be */
};

struct ranks_options {
    const char *memory; /* NULL: of a device, with the highest peak */
    int64_t rank;       /* the one to explain; -1: the one with the highest peak */
    const char *kind;   /* of groups; NULL: the first that the job has of tags, functions and classes */
};

static inline bool
ranks_is_exact(struct ranks_range range)
{
    return range.least == range.most;
}

/* By how much one is more than the other. */
static inline struct ranks_range
ranks_difference(struct ranks_range one, struct ranks_range other)
{
    return (struct ranks_range){ one.least - other.most, one.most - other.least };
}

/* How much the rank has of the group over the median; may be negative. */
static inline struct ranks_range
ranks_group_over(const struct ranks_group *group)
{
    return ranks_difference(group->bytes, group->median);
}

/* How far from 0 the figure is for certain, with its sign; 0: it may be 0. */
static inline int64_t
ranks_certain(struct ranks_range range)
{
    return range.least > 0 ? range.least : range.most < 0 ? range.most : 0;
}

/* Whether the rank has a first and a last whole step, between which it may have grown. */
static inline bool
ranks_has_growth(const struct ranks_rank *rank)
{
    return rank->whole_steps > 1 && rank->last_step > rank->first_step;
}

/*
 * By how much a rank has grown in each step from one to another, by their numbers, rounded towards 0: where the program
 * marks every tenth step, ten steps lie between two marks. 0 where that is not known.
 */
static inline int64_t
ranks_growth_a_step(int64_t grown_bytes, int64_t first_step, int64_t last_step)
{
    uint64_t steps = (uint64_t)last_step - (uint64_t)first_step;

    return last_step > first_step && steps <= INT64_MAX ? grown_bytes / (int64_t)steps : 0;
}

/* The same from its first whole step to its last. */
static inline int64_t
ranks_step_growth(const struct ranks_rank *rank)
{
    return ranks_has_growth(rank) ? ranks_growth_a_step(rank->grown_bytes, rank->first_step, rank->last_step) : 0;
}

/* COMMAND_FINE, or another status after a message. Call ranks_free in any case. */
int ranks_make(const struct trace *file, const struct ranks_options *options, struct ranks *out);

void ranks_free(struct ranks *ranks);

/* The excess of the highest peak over the median, as a share of the median; 0 where that is 0. */
double ranks_skew(const struct ranks *ranks);

/* Whether that share says nothing: the median is 0 and the highest peak is not. */
bool ranks_skew_is_endless(const struct ranks *ranks);

/* Why the skew of all ranks is not known, in `buffer`: some do not have the memory, or the median is 0. NULL: it is. */
const char *ranks_skew_unknown(const struct ranks *ranks, char *buffer, size_t size);

#endif
