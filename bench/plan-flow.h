/* Recorded traffic as lives of blocks, and the loops in it. */
#ifndef BENCH_PLAN_FLOW_H
#define BENCH_PLAN_FLOW_H

#include "plan-place.h"
#include "viewer/replay/input.h"

/*
 * The blocks of traffic. Each allocation of more than 0 bytes is a slot of time, as the most that is live comes after
 * one: a block lives from its own slot to before that of the first allocation after its free.
 */
struct flow {
    struct place_life *lives; /* owns; by slot */
    size_t count;
};

void flow_make(const struct replay_input *input, struct flow *out);
void flow_free(struct flow *flow);

/* The longest part of traffic that repeats: at least FLOW_REPEATS steps of equal sizes, streams and lives. */
#define FLOW_REPEATS      3
#define FLOW_PERIOD_LEAST 32

struct flow_loop {
    size_t begin;  /* the first slot */
    size_t period; /* the allocations of a step; 0: there is no loop */
    size_t count;  /* the allocations of all its steps */
};

struct flow_loop flow_find_loop(const struct flow *flow);

/* Where a step in the middle of a loop begins: where the fewest bytes are live. */
size_t flow_step_begin(const struct flow *flow, const struct flow_loop *loop);

/*
 * The step of the most live bytes, of traffic that does not repeat: from a slot before which little more is live than
 * at the least to the next one. False: there is none of FLOW_PERIOD_LEAST slots.
 */
bool flow_largest_step(const struct flow *flow, size_t *begin, size_t *end);

/* One step, as a loop whose end is followed by its begin, and the blocks that live through all of it. */
struct flow_step {
    struct place_life *lives; /* owns */
    size_t count;
    uint32_t slots;
    uint64_t *stays; /* owns; the bytes of each block that lives longer than a step */
    size_t stays_count;
    uint64_t stays_bytes;
};

/* What is allocated in the slots [begin, end) of the traffic as a step. */
void flow_step_make(const struct flow *flow, size_t begin, size_t end, struct flow_step *out);
void flow_step_free(struct flow_step *step);

/* The step, so often in a row, as traffic; *last is the first event of the last of them. */
void flow_repeat(const struct flow_step *step, unsigned rounds, struct replay_input *out, size_t *last);

#endif
