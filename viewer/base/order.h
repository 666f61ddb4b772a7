/* The numbers 0 to count - 1 in the order of figures that belong to them, for tables that begin with the most. */
#ifndef VIEWER_BASE_ORDER_H
#define VIEWER_BASE_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct order {
    uint64_t figure;
    uint32_t number;
};

/* The largest figure first, of equal ones the lower number. `figure` is called once for each. NULL: no memory. */
struct order *order_make(size_t count, uint64_t (*figure)(const void *context, uint32_t number), const void *context);

#endif
