/*
 * Replays allocator traffic through a stack: one thread for each recorded thread, strictly in the recorded order.
 *
 * The threads take turns. The current thread runs events until the next event belongs to another thread. Successive
 * events of one thread therefore cost no more than a plain loop. A hand-over costs a futex call if the other thread has
 * gone to sleep.
 */
#ifndef VIEWER_REPLAY_RUN_H
#define VIEWER_REPLAY_RUN_H

#include <tidemark/resource.h>

#include "viewer/replay/input.h"

/* The result of a replay. The current thread writes it. */
struct replay_result {
    uint64_t allocations;   /* successful ones */
    uint64_t failures;      /* allocations that the stack refused */
    uint64_t frees;         /* successful ones */
    uint64_t skipped_frees; /* of allocations that had failed */
    uint64_t free_failures; /* frees that the stack refused; the memory is not free */
    uint64_t left_count;    /* live after the last event */
    uint64_t left_bytes;
    int64_t total_ns;        /* from the first event to the last */
    char first_failure[640]; /* the message; "": there was none */
};

struct replay {
    const struct replay_input *input; /* borrows */
    struct tide_resource *stack;      /* borrows */
    void **pointers;                  /* owns; by allocation: of the stack, or one of two special values */
    tide_stream *streams;             /* owns; the replay's stream for each recorded one */
    struct replay_result result;
};

/*
 * Replay `input` through `stack`. If the stack's memory is stream-ordered, its driver does not know the recorded
 * handles, so everything uses stream 0. Otherwise the handles are passed on, so that a log layer records them.
 *
 * COMMAND_FINE, or COMMAND_WRONG after a message. Call replay_finish in any case.
 */
int replay_run(struct replay *replay, const struct replay_input *input, struct tide_resource *stack);

/* Free what the input left live. Only the count of frees that the stack refuses changes in the result. */
void replay_free_left(struct replay *replay);

/* Free all that `replay` owns. */
void replay_finish(struct replay *replay);

#endif
