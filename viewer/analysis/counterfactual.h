/*
 * What the peak would have been without each group: the most, over time, of the live bytes that are not the group's.
 *
 * Between two changes of a group its bytes stand still, so the most of the rest in that time is the most of the total
 * less those bytes. The most of the total since any moment is found on a stack of the totals that no later one reaches.
 * One event costs a push and a binary search, whatever the number of groups; memory grows with the groups alone, since
 * the stack is thinned out to what some group can still ask for.
 */
#ifndef VIEWER_ANALYSIS_COUNTERFACTUAL_H
#define VIEWER_ANALYSIS_COUNTERFACTUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A total that no later one has reached. */
struct counterfactual_total {
    uint64_t event;
    uint64_t bytes;
};

struct counterfactual_group {
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t changed;    /* the event of its last change */
    uint64_t most_bytes; /* of the rest, up to then */
    uint64_t mark;       /* the last one that had been set when it last changed */
    uint64_t mark_bytes; /* live at that one */
    uint64_t mark_count;
};

/* All zeros begins one. */
struct counterfactual {
    struct counterfactual_group *groups; /* owns; by number */
    size_t group_count;
    size_t group_capacity;
    struct counterfactual_total *stack; /* owns; events rise, bytes fall */
    size_t depth;
    size_t stack_capacity;
    size_t depth_limit; /* at which it is thinned out; 0: 65536 */
    uint64_t live_bytes;
    uint64_t events;
    uint64_t mark; /* how many were set */
};

void counterfactual_free(struct counterfactual *self);

/* A group (numbered from 0) gets an allocation, or loses one. false: no memory. */
bool counterfactual_alloc(struct counterfactual *self, uint32_t group, uint64_t size);
bool counterfactual_release(struct counterfactual *self, uint32_t group, uint64_t size);

/* Remember what every group has live now, in place of what was remembered before; and tell it for one of them. */
void counterfactual_mark(struct counterfactual *self);
void counterfactual_marked(const struct counterfactual *self, uint32_t group, uint64_t *bytes, uint64_t *count);

/* What the peak so far would have been without the group. */
uint64_t counterfactual_without(const struct counterfactual *self, uint32_t group);

#endif
