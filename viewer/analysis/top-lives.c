/* Keeps the largest allocations, up to a limit. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/analysis/top-lives.h"

void
top_lives_begin(struct top_lives *self, uint64_t limit)
{
    *self = (struct top_lives){ .limit = limit < TOP_LIVES_MAX ? (size_t)limit : TOP_LIVES_MAX };
}

void
top_lives_free(struct top_lives *self)
{
    free(self->lives);
    self->lives = NULL;
    self->count = self->capacity = 0;
}

/* In the order in which they are shown. */
static int
top_compare(const void *a, const void *b)
{
    const struct scan_life *one = a;
    const struct scan_life *other = b;

    if (one->size != other->size)
        return one->size > other->size ? -1 : 1;
    return one->allocation_id < other->allocation_id ? -1 : one->allocation_id > other->allocation_id;
}

static void
top_sink(struct top_lives *self, struct scan_life life)
{
    size_t at = 0;

    for (size_t child = 1; child < self->count; child = 2 * at + 1) {
        if (child + 1 < self->count && top_compare(&self->lives[child + 1], &self->lives[child]) > 0)
            child++;
        if (top_compare(&self->lives[child], &life) <= 0)
            break;
        self->lives[at] = self->lives[child];
        at = child;
    }
    self->lives[at] = life;
}

void
top_lives_add(struct top_lives *self, const struct scan_life *life)
{
    size_t at = self->count;

    if (self->limit == 0 || self->failed)
        return;
    if (self->count == self->limit) {
        if (top_compare(life, &self->lives[0]) < 0)
            top_sink(self, *life);
        return;
    }
    if (!tidei_grow(&self->lives, &self->capacity, self->count, 1)) {
        self->failed = true;
        return;
    }
    self->count++;
    for (; at > 0 && top_compare(life, &self->lives[(at - 1) / 2]) > 0; at = (at - 1) / 2)
        self->lives[at] = self->lives[(at - 1) / 2];
    self->lives[at] = *life;
}

void
top_lives_sort(struct top_lives *self)
{
    if (self->count > 0)
        qsort(self->lives, self->count, sizeof(*self->lives), top_compare);
}
