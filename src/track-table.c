/* Keeps what `track` knows of addresses. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lock.h"
#include "resource.h"
#include "trace/addressmap.h"
#include "track-table.h"

struct shard {
    _Alignas(128) struct tidei_lock lock;
    struct tidei_address_map map;     /* from addresses to places in `blocks` + 1; guarded by the lock, as all below */
    struct tidei_track_block *blocks; /* owned */
    uint32_t capacity;
    uint32_t count;                  /* places that are or were in use */
    uint32_t unused;                 /* one of these that is empty, + 1; its `tag` is the next one */
    uint32_t freed_next;             /* where the next free goes, the oldest */
    struct tidei_track_block *freed; /* owned; a ring of TIDEI_TRACK_FREED */
};

struct tidei_track_table {
    struct shard shards[TIDEI_TRACK_SHARDS];
    unsigned made; /* shards with a lock */
};

static struct shard *
shard_of(struct tidei_track_table *table, uint64_t address)
{
    /* As in address-shards.c. */
    return &table->shards[(address * 0x9e3779b97f4a7c15u >> 20) % TIDEI_TRACK_SHARDS];
}

static bool
shard_make(struct shard *shard)
{
    shard->freed = calloc(TIDEI_TRACK_FREED, sizeof(*shard->freed));
    return shard->freed != NULL && tidei_address_map_init(&shard->map);
}

enum tide_status
tidei_track_table_create(struct tidei_track_table **out)
{
    struct tidei_track_table *table = aligned_alloc(_Alignof(struct tidei_track_table), sizeof(*table));
    enum tide_status status = TIDE_OK;

    *out = NULL;
    if (table == NULL)
        return tide_error_set(TIDE_ENOMEM, "no host memory for a table of addresses");
    memset(table, 0, sizeof(*table));
    while (status == TIDE_OK && table->made < TIDEI_TRACK_SHARDS) {
        struct shard *shard = &table->shards[table->made];

        status = tidei_lock_init(&shard->lock);
        if (status != TIDE_OK)
            break;
        table->made++;
        if (!shard_make(shard))
            status = tide_error_set(TIDE_ENOMEM, "no host memory for a table of addresses");
    }
    if (status == TIDE_OK)
        *out = table;
    else
        tidei_track_table_destroy(table);
    return status;
}

void
tidei_track_table_destroy(struct tidei_track_table *table)
{
    for (unsigned i = 0; table != NULL && i < table->made; i++) {
        tidei_lock_fini(&table->shards[i].lock);
        tidei_address_map_fini(&table->shards[i].map);
        free(table->shards[i].blocks);
        free(table->shards[i].freed);
    }
    free(table);
}

/* The place of an outstanding block; NULL where there is none. *entry is its place in the map. */
static struct tidei_track_block *
shard_find(struct shard *shard, uint64_t address, size_t *entry)
{
    *entry = tidei_address_map_first(&shard->map, address, 0);
    return *entry != TIDEI_ADDRESS_NONE ? &shard->blocks[shard->map.entries[*entry].value - 1] : NULL;
}

/* A place for one more, + 1; 0 where host memory is short. */
static uint32_t
shard_place(struct shard *shard)
{
    uint32_t place = shard->unused;

    if (place != 0) {
        shard->unused = shard->blocks[place - 1].tag;
        return place;
    }
    if (shard->count == shard->capacity) {
        uint32_t larger = shard->capacity == 0 ? 64 : 2 * shard->capacity;
        struct tidei_track_block *moved = realloc(shard->blocks, larger * sizeof(*moved));

        if (moved == NULL)
            return 0;
        shard->blocks = moved;
        shard->capacity = larger;
    }
    return ++shard->count;
}

static void
shard_empty(struct shard *shard, uint32_t place)
{
    shard->blocks[place - 1].address = 0;
    shard->blocks[place - 1].tag = shard->unused;
    shard->unused = place;
}

static enum tidei_track_answer
shard_put(struct shard *shard, const struct tidei_track_block *block)
{
    uint32_t place = shard_place(shard);

    if (place == 0)
        return TIDEI_TRACK_NO_MEMORY;
    if (!tidei_address_map_insert(&shard->map, block->address, 0, place)) {
        shard_empty(shard, place);
        return TIDEI_TRACK_NO_MEMORY;
    }
    shard->blocks[place - 1] = *block;
    return TIDEI_TRACK_FINE;
}

