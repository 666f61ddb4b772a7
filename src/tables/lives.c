/* Finds for each free the allocation that it ends. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "src/tables/lives.h"

void
tidei_lives_free(struct tidei_lives *lives)
{
    tidei_map_free(&lives->by_address);
    tidei_map_free(&lives->latest_nulls);
    free(lives->nulls);
}

/* Add an allocation of 0 bytes, the latest of its layer. */
static bool
lives_add_null(struct tidei_lives *lives, uint16_t layer, uint32_t number)
{
    uint32_t *latest = tidei_map_find(&lives->latest_nulls, layer, 0);
    uint32_t before = latest != NULL ? *latest : 0;
    uint32_t id = lives->free_null != 0 ? lives->free_null : (uint32_t)lives->null_count + 1;

    if ((lives->free_null == 0 &&
         (id == 0 || !tidei_grow(&lives->nulls, &lives->null_capacity, lives->null_count, 1))) ||
        (latest == NULL && !tidei_map_add(&lives->latest_nulls, layer, 0, id)))
        return false;
    if (latest != NULL)
        *latest = id;
    if (lives->free_null != 0)
        lives->free_null = lives->nulls[id - 1].before;
    else
        lives->null_count++;
    lives->nulls[id - 1] = (struct tidei_null_life){ number, before };
    lives->last_null_id = id;
    return true;
}

bool
tidei_lives_add(struct tidei_lives *lives, uint64_t address, uint16_t layer, uint32_t number)
{
    return address != 0 ? tidei_map_add(&lives->by_address, address, layer, number)
                        : lives_add_null(lives, layer, number);
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
    uint32_t *latest = tidei_map_find(&lives->latest_nulls, layer, 0);
    struct tidei_null_life *life;
    uint32_t id;

    if (latest == NULL)
        return 0;
    id = *latest;
    life = &lives->nulls[id - 1];
    if (life->before != 0)
        *latest = life->before;
    else
        tidei_map_take(&lives->latest_nulls, layer, 0, &id);
    life->before = lives->free_null;
    lives->free_null = id;
    return life->number;
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
    if (address != 0)
        tidei_map_renumber(&lives->by_address, address, layer, number, now);
    else if (null_id != 0 && null_id <= lives->null_count && lives->nulls[null_id - 1].number == number)
        lives->nulls[null_id - 1].number = now;
}
