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
#include "viewer/replay/pace.h"
#include "viewer/replay/streams.h"

/* The result of a replay. The current thread writes it. */
struct replay_result {
    uint64_t allocations;   /* successful ones */
    uint64_t failures;      /* allocations that the stack refused */
    uint64_t frees;         /* successful ones */
    uint64_t skipped_frees; /* of allocations that had failed */
    uint64_t free_failures; /* frees that the stack refused; the memory is not free */
    uint64_t live_bytes;    /* now */
    uint64_t peak_bytes;    /* the most that was live */
    uint64_t left_count;    /* live after the last event */
    uint64_t left_bytes;
    int64_t total_ns;  /* from the first event to the last */
    int64_t waited_ns; /* of it, until events were due; with a time scale, as the next three */
    struct replay_lateness late;
    double live_mean_bytes;     /* over the recorded time; as the next one, -1: the events have one time */
    double reserved_mean_bytes; /* -1 also: the stack does not know what it has reserved */
    char first_failure[640];    /* the message; "": there was none */
    size_t stopped_at;          /* the event at whose failure the replay stopped, from 1; 0: it ran to the end */
};

struct replay_options {
    bool keeps_notes;     /* a log of the stack records them: make the tags and the marks of the input */
    bool stop_at_failure; /* end at the first allocation that the stack refuses */
    double time_scale;    /* seconds for each recorded second; 0: as fast as it can, else the input has times */
};

struct replay {
    const struct replay_input *input; /* borrows */
    struct tide_resource *stack;      /* borrows */
    struct replay_options options;
    void **pointers;               /* owns; by allocation: of the stack, or one of two special values */
    struct replay_streams streams; /* the replay's stream for each recorded one */
    uint32_t *labels;              /* owns; by thread: the label whose tags it has now, as in replay_notes.label_of */
    struct replay_result result;
    struct replay_pace pace; /* owns; with a time scale */
    bool knows_reserved;     /* the stack has always said what it has reserved */
    uint32_t *allocated_on;  /* owns; by allocation: the index of its stream; NULL: streams need no order */
};

/*
 * Replay `input` through `stack`, on streams of its own where the stack uses a CUDA device (replay_streams_make).
 *
 * COMMAND_FINE, or COMMAND_WRONG after a message. Call replay_finish in any case, once the stack is released.
 */
int replay_run(struct replay *replay, const struct replay_input *input, struct tide_resource *stack,
               const struct replay_options *options);

/* Whether the stack refused this allocation of the input. */
bool replay_has_failed(const struct replay *replay, uint32_t allocation);

/* Free what the input left live. Only the count of frees that the stack refuses changes in the result. */
void replay_free_left(struct replay *replay);

/* Free all that `replay` owns. */
void replay_finish(struct replay *replay);

#endif