/* The latest free of an address that is remembered; NULL where there is none. */
static struct tidei_track_block *
shard_find_freed(struct shard *shard, uint64_t address)
{
    for (uint32_t i = 1; i <= TIDEI_TRACK_FREED; i++) {
        struct tidei_track_block *freed = &shard->freed[(shard->freed_next - i) % TIDEI_TRACK_FREED];

        if (freed->address == address)
            return freed;
    }
    return NULL;
}

enum tidei_track_answer
tidei_track_put(struct tidei_track_table *table, const struct tidei_track_block *block, struct tidei_track_block *known)
{
    struct shard *shard = shard_of(table, block->address);
    const struct tidei_track_block *live;
    enum tidei_track_answer answer = TIDEI_TRACK_LIVE;
    size_t entry;

    tidei_lock_take(&shard->lock);
    live = shard_find(shard, block->address, &entry);
    if (live == NULL)
        answer = shard_put(shard, block);
    else
        *known = *live;
    tidei_lock_give(&shard->lock);
    return answer;
}

/* The lock is held. */
static enum tidei_track_answer
shard_take(struct shard *shard, const struct tidei_track_block *back, struct tidei_track_block *known)
{
    size_t entry;
    const struct tidei_track_block *live = shard_find(shard, back->address, &entry), *freed;
    struct tidei_track_block *latest;

    if (live == NULL) {
        freed = shard_find_freed(shard, back->address);
        if (freed == NULL)
            return TIDEI_TRACK_UNKNOWN;
        *known = *freed;
        return TIDEI_TRACK_FREED_BEFORE;
    }
    *known = *live;
    if (live->bytes != back->bytes)
        return TIDEI_TRACK_OTHER_SIZE;
    if (live->alignment_log2 != back->alignment_log2)
        return TIDEI_TRACK_OTHER_ALIGNMENT;
    shard_empty(shard, shard->map.entries[entry].value);
    tidei_address_map_remove(&shard->map, entry);
    latest = &shard->freed[shard->freed_next++ % TIDEI_TRACK_FREED];
    *latest = *known;
    latest->freed_by = back->freed_by;
    return TIDEI_TRACK_FINE;
}

enum tidei_track_answer
tidei_track_take(struct tidei_track_table *table, const struct tidei_track_block *back, struct tidei_track_block *known)
{
    struct shard *shard = shard_of(table, back->address);
    enum tidei_track_answer answer;

    *known = (struct tidei_track_block){ 0 };
    tidei_lock_take(&shard->lock);
    answer = shard_take(shard, back, known);
    tidei_lock_give(&shard->lock);
    return answer;
}

void
tidei_track_put_back(struct tidei_track_table *table, const struct tidei_track_block *block)
{
    struct shard *shard = shard_of(table, block->address);
    struct tidei_track_block *freed;

    tidei_lock_take(&shard->lock);
    /* There was a place for it, and an entry: there is again, unless others have taken them and memory is short. */
    shard_put(shard, block);
    freed = shard_find_freed(shard, block->address);
    if (freed != NULL)
        freed->address = 0;
    tidei_lock_give(&shard->lock);
}

/* Copy the blocks of a shard behind the `count` that are in the list; false where these do not fit. */
static bool
shard_list(struct shard *shard, struct tidei_track_block *list, size_t *count, size_t capacity)
{
    bool fits;

    tidei_lock_take(&shard->lock);
    fits = shard->map.count <= capacity - *count;
    for (uint32_t i = 0; fits && i < shard->count; i++) {
        if (shard->blocks[i].address != 0)
            list[(*count)++] = shard->blocks[i];
    }
    tidei_lock_give(&shard->lock);
    return fits;
}

bool
tidei_track_list(struct tidei_track_table *table, struct tidei_track_block **out, size_t *count)
{
    size_t capacity = 1024;

    *count = 0;
    *out = malloc(capacity * sizeof(**out));
    for (unsigned i = 0; *out != NULL && i < TIDEI_TRACK_SHARDS; i++) {
        /* Without the lock: memory may take long to be had. */
        while (!shard_list(&table->shards[i], *out, count, capacity)) {
            struct tidei_track_block *moved = realloc(*out, 2 * capacity * sizeof(**out));

            if (moved == NULL) {
                free(*out);
                *out = NULL;
                return false;
            }
            *out = moved;
            capacity *= 2;
        }
    }
    return *out != NULL;
}
