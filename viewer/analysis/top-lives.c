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

/* The larger one first; of equal ones, the earlier one. */
static int
top_compare(const void *a, const void *b)
{
    const struct scan_life *one = a;
    const struct scan_life *other = b;

    if (one->size != other->size)
        return one->size > other->size ? -1 : 1;
    return one->allocation_id < other->allocation_id ? -1 : one->allocation_id > other->allocation_id;
}

void
top_lives_add(struct top_lives *self, const struct scan_life *life)
{
    if (self->limit == 0 || self->failed || (self->cut && top_compare(life, &self->lives[self->limit - 1]) > 0))
        return;
    if (self->count == 2 * self->limit)
        top_lives_sort(self);
    self->failed = !tidei_grow(&self->lives, &self->capacity, self->count, 1);
    if (!self->failed)
        self->lives[self->count++] = *life;
}

void
top_lives_sort(struct top_lives *self)
{
    if (self->count > 0)
        qsort(self->lives, self->count, sizeof(*self->lives), top_compare);
    self->cut = self->cut || self->count > self->limit;
    if (self->count > self->limit)
        self->count = self->limit;
}

void
top_lives_clear(struct top_lives *self)
{
    self->count = 0;
    self->cut = false;
}
