/* A hash table from 64-bit ids to 32-bit numbers: open addressing, no tombstones. */
#include "config.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "viewer/base/id-map.h"

/*
 * Where an id belongs: both halves of a product with what only this table knows. Ids come from files, and whoever
 * writes one could choose them all to have one home if homes were known: 100,000 such ids took 13 seconds.
 */
static size_t
map_home(const struct id_map *map, uint64_t id)
{
    unsigned __int128 product = (unsigned __int128)(id ^ map->secret[0]) * map->secret[1];

    return (size_t)((uint64_t)(product >> 64) ^ (uint64_t)product) & map->mask;
}

/* Something that a file cannot know. */
static void
map_draw(struct id_map *map)
{
    struct timespec now = { 0 };

    if (getrandom(map->secret, sizeof(map->secret), GRND_NONBLOCK) != (ssize_t)sizeof(map->secret)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        map->secret[0] = (uint64_t)(uintptr_t)map;
        map->secret[1] = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15);
    }
    map->secret[1] |= 1;
}

void
id_map_free(struct id_map *map)
{
    free(map->slots);
    *map = (struct id_map){ 0 };
}

/* The slot of `id`, or the empty one where it belongs. */
static size_t
map_slot(const struct id_map *map, uint64_t id)
{
    size_t at = map_home(map, id);

    while (map->slots[at].used && map->slots[at].id != id)
        at = (at + 1) & map->mask;
    return at;
}

uint32_t *
id_map_find(const struct id_map *map, uint64_t id)
{
    size_t at;

    if (map->count == 0)
        return NULL;
    at = map_slot(map, id);
    return map->slots[at].used ? &map->slots[at].number : NULL;
}

static bool
map_grow(struct id_map *map)
{
    size_t size = map->slots == NULL ? 64 : 2 * (map->mask + 1);
    struct id_map grown = *map;

    grown.slots = calloc(size, sizeof(*grown.slots));
    grown.mask = size - 1;
    if (grown.slots == NULL)
        return false;
    if (map->slots == NULL)
        map_draw(&grown);
    for (size_t i = 0; map->slots != NULL && i <= map->mask; i++) {
        if (map->slots[i].used)
            grown.slots[map_slot(&grown, map->slots[i].id)] = map->slots[i];
    }
    free(map->slots);
    *map = grown;
    return true;
}

bool
id_map_add(struct id_map *map, uint64_t id, uint32_t number)
{
    /* At most half full: chains stay short. */
    if ((map->slots == NULL || 2 * (map->count + 1) > map->mask + 1) && !map_grow(map))
        return false;
    map->slots[map_slot(map, id)] = (struct id_map_slot){ .id = id, .number = number, .used = true };
    map->count++;
    return true;
}

bool
id_map_take(struct id_map *map, uint64_t id, uint32_t *number)
{
    size_t hole;

    if (map->count == 0)
        return false;
    hole = map_slot(map, id);
    if (!map->slots[hole].used)
        return false;
    *number = map->slots[hole].number;
    map->count--;
    /* Move back whatever the hole would cut off from its home. */
    for (size_t at = (hole + 1) & map->mask; map->slots[at].used; at = (at + 1) & map->mask) {
        size_t home = map_home(map, map->slots[at].id);

        if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole].used = false;
    return true;
}
