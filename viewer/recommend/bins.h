/* Sizes of bins that are fitted to traffic. */
#ifndef VIEWER_RECOMMEND_BINS_H
#define VIEWER_RECOMMEND_BINS_H

#include "viewer/recommend/traffic.h"

#define BINS_MOST 32

/*
 * Choose up to `count` sizes of blocks for the requests of up to `most` bytes, the last for the largest of them, so
 * that the fewest bytes are wasted where most of each size are live. Returns how many there are, in ascending order; 0:
 * no request is that small, or no memory.
 */
size_t bins_fit(const struct traffic *traffic, size_t traffic_count, uint64_t most, size_t count,
                uint64_t sizes[BINS_MOST]);

#endif
