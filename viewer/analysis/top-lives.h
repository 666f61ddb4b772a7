/* The largest of many allocations, a bounded number of them. */
#ifndef VIEWER_ANALYSIS_TOP_LIVES_H
#define VIEWER_ANALYSIS_TOP_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/scan.h"

/* More than this many are never kept, whatever is asked for. */
#define TOP_LIVES_MAX 100000

struct top_lives {
    struct scan_life *lives; /* owns; a heap with the least on top, until top_lives_sort */
    size_t count;
    size_t capacity;
    size_t limit;
    bool failed; /* no memory */
};

/* At most `limit`. */
void top_lives_begin(struct top_lives *self, uint64_t limit);
void top_lives_free(struct top_lives *self);
void top_lives_add(struct top_lives *self, const struct scan_life *life);

/* The largest first, of equal ones the earlier. Nothing may be added afterwards. */
void top_lives_sort(struct top_lives *self);

#endif
