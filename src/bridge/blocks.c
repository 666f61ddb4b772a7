/* Keeps the blocks that the bridge has given out, by address. */
#include "config.h"

#include <stdlib.h>

#include "src/bridge/blocks.h"
#include "src/sync/lock.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"

#define BLOCKS_SHARDS 32
#define BLOCKS_NONE   UINT32_MAX

/* An entry that is not in use is linked to the next one through `tag`. */
struct blocks_shard {
    _Alignas(128) struct tidei_lock lock;
    struct tidei_map map;               /* address to index; this and the rest: guarded by the lock */
    struct tidei_bridge_entry *entries; /* owned */
    size_t count, capacity;
    uint32_t unused;
};

static struct blocks_shard blocks_shards[BLOCKS_SHARDS];

__attribute__((constructor)) static void
blocks_start(void)
{
    for (unsigned i = 0; i < BLOCKS_SHARDS; i++) {
        tidei_lock_init(&blocks_shards[i].lock);
        blocks_shards[i].unused = BLOCKS_NONE;
    }
}

static inline struct blocks_shard *
blocks_shard_of(const void *address)
{
    /* Fibonacci hashing, as in the maps, but with other bits of the product. */
    return &blocks_shards[((uintptr_t)address * 0x9e3779b97f4a7c15u >> 20) % BLOCKS_SHARDS];
}

/* The index of an unused entry; BLOCKS_NONE without host memory. */
static inline uint32_t
shard_reserve(struct blocks_shard *shard)
{
    uint32_t index = shard->unused;

    if (index != BLOCKS_NONE) {
        shard->unused = shard->entries[index].tag;
        return index;
    }
    if (shard->count >= BLOCKS_NONE || !tidei_grow(&shard->entries, &shard->capacity, shard->count, 1))
        return BLOCKS_NONE;
    return (uint32_t)shard->count++;
}

static inline void
shard_give_back(struct blocks_shard *shard, uint32_t index)
{
    shard->entries[index].tag = shard->unused;
    shard->unused = index;
}

bool
tidei_bridge_blocks_put(const void *address, const struct tidei_bridge_entry *entry)
{
    struct blocks_shard *shard = blocks_shard_of(address);
    uint32_t index;

    tidei_lock_acquire(&shard->lock);
    index = shard_reserve(shard);
    if (index != BLOCKS_NONE && !tidei_map_add(&shard->map, (uintptr_t)address, 0, index)) {
        shard_give_back(shard, index);
        index = BLOCKS_NONE;
    }
    if (index != BLOCKS_NONE)
        shard->entries[index] = *entry;
    tidei_lock_release(&shard->lock);
    return index != BLOCKS_NONE;
}

bool
tidei_bridge_blocks_take(const void *address, struct tidei_bridge_entry *entry)
{
    struct blocks_shard *shard = blocks_shard_of(address);
    uint32_t index = 0;
    bool found;

    tidei_lock_acquire(&shard->lock);
    found = tidei_map_take(&shard->map, (uintptr_t)address, 0, &index);
    if (found) {
        *entry = shard->entries[index];
        shard_give_back(shard, index);
    }
    tidei_lock_release(&shard->lock);
    return found;
}

bool
tidei_bridge_blocks_with(const void *address, tidei_bridge_block_function function, void *context)
{
    struct blocks_shard *shard = blocks_shard_of(address);
    uint32_t *index;

    tidei_lock_acquire(&shard->lock);
    index = tidei_map_find(&shard->map, (uintptr_t)address, 0);
    if (index != NULL)
        function((uintptr_t)address, &shard->entries[*index], context);
    tidei_lock_release(&shard->lock);
    return index != NULL;
}

/* The locks in the order that lock.h asks for: the newest first. */
static void
blocks_lock_all(void)
{
    for (unsigned i = BLOCKS_SHARDS; i > 0; i--)
        tidei_lock_acquire(&blocks_shards[i - 1].lock);
}

static void
blocks_unlock_all(void)
{
    for (unsigned i = 0; i < BLOCKS_SHARDS; i++)
        tidei_lock_release(&blocks_shards[i].lock);
}

void
tidei_bridge_blocks_each(bool all_locked, tidei_bridge_block_function function, void *context)
{
    if (all_locked)
        blocks_lock_all();
    for (unsigned i = 0; i < BLOCKS_SHARDS; i++) {
        struct blocks_shard *shard = &blocks_shards[i];

        if (!all_locked)
            tidei_lock_acquire(&shard->lock);
        for (size_t at = 0; shard->map.count != 0 && at <= shard->map.mask; at++) {
            const struct tidei_map_entry *known = &shard->map.entries[at];

            if (known->used)
                function((uintptr_t)known->id, &shard->entries[known->number], context);
        }
        if (!all_locked)
            tidei_lock_release(&shard->lock);
    }
    if (all_locked)
        blocks_unlock_all();
}

void
tidei_bridge_streams_free(struct tidei_bridge_streams *streams)
{
    if (streams != NULL)
        free(streams->items);
    free(streams);
}
