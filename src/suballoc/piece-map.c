/* Finds pieces by their addresses; see piece-map.h. */
#include "src/suballoc/piece-map.h"

#include <stdlib.h>

#define MAP_FIRST_BUCKETS_LOG2 9

/* The table grows at this many pieces for two buckets. At this load one piece in thirty misses its own bucket. */
#define MAP_LOAD_OF_TWO 7

#define BUCKET_BEHIND_ONE  (UINT64_C(1) << TIDEI_BUCKET_BEHIND_SHIFT)
#define BUCKET_BEHIND_MOST UINT64_C(65535)

static struct tidei_piece_table *
table_new(unsigned buckets_log2)
{
    struct tidei_piece_table *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return NULL;
    table->mask = ((size_t)1 << buckets_log2) - 1;
    table->shift = 64 - buckets_log2;
    table->buckets = tidei_slab_memory(sizeof(table->buckets[0]) << buckets_log2);
    if (table->buckets != NULL)
        return table;
    free(table);
    return NULL;
}

/* Relaxed, here and below: only the holder of the lock writes, and this thread holds it. */
static uint64_t
bucket_tags(const struct tidei_piece_bucket *bucket)
{
    return atomic_load_explicit(&bucket->tags, memory_order_relaxed);
}

/* Store the number before its tag, so that a thread that sees the tag sees the number. */
static void
bucket_put(struct tidei_piece_bucket *bucket, uint32_t number, unsigned place, uint64_t tag)
{
    uint64_t tags = (bucket_tags(bucket) & ~(UINT64_C(0xff) << 8 * place)) | tag << 8 * place;

    atomic_store_explicit(&bucket->numbers[place], number, memory_order_relaxed);
    atomic_store_explicit(&bucket->tags, tags, memory_order_release); /* pairs as in tidei_piece_map_find */
}

/*
 * Count one more, or one less, of the bucket's pieces in later buckets. A count that has reached its maximum stays
 * there, because it no longer is exact.
 */
static void
bucket_count(struct tidei_piece_bucket *bucket, bool more)
{
    uint64_t tags = bucket_tags(bucket);

    if (tags >> TIDEI_BUCKET_BEHIND_SHIFT == BUCKET_BEHIND_MOST)
        return;
    tags = more ? tags + BUCKET_BEHIND_ONE : tags - BUCKET_BEHIND_ONE;
    /* Release, as in bucket_put: a thread that sees this word instead of that one sees the numbers, too. */
    atomic_store_explicit(&bucket->tags, tags, memory_order_release);
}

static void
table_add(struct tidei_piece_table *table, const struct tidei_piece *piece)
{
    uint64_t hash = tidei_piece_hash(tidei_piece_address(piece));
    size_t i = hash >> table->shift;
    uint64_t empty;

    while ((empty = tidei_bucket_zeros(bucket_tags(&table->buckets[i & table->mask]))) == 0)
        bucket_count(&table->buckets[i++ & table->mask], true);
    bucket_put(&table->buckets[i & table->mask], piece->number, tidei_bucket_place(empty),
               tidei_bucket_tags_of(hash) & 0xff);
}

enum tide_status
tidei_piece_map_init(struct tidei_piece_map *map, const struct tidei_slab *pieces)
{
    struct tidei_piece_table *table = table_new(MAP_FIRST_BUCKETS_LOG2);

    map->count = 0;
    map->pieces = pieces;
    atomic_init(&map->table, table);
    return table != NULL ? TIDE_OK : TIDE_ENOMEM;
}

void
tidei_piece_map_fini(struct tidei_piece_map *map)
{
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

    while (table != NULL) {
        struct tidei_piece_table *smaller = table->smaller;

        free(table->buckets);
        free(table);
        table = smaller;
    }
}

static bool
map_grow(struct tidei_piece_map *map, struct tidei_piece_table *table)
{
    struct tidei_piece_table *larger = table_new(64 - table->shift + 1);

    if (larger == NULL)
        return false;
    larger->smaller = table;
    for (size_t i = 0; i <= table->mask; i++) {
        const struct tidei_piece_bucket *bucket = &table->buckets[i];

        for (unsigned place = 0; place < TIDEI_BUCKET_PIECES; place++) {
            if ((bucket_tags(bucket) >> 8 * place & 0xff) != 0)
                table_add(larger, tidei_bucket_piece(map, bucket, place));
        }
    }
    atomic_store_explicit(&map->table, larger, memory_order_release); /* pairs as in tidei_piece_map_find */
    return true;
}

bool
tidei_piece_map_reserve(struct tidei_piece_map *map)
{
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

    return map->count + 1 <= (table->mask + 1) / 2 * MAP_LOAD_OF_TWO || map_grow(map, table);
}

void
tidei_piece_map_add(struct tidei_piece_map *map, struct tidei_piece *piece)
{
    table_add(atomic_load_explicit(&map->table, memory_order_relaxed), piece);
    map->count++;
}

/* The place of a piece in the bucket; TIDEI_BUCKET_PIECES where it is not there. */
static unsigned
bucket_find(const struct tidei_piece_bucket *bucket, const struct tidei_piece *piece, uint64_t wanted)
{
    for (uint64_t found = tidei_bucket_zeros(bucket_tags(bucket) ^ wanted); found != 0; found &= found - 1) {
        unsigned place = tidei_bucket_place(found);

        if (atomic_load_explicit(&bucket->numbers[place], memory_order_relaxed) == piece->number)
            return place;
    }
    return TIDEI_BUCKET_PIECES;
}

void
tidei_piece_map_remove(struct tidei_piece_map *map, const struct tidei_piece *piece)
{
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
    uint64_t hash = tidei_piece_hash(tidei_piece_address(piece));
    size_t i = hash >> table->shift;
    unsigned place;

    while ((place = bucket_find(&table->buckets[i & table->mask], piece, tidei_bucket_tags_of(hash))) ==
           TIDEI_BUCKET_PIECES)
        bucket_count(&table->buckets[i++ & table->mask], false);
    bucket_put(&table->buckets[i & table->mask], 0, place, 0);
    map->count--;
}
