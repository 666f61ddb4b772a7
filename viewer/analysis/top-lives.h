/* Keeps the largest allocations, up to a limit. */
#ifndef VIEWER_ANALYSIS_TOP_LIVES_H
#define VIEWER_ANALYSIS_TOP_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/scan.h"

/* The upper bound of any limit. */
#define TOP_LIVES_MAX 100000

struct top_lives {
    struct scan_life
        *lives; /* owns; up to twice the limit, of which the largest are kept; sorted after top_lives_sort */
    size_t count;
    size_t capacity;
    size_t limit;
    bool cut;    /* the first `limit` are the largest of all that were added before the last cut */
    bool failed; /* no memory */
};

/* Keep at most `limit` allocations. */
void top_lives_begin(struct top_lives *self, uint64_t limit);
void top_lives_free(struct top_lives *self);
void top_lives_add(struct top_lives *self, const struct scan_life *life);

/* Forget what was added. */
void top_lives_clear(struct top_lives *self);

/* Cut to the limit and sort: the largest first; of equal ones, the earlier first. Nothing may be added afterwards. */
void top_lives_sort(struct top_lives *self);

#endif
