/*
 * Computes, for each group, the peak without that group: the maximum over time of the live bytes of all other groups.
 *
 * Between two changes of a group its own bytes are constant. The maximum of the others in that interval is therefore
 * the maximum of the total, less the group's bytes. A stack holds the totals that no later total has reached, and a
 * binary search in it finds the maximum since any event. Each event costs one push and one search, for any number of
 * groups. The stack is thinned out to the entries that some group can still ask for, so memory grows with the groups
 * alone.
 */
#ifndef VIEWER_ANALYSIS_COUNTERFACTUAL_H
#define VIEWER_ANALYSIS_COUNTERFACTUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/analysis/groups.h"

/* A total that no later total has reached. */
struct counterfactual_total {
    uint64_t event;
    uint64_t bytes;
};

struct counterfactual_group {
    struct marked_amount amount;
    uint64_t changed;    /* the event of the group's last change */
    uint64_t most_bytes; /* the maximum of all other groups up to that event */
};

/* All zeros is the initial state. */
struct counterfactual {
    struct counterfactual_group *groups; /* owns; by number; the last ones may not be in use */
    size_t group_count;
    struct counterfactual_total *stack; /* owns; events increase, bytes decrease */
    size_t depth;
    size_t stack_capacity;
    size_t depth_limit; /* the depth at which the stack is thinned out; 0: 65536 */
    uint64_t live_bytes;
    uint64_t events;
    uint64_t mark; /* the last mark of the groups' amounts; the caller sets it */
};

void counterfactual_free(struct counterfactual *self);

/* An allocation of a group (numbered from 0) begins or ends. false: no memory. */
bool counterfactual_change(struct counterfactual *self, uint32_t group, uint64_t size, bool is_free);

/* The peak so far without the group. */
uint64_t counterfactual_without(const struct counterfactual *self, uint32_t group);

#endif
