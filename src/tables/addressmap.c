/* The slow side of the table from addresses to numbers. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/addressmap.h"

#define ADDRESSMAP_FIRST_SLOTS 1024

bool
tidei_address_map_init(struct tidei_address_map *map)
{
    map->entries = calloc(ADDRESSMAP_FIRST_SLOTS, sizeof(*map->entries));
    map->mask = ADDRESSMAP_FIRST_SLOTS - 1;
    map->count = 0;
    map->shift = 64 - 10;
    return map->entries != NULL;
}

void
tidei_address_map_fini(struct tidei_address_map *map)
{
    free(map->entries);
    map->entries = NULL;
}

bool
tidei_address_map_grow(struct tidei_address_map *map)
{
    struct tidei_address_map larger = { .mask = map->mask * 2 + 1, .shift = map->shift - 1 };

    larger.entries = calloc(larger.mask + 1, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return false;
    for (size_t i = 0; i <= map->mask; i++) {
        const struct tidei_address_entry *entry = &map->entries[i];

        if (entry->value != 0)
            tidei_address_map_insert(&larger, entry->address, entry->layer, entry->value);
    }
    free(map->entries);
    *map = larger;
    return true;
}

void
tidei_address_map_remove(struct tidei_address_map *map, size_t index)
{
    struct tidei_address_entry *entries = map->entries;
    size_t hole = index;

    for (size_t i = (hole + 1) & map->mask; entries[i].value != 0; i = (i + 1) & map->mask) {
        size_t home = tidei_address_map_home(map, entries[i].address, entries[i].layer);

        /* The entry may move back into the hole where its home is not between the hole and itself. */
        if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
            entries[hole] = entries[i];
            hole = i;
        }
    }
    entries[hole].value = 0;
    map->count--;
}
