/*
 * A hash table from (address, layer) to a number that is not 0; one address may stand in it several times.
 * Open addressing with linear probing at a load of at most 1/2; removal moves what follows back, so that no
 * tombstones gather in a trace of any length. Not thread-safe.
 */
#ifndef TIDEI_TABLES_ADDRESSMAP_H
#define TIDEI_TABLES_ADDRESSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tidei_address_entry {
    uint64_t address;
    uint32_t layer;
    uint32_t value; /* 0: empty */
};

struct tidei_address_map {
    struct tidei_address_entry *entries;
    size_t mask;
    size_t count;
    unsigned shift;
};

#define TIDEI_ADDRESS_NONE SIZE_MAX

bool tidei_address_map_init(struct tidei_address_map *map);
void tidei_address_map_fini(struct tidei_address_map *map);

/* False where host memory is short; nothing has changed then. */
bool tidei_address_map_grow(struct tidei_address_map *map);
void tidei_address_map_remove(struct tidei_address_map *map, size_t index);

static inline size_t
tidei_address_map_home(const struct tidei_address_map *map, uint64_t address, uint32_t layer)
{
    /* Fibonacci hashing: the high bits of a product with 2^64 / phi (Knuth, TAOCP vol. 3, 6.4). */
    return (size_t)((address ^ (uint64_t)layer << 48) * 0x9e3779b97f4a7c15u >> map->shift);
}

static inline bool
tidei_address_map_insert(struct tidei_address_map *map, uint64_t address, uint32_t layer, uint32_t value)
{
    size_t i;

    if (map->count * 2 > map->mask && !tidei_address_map_grow(map))
        return false;
    i = tidei_address_map_home(map, address, layer);
    while (map->entries[i].value != 0)
        i = (i + 1) & map->mask;
    map->entries[i].address = address;
    map->entries[i].layer = layer;
    map->entries[i].value = value;
    map->count++;
    return true;
}

/* The index of an entry at or after `from` in its chain; TIDEI_ADDRESS_NONE where there is none. */
static inline size_t
tidei_address_map_scan(const struct tidei_address_map *map, size_t from, uint64_t address, uint32_t layer)
{
    size_t i = from & map->mask;

    while (map->entries[i].value != 0) {
        if (map->entries[i].address == address && map->entries[i].layer == layer)
            return i;
        i = (i + 1) & map->mask;
    }
    return TIDEI_ADDRESS_NONE;
}

static inline size_t
tidei_address_map_first(const struct tidei_address_map *map, uint64_t address, uint32_t layer)
{
    return tidei_address_map_scan(map, tidei_address_map_home(map, address, layer), address, layer);
}

static inline size_t
tidei_address_map_next(const struct tidei_address_map *map, size_t index)
{
    return tidei_address_map_scan(map, index + 1, map->entries[index].address, map->entries[index].layer);
}

#endif
