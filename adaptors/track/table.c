/* Keeps what `track` knows of addresses. */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/sync/thread.h"
#include "adaptors/track/buckets.h"
#include "adaptors/track/table.h"

#define BUCKETS_FIRST 4096

/*
 * Threads come inside to work on a bucket. Whoever is inside alone, as the owner of the lock or with all parts closed,
 * has every bucket to itself; so no thread is inside, and no bucket held, when a process forks.
 */
struct tidei_track_table {
    struct tidei_lock alone; /* older than the parts */
    struct tidei_slots slots;
    struct tidei_track_buckets buckets; /* written by whoever is inside alone */

    _Alignas(128) _Atomic size_t crowded; /* buckets of this table that have got more places, or larger such */
    _Atomic bool growing;                 /* some thread is about to make the table larger */
};

/* How a thread is inside. */
struct visit {
    enum { VISIT_OWNER, VISIT_CLOSED, VISIT_AMONG } way; /* the first two are alone */
    struct tidei_slot *part;                             /* its own, while it is among others */
};

/* Without a part to use: wait until they are open again; where host memory had none for this thread, close them. */
static __attribute__((noinline)) void
visit_begin_slowly(struct tidei_track_table *table, struct visit *visit)
{
    unsigned looks = 0;

    while (tidei_slot_find(&table->slots) != NULL) {
        TIDEI_TEST_POINT("track.waits");
        tidei_lock_pause(&looks);
        visit->part = tidei_slot_enter(&table->slots);
        if (visit->part != NULL)
            return;
    }
    tidei_slots_quiesce(&table->slots);
    visit->way = VISIT_CLOSED;
}

static inline void
visit_begin(struct tidei_track_table *table, struct visit *visit)
{
    if (tidei_lock_acquire_alone(&table->alone)) {
        visit->way = VISIT_OWNER;
        return;
    }
    visit->way = VISIT_AMONG;
    visit->part = tidei_slot_enter(&table->slots);
    if (__builtin_expect(visit->part == NULL, 0))
        visit_begin_slowly(table, visit);
}

static void
visit_begin_alone(struct tidei_track_table *table, struct visit *visit)
{
    visit->way = VISIT_OWNER;
    if (!tidei_lock_acquire_alone(&table->alone)) {
        tidei_slots_quiesce(&table->slots);
        visit->way = VISIT_CLOSED;
    }
}

static inline void
visit_end(struct tidei_track_table *table, const struct visit *visit)
{
    if (visit->way == VISIT_AMONG)
        tidei_slot_leave(visit->part);
    else if (visit->way == VISIT_OWNER)
        tidei_lock_release(&table->alone);
    else
        tidei_slots_resume(&table->slots);
}

/* Come inside, and have the bucket of an address. */
static inline struct tidei_track_bucket *
table_enter(struct tidei_track_table *table, uint64_t address, struct visit *visit)
{
    unsigned looks = 0;

    for (;;) {
        struct tidei_track_bucket *bucket;

        visit_begin(table, visit);
        bucket = tidei_track_buckets_at(&table->buckets, address);
        /* Acquire: pairs with the release in table_leave. */
        if (visit->way != VISIT_AMONG || atomic_exchange_explicit(&bucket->held, 1, memory_order_acquire) == 0)
            return bucket;
        /* Nobody waits inside. */
        tidei_slot_leave(visit->part);
        TIDEI_TEST_POINT("track.waits");
        tidei_lock_pause(&looks);
    }
}

static inline void
table_leave(struct tidei_track_table *table, struct tidei_track_bucket *bucket, const struct visit *visit)
{
    TIDEI_TEST_POINT("track.held");
    /* Release: pairs with the acquire in table_enter. Nobody else looks at it where this thread is alone. */
    if (visit->way == VISIT_AMONG)
        atomic_store_explicit(&bucket->held, 0, memory_order_release);
    visit_end(table, visit);
}

