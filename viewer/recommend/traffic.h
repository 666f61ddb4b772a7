/* The traffic for which stacks are tried, and what any stack needs for it. */
#ifndef VIEWER_RECOMMEND_TRAFFIC_H
#define VIEWER_RECOMMEND_TRAFFIC_H

#include "viewer/replay/input.h"

struct traffic {
    const char *path; /* borrows */
    struct replay_input input;
    char *stack;              /* owns; the recorded stack; NULL: the input does not say */
    uint64_t peak_bytes;      /* the most that was live: no placement needs less */
    uint64_t peaks_by_stream; /* the sum of what was live at the most on each stream: without reuse between streams */
    size_t allocations;
};

/*
 * Read a trace (`layer_id` 0: its outermost log) or RMM's CSV. COMMAND_FINE; COMMAND_WRONG after a message, and there
 * is nothing to free.
 */
int traffic_read(const char *path, int64_t layer_id, struct traffic *out);

void traffic_free(struct traffic *traffic);

#endif
