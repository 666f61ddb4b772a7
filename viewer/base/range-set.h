/* A set of address ranges that do not overlap, such as mapped memory. */
#ifndef VIEWER_BASE_RANGE_SET_H
#define VIEWER_BASE_RANGE_SET_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t begin;
    uint64_t end; /* one past the last address; greater than `begin` */
};

/* All zeros is an empty set. */
struct range_set {
    void *root; /* owns */
};

/* Add a range that overlaps no range of the set. False: no memory. */
bool range_set_add(struct range_set *set, struct range range);

/* The lowest range that overlaps `wanted`, valid until the set changes; NULL: there is none. */
const struct range *range_set_first(const struct range_set *set, struct range wanted);

/* Remove a range that is in the set. */
void range_set_remove(struct range_set *set, struct range range);

void range_set_clear(struct range_set *set);

#endif