enum tide_status
tidei_track_table_create(struct tidei_track_table **out)
{
    struct tidei_track_table *table = aligned_alloc(_Alignof(struct tidei_track_table), sizeof(*table));
    enum tide_status status;

    *out = NULL;
    if (table == NULL)
        goto no_memory;
    memset(table, 0, sizeof(*table));
    if (!tidei_track_buckets_make(&table->buckets, BUCKETS_FIRST))
        goto no_memory;
    status = tidei_lock_init(&table->alone);
    if (status != TIDE_OK)
        goto no_lock;
    status = tidei_slots_init(&table->slots, sizeof(struct tidei_slot), NULL);
    if (status != TIDE_OK)
        goto no_parts;
    *out = table;
    return TIDE_OK;
no_parts:
    tidei_lock_fini(&table->alone);
no_lock:
    tidei_track_buckets_free(&table->buckets);
    free(table);
    return status;
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
    tidei_track_buckets_free(&table->buckets);
    free(table);
}

static void
buckets_swap(struct tidei_track_buckets *a, struct tidei_track_buckets *b)
{
    const struct tidei_track_buckets c = *a;

    *a = *b;
    *b = c;
}

/*
 * Still, with `count` buckets, from inside alone. Not where few blocks are live: over a long time every bucket has its
 * moment of being crowded.
 */
static bool
table_is_too_small(struct tidei_track_table *table, size_t count)
{
    if (table->buckets.count != count)
        return false;
    atomic_store_explicit(&table->crowded, 0, memory_order_relaxed); /* relaxed: as in tidei_track_put */
    return tidei_track_buckets_list(&table->buckets, NULL, 0) > count - count / 4;
}

/* Have twice `count` buckets, where that is too few still and host memory is not short. */
static __attribute__((noinline)) void
table_grow(struct tidei_track_table *table, size_t count)
{
    struct tidei_track_buckets other;
    struct visit visit;

    /* Relaxed, here and below: who sees it goes on without, and tries again at the next bucket that is crowded. */
    if (atomic_exchange_explicit(&table->growing, true, memory_order_relaxed))
        return;
    if (tidei_track_buckets_make(&other, 2 * count)) {
        visit_begin_alone(table, &visit);
        if (table_is_too_small(table, count) && tidei_track_buckets_copy(&other, &table->buckets)) {
            TIDEI_TEST_POINT("track.copied");
            buckets_swap(&table->buckets, &other);
        }
        visit_end(table, &visit);
        tidei_track_buckets_free(&other);
    }
    atomic_store_explicit(&table->growing, false, memory_order_relaxed);
}

enum tidei_track_answer
tidei_track_put(struct tidei_track_table *table, const struct tidei_track_block *block, struct tidei_track_block *known)
{
    struct tidei_track_places spare = { NULL, 0 };
    enum tidei_track_answer answer;
    size_t crowded = 0, count;

    for (;;) {
        struct visit visit;
        struct tidei_track_bucket *bucket = table_enter(table, block->address, &visit);
        uint32_t places = bucket->more_count, next = tidei_track_bucket_next_count(bucket);

        answer = tidei_track_bucket_put(bucket, block, &spare, known);
        count = table->buckets.count;
        /* Relaxed: a number that tells when to grow, and nothing hangs on it. */
        if (__builtin_expect(bucket->more_count != places, 0))
            crowded = 1 + atomic_fetch_add_explicit(&table->crowded, 1, memory_order_relaxed);
        table_leave(table, bucket, &visit);
        if (__builtin_expect(answer != TIDEI_TRACK_NO_MEMORY, 1))
            break;
        free(spare.blocks);
        if (!tidei_track_places_make(&spare, next))
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
    struct tidei_track_bucket *bucket = table_enter(table, back->address, &visit);
    enum tidei_track_answer answer = tidei_track_bucket_take(bucket, back, known);

    table_leave(table, bucket, &visit);
    return answer;
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
        *count = tidei_track_buckets_list(&table->buckets, *out, capacity);
        visit_end(table, &visit);
        if (*count <= capacity)
            return true;
        free(*out);
        capacity = *count + *count / 4; /* others go on meanwhile */
    }
}
