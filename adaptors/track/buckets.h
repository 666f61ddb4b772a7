/*
 * A hash table of blocks by their addresses: buckets of two lines each, which hold all that is known of a few
 * addresses. A block that was freed stays where it is until its place is needed for another.
 *
 * Functions on a bucket need it to themselves, the others all buckets: who calls sees to that (adaptors/track/table.c).
 */
#ifndef TIDEI_ADAPTORS_TRACK_BUCKETS_H
#define TIDEI_ADAPTORS_TRACK_BUCKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adaptors/track/block.h"

/* Places for blocks in each bucket; more where all of these are live at once. */
#define TIDEI_TRACK_PLACES 2

/* Two lines, as processors fetch them in pairs; the first one has the lock and the first block. */
struct tidei_track_bucket {
    _Alignas(128) _Atomic uint8_t held; /* 0 or 1; written by a thread among others, from inside of its part */
    uint16_t latest; /* the place of the block that was freed last; guarded by `held`, as all below */
    uint32_t more_count;
    struct tidei_track_block *more; /* owned; places beyond the first ones, where all of these were needed at once */
    struct tidei_track_block blocks[TIDEI_TRACK_PLACES];
};

struct tidei_track_buckets {
    struct tidei_track_bucket *first; /* at a multiple of its alignment in `memory` */
    size_t count;                     /* a power of two */
    unsigned shift;                   /* of 64 bits, so that the highest ones of a hash are left */
    void *memory;                     /* owned; pages that nobody has written to cost nothing */
};

/* Places beyond the first ones. */
struct tidei_track_places {
    struct tidei_track_block *blocks; /* owned */
    uint32_t count;
};

static inline struct tidei_track_bucket *
tidei_track_buckets_at(const struct tidei_track_buckets *buckets, uint64_t address)
{
    /* Fibonacci hashing, as in src/tables/addressmap.h: addresses at even distances come to lie far apart. */
    return &buckets->first[address * 0x9e3779b97f4a7c15u >> buckets->shift];
}

/* Make `count` empty ones, a power of two. False where host memory is short. */
bool tidei_track_buckets_make(struct tidei_track_buckets *buckets, size_t count);

/* Zeros are allowed. */
void tidei_track_buckets_free(struct tidei_track_buckets *buckets);

/* Enter in `to`, which is empty, what `from` knows; of what was freed, as much as has room. False as above. */
bool tidei_track_buckets_copy(const struct tidei_track_buckets *to, const struct tidei_track_buckets *from);

/* Copy as many live blocks as fit; returns how many there are. */
size_t tidei_track_buckets_list(const struct tidei_track_buckets *buckets, struct tidei_track_block *list,
                                size_t capacity);

/* How many places beyond the first ones a bucket gets next. */
uint32_t tidei_track_bucket_next_count(const struct tidei_track_bucket *bucket);
bool tidei_track_places_make(struct tidei_track_places *places, uint32_t count);

/* As tidei_track_put; NO_MEMORY where another place is needed, and `spare` is not enough, else it may be used up. */
enum tidei_track_answer tidei_track_bucket_put(struct tidei_track_bucket *bucket, const struct tidei_track_block *block,
                                               struct tidei_track_places *spare, struct tidei_track_block *known);

/* As tidei_track_take. */
enum tidei_track_answer tidei_track_bucket_take(struct tidei_track_bucket *bucket, const struct tidei_track_block *back,
                                                struct tidei_track_block *known);

#endif
