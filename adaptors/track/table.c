/* The table of live blocks of `track`, by address. */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/sync/slots.h"
#include "adaptors/track/table.h"

#define BUCKETS_FIRST   4096
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Places for blocks in each bucket; a bucket gets more where all of these are live at once. */
#define BUCKET_PLACES 2

/* A pair of cache lines, which processors fetch together. The first one has the lock and the first block. */
struct bucket {
    _Alignas(128) _Atomic uint8_t held; /* 0 or 1; written by threads inside their slots */
    uint16_t latest;                    /* the place of the block freed last; guarded by `held`, as all below */
    uint32_t more_count;
    struct tidei_track_block *more; /* owned; places beyond the first ones, once all of these were live at once */
    struct tidei_track_block blocks[BUCKET_PLACES];
};

struct buckets {
    struct bucket *first; /* at a multiple of its alignment in `memory` */
    size_t count;         /* a power of two */
    unsigned shift;       /* leaves the highest bits of a 64-bit hash */
    void *memory;         /* owned; untouched pages cost nothing */
};

/* A bucket's places beyond the first ones. */
struct places {
    struct tidei_track_block *blocks; /* owned */
    uint32_t count;
};

/* Buckets. A function on one bucket needs exclusive access to it; others need it to all. */

static inline struct bucket *
buckets_at(const struct buckets *buckets, uint64_t address)
{
    /* Fibonacci hashing, as in src/tables/map.h: addresses at even distances come to lie far apart. */
    return &buckets->first[address * 0x9e3779b97f4a7c15u >> buckets->shift];
}

static uintptr_t
round_up(uintptr_t address, size_t alignment)
{
    return (address + alignment - 1) & ~(uintptr_t)(alignment - 1);
}

/*
 * Allocate `count` empty buckets (a power of two). False where host memory is short. Huge pages are requested, because
 * with many live blocks and small pages each access would also cost a TLB miss.
 */
static bool
buckets_make(struct buckets *buckets, size_t count)
{
    uintptr_t huge, end;
    size_t bytes;

    if (__builtin_mul_overflow(count + 1, sizeof(struct bucket), &bytes))
        return false;
    buckets->memory = calloc(1, bytes);
    if (buckets->memory == NULL)
        return false;
    huge = round_up((uintptr_t)buckets->memory, HUGE_PAGE_BYTES);
    end = (uintptr_t)buckets->memory + bytes;
    if (huge + HUGE_PAGE_BYTES <= end)
        (void)madvise((void *)huge, end - huge, MADV_HUGEPAGE); /* a hint, which may be refused */
    buckets->first = (struct bucket *)round_up((uintptr_t)buckets->memory, _Alignof(struct bucket));
    buckets->count = count;
    buckets->shift = 64 - (unsigned)__builtin_ctzll(count);
    return true;
}

static void
buckets_free(struct buckets *buckets)
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
bucket_places(const struct bucket *bucket)
{
    return BUCKET_PLACES + bucket->more_count;
}

static inline struct tidei_track_block *
bucket_at(struct bucket *bucket, uint32_t place)
{
    return place < BUCKET_PLACES ? &bucket->blocks[place] : &bucket->more[place - BUCKET_PLACES];
}

/* The place that records an address, or bucket_places(). */
static inline uint32_t
bucket_find(struct bucket *bucket, uint64_t address)
{
    uint32_t place = 0;

    while (place < bucket_places(bucket) && bucket_at(bucket, place)->address != address)
        place++;
    return place;
}

/* A place for a new address: an empty one; else a freed block's, the latest free last. NULL where all are live. */
static struct tidei_track_block *
bucket_vacant(struct bucket *bucket)
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

/* The number of extra places that a bucket gets next. */
static uint32_t
bucket_next_count(const struct bucket *bucket)
{
    return bucket->more_count == 0 ? 4 : 2 * bucket->more_count;
}

