/* The ids of a trace that the data of a report refers to, in order, and the place of each. Id 0 is at place 0. */
#ifndef VIEWER_REPORT_NAME_INDEX_H
#define VIEWER_REPORT_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/base/id-map.h"

/* All zeros is empty. */
struct name_index {
    int64_t *ids; /* owns */
    size_t count, capacity;
    struct id_map places;
    bool failed; /* no memory */
};

void name_index_add(struct name_index *index, int64_t id);

/* All were added: find their places. False: no memory, now or before. */
bool name_index_sort(struct name_index *index);

/* The place of an id that was added. */
uint64_t name_index_place(const struct name_index *index, int64_t id);

void name_index_free(struct name_index *index);

#endif
