/*
 * Records the levels of a curve that reach a threshold. The threshold rises while the curve is taken in; a level below
 * it is also below the final threshold and need not be kept. The record tells when the curve reached the final
 * threshold.
 */
#ifndef VIEWER_ANALYSIS_LEVELS_H
#define VIEWER_ANALYSIS_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With more entries than this (32 MiB), `overflowed` is set and the list is incomplete. */
#define LEVELS_MAX ((size_t)2 << 20)

struct level {
    int64_t ns;
    uint64_t bytes;
};

/* All zeros is the initial state. */
struct levels {
    struct level *list; /* owns; of successive levels below the threshold only the first */
    size_t count;
    size_t capacity;
    size_t most; /* the maximum of count; 0: LEVELS_MAX */
    bool overflowed;
};

/* Keep an entry. Only levels_add calls this. */
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
