/* Computes the peak without each group. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/analysis/counterfactual.h"

#define COUNTERFACTUAL_DEPTH 65536

void
counterfactual_free(struct counterfactual *self)
{
    free(self->groups);
    free(self->stack);
    *self = (struct counterfactual){ 0 };
}

/* The highest total from `event` on, this one included. */
static uint64_t
counterfactual_most_since(const struct counterfactual *self, uint64_t event)
{
    size_t high = self->depth;
    size_t low = high;

    /* Mostly the group has changed a few events ago: few totals lie behind, of thousands. */
    for (size_t step = 1; low > 0 && self->stack[low - 1].event >= event; step *= 2) {
        high = low - 1;
        low = low > step ? low - step : 0;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (self->stack[middle].event < event)
            low = middle + 1;
        else
            high = middle;
    }
    return low < self->depth ? self->stack[low].bytes : 0;
}

static int
counterfactual_compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a;
    uint64_t other = *(const uint64_t *)b;

    return one < other ? -1 : one > other;
}

/* Keep the totals that some group can still ask for, and the last one. */
static bool
counterfactual_thin(struct counterfactual *self)
{
    uint64_t *changes = malloc((self->group_count + 1) * sizeof(*changes));
    size_t kept = 0;
    size_t change = 0;

    if (changes == NULL)
        return false;
    for (size_t i = 0; i < self->group_count; i++)
        changes[i] = self->groups[i].changed;
    /* For new groups, whose last change counts as the beginning. */
    changes[self->group_count] = 0;
    qsort(changes, self->group_count + 1, sizeof(*changes), counterfactual_compare);
    for (size_t i = 0; i < self->depth; i++) {
        bool wanted = i + 1 == self->depth;

        for (; change <= self->group_count && changes[change] <= self->stack[i].event; change++)
            wanted = true;
        if (wanted)
            self->stack[kept++] = self->stack[i];
    }
    self->depth = kept;
    free(changes);
    return true;
}

static bool
counterfactual_push(struct counterfactual *self)
{
    size_t limit = self->depth_limit != 0 ? self->depth_limit : COUNTERFACTUAL_DEPTH;

    while (self->depth > 0 && self->stack[self->depth - 1].bytes <= self->live_bytes)
        self->depth--;
    if (self->depth >= limit && self->depth >= 4 * (self->group_count + 1) && !counterfactual_thin(self))
        return false;
    if (!tidei_grow(&self->stack, &self->stack_capacity, self->depth, 1))
        return false;
    self->stack[self->depth++] = (struct counterfactual_total){ self->events, self->live_bytes };
    return true;
}

bool
counterfactual_change(struct counterfactual *self, uint32_t group, uint64_t size, bool is_free)
{
    struct counterfactual_group *changed;

    if (group >= self->group_count && !groups_reach(&self->groups, &self->group_count, group))
        return false;
    changed = &self->groups[group];
    /* Until this event the group had the bytes that it has now. */
    changed->most_bytes = counterfactual_without(self, group);
    changed->changed = ++self->events;
    marked_change(&changed->amount, self->mark, size, is_free);
    self->live_bytes += is_free ? -size : size;
    return counterfactual_push(self);
}

uint64_t
counterfactual_without(const struct counterfactual *self, uint32_t group)
{
    const struct counterfactual_group *found = &self->groups[group];
    uint64_t most = counterfactual_most_since(self, found->changed);
    uint64_t own = found->amount.live.bytes;
    uint64_t rest = most > own ? most - own : 0;

    return rest > found->most_bytes ? rest : found->most_bytes;
}
