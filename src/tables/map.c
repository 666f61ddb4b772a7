/* Growing a map, removing entries, and drawing the hash key. */
#include "config.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "src/tables/map.h"

#define MAP_FIRST_BITS 6

/* 2^64 / golden ratio (Knuth, TAOCP vol. 3, 6.4): spreads evenly spaced ids far apart. */
#define MAP_KEY UINT64_C(0x9e3779b97f4a7c15)

void
tidei_map_free(struct tidei_map *map)
{
    free(map->entries);
    *map = (struct tidei_map){ 0 };
}

void
tidei_map_draw_key(struct tidei_map *map)
{
    struct timespec now = { 0 };

    if (getrandom(&map->key, sizeof(map->key), GRND_NONBLOCK) != (ssize_t)sizeof(map->key)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        map->key = ((uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)map) * MAP_KEY;
    }
    map->key |= 1;
}

bool
tidei_map_grow(struct tidei_map *map)
{
    size_t size = map->entries == NULL ? (size_t)1 << MAP_FIRST_BITS : 2 * (map->mask + 1);
    struct tidei_map larger = { .entries = calloc(size, sizeof(*larger.entries)), .mask = size - 1 };

    if (larger.entries == NULL)
        return false;
    larger.shift = map->entries == NULL ? 64 - MAP_FIRST_BITS : map->shift - 1;
    larger.key = map->key != 0 ? map->key : MAP_KEY;
    for (size_t i = 0; map->entries != NULL && i <= map->mask; i++) {
        const struct tidei_map_entry *entry = &map->entries[i];

        if (entry->used)
            tidei_map_add(&larger, entry->id, entry->layer, entry->number);
    }
    free(map->entries);
    *map = larger;
    return true;
}

void
tidei_map_remove(struct tidei_map *map, size_t index)
{
    struct tidei_map_entry *entries = map->entries;
    size_t hole = index;

    for (size_t i = (hole + 1) & map->mask; entries[i].used; i = (i + 1) & map->mask) {
        size_t home = tidei_map_home(map, entries[i].id, entries[i].layer);

        /* The entry may move back into the hole where its home is not between the hole and itself. */
        if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
            entries[hole] = entries[i];
            hole = i;
        }
    }
    entries[hole].used = false;
    map->count--;
}
