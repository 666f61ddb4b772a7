/*
 * Finds the pieces that are out by address. A hash table has buckets of half a cache line, each with the numbers of six
 * pieces and one tag for each, a byte of its hash. One comparison of all tags yields the candidates.
 *
 * Why so dense: when 100,000 blocks are freed in random order, each free misses the caches for its bucket and for its
 * piece. The pieces of 100,000 blocks fit into no near cache. The table does: it takes 1 MiB of the 2 MiB of today's
 * second-level caches. Slots with addresses and pointers to pieces took 4 MiB, and a random free with an allocation
 * took 204 ns; it takes 156 ns now (lower quartile of 21 alternating runs, with other work on the machine).
 *
 * The holder of the lock changes the table; any thread looks up. A replaced table stays until the end, because another
 * thread may be reading it. All replaced tables together are smaller than the one in use.
 */
#ifndef TIDEI_PIECE_MAP_H
#define TIDEI_PIECE_MAP_H

#include "src/suballoc/piece.h"
#include "src/suballoc/slab.h"

#define TIDEI_BUCKET_PIECES 6

struct tidei_piece_bucket {
    /*
     * One byte for each piece, 0: none. The upper 16 bits count pieces of this bucket that lie in later ones; 65535
     * means that many or more.
     */
    _Alignas(32) _Atomic uint64_t tags;
    _Atomic uint32_t numbers[TIDEI_BUCKET_PIECES]; /* of the pieces, in their slab */
};

struct tidei_piece_table {
    struct tidei_piece_table *smaller;  /* owns; the table that this one replaced */
    size_t mask;                        /* buckets - 1 */
    unsigned shift;                     /* hash >> shift is the bucket */
    struct tidei_piece_bucket *buckets; /* owns */
};

struct tidei_piece_map {
    _Atomic(struct tidei_piece_table *) table; /* owns */
    size_t count;
    const struct tidei_slab *pieces; /* borrowed */
};

enum tide_status tidei_piece_map_init(struct tidei_piece_map *map, const struct tidei_slab *pieces);
void tidei_piece_map_fini(struct tidei_piece_map *map);

/* Reserve room for one more piece; false where the host has no memory. */
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

/* The tag of a hash (never 0), repeated in all six bytes. */
static inline uint64_t
tidei_bucket_tags_of(uint64_t hash)
{
    return ((hash >> 32 & 0x7f) | 0x80) * TIDEI_BUCKET_ONES;
}

/* Set the highest bit of each byte that is 0. Bytes above the lowest such one may be set in error if they are 1. */
static inline uint64_t
tidei_bucket_zeros(uint64_t tags)
{
    return (tags - TIDEI_BUCKET_ONES) & ~tags & TIDEI_BUCKET_HIGHS;
}

/* The place of the lowest such bit in the bucket. */
static inline unsigned
tidei_bucket_place(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits) / 8;
}

static inline struct tidei_piece *
tidei_bucket_piece(const struct tidei_piece_map *map, const struct tidei_piece_bucket *bucket, unsigned place)
{
    uint32_t number = atomic_load_explicit(&bucket->numbers[place], memory_order_relaxed); /* relaxed: behind its tag */

    return tidei_slab_item(map->pieces, number, sizeof(struct tidei_piece));
}

/*
 * The piece that is out at `pointer`, or NULL. Without the lock, it always finds a piece that stays out during the
 * call, whatever other threads change. It may also find one that has just been freed: look again with the lock before
 * reporting an error. Wait-free.
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
        if (tags >> TIDEI_BUCKET_BEHIND_SHIFT == 0)
            break;
    }
    return NULL;
}

#endif
