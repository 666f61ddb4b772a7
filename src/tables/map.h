/*
 * A hash table from (id, layer) to a 32-bit number. Ids are addresses, handles, hashes, thread numbers or row numbers;
 * users without layers pass layer 0. A key may be in the map several times.
 *
 * Open addressing with linear probing, and a load factor of at most 1/2. Removal shifts later entries back, so that no
 * tombstones accumulate in a long trace. A zeroed struct is an empty map. Not thread-safe.
 */
#ifndef TIDEI_TABLES_MAP_H
#define TIDEI_TABLES_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_map_entry {
    uint64_t id;
    uint32_t number;
    uint16_t layer;
    bool used;
};

struct tidei_map {
    struct tidei_map_entry *entries; /* owns; mask + 1 entries, a power of two */
    size_t mask;
    size_t count;
    uint64_t key;   /* of the hash; odd */
    unsigned shift; /* 64 less the number of the mask's bits */
};

#define TIDEI_MAP_NONE SIZE_MAX

void tidei_map_free(struct tidei_map *map);

/*
 * Choose a random hash key for an empty map. Needed for ids that come from files: with a known key, the author of a
 * file could choose ids that all collide. 100,000 such ids took 13 seconds.
 */
void tidei_map_draw_key(struct tidei_map *map);

/* Double the capacity. False without host memory; the map is then unchanged. */
bool tidei_map_grow(struct tidei_map *map);

void tidei_map_remove(struct tidei_map *map, size_t index);

/*
 * Fibonacci hashing: the high bits of a product depend on every bit of the id, also where ids are multiples of a large
 * power of two. With the key that is not drawn, addresses at even distances, as allocators give them, hardly collide.
 * The layer is multiplied by the key, too: otherwise ids of many layers could be chosen that collide with every key. It
 * is added, which leaves the distances between ids of one layer as they are.
 */
static inline size_t
tidei_map_home(const struct tidei_map *map, uint64_t id, uint16_t layer)
{
    return (size_t)(((id + layer * map->key) * map->key) >> map->shift);
}

/* Add an entry, even if the key already has one. False without host memory. */
static inline bool
tidei_map_add(struct tidei_map *map, uint64_t id, uint16_t layer, uint32_t number)
{
    size_t i;

    if ((map->count + 1) * 2 > map->mask && !tidei_map_grow(map))
        return false;
    i = tidei_map_home(map, id, layer);
    while (map->entries[i].used)
        i = (i + 1) & map->mask;
    map->entries[i] = (struct tidei_map_entry){ .id = id, .number = number, .layer = layer, .used = true };
    map->count++;
    return true;
}

/* The index of the key's next entry at or after `index`; TIDEI_MAP_NONE if there is none. */
static inline size_t
tidei_map_scan(const struct tidei_map *map, size_t index, uint64_t id, uint16_t layer)
{
    for (size_t i = index & map->mask; map->entries[i].used; i = (i + 1) & map->mask) {
        if (map->entries[i].id == id && map->entries[i].layer == layer)
            return i;
    }
    return TIDEI_MAP_NONE;
}

/* The index of the key's first entry, or of its next entry after `index`; TIDEI_MAP_NONE if there is none. */
static inline size_t
tidei_map_first(const struct tidei_map *map, uint64_t id, uint16_t layer)
{
    return map->count != 0 ? tidei_map_scan(map, tidei_map_home(map, id, layer), id, layer) : TIDEI_MAP_NONE;
}

static inline size_t
tidei_map_next(const struct tidei_map *map, size_t index)
{
    return tidei_map_scan(map, index + 1, map->entries[index].id, map->entries[index].layer);
}

/* The number of the key's first entry, valid until the map changes; NULL if there is none. */
static inline uint32_t *
tidei_map_find(const struct tidei_map *map, uint64_t id, uint16_t layer)
{
    size_t index = tidei_map_first(map, id, layer);

    return index != TIDEI_MAP_NONE ? &map->entries[index].number : NULL;
}

/* Remove the key's first entry and put its number into *number; false if there is none. */
static inline bool
tidei_map_take(struct tidei_map *map, uint64_t id, uint16_t layer, uint32_t *number)
{
    size_t index = tidei_map_first(map, id, layer);

    if (index == TIDEI_MAP_NONE)
        return false;
    *number = map->entries[index].number;
    tidei_map_remove(map, index);
    return true;
}

/* Give the key's entry with the number `from` the number `to`, as when an item of a list moves. */
static inline void
tidei_map_renumber(struct tidei_map *map, uint64_t id, uint16_t layer, uint32_t from, uint32_t to)
{
    size_t index = tidei_map_first(map, id, layer);

    while (index != TIDEI_MAP_NONE && map->entries[index].number != from)
        index = tidei_map_next(map, index);
    if (index != TIDEI_MAP_NONE)
        map->entries[index].number = to;
}

/* Prefetch the cache line of the key's home: with 100,000 entries the table does not stay in the cache. */
static inline void
tidei_map_prefetch(const struct tidei_map *map, uint64_t id, uint16_t layer)
{
    if (map->entries != NULL)
        __builtin_prefetch(&map->entries[tidei_map_home(map, id, layer)]);
}

#endif
