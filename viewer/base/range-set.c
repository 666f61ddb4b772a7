/* A set of disjoint ranges: a balanced tree in which overlapping ranges compare equal. */
#include "config.h"

#include <search.h>
#include <stdlib.h>

#include "viewer/base/range-set.h"

static int
range_compare(const void *a, const void *b)
{
    const struct range *one = a;
    const struct range *other = b;

    return one->end <= other->begin ? -1 : one->begin >= other->end;
}

bool
range_set_add(struct range_set *set, struct range range)
{
    struct range *added = malloc(sizeof(*added));

    if (added == NULL)
        return false;
    *added = range;
    if (tsearch(added, &set->root, range_compare) != NULL)
        return true;
    free(added);
    return false;
}

const struct range *
range_set_first(const struct range_set *set, struct range wanted)
{
    const struct range *first = NULL;
    void *const *node;

    /* The tree finds any range that overlaps. Search again below its beginning until there is none. */
    while (wanted.begin < wanted.end && (node = tfind(&wanted, (void *const *)&set->root, range_compare)) != NULL) {
        first = *node;
        wanted.end = first->begin;
    }
    return first;
}

void
range_set_remove(struct range_set *set, struct range range)
{
    void *const *node = tfind(&range, &set->root, range_compare);
    void *found = node != NULL ? *node : NULL;

    if (found == NULL)
        return;
    tdelete(found, &set->root, range_compare);
    free(found);
}

void
range_set_clear(struct range_set *set)
{
    tdestroy(set->root, free);
    set->root = NULL;
}
