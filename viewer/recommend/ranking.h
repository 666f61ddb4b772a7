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

struct ranking {
    bool *is_best;      /* owns; on the Pareto front: none has both less memory and less time */
    size_t recommended; /* SIZE_MAX: no stack serves everything within the bounds */
    size_t now;         /* the recorded or default stack; SIZE_MAX: it is not among them */
    bool now_is_worse;  /* it refuses requests or is over the bound, or has more memory, and over 1/0.9 of the time */
};

/* How far times of the model may be off, and still be the same. */
#define RANKING_SAME_TIME 0.9

/* What the stacks are ranked by. */
struct ranking_rule {
    enum ranking_aim aim;
    uint64_t most_bytes; /* that may be reserved; UINT64_MAX: any */
    double program_ns;   /* how long the program runs without the stack's time */
};

/* False after a message: no memory. */
bool ranking_make(const struct candidates *list, const struct trial *trials, const struct ranking_rule *rule,
                  struct ranking *out);

/* The objective: what is recommended has the least. */
double ranking_score(const struct trial *trial, const struct ranking_rule *rule);

void ranking_free(struct ranking *ranking);

#endif
