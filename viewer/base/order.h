/* Sorts the numbers 0 to count - 1 by a figure of each, for tables that begin with the largest. */
#ifndef VIEWER_BASE_ORDER_H
#define VIEWER_BASE_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct order {
    uint64_t figure;
    uint32_t number;
};

/*
 * The largest figure comes first; of equal figures, the lower number. Calls `figure` once for each number. The caller
 * frees the result; NULL: no memory.
 */
struct order *order_make(size_t count, uint64_t (*figure)(const void *context, uint32_t number), const void *context);

#endif
