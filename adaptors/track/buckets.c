/* Keeps blocks by their addresses. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "adaptors/track/buckets.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static uintptr_t
round_up(uintptr_t address, size_t alignment)
{
    return (address + alignment - 1) & ~(uintptr_t)(alignment - 1);
}

/* Zeros. With many blocks live, each of them costs misses of the TLB, too, where pages are small. */
bool
tidei_track_buckets_make(struct tidei_track_buckets *buckets, size_t count)
{
    uintptr_t huge, end;
    size_t bytes;

    if (__builtin_mul_overflow(count + 1, sizeof(struct tidei_track_bucket), &bytes))
        return false;
    buckets->memory = calloc(1, bytes);
    if (buckets->memory == NULL)
        return false;
    huge = round_up((uintptr_t)buckets->memory, HUGE_PAGE_BYTES);
    end = (uintptr_t)buckets->memory + bytes;
    if (huge + HUGE_PAGE_BYTES <= end)
        (void)madvise((void *)huge, end - huge, MADV_HUGEPAGE); /* a hint, which may be refused */
    buckets->first =
        (struct tidei_track_bucket *)round_up((uintptr_t)buckets->memory, _Alignof(struct tidei_track_bucket));
    buckets->count = count;
    buckets->shift = 64 - (unsigned)__builtin_ctzll(count);
    return true;
}

void
tidei_track_buckets_free(struct tidei_track_buckets *buckets)
{
    for (size_t i = 0; buckets->memory != NULL && i < buckets->count; i++)
        free(buckets->first[i].more);
    free(buckets->memory);
}

static inline bool
block_is_live(const struct tidei_track_block *block)
{
    return block->address != 0 && block->freed_by.thread == 0;
}

static inline uint32_t
bucket_places(const struct tidei_track_bucket *bucket)
{
    return TIDEI_TRACK_PLACES + bucket->more_count;
}

static inline struct tidei_track_block *
bucket_at(struct tidei_track_bucket *bucket, uint32_t place)
{
    return place < TIDEI_TRACK_PLACES ? &bucket->blocks[place] : &bucket->more[place - TIDEI_TRACK_PLACES];
}

/* The place of what is known of an address, or bucket_places(). */
static inline uint32_t
bucket_find(struct tidei_track_bucket *bucket, uint64_t address)
{
    uint32_t place = 0;

    while (place < bucket_places(bucket) && bucket_at(bucket, place)->address != address)
        place++;
    return place;
}

/* A place for a new address: an empty one; else one that was freed, the latest as the last. NULL where all are live. */
static struct tidei_track_block *
bucket_vacant(struct tidei_track_bucket *bucket)
{
    struct tidei_track_block *freed = NULL;

    for (uint32_t place = 0; place < bucket_places(bucket); place++) {
        struct tidei_track_block *block = bucket_at(bucket, place);

        if (block->address == 0)
            return block;
        if (!block_is_live(block) && (freed == NULL || place != bucket->latest))
            freed = block;
    }
    return freed;
}

/* How many places beyond the first ones a bucket gets next. */
uint32_t
tidei_track_bucket_next_count(const struct tidei_track_bucket *bucket)
{
    return bucket->more_count == 0 ? 4 : 2 * bucket->more_count;
}

bool
tidei_track_places_make(struct tidei_track_places *places, uint32_t count)
{
    places->blocks = calloc(count, sizeof(*places->blocks));
    places->count = count;
    return places->blocks != NULL;
}

/* The bucket has these places from now on, and the caller those that it had. */
static void
bucket_swap_more(struct tidei_track_bucket *bucket, struct tidei_track_places *places)
{
    struct tidei_track_places before = { bucket->more, bucket->more_count };

    if (before.count > 0)
        memcpy(places->blocks, before.blocks, before.count * sizeof(*before.blocks));
    bucket->more = places->blocks;
    bucket->more_count = places->count;
    *places = before;
}

