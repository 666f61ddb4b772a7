/* Keeps frees that came before their allocation. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "src/trace/events/early.h"

/* A program that frees only what the trace does not know would fill the memory with frees that wait in vain. */
#define EARLY_MOST 65536u

void
tidei_earlies_free(struct tidei_earlies *earlies)
{
    free(earlies->items);
    tidei_map_free(&earlies->waiting);
}

static uint32_t
early_slot(struct tidei_earlies *earlies)
{
    uint32_t slot = earlies->unused;

    if (slot == TIDEI_NO_EARLY) {
        size_t before = earlies->capacity;

        if (before >= EARLY_MOST || !tidei_grow(&earlies->items, &earlies->capacity, before, 1))
            return TIDEI_NO_EARLY;
        for (size_t i = earlies->capacity; i-- > before;) {
            earlies->items[i].state = TIDEI_EARLY_UNUSED;
            earlies->items[i].next_unused = earlies->unused;
            earlies->unused = (uint32_t)i;
        }
        slot = earlies->unused;
    }
    return slot;
}

static void
early_use(struct tidei_earlies *earlies, uint32_t slot, const struct tidei_early *early)
{
    earlies->unused = earlies->items[slot].next_unused;
    earlies->items[slot] = *early;
    earlies->items[slot].record.text_records = 0; /* they stay behind */
    earlies->used++;
}

uint32_t
tidei_earlies_add(struct tidei_earlies *earlies, const struct tidei_record *record, uint32_t index)
{
    const struct tidei_early early = {
        .record = *record, .index = index, .place = UINT32_MAX, .state = TIDEI_EARLY_WAITING
    };
    uint32_t slot = early_slot(earlies);

    if (slot == TIDEI_NO_EARLY || !tidei_map_add(&earlies->waiting, record->address, record->layer, slot + 1))
        return TIDEI_NO_EARLY;
    early_use(earlies, slot, &early);
    return slot;
}

void
tidei_earlies_doubt(struct tidei_earlies *earlies, const struct tidei_record *record, uint32_t *early)
{
    const struct tidei_early doubted = {
        .record = *record, .index = UINT32_MAX, .place = UINT32_MAX, .state = TIDEI_EARLY_DOUBTED, .doubtful = true
    };
    uint32_t slot = early != NULL ? early_slot(earlies) : tidei_earlies_add(earlies, record, UINT32_MAX);

    if (slot == TIDEI_NO_EARLY) {
        earlies->assumed_before++;
    } else if (early != NULL) {
        early_use(earlies, slot, &doubted);
        *early = slot + 1;
    } else {
        earlies->items[slot].doubtful = true;
    }
}

static bool
early_may_end(const struct tidei_record *early, const struct tidei_record *alloc, uint64_t window)
{
    int64_t gap = (int64_t)(alloc->ticks - (early->ticks - tidei_record_duration(early)));

    return early->size == alloc->size && early->thread != alloc->thread &&
           (gap <= (int64_t)window || early->ticks == alloc->ticks);
}

/* Whether a waiting free is to be taken rather than another: the earlier, and one that has ended nothing. */
static bool
early_is_before(const struct tidei_early *one, const struct tidei_early *other)
{
    return one->doubtful != other->doubtful ? other->doubtful : one->record.ticks < other->record.ticks;
}

uint32_t
tidei_earlies_take(struct tidei_earlies *earlies, const struct tidei_record *alloc, uint64_t window)
{
    struct tidei_map *map = &earlies->waiting;
    size_t found = TIDEI_MAP_NONE;
    uint32_t slot = TIDEI_NO_EARLY;

    if (map->count == 0)
        return TIDEI_NO_EARLY;
    for (size_t i = tidei_map_first(map, alloc->address, alloc->layer); i != TIDEI_MAP_NONE;
         i = tidei_map_next(map, i)) {
        const struct tidei_early *early = &earlies->items[map->entries[i].number - 1];

        if (early_may_end(&early->record, alloc, window) &&
            (slot == TIDEI_NO_EARLY || early_is_before(early, &earlies->items[slot]))) {
            slot = map->entries[i].number - 1;
            found = i;
        }
    }
    if (found != TIDEI_MAP_NONE)
        tidei_map_remove(map, found);
    return slot;
}

/* Remove a free that waits from the map. */
static void
early_forget(struct tidei_earlies *earlies, uint32_t slot)
{
    const struct tidei_record *record = &earlies->items[slot].record;
    struct tidei_map *map = &earlies->waiting;
    size_t i = tidei_map_first(map, record->address, record->layer);

    while (i != TIDEI_MAP_NONE && map->entries[i].number != slot + 1)
        i = tidei_map_next(map, i);
    if (i != TIDEI_MAP_NONE)
        tidei_map_remove(map, i);
}

void
tidei_earlies_next_slice(struct tidei_earlies *earlies, uint64_t now, uint64_t window)
{
    for (uint32_t slot = 0; earlies->used != 0 && slot < earlies->capacity; slot++) {
        struct tidei_early *early = &earlies->items[slot];

        early->index = early->place = UINT32_MAX;
        if (early->state == TIDEI_EARLY_WAITING && (int64_t)(now - early->record.ticks) > (int64_t)window) {
            early_forget(earlies, slot);
            early->state = TIDEI_EARLY_DONE;
        }
        if (early->state != TIDEI_EARLY_DONE)
            continue;
        early->state = TIDEI_EARLY_UNUSED;
        early->next_unused = earlies->unused;
        earlies->unused = slot;
        earlies->used--;
    }
}
