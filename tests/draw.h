/* Random numbers for a test: from SEED, else from the time, and the seed is printed, so that a run can be repeated. */
#ifndef TESTS_DRAW_H
#define TESTS_DRAW_H

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/tap.h"

static uint64_t draw_state;

static inline void
draw_begin(void)
{
    const char *seed = getenv("SEED");

    draw_state = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    if (draw_state == 0)
        draw_state = 1; /* of 0 there comes nothing but 0 */
    diag("SEED=%" PRIu64, draw_state);
}

/* A number below `below`. */
static inline uint64_t
draw(uint64_t below)
{
    draw_state ^= draw_state << 13;
    draw_state ^= draw_state >> 7;
    draw_state ^= draw_state << 17;
    return (draw_state >> 11) % below;
}

#endif
