/* Finds for each free the allocation that it ends. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "src/tables/lives.h"

void
tidei_lives_free(struct tidei_lives *lives)
{
    tidei_map_free(&lives->by_address);
    tidei_map_free(&lives->by_null_id);
    free(lives->nulls);
}

bool
tidei_lives_add(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number)
{
    if (address != 0)
        return tidei_map_add(&lives->by_address, address, layer, number);
    if (!tidei_grow(&lives->nulls, &lives->null_capacity, lives->null_count, 1) ||
        !tidei_map_add(&lives->by_null_id, lives->last_null_id + 1, layer, number))
        return false;
    lives->nulls[lives->null_count++] = (struct tidei_null_life){ ++lives->last_null_id, layer };
    return true;
}

bool
tidei_lives_replace(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number, uint32_t *earlier)
{
    uint32_t *known = tidei_map_find(&lives->by_address, address, layer);

    *earlier = 0;
    if (known == NULL)
        return tidei_lives_add(lives, address, layer, number);
    *earlier = *known;
    *known = number;
    return true;
}

bool
tidei_lives_has(const struct tidei_lives *lives, uint64_t address, uint16_t layer)
{
    return tidei_map_find(&lives->by_address, address, layer) != NULL;
}

/* Remove the latest live allocation of 0 bytes. */
static uint32_t
lives_take_null(struct tidei_lives *lives, uint16_t layer)
{
    uint32_t number = 0;

    for (size_t i = lives->null_count; i-- > 0;) {
        if (lives->nulls[i].layer != layer)
            continue;
        tidei_map_take(&lives->by_null_id, lives->nulls[i].id, layer, &number);
        lives->null_count--;
        memmove(&lives->nulls[i], &lives->nulls[i + 1], (lives->null_count - i) * sizeof(*lives->nulls));
        break;
    }
    return number;
}

uint32_t
tidei_lives_take(struct tidei_lives *lives, uint64_t address, uint16_t layer, tidei_lives_better is_better,
                 const void *context)
{
    struct tidei_map *map = &lives->by_address;
    size_t best;
    uint32_t number;

    if (address == 0)
        return lives_take_null(lives, layer);
    best = tidei_map_first(map, address, layer);
    if (best == TIDEI_MAP_NONE)
        return 0;
    if (is_better != NULL) {
        for (size_t i = tidei_map_next(map, best); i != TIDEI_MAP_NONE; i = tidei_map_next(map, i)) {
            if (is_better(context, map->entries[i].number, map->entries[best].number))
                best = i;
        }
    }
    number = map->entries[best].number;
    tidei_map_remove(map, best);
    return number;
}

void
tidei_lives_renumber(struct tidei_lives *lives, uint64_t address, uint32_t null_id, uint16_t layer, uint32_t number,
                     uint32_t now)
{
    struct tidei_map *map = address != 0 ? &lives->by_address : &lives->by_null_id;
    size_t i = tidei_map_first(map, address != 0 ? address : null_id, layer);

    while (i != TIDEI_MAP_NONE && map->entries[i].number != number)
        i = tidei_map_next(map, i);
    if (i != TIDEI_MAP_NONE)
        map->entries[i].number = now;
}
