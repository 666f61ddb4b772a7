/* A concurrent table of entries by 64-bit keys. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/entries.h"
#include "src/tables/grow.h"

#define ENTRIES_MOST UINT32_MAX

void
tidei_entries_init(struct tidei_entries *table, size_t entry_bytes)
{
    memset(table, 0, sizeof(*table));
    table->entry_bytes = entry_bytes;
    for (unsigned i = 0; i < TIDEI_ENTRIES_SHARDS; i++)
        tidei_lock_init(&table->shards[i].lock);
}

static inline struct tidei_entries_shard *
entries_shard(struct tidei_entries *table, uint64_t key)
{
    /* Fibonacci hashing, as in the maps, but with other bits of the product. */
    return &table->shards[(key * 0x9e3779b97f4a7c15u >> 20) % TIDEI_ENTRIES_SHARDS];
}

static inline unsigned char *
entries_at(const struct tidei_entries *table, const struct tidei_entries_shard *shard, uint32_t index)
{
    return shard->entries + index * table->entry_bytes;
}

/* The index of an entry to use; false without host memory. The list of unused ones has room for all. */
static bool
shard_reserve(const struct tidei_entries *table, struct tidei_entries_shard *shard, uint32_t *out)
{
    if (shard->unused_count != 0) {
        *out = shard->unused[--shard->unused_count];
        return true;
    }
    if (shard->count >= ENTRIES_MOST ||
        !tidei_grow_items(&shard->entries, table->entry_bytes, &shard->capacity, shard->count, 1) ||
        !tidei_grow(&shard->unused, &shard->unused_capacity, shard->count, 1))
        return false;
    *out = (uint32_t)shard->count++;
    return true;
}

/* An entry was taken out of the map, or is about to be. The lock is held. */
static void
shard_give(struct tidei_entries_shard *shard, uint32_t index)
{
    shard->unused[shard->unused_count++] = index;
    shard->takes++;
}

bool
tidei_entries_put(struct tidei_entries *table, uint64_t key, const void *entry)
{
    struct tidei_entries_shard *shard = entries_shard(table, key);
    uint32_t index;
    bool done;

    tidei_lock_acquire(&shard->lock);
    done = shard_reserve(table, shard, &index);
    if (done && !tidei_map_add(&shard->map, key, 0, index)) {
        shard->unused[shard->unused_count++] = index;
        done = false;
    }
    if (done)
        memcpy(entries_at(table, shard, index), entry, table->entry_bytes);
    tidei_lock_release(&shard->lock);
    return done;
}

bool
tidei_entries_take(struct tidei_entries *table, uint64_t key, void *entry)
{
    struct tidei_entries_shard *shard = entries_shard(table, key);
    uint32_t index = 0;
    bool found;

    tidei_lock_acquire(&shard->lock);
    found = tidei_map_take(&shard->map, key, 0, &index);
    if (found) {
        memcpy(entry, entries_at(table, shard, index), table->entry_bytes);
        shard_give(shard, index);
    }
    tidei_lock_release(&shard->lock);
    return found;
}

bool
tidei_entries_change(struct tidei_entries *table, uint64_t key, void (*change)(void *entry, void *context),
                     void *context)
{
    struct tidei_entries_shard *shard = entries_shard(table, key);
    uint32_t *index;

    tidei_lock_acquire(&shard->lock);
    index = tidei_map_find(&shard->map, key, 0);
    if (index != NULL)
        change(entries_at(table, shard, *index), context);
    tidei_lock_release(&shard->lock);
    return index != NULL;
}

bool
tidei_entries_get(struct tidei_entries *table, uint64_t key, void *entry)
{
    struct tidei_entries_shard *shard = entries_shard(table, key);
    uint32_t *index;

    tidei_lock_acquire(&shard->lock);
    index = tidei_map_find(&shard->map, key, 0);
    if (index != NULL)
        memcpy(entry, entries_at(table, shard, *index), table->entry_bytes);
    tidei_lock_release(&shard->lock);
    return index != NULL;
}

bool
tidei_entries_take_if(struct tidei_entries *table, uint64_t key, bool (*wanted)(const void *entry, const void *context),
                      const void *context, void *entry)
{
    struct tidei_entries_shard *shard = entries_shard(table, key);
    const uint32_t *index;
    uint32_t taken = 0;
    bool found;

    tidei_lock_acquire(&shard->lock);
    index = tidei_map_find(&shard->map, key, 0);
    found = index != NULL && wanted(entries_at(table, shard, *index), context) &&
            tidei_map_take(&shard->map, key, 0, &taken);
    if (found) {
        memcpy(entry, entries_at(table, shard, taken), table->entry_bytes);
        shard_give(shard, taken);
    }
    tidei_lock_release(&shard->lock);
    return found;
}

/*
 * Where to look on in a map whose lock is held. Who takes an entry out has those behind it move up, maybe to before the
 * cursor, and a map that grows has all of them elsewhere: then from the start.
 */
static size_t
cursor_begin(const struct tidei_entries_cursor *cursor, const struct tidei_entries_shard *shard)
{
    return cursor->mask == shard->map.mask && cursor->takes == shard->takes ? cursor->at : 0;
}

bool
tidei_entries_take_next(struct tidei_entries *table, struct tidei_entries_cursor *cursor,
                        bool (*wanted)(const void *entry, const void *context), const void *context, uint64_t *key,
                        void *entry)
{
    bool found = false;

    while (!found && cursor->shard < TIDEI_ENTRIES_SHARDS) {
        struct tidei_entries_shard *shard = &table->shards[cursor->shard];
        size_t at;

        tidei_lock_acquire(&shard->lock);
        at = cursor_begin(cursor, shard);
        for (; !found && shard->map.count != 0 && at <= shard->map.mask; at += !found) {
            uint32_t index = shard->map.entries[at].number;

            found = shard->map.entries[at].used && wanted(entries_at(table, shard, index), context);
            if (!found)
                continue;
            *key = shard->map.entries[at].id;
            memcpy(entry, entries_at(table, shard, index), table->entry_bytes);
            shard_give(shard, index);
            tidei_map_remove(&shard->map, at); /* which has the next one move up to here, if any does */
        }
        *cursor = (struct tidei_entries_cursor){ cursor->shard, at, shard->map.mask, shard->takes };
        tidei_lock_release(&shard->lock);
        if (!found)
            *cursor = (struct tidei_entries_cursor){ .shard = cursor->shard + 1 };
    }
    return found;
}

bool
tidei_entries_any(struct tidei_entries *table, bool (*look)(uint64_t key, const void *entry, void *context),
                  void *context)
{
    bool found = false;

    for (unsigned i = 0; !found && i < TIDEI_ENTRIES_SHARDS; i++) {
        struct tidei_entries_shard *shard = &table->shards[i];

        tidei_lock_acquire(&shard->lock);
        for (size_t at = 0; !found && shard->map.count != 0 && at <= shard->map.mask; at++) {
            if (shard->map.entries[at].used)
                found =
                    look(shard->map.entries[at].id, entries_at(table, shard, shard->map.entries[at].number), context);
        }
        tidei_lock_release(&shard->lock);
    }
    return found;
}
