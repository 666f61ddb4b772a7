/* Finds live blocks by their addresses; see sim-lives.h. */
#include "src/bases/sim-lives.h"

#include <stdlib.h>

#include "src/tables/grow.h"

void
tidei_sim_lives_fini(struct tidei_sim_lives *lives)
{
    tidei_map_free(&lives->places);
    free(lives->items);
}

bool
tidei_sim_lives_add(struct tidei_sim_lives *lives, uint64_t address, uint64_t bytes, uint64_t word)
{
    size_t entry = lives->unused;

    if (entry >= UINT32_MAX || !tidei_grow(&lives->items, &lives->capacity, lives->count, 1) ||
        !tidei_map_add(&lives->places, address, 0, (uint32_t)entry))
        return false;
    lives->unused = entry < lives->count ? (size_t)lives->items[entry].bytes : ++lives->count;
    lives->items[entry] = (struct tidei_sim_life){ address, bytes, word };
    return true;
}

enum tide_status
tidei_sim_lives_find(struct tidei_sim_lives *lives, const void *pointer, uint64_t word, struct tidei_sim_life *out)
{
    const uint32_t *place = tidei_map_find(&lives->places, (uintptr_t)pointer, 0);

    if (place == NULL)
        return TIDE_EPOINTER;
    *out = lives->items[*place];
    return out->word == word ? TIDE_OK : TIDE_EMISMATCH;
}

void
tidei_sim_lives_remove(struct tidei_sim_lives *lives, const struct tidei_sim_life *life)
{
    uint32_t entry;

    if (!tidei_map_take(&lives->places, life->address, 0, &entry))
        return;
    lives->items[entry] = (struct tidei_sim_life){ .bytes = lives->unused };
    lives->unused = entry;
}
