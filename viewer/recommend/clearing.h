/*
 * How long growth waits for memory that went back to the device.
 *
 * The driver clears memory before it is taken again. An H200 does that beside all else, 2.4 us for each MiB, and a call
 * that takes memory or maps it waits until all is cleared, but not much longer than a millisecond. So what a growth
 * costs depends on what went back shortly before: a stack that gives back 64 MiB and takes 2 MiB at once waits for
 * 150 us, and one that takes them later does not.
 *
 * Time passes with what the calls cost, and with the events of the replay.
 */
#ifndef VIEWER_RECOMMEND_CLEARING_H
#define VIEWER_RECOMMEND_CLEARING_H

#include <tidemark/base.h>

#include "viewer/recommend/costs.h"
#include "viewer/replay/run.h"

struct clearing {
    const struct cost *costs;           /* borrows; of the base */
    const struct replay_result *replay; /* borrows; its events until now */
    enum cost_base base;
    double calls_ns;          /* what the calls cost until now */
    double begin_ns, end_ns;  /* of the clearing, or since a growth waited at the most; end_ns <= now: all is clear */
    struct cost_amount waits; /* how often growth waited, and the memory that is cleared in this time */
};

/* A tide_sim_watcher of a model of the base; `context` is a struct clearing, set up but for its last four fields. */
void clearing_watch(void *context, enum tide_sim_event event, uint64_t amount);

#endif
