/*
 * A day of a server that answers requests with a model, in virtual time, for tests and benchmarks: each sequence has
 * blocks of a KV cache, which grow while it lives. How many sequences there are follows the hours, with bursts, and the
 * size of their blocks drifts from one model to another.
 *
 * Whoever links this has the library's clock, too: clock_gettime() is server_day_now_ms.
 */
#ifndef TESTS_SERVER_DAY_H
#define TESTS_SERVER_DAY_H

#include <tidemark/tidemark.h>

#define SERVER_DAY_HOUR_MS (UINT64_C(3600) * 1000)
#define SERVER_DAY_MS      (24 * SERVER_DAY_HOUR_MS)

extern uint64_t server_day_now_ms;

struct server_day {
    uint64_t requests;           /* allocations in the day */
    uint64_t seed;               /* not 0 */
    struct tide_resource *stack; /* borrowed */
    /* Called after each call of the stack; may be NULL. */
    void (*watch)(void *context, uint64_t live_bytes);
    void *context;
    uint64_t failures; /* out: calls that the stack refused */
    uint64_t peak_live_bytes;
};

/* Run the day on the stack. All blocks are free at the end. */
void server_day_run(struct server_day *day);

#endif