/* NULL where a block needs another place, and `spare` is not enough; else `spare` may be used up. */
static struct tidei_track_block *
bucket_make_room(struct tidei_track_bucket *bucket, struct tidei_track_places *spare)
{
    struct tidei_track_block *vacant = bucket_vacant(bucket);

    if (vacant == NULL && spare->count >= tidei_track_bucket_next_count(bucket)) {
        bucket_swap_more(bucket, spare);
        vacant = bucket_vacant(bucket);
    }
    return vacant;
}

enum tidei_track_answer
tidei_track_bucket_put(struct tidei_track_bucket *bucket, const struct tidei_track_block *block,
                       struct tidei_track_places *spare, struct tidei_track_block *known)
{
    uint32_t place = bucket_find(bucket, block->address);
    struct tidei_track_block *to;

    if (place == bucket_places(bucket)) {
        to = bucket_make_room(bucket, spare);
        if (to == NULL)
            return TIDEI_TRACK_NO_MEMORY;
    } else {
        to = bucket_at(bucket, place);
        if (block_is_live(to)) {
            *known = *to;
            return TIDEI_TRACK_LIVE;
        }
    }
    *to = *block;
    return TIDEI_TRACK_FINE;
}

enum tidei_track_answer
tidei_track_bucket_take(struct tidei_track_bucket *bucket, const struct tidei_track_block *back,
                        struct tidei_track_block *known)
{
    uint32_t place = bucket_find(bucket, back->address);
    struct tidei_track_block *block;

    if (place == bucket_places(bucket)) {
        *known = (struct tidei_track_block){ 0 };
        return TIDEI_TRACK_UNKNOWN;
    }
    block = bucket_at(bucket, place);
    *known = *block;
    if (!block_is_live(block))
        return TIDEI_TRACK_FREED_BEFORE;
    if (block->bytes != back->bytes)
        return TIDEI_TRACK_OTHER_SIZE;
    if (block->alignment_log2 != back->alignment_log2)
        return TIDEI_TRACK_OTHER_ALIGNMENT;
    block->freed_by = back->freed_by;
    bucket->latest = (uint16_t)place; /* cut off in a bucket that is far too long: then it is another one's */
    return TIDEI_TRACK_FINE;
}

/* Enter what `from` knows in the larger table; what was freed before only where there is room. */
static bool
buckets_copy_block(const struct tidei_track_buckets *to, const struct tidei_track_block *from)
{
    struct tidei_track_bucket *bucket = tidei_track_buckets_at(to, from->address);
    struct tidei_track_block *vacant = bucket_vacant(bucket);
    struct tidei_track_places places;

    if (vacant == NULL && block_is_live(from)) {
        if (!tidei_track_places_make(&places, tidei_track_bucket_next_count(bucket)))
            return false;
        bucket_swap_more(bucket, &places);
        free(places.blocks);
        vacant = bucket_vacant(bucket);
    }
    if (vacant != NULL && (block_is_live(from) || vacant->address == 0))
        *vacant = *from;
    return true;
}

bool
tidei_track_buckets_copy(const struct tidei_track_buckets *to, const struct tidei_track_buckets *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct tidei_track_bucket *bucket = &from->first[i];

        for (uint32_t place = 0; place < bucket_places(bucket); place++) {
            const struct tidei_track_block *block = bucket_at(bucket, place);

            if (block->address != 0 && !buckets_copy_block(to, block))
                return false;
        }
    }
    return true;
}

size_t
tidei_track_buckets_list(const struct tidei_track_buckets *buckets, struct tidei_track_block *list, size_t capacity)
{
    size_t count = 0;

    for (size_t i = 0; i < buckets->count; i++) {
        struct tidei_track_bucket *bucket = &buckets->first[i];

        for (uint32_t place = 0; place < bucket_places(bucket); place++) {
            const struct tidei_track_block *block = bucket_at(bucket, place);

            if (!block_is_live(block))
                continue;
            if (count < capacity)
                list[count] = *block;
            count++;
        }
    }
    return count;
}
