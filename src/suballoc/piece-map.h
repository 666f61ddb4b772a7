/*
 * Pieces that are out, by their addresses: a hash table of buckets of half a cache line each, with the numbers of six
 * pieces, and a byte of the hash of each of them, its tag. One comparison of all tags says which may be the one.
 *
 * Why so dense: with 100,000 blocks that are freed in random order neither a block's bucket nor what is known of it is
 * in a cache that is near. What is known of 100,000 blocks never is; the table is, with 1 MiB for them of the 2 MiB
 * that a core's second cache has today. Slots with addresses and pointers to pieces took 4 MiB: a pair of a random free
 * and a new block took 204 ns, and 156 since (the lower quarter of 21 runs in turns, other work beside them).
 *
 * Who has the lock changes it; anybody looks things up. Tables that have become too small stay until the end, as
 * somebody may be reading them; together they are smaller than the one in use.
 */
#ifndef TIDEI_PIECE_MAP_H
#define TIDEI_PIECE_MAP_H

#include "src/suballoc/piece.h"
#include "src/suballoc/slab.h"

#define TIDEI_BUCKET_PIECES 6

struct tidei_piece_bucket {
    /* A byte for each piece, 0: none. Above them, the number of pieces that belong here and lie behind. */
    _Alignas(32) _Atomic uint64_t tags;
    _Atomic uint32_t numbers[TIDEI_BUCKET_PIECES]; /* of the pieces, in their store */
};

struct tidei_piece_table {
    struct tidei_piece_table *smaller;  /* owns; what was in use before */
    size_t mask;                        /* buckets - 1 */
    unsigned shift;                     /* what is left of a hash is the bucket */
    struct tidei_piece_bucket *buckets; /* owns */
};

struct tidei_piece_map {
    _Atomic(struct tidei_piece_table *) table; /* owns */
    size_t count;
    const struct tidei_slab *pieces; /* borrowed */
};

enum tide_status tidei_piece_map_init(struct tidei_piece_map *map, const struct tidei_slab *pieces);
void tidei_piece_map_fini(struct tidei_piece_map *map);

/* Make room for one more; false where the host has no memory. */
bool tidei_piece_map_reserve(struct tidei_piece_map *map);
void tidei_piece_map_add(struct tidei_piece_map *map, struct tidei_piece *piece);
void tidei_piece_map_remove(struct tidei_piece_map *map, const struct tidei_piece *piece);

static inline uint64_t
tidei_piece_hash(uintptr_t address)
{
    return (uint64_t)address * UINT64_C(0x9e3779b97f4a7c15);
}

#define TIDEI_BUCKET_BEHIND_SHIFT 48
#define TIDEI_BUCKET_ONES         UINT64_C(0x010101010101)
#define TIDEI_BUCKET_HIGHS        UINT64_C(0x808080808080)

/* A tag, never 0, in the place of each piece. */
static inline uint64_t
tidei_bucket_tags_of(uint64_t hash)
{
    return ((hash >> 32 & 0x7f) | 0x80) * TIDEI_BUCKET_ONES;
}

/* The highest bit of each byte of `tags` that is 0; above the lowest of them there may be more, of bytes that are 1. */
static inline uint64_t
tidei_bucket_zeros(uint64_t tags)
{
    return (tags - TIDEI_BUCKET_ONES) & ~tags & TIDEI_BUCKET_HIGHS;
}

/* The place in a bucket that such a bit stands for. */
static inline unsigned
tidei_bucket_place(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits) / 8;
}

/* Pieces that belong into a bucket with these tags, and lie behind it; 65535 stand for as many or more. */
static inline uint64_t
tidei_bucket_behind(uint64_t tags)
{
    return tags >> TIDEI_BUCKET_BEHIND_SHIFT;
}

static inline struct tidei_piece *
tidei_bucket_piece(const struct tidei_piece_map *map, const struct tidei_piece_bucket *bucket, unsigned place)
{
    uint32_t number = atomic_load_explicit(&bucket->numbers[place], memory_order_relaxed); /* relaxed: behind its tag */

    return tidei_slab_item(map->pieces, number, sizeof(struct tidei_piece));
}

/*
 * The piece that is out at `pointer`, or NULL. Without the lock it finds what is out all the while, wherever others
 * change the table, but may also find what is none any more: look again with the lock before anybody is told.
 * Wait-free.
 */
static inline struct tidei_piece *
tidei_piece_map_find(const struct tidei_piece_map *map, const void *pointer)
{
    /* Acquire: pairs with the release in map_grow, and sees the buckets of a new table. */
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
    uint64_t hash = tidei_piece_hash((uintptr_t)pointer);
    uint64_t wanted = tidei_bucket_tags_of(hash);

    for (size_t i = hash >> table->shift, left = table->mask + 1; left > 0; i++, left--) {
        struct tidei_piece_bucket *bucket = &table->buckets[i & table->mask];
        /* Acquire: pairs with the release in bucket_put, and sees the pieces of these tags. */
        uint64_t tags = atomic_load_explicit(&bucket->tags, memory_order_acquire);

        for (uint64_t found = tidei_bucket_zeros(tags ^ wanted); found != 0; found &= found - 1) {
            struct tidei_piece *piece = tidei_bucket_piece(map, bucket, tidei_bucket_place(found));

            if (__builtin_expect(tidei_piece_address(piece) == (uintptr_t)pointer, 1))
                return piece;
        }
        if (tidei_bucket_behind(tags) == 0)
            break;
    }
    return NULL;
}

#endif
