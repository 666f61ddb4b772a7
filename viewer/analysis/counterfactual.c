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
    size_t low = 0;
    size_t high = self->depth;

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

static bool
counterfactual_reach(struct counterfactual *self, uint32_t group)
{
    if (group < self->group_count)
        return true;
    if (!tidei_grow(&self->groups, &self->group_capacity, self->group_count, group + 1 - self->group_count))
        return false;
    while (self->group_count <= group)
        self->groups[self->group_count++] = (struct counterfactual_group){ 0 };
    return true;
}

/* Called before a group changes: account for the interval since its last change, with its bytes until now. */
static struct counterfactual_group *
counterfactual_change(struct counterfactual *self, uint32_t group)
{
    struct counterfactual_group *changed;

    if (!counterfactual_reach(self, group))
        return NULL;
    changed = &self->groups[group];
    changed->most_bytes = counterfactual_without(self, group);
    changed->changed = ++self->events;
    if (changed->mark != self->mark) {
        changed->mark = self->mark;
        changed->mark_bytes = changed->live_bytes;
        changed->mark_count = changed->live_count;
    }
    return changed;
}

bool
counterfactual_alloc(struct counterfactual *self, uint32_t group, uint64_t size)
{
    struct counterfactual_group *changed = counterfactual_change(self, group);

    if (changed == NULL)
        return false;
    changed->live_bytes += size;
    changed->live_count += size != 0;
    self->live_bytes += size;
    return counterfactual_push(self);
}

bool
counterfactual_release(struct counterfactual *self, uint32_t group, uint64_t size)
{
    struct counterfactual_group *changed = counterfactual_change(self, group);

    if (changed == NULL)
        return false;
    changed->live_bytes -= size;
    changed->live_count -= size != 0;
    self->live_bytes -= size;
    return counterfactual_push(self);
}

void
counterfactual_mark(struct counterfactual *self)
{
    self->mark++;
}

void
counterfactual_marked(const struct counterfactual *self, uint32_t group, uint64_t *bytes, uint64_t *count)
{
    const struct counterfactual_group *found = &self->groups[group];
    bool changed = found->mark == self->mark;

    *bytes = changed ? found->mark_bytes : found->live_bytes;
    *count = changed ? found->mark_count : found->live_count;
}

uint64_t
counterfactual_without(const struct counterfactual *self, uint32_t group)
{
    const struct counterfactual_group *found = &self->groups[group];
    uint64_t most = counterfactual_most_since(self, found->changed);
    uint64_t rest = most > found->live_bytes ? most - found->live_bytes : 0;

    return rest > found->most_bytes ? rest : found->most_bytes;
}
