/*
 * A concurrent table of entries by 64-bit keys, such as addresses or handles: 32 maps (src/tables/map.h), each with its
 * own lock, chosen by the key. A key is in the table at most once.
 *
 * Progress: put and take hold one short lock.
 */
#ifndef TIDEI_TABLES_ENTRIES_H
#define TIDEI_TABLES_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/sync/lock.h"
#include "src/tables/map.h"

#define TIDEI_ENTRIES_SHARDS 32

struct tidei_entries_shard {
    _Alignas(128) struct tidei_lock lock;
    struct tidei_map map;   /* key to index; this and the rest: guarded by the lock */
    unsigned char *entries; /* owned */
    uint32_t *unused;       /* owned: the indices of entries that are not in use */
    size_t count, capacity;
    size_t unused_count, unused_capacity;
    uint64_t takes; /* so far: each may move others' places in the map */
};

/* How far a thread has got that takes entries out, one by one. Begin with { 0 }. */
struct tidei_entries_cursor {
    unsigned shard;
    size_t at;      /* in its map: before, nothing is wanted, as long as */
    size_t mask;    /* the map is as large, */
    uint64_t takes; /* and nobody else has taken from it */
};

struct tidei_entries {
    size_t entry_bytes;
    struct tidei_entries_shard shards[TIDEI_ENTRIES_SHARDS];
};

/* Begin with an empty table, which is never torn down. */
void tidei_entries_init(struct tidei_entries *table, size_t entry_bytes);

/* Add an entry whose key is not in the table. False without host memory. */
bool tidei_entries_put(struct tidei_entries *table, uint64_t key, const void *entry);

/* Remove the key and copy its entry; false if it is not there. */
bool tidei_entries_take(struct tidei_entries *table, uint64_t key, void *entry);

/* The same, if `wanted` chooses the entry; that is called with a lock held, and calls nothing. */
bool tidei_entries_take_if(struct tidei_entries *table, uint64_t key,
                           bool (*wanted)(const void *entry, const void *context), const void *context, void *entry);

/* Copy the entry of a key; false if it is not there. */
bool tidei_entries_get(struct tidei_entries *table, uint64_t key, void *entry);

/* Call `change` for the entry of a key, with a lock held: it calls nothing. False if the key is not there. */
bool tidei_entries_change(struct tidei_entries *table, uint64_t key, void (*change)(void *entry, void *context),
                          void *context);

/*
 * Take out an entry that `wanted` chooses, from the cursor on, and copy it and its key; false at the end. `wanted` is
 * called with a lock held, and calls nothing. Where nobody else takes entries out, and the table does not grow, it is
 * asked of each entry once, or twice.
 */
bool tidei_entries_take_next(struct tidei_entries *table, struct tidei_entries_cursor *cursor,
                             bool (*wanted)(const void *entry, const void *context), const void *context, uint64_t *key,
                             void *entry);

/* Call `look` for each entry until it returns true, and return whether it did. It is called with a lock held. */
bool tidei_entries_any(struct tidei_entries *table, bool (*look)(uint64_t key, const void *entry, void *context),
                       void *context);

#endif
