/*
 * Replays allocator traffic through a stack: one thread for each recorded thread, strictly in the recorded order.
 *
 * The threads take turns. The one whose turn it is runs events until the next one belongs to another thread, so that a
 * run of one thread's events costs no more than a plain loop; a hand-over costs a futex call where the other thread
 * has gone to sleep.
 */
#ifndef VIEWER_REPLAY_RUN_H
#define VIEWER_REPLAY_RUN_H

#include <tidemark/resource.h>

#include "viewer/replay/input.h"

/* What a replay comes to. The thread whose turn it is writes it. */
struct replay_result {
    uint64_t allocations;   /* that succeeded */
    uint64_t failures;      /* allocations that the stack refused */
    uint64_t frees;         /* that succeeded */
    uint64_t skipped_frees; /* of allocations that had failed */
    uint64_t free_failures; /* frees that the stack refused; the memory is not free */
    uint64_t left_count;    /* live after the last event */
    uint64_t left_bytes;
    int64_t total_ns;        /* from the first event to the last */
    char first_failure[640]; /* in words; "" where there was none */
};

struct replay {
    const struct replay_input *input; /* borrows */
    struct tide_resource *stack;      /* borrows */
    void **pointers;                  /* owns; by allocation: what the stack gave, or one of two marks */
    tide_stream *streams;             /* owns; what stands for each recorded stream */
    struct replay_result result;
};

/*
 * Replay `input` through `stack`. Where the stack's memory is stream-ordered, recorded handles mean nothing to its
 * driver and everything goes to stream 0; elsewhere they are passed on, so that a log layer records them.
 *
 * Each of these: COMMAND_FINE, or COMMAND_WRONG after a message. replay_finish comes last in any case.
 */
int replay_run(struct replay *replay, const struct replay_input *input, struct tide_resource *stack);

/* Free what the input left live. Only the count of frees that the stack refuses changes in the result. */
void replay_free_left(struct replay *replay);

/* Free all that `replay` owns. */
void replay_finish(struct replay *replay);

#endif
