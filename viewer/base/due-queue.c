/* A monotone priority queue: a radix heap. */
#include "config.h"

#include <stdlib.h>

#include "src/tables/grow.h"
#include "viewer/base/due-queue.h"

static uint64_t
due_key(int64_t ns)
{
    return (uint64_t)ns ^ (UINT64_C(1) << 63);
}

void
due_queue_free(struct due_queue *queue)
{
    free(queue->now.list);
    queue->now = (struct due_bucket){ 0 };
    for (size_t i = 0; i < DUE_LEVELS * 16; i++) {
        free(queue->buckets[i / 16][i % 16].list);
        queue->buckets[i / 16][i % 16] = (struct due_bucket){ 0 };
    }
    due_queue_clear(queue);
}

void
due_queue_clear(struct due_queue *queue)
{
    for (size_t i = 0; i < DUE_LEVELS * 16; i++)
        queue->buckets[i / 16][i % 16].count = 0;
    for (size_t i = 0; i < DUE_LEVELS; i++)
        queue->digits[i] = 0;
    queue->levels = 0;
    queue->last = 0;
    queue->now.count = queue->head = queue->count = 0;
}

static bool
due_grow(struct due_bucket *bucket)
{
    return tidei_grow(&bucket->list, &bucket->capacity, bucket->capacity, 1);
}

/* The bucket for `key`. Marks it as not empty. */
static inline struct due_bucket *
due_bucket_of(struct due_queue *queue, uint64_t key)
{
    uint64_t differs = key ^ queue->last;
    unsigned level, digit;

    if (differs == 0)
        return &queue->now;
    level = (63 - (unsigned)__builtin_clzll(differs)) / 4;
    digit = (unsigned)(key >> (4 * level)) & 15;
    queue->levels = (uint16_t)(queue->levels | 1u << level);
    queue->digits[level] = (uint16_t)(queue->digits[level] | 1u << digit);
    return &queue->buckets[level][digit];
}

/* Append an entry to the bucket that its key and `last` select. */
static inline bool
due_put(struct due_queue *queue, struct due entry)
{
    struct due_bucket *bucket = due_bucket_of(queue, entry.key);

    if (bucket->count == bucket->capacity && !due_grow(bucket))
        return false;
    if (bucket->count == 0 || entry.key < bucket->least)
        bucket->least = entry.key;
    bucket->list[bucket->count++] = entry;
    return true;
}

bool
due_queue_add(struct due_queue *queue, int64_t ns, uint64_t number)
{
    if (!due_put(queue, (struct due){ due_key(ns), number }))
        return false;
    queue->count++;
    return true;
}

static int
due_compare(const void *one, const void *other, void *context)
{
    const struct due_queue *queue = context;

    return queue->compare(queue->context, ((const struct due *)one)->number, ((const struct due *)other)->number);
}

/* Remove the first bucket from the levels if its least key is before `key`. NULL: there is no such bucket. */
static struct due_bucket *
due_first(struct due_queue *queue, uint64_t key)
{
    struct due_bucket *bucket;
    unsigned level;

    if (queue->levels == 0)
        return NULL;
    level = (unsigned)__builtin_ctz(queue->levels);
    bucket = &queue->buckets[level][__builtin_ctz(queue->digits[level])];
    if (bucket->least >= key)
        return NULL;
    queue->digits[level] = (uint16_t)(queue->digits[level] & (queue->digits[level] - 1));
    if (queue->digits[level] == 0)
        queue->levels = (uint16_t)(queue->levels & (queue->levels - 1));
    return bucket;
}

/* Spread the first bucket over the levels below it, which are empty. Its earliest entries move to `now`. */
static bool
due_spread(struct due_queue *queue, struct due_bucket *bucket)
{
    size_t count = bucket->count;

    queue->last = bucket->least;
    bucket->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!due_put(queue, bucket->list[i]))
            return false;
    }
    if (queue->compare != NULL && queue->now.count > 1)
        qsort_r(queue->now.list, queue->now.count, sizeof(*queue->now.list), due_compare, queue);
    return true;
}

enum due_found
due_queue_take(struct due_queue *queue, int64_t ns, uint64_t *number)
{
    struct due_bucket *now = &queue->now;

    if (now->count == 0) {
        struct due_bucket *bucket = due_first(queue, due_key(ns));

        if (bucket == NULL)
            return DUE_NOTHING;
        if (bucket->count == 1) {
            queue->last = bucket->least;
            bucket->count = 0;
            queue->count--;
            *number = bucket->list[0].number;
            return DUE_FOUND;
        }
        if (!due_spread(queue, bucket))
            return DUE_NO_MEMORY;
    } else if (queue->last >= due_key(ns)) {
        return DUE_NOTHING;
    }
    *number = now->list[queue->head++].number;
    if (queue->head == now->count)
        queue->head = now->count = 0;
    queue->count--;
    return DUE_FOUND;
}

size_t
due_queue_peek(const struct due_queue *queue, uint64_t *numbers, size_t most)
{
    const struct due_bucket *bucket = &queue->now;
    size_t from = queue->head;
    size_t count = 0;

    if (bucket->count == 0) {
        unsigned level;

        if (queue->levels == 0)
            return 0;
        level = (unsigned)__builtin_ctz(queue->levels);
        bucket = &queue->buckets[level][__builtin_ctz(queue->digits[level])];
        from = 0;
    }
    for (; count < most && from < bucket->count; from++)
        numbers[count++] = bucket->list[from].number;
    return count;
}

static void
due_bucket_each(const struct due_bucket *bucket, size_t from, void (*each)(void *context, uint64_t number),
                void *context)
{
    for (size_t i = from; i < bucket->count; i++)
        each(context, bucket->list[i].number);
}

void
due_queue_each(const struct due_queue *queue, void (*each)(void *context, uint64_t number), void *context)
{
    due_bucket_each(&queue->now, queue->head, each, context);
    for (size_t i = 0; i < DUE_LEVELS * 16; i++)
        due_bucket_each(&queue->buckets[i / 16][i % 16], 0, each, context);
}
