/* Replays traffic through many stacks, several at a time, each in a process of its own. */
#ifndef VIEWER_RECOMMEND_SWEEP_H
#define VIEWER_RECOMMEND_SWEEP_H

#include "viewer/recommend/candidates.h"

/* The processes that replayed a stack of which the times are kept. */
#define TRIAL_TIMES 8

/* What one stack did with all the traffic. */
struct trial {
    char error[256];         /* why it could not be tried; "": it was */
    uint64_t failures;       /* allocations that it refused */
    uint64_t reserved_bytes; /* the most that the bases had of the device, in the input for which that is the most */
    uint64_t calls;          /* allocations and frees that reached the bases, of all inputs */
    struct cost_amount amounts[COST_CALLS]; /* what the bases had the driver do, of all inputs */
    double driver_ns;                       /* what that costs by the model */
    double own_ns;                          /* processor time of the stack itself: the least of its replays */
    double ns;                              /* both */
    double times[TRIAL_TIMES];              /* the own times by each process that replayed it, ascending */
    unsigned time_count;
    bool is_alone;     /* no other replay ran beside these */
    bool again_failed; /* a further replay did, as it was killed: the trial is as without it, and there are no more */
};

/*
 * Try the candidates from `first` on: `trials` has one for each, of which those before `first` stay. At most `jobs` run
 * at a time; what is short is then replayed again alone, for its time. What is in memory does not depend on the number
 * of candidates. COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int sweep_run(const struct candidates *list, size_t first, const struct traffic *traffic, size_t traffic_count,
              const struct costs *costs, unsigned jobs, struct trial *trials);

/*
 * Replay a candidate that was tried once more alone, and add its time to those of former replays that were alone. Where
 * that fails and the former ones did not, these stay, with again_failed.
 * COMMAND_FINE, or COMMAND_WRONG after a message.
 */
int sweep_again(const struct candidates *list, size_t number, const struct traffic *traffic, size_t traffic_count,
                const struct costs *costs, struct trial *trial);

#endif