static bool
places_make(struct places *places, uint32_t count)
{
    places->blocks = calloc(count, sizeof(*places->blocks));
    places->count = count;
    return places->blocks != NULL;
}

/* Install new extra places in the bucket; the caller gets the old ones. */
static void
bucket_swap_more(struct bucket *bucket, struct places *places)
{
    struct places before = { bucket->more, bucket->more_count };

    if (before.count > 0)
        memcpy(places->blocks, before.blocks, before.count * sizeof(*before.blocks));
    bucket->more = places->blocks;
    bucket->more_count = places->count;
    *places = before;
}

/* Find a place for a block. NULL where extra places are needed, and `spare` is too small; else it may be used up. */
static struct tidei_track_block *
bucket_make_room(struct bucket *bucket, struct places *spare)
{
    struct tidei_track_block *vacant = bucket_vacant(bucket);

    if (vacant == NULL && spare->count >= bucket_next_count(bucket)) {
        bucket_swap_more(bucket, spare);
        vacant = bucket_vacant(bucket);
    }
    return vacant;
}

/* As tidei_track_put. NO_MEMORY where extra places are needed, and `spare` is too small; else it may be used up. */
static enum tidei_track_answer
bucket_put(struct bucket *bucket, const struct tidei_track_block *block, struct places *spare,
           struct tidei_track_block *known)
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

/* As tidei_track_take. */
static enum tidei_track_answer
bucket_take(struct bucket *bucket, const struct tidei_track_block *back, struct tidei_track_block *known)
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
    bucket->latest = (uint16_t)place; /* truncated in a far too long bucket: then it names another place */
    return TIDEI_TRACK_FINE;
}

/* Copy a record to a larger table; that of a freed block only where there is room. False: no host memory. */
static bool
buckets_copy_block(const struct buckets *to, const struct tidei_track_block *from)
{
    struct bucket *bucket = buckets_at(to, from->address);
    struct tidei_track_block *vacant = bucket_vacant(bucket);
    struct places places;

    if (vacant == NULL && block_is_live(from)) {
        if (!places_make(&places, bucket_next_count(bucket)))
            return false;
        bucket_swap_more(bucket, &places);
        free(places.blocks);
        vacant = bucket_vacant(bucket);
    }
    if (vacant != NULL && (block_is_live(from) || vacant->address == 0))
        *vacant = *from;
    return true;
}

/* Copy the records of `from` to `to`, which is empty; freed blocks only where there is room. False: no host memory. */
static bool
buckets_copy(const struct buckets *to, const struct buckets *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct bucket *bucket = &from->first[i];

        for (uint32_t place = 0; place < bucket_places(bucket); place++) {
            const struct tidei_track_block *block = bucket_at(bucket, place);

            if (block->address != 0 && !buckets_copy_block(to, block))
                return false;
        }
    }
    return true;
}

