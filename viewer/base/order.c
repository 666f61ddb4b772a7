/* Sorts the numbers 0 to count - 1 by a figure of each. */
#include "config.h"

#include <stdlib.h>

#include "viewer/base/order.h"

static int
order_compare(const void *a, const void *b)
{
    const struct order *one = a;
    const struct order *other = b;

    if (one->figure != other->figure)
        return one->figure > other->figure ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

struct order *
order_make(size_t count, uint64_t (*figure)(const void *context, uint32_t number), const void *context)
{
    struct order *order = malloc((count + 1) * sizeof(*order));

    for (size_t i = 0; order != NULL && i < count; i++)
        order[i] = (struct order){ figure(context, (uint32_t)i), (uint32_t)i };
    if (order != NULL)
        qsort(order, count, sizeof(*order), order_compare);
    return order;
}
