/* Records the levels of a curve that reach a rising threshold. */
#include "config.h"

#include <stdlib.h>

#include "viewer/analysis/levels.h"

/* Leave out what the threshold has risen above, but for the first below it behind what is not. */
static void
levels_thin(struct levels *self, uint64_t threshold)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->count; i++) {
        if (self->list[i].bytes >= threshold || (kept > 0 && self->list[kept - 1].bytes >= threshold))
            self->list[kept++] = self->list[i];
    }
    self->count = kept;
}

/* Make room for one more. */
static bool
levels_reserve(struct levels *self, uint64_t threshold)
{
    size_t most = self->most > 0 ? self->most : LEVELS_MAX;
    size_t capacity = self->capacity == 0 ? 1024 : 2 * self->capacity;
    struct level *grown;

    if (self->count < self->capacity)
        return true;
    levels_thin(self, threshold);
    if (self->count < self->capacity / 2)
        return true;
    if (capacity > most)
        capacity = most;
    if (self->count >= capacity)
        return false;
    grown = realloc(self->list, capacity * sizeof(*grown));
    if (grown == NULL)
        return false;
    self->list = grown;
    self->capacity = capacity;
    return true;
}

void
levels_keep(struct levels *self, int64_t ns, uint64_t bytes, uint64_t threshold)
{
    if (self->overflowed)
        return;
    if (!levels_reserve(self, threshold)) {
        self->overflowed = true;
        self->count = 0;
        return;
    }
    self->list[self->count++] = (struct level){ ns, bytes };
}

void
levels_free(struct levels *self)
{
    free(self->list);
    *self = (struct levels){ .most = self->most };
}