/* Copy as many live blocks as fit; returns how many there are. */
static size_t
buckets_list(const struct buckets *buckets, struct tidei_track_block *list, size_t capacity)
{
    size_t count = 0;

    for (size_t i = 0; i < buckets->count; i++) {
        struct bucket *bucket = &buckets->first[i];

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

/* The table, and how threads lock a bucket. */

/*
 * A thread enters its slot to work on a bucket. A thread that has the table alone, as the owner of the lock or with all
 * slots closed, has every bucket. So when a process forks, no thread is inside and no bucket is held.
 */
struct tidei_track_table {
    struct tidei_lock alone; /* older than the slots' locks */
    struct tidei_slots slots;
    struct buckets buckets; /* written by a thread that has the table alone */

    _Alignas(128) _Atomic size_t crowded; /* buckets of this table that have got extra places, or more of them */
    _Atomic bool growing;                 /* a thread is enlarging the table */
};

/* How a thread has entered. */
struct visit {
    /* As the owner of the lock, or with the slots of all threads closed: alone; or among others, in its own slot. */
    enum { VISIT_OWNER, VISIT_ALL_CLOSED, VISIT_SHARED } mode;
    struct tidei_slot *slot; /* if shared */
};

/* Without a usable slot: wait until the slots are open again; where host memory is too short for one, close all. */
static __attribute__((noinline)) void
visit_begin_slowly(struct tidei_track_table *table, struct visit *visit)
{
    unsigned looks = 0;

    while (tidei_slot_find(&table->slots) != NULL) {
        TIDEI_TEST_POINT("track.waits");
        tidei_lock_pause(&looks);
        visit->slot = tidei_slot_enter(&table->slots);
        if (visit->slot != NULL)
            return;
    }
    tidei_slots_quiesce(&table->slots);
    visit->mode = VISIT_ALL_CLOSED;
}

static inline void
visit_begin(struct tidei_track_table *table, struct visit *visit)
{
    if (tidei_lock_acquire_alone(&table->alone)) {
        visit->mode = VISIT_OWNER;
        return;
    }
    visit->mode = VISIT_SHARED;
    visit->slot = tidei_slot_enter(&table->slots);
    if (__builtin_expect(visit->slot == NULL, 0))
        visit_begin_slowly(table, visit);
}

static void
visit_begin_alone(struct tidei_track_table *table, struct visit *visit)
{
    visit->mode = VISIT_OWNER;
    if (!tidei_lock_acquire_alone(&table->alone)) {
        tidei_slots_quiesce(&table->slots);
        visit->mode = VISIT_ALL_CLOSED;
    }
}

static inline void
visit_end(struct tidei_track_table *table, const struct visit *visit)
{
    if (visit->mode == VISIT_SHARED)
        tidei_slot_leave(visit->slot);
    else if (visit->mode == VISIT_OWNER)
        tidei_lock_release(&table->alone);
    else
        tidei_slots_resume(&table->slots);
}

/* Enter, and lock the bucket of an address. */
static inline struct bucket *
table_enter(struct tidei_track_table *table, uint64_t address, struct visit *visit)
{
    unsigned looks = 0;

    for (;;) {
        struct bucket *bucket;

        visit_begin(table, visit);
        bucket = buckets_at(&table->buckets, address);
        /* Acquire: pairs with the release in table_leave. */
        if (visit->mode != VISIT_SHARED || atomic_exchange_explicit(&bucket->held, 1, memory_order_acquire) == 0)
            return bucket;
        /* No thread waits inside. */
        tidei_slot_leave(visit->slot);
        TIDEI_TEST_POINT("track.waits");
        tidei_lock_pause(&looks);
    }
}

static inline void
table_leave(struct tidei_track_table *table, struct bucket *bucket, const struct visit *visit)
{
    TIDEI_TEST_POINT("track.held");
    /* Release: pairs with the acquire in table_enter. A thread that has the table alone needs no lock. */
    if (visit->mode == VISIT_SHARED)
        atomic_store_explicit(&bucket->held, 0, memory_order_release);
    visit_end(table, visit);
}

enum tide_status
tidei_track_table_create(struct tidei_track_table **out)
{
    struct tidei_track_table *table = aligned_alloc(_Alignof(struct tidei_track_table), sizeof(*table));

    *out = NULL;
    if (table == NULL)
        goto no_memory;
    memset(table, 0, sizeof(*table));
    if (!buckets_make(&table->buckets, BUCKETS_FIRST))
        goto no_memory;
    tidei_lock_init(&table->alone);
    tidei_slots_init(&table->slots, sizeof(struct tidei_slot), NULL);
    *out = table;
    return TIDE_OK;
no_memory:
    free(table);
    return tide_error_set(TIDE_ENOMEM, "no host memory for a table of addresses");
}

void
tidei_track_table_destroy(struct tidei_track_table *table)
{
    if (table == NULL)
        return;
    tidei_slots_fini(&table->slots);
    tidei_lock_fini(&table->alone);
    buckets_free(&table->buckets);
    free(table);
}

/*
 * Whether the table is still too small with `count` buckets; the caller has it alone. Not where few blocks are live:
 * over a long time every bucket gets crowded once.
 */
static bool
table_is_too_small(struct tidei_track_table *table, size_t count)
{
    if (table->buckets.count != count)
        return false;
    atomic_store_explicit(&table->crowded, 0, memory_order_relaxed); /* relaxed: as in tidei_track_put */
    return buckets_list(&table->buckets, NULL, 0) > count - count / 4;
}

/* Double `count` buckets, where that is still too few and host memory suffices. */
static __attribute__((noinline)) void
table_grow(struct tidei_track_table *table, size_t count)
{
    struct buckets made, old;
    struct visit visit;

    /* Relaxed, here and below: a thread that sees it goes on, and tries again at the next crowded bucket. */
    if (atomic_exchange_explicit(&table->growing, true, memory_order_relaxed))
        return;
    if (buckets_make(&made, 2 * count)) {
        old = made;
        visit_begin_alone(table, &visit);
        if (table_is_too_small(table, count) && buckets_copy(&made, &table->buckets)) {
            TIDEI_TEST_POINT("track.copied");
            old = table->buckets;
            table->buckets = made;
        }
        visit_end(table, &visit);
        buckets_free(&old);
    }
    atomic_store_explicit(&table->growing, false, memory_order_relaxed);
}

enum tidei_track_answer
tidei_track_put(struct tidei_track_table *table, const struct tidei_track_block *block, struct tidei_track_block *known)
{
    struct places spare = { NULL, 0 };
    enum tidei_track_answer answer;
    size_t crowded = 0, count;

    for (;;) {
        struct visit visit;
        struct bucket *bucket = table_enter(table, block->address, &visit);
        uint32_t places = bucket->more_count, next = bucket_next_count(bucket);

        answer = bucket_put(bucket, block, &spare, known);
        count = table->buckets.count;
        /* Relaxed: a number that decides when to grow; no data depends on it. */
        if (__builtin_expect(bucket->more_count != places, 0))
            crowded = 1 + atomic_fetch_add_explicit(&table->crowded, 1, memory_order_relaxed);
        table_leave(table, bucket, &visit);
        if (__builtin_expect(answer != TIDEI_TRACK_NO_MEMORY, 1))
            break;
        free(spare.blocks);
        if (!places_make(&spare, next))
            return TIDEI_TRACK_NO_MEMORY;
    }
    free(spare.blocks);
    if (__builtin_expect(crowded > count / 8, 0))
        table_grow(table, count);
    return answer;
}

enum tidei_track_answer
tidei_track_take(struct tidei_track_table *table, const struct tidei_track_block *back, struct tidei_track_block *known)
{
    struct visit visit;
    struct bucket *bucket = table_enter(table, back->address, &visit);
    enum tidei_track_answer answer = bucket_take(bucket, back, known);

    table_leave(table, bucket, &visit);
    return answer;
}

bool
tidei_track_find(struct tidei_track_table *table, uint64_t address, struct tidei_track_block *known)
{
    struct visit visit;
    struct bucket *bucket = table_enter(table, address, &visit);
    uint32_t place = bucket_find(bucket, address);
    bool live = false;

    *known = (struct tidei_track_block){ 0 };
    if (place != bucket_places(bucket)) {
        *known = *bucket_at(bucket, place);
        live = block_is_live(known);
    }
    table_leave(table, bucket, &visit);
    return live;
}

bool
tidei_track_list(struct tidei_track_table *table, struct tidei_track_block **out, size_t *count)
{
    size_t capacity = 1024;

    for (;;) {
        struct visit visit;

        *count = 0;
        *out = malloc(capacity * sizeof(**out));
        if (*out == NULL)
            return false;
        visit_begin_alone(table, &visit);
        *count = buckets_list(&table->buckets, *out, capacity);
        visit_end(table, &visit);
        if (*count <= capacity)
            return true;
        free(*out);
        capacity = *count + *count / 4; /* other threads go on meanwhile */
    }
}
