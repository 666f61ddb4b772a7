/* A hash table from 64-bit ids to 32-bit numbers, for what is live at a time: pointers, ids of threads and streams. */
#ifndef VIEWER_BASE_ID_MAP_H
#define VIEWER_BASE_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_map_slot {
    uint64_t id;
    uint32_t number;
    bool used;
};

/* All zeros is an empty table. */
struct id_map {
    struct id_map_slot *slots; /* owns */
    size_t mask;               /* slots - 1; a power of two of them */
    size_t count;
    uint64_t secret[2]; /* drawn with the first slots, so that no file can choose ids that collide */
};

void id_map_free(struct id_map *map);

/* The number of `id`, until the next change; NULL where there is none. */
uint32_t *id_map_find(const struct id_map *map, uint64_t id);

/* Add `id`, which is not there yet. false: no memory. */
bool id_map_add(struct id_map *map, uint64_t id, uint32_t number);

/* Take `id` out and put its number into *number; false where it is not there. */
bool id_map_take(struct id_map *map, uint64_t id, uint32_t *number);

#endif
