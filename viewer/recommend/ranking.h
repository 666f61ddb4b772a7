/* Which of the stacks that were tried are best. */
#ifndef VIEWER_RECOMMEND_RANKING_H
#define VIEWER_RECOMMEND_RANKING_H

#include "viewer/recommend/sweep.h"

/* In the order of RANKING_AIMS. */
enum ranking_aim {
    RANKING_BOTH, /* the least memory times the run time of the program, of which the stack's time is a part */
    RANKING_MEMORY,
    RANKING_TIME,
};

#define RANKING_AIMS "both|memory|time"

/*
 * The time of a stack: from the least that its replays took to what another one may take. That is the median of its
 * replays, or as much more than the least as it is in the median of all stacks, where that is more.
 */
struct ranking_time {
    double own_ns;
    double own_most_ns;
    double own_top_ns; /* the greatest of the replays, where that is more: for whether the recorded stack is worse */
    double ns;         /* both with what the calls of the driver cost */
    double most_ns;
};

struct ranking {
    bool *is_best;              /* owns; the Pareto front: none has less memory and the same time or less */
    struct ranking_time *times; /* owns; one for each stack */
    size_t recommended;         /* SIZE_MAX: no stack serves everything within the bounds */
    size_t now;                 /* the recorded or default stack; SIZE_MAX: it is not among them */
    bool now_is_worse;          /* it refuses requests, is over the bound, or worse in both by all replays */
};

/* How far times of the model may be off, and still be the same. */
#define RANKING_SAME_TIME 0.9

/* How much longer than the least a replay takes where nothing is known, as no stack was replayed twice. */
#define RANKING_UNKNOWN 1.25

/* What the stacks are ranked by. */
struct ranking_rule {
    enum ranking_aim aim;
    uint64_t most_bytes; /* that may be reserved; UINT64_MAX: any */
    double program_ns;   /* how long the program runs without the stack's time */
};

/*
 * Times that lie within each other's spread are the same: then the stack with less memory is before the other, and of
 * those with the same memory the one whose calls of the driver cost less. So neither the front nor what is recommended
 * depends on how long a single replay took. False after a message: no memory.
 */
bool ranking_make(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
                  struct ranking *out);

/*
 * Whether the objective of the stack may be the least: that of no other stack that may be recommended is surely less.
 * What is recommended has the least memory of these.
 */
bool ranking_contends(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
                      const struct ranking *ranking, size_t number);

/* Whether two times are within each other's spread. */
bool ranking_is_same_time(const struct ranking_time *one, const struct ranking_time *other);

/*
 * Order of two numbers of stacks, for qsort_r with the trials: the least memory first, then the cheapest calls of the
 * driver, then as they were tried. It has nothing that was measured.
 */
int ranking_compare(const void *a, const void *b, void *trials);

void ranking_free(struct ranking *ranking);

#endif
