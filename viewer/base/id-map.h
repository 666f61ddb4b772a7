/*
 * A map from 64-bit ids (pointers, threads, streams) to 32-bit numbers, over src/tables/map.h. The hash has a random
 * key, so that no input file can be made to collide. All zeros is an empty map.
 */
#ifndef VIEWER_BASE_ID_MAP_H
#define VIEWER_BASE_ID_MAP_H

#include "src/tables/map.h"

#define id_map      tidei_map /* so that the viewer can write `struct id_map` */
#define id_map_free tidei_map_free

/* The number of `id`, valid until the map changes; NULL if `id` is not in the map. */
#define id_map_find(map, id) tidei_map_find((map), (id), 0)

/* Remove `id` and store its number in *number; false if `id` is not in the map. */
#define id_map_take(map, id, number) tidei_map_take((map), (id), 0, (number))

/* Add `id`, which must not be in the map. false: no memory. */
static inline bool
id_map_add(struct id_map *map, uint64_t id, uint32_t number)
{
    if (map->key == 0)
        tidei_map_draw_key(map);
    return tidei_map_add(map, id, 0, number);
}

#endif
