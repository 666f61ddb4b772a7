/*
 * A map from 64-bit ids to 32-bit numbers (src/tables/map.h), for what is live at a time: pointers, ids of threads and
 * streams. The ids come from files: so the hash has a key that no file can know. All zeros is an empty map.
 */
#ifndef VIEWER_BASE_ID_MAP_H
#define VIEWER_BASE_ID_MAP_H

#include "src/tables/map.h"

#define id_map tidei_map /* the struct: the viewer says `struct id_map` */

static inline void
id_map_free(struct id_map *map)
{
    tidei_map_free(map);
}

/* The number of `id`, until the next change; NULL where there is none. */
static inline uint32_t *
id_map_find(const struct id_map *map, uint64_t id)
{
    return tidei_map_find(map, id, 0);
}

/* Add `id`, which is not there yet. false: no memory. */
static inline bool
id_map_add(struct id_map *map, uint64_t id, uint32_t number)
{
    if (map->key == 0)
        tidei_map_draw_key(map);
    return tidei_map_add(map, id, 0, number);
}

/* Take `id` out and put its number into *number; false where it is not there. */
static inline bool
id_map_take(struct id_map *map, uint64_t id, uint32_t *number)
{
    return tidei_map_take(map, id, 0, number);
}

#endif
