/*
 * Offline placement: blocks whose lives are all known get offsets, so that blocks that live at the same time do not
 * overlap, and the highest end is as low as can be found.
 */
#ifndef BENCH_PLAN_PLACE_H
#define BENCH_PLAN_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offsets are multiples of it. */
#define PLACE_ALIGNMENT 256

/*
 * A block that lives in the slots [begin, end) of time. `end` at or below `begin`: in [begin, slots) and [0, end), as
 * in a loop whose last slot is followed by its first one.
 */
struct place_life {
    uint32_t begin;
    uint32_t end;
    uint32_t stream;
    uint64_t bytes; /* a multiple of PLACE_ALIGNMENT, not 0 */
};

/* What is to be placed. */
struct place_blocks {
    const struct place_life *lives; /* borrows */
    size_t count;
    uint32_t slots;
};

enum place_order {
    PLACE_BY_SIZE, /* the largest first */
    PLACE_BY_LIFE, /* the longest life first */
    PLACE_BY_AREA, /* the largest product of both first */
    PLACE_BY_TIME, /* as they were allocated */
    PLACE_ORDERS,
};

/* In the order of enum place_order. */
extern const char *const place_order_names[PLACE_ORDERS];

/* What was found. */
struct place_result {
    uint64_t top; /* the highest end */
    double seconds;
    uint64_t rounds; /* of placing all blocks; of all orders of few blocks, those that were tried */
};

/* The most that lives at one time, below which no placement goes. */
uint64_t place_bound(const struct place_blocks *blocks);

/* Place blocks one after the other, each in the lowest gap that holds it, or in the smallest of those. */
void place_greedy(const struct place_blocks *blocks, enum place_order order, bool smallest, uint64_t *offsets,
                  struct place_result *out);

/* The greedy placements, in lowest gaps and in smallest gaps, and the best of all, with all time and rounds. */
struct place_plan {
    struct place_result greedy[PLACE_ORDERS][2];
    struct place_result best;
};

struct place_search {
    double seconds;  /* at most */
    uint64_t rounds; /* at most */
    uint64_t seed;
};

/*
 * The best of the greedy orders and of what a search finds. Up to BEAM_MOST blocks are placed by beams (plan-beam.h) in
 * half of the time, where the greedy orders are not near the bound. Then blocks that end at the top of the best
 * placement are moved forward in its order. Up to PLACE_FEW blocks are placed in all orders, one of which is the best
 * there is. It ends early at the bound.
 */
#define PLACE_FEW 7
void place_best(const struct place_blocks *blocks, const struct place_search *search, uint64_t *offsets,
                struct place_plan *out);

#endif
