/*
 * The levels of a curve from a threshold up, which rises while the curve is taken in: what is needed to tell, once the
 * last threshold is known, when the curve was above it. Whatever is below the threshold of its time is below the last.
 */
#ifndef VIEWER_ANALYSIS_LEVELS_H
#define VIEWER_ANALYSIS_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At more of them (32 MiB) `overflowed` is set, and the list is of no use. */
#define LEVELS_MAX ((size_t)2 << 20)

struct level {
    int64_t ns;
    uint64_t bytes;
};

/* All zeros begins one. */
struct levels {
    struct level *list; /* owns; of what follows each other below the threshold only the first */
    size_t count;
    size_t capacity;
    size_t most; /* entries; 0: LEVELS_MAX */
    bool overflowed;
};

/* Keep an entry. Call levels_add, which knows when. */
void levels_keep(struct levels *self, int64_t ns, uint64_t bytes, uint64_t threshold);

/* The curve is at `bytes` from `ns` on, and the threshold at `threshold`. */
static inline void
levels_add(struct levels *self, int64_t ns, uint64_t bytes, uint64_t threshold)
{
    if (bytes >= threshold || (self->count > 0 && self->list[self->count - 1].bytes >= threshold))
        levels_keep(self, ns, bytes, threshold);
}

void levels_free(struct levels *self);

#endif
