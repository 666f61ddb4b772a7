/* A set of ranges of addresses that do not overlap: what is mapped, of which parts are unmapped. */
#ifndef VIEWER_BASE_RANGE_SET_H
#define VIEWER_BASE_RANGE_SET_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t begin;
    uint64_t end; /* behind the last address; greater than `begin` */
};

/* All zeros is an empty set. */
struct range_set {
    void *root; /* owns */
};

/* Add a range that overlaps none of the set. False: no memory. */
bool range_set_add(struct range_set *set, struct range range);

/* The lowest range that overlaps `wanted`; NULL: there is none. Until the next change. */
const struct range *range_set_first(const struct range_set *set, struct range wanted);

/* Take out a range that is in the set. */
void range_set_remove(struct range_set *set, struct range range);

void range_set_clear(struct range_set *set);

#endif
