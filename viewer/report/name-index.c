/* The ids of a trace that the data of a report refers to. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/report/name-index.h"

void
name_index_add(struct name_index *index, int64_t id)
{
    if (id_map_find(&index->places, (uint64_t)id) != NULL)
        return;
    if (!tidei_grow(&index->ids, &index->capacity, index->count, 1) || !id_map_add(&index->places, (uint64_t)id, 0)) {
        index->failed = true;
        return;
    }
    index->ids[index->count++] = id;
}

/* 0 before all others. */
static int
name_index_compare(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    if ((one == 0) != (other == 0))
        return one == 0 ? -1 : 1;
    return (one > other) - (one < other);
}

bool
name_index_sort(struct name_index *index)
{
    name_index_add(index, 0);
    if (index->failed)
        return false;
    qsort(index->ids, index->count, sizeof(*index->ids), name_index_compare);
    for (size_t i = 0; i < index->count; i++)
        *id_map_find(&index->places, (uint64_t)index->ids[i]) = (uint32_t)i;
    return true;
}

uint64_t
name_index_place(const struct name_index *index, int64_t id)
{
    const uint32_t *place = id_map_find(&index->places, (uint64_t)id);

    return place != NULL ? *place : 0;
}

void
name_index_free(struct name_index *index)
{
    free(index->ids);
    id_map_free(&index->places);
    *index = (struct name_index){ 0 };
}
