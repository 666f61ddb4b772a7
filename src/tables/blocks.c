/* Keeps track of memory blocks on the host: by address, and the idle ones by stream. */
#include <stdlib.h>
#include <string.h>

#include "src/tables/blocks.h"

#define BLOCKS_NONE           TIDEI_BLOCK_NONE
#define BLOCKS_FIRST_CAPACITY 16

/* The high half of a product with 2^64 / golden ratio spreads addresses and handles, whose low bits are alike. */
static uint32_t
blocks_bucket(const struct tidei_blocks *table, uintptr_t key)
{
    return (uint32_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (table->capacity - 1);
}

void
tidei_blocks_init(struct tidei_blocks *table)
{
    *table = (struct tidei_blocks){
        .unused_block = BLOCKS_NONE, .unused_group = BLOCKS_NONE, .oldest = BLOCKS_NONE, .newest = BLOCKS_NONE
    };
}

void
tidei_blocks_fini(struct tidei_blocks *table)
{
    free(table->blocks);
    free(table->groups);
    free(table->block_buckets);
    free(table->group_buckets);
    tidei_blocks_init(table);
}

/* Rebuild the buckets after their number has changed. */
static void
blocks_rehash(struct tidei_blocks *table)
{
    for (uint32_t i = 0; i < table->capacity; i++)
        table->block_buckets[i] = table->group_buckets[i] = BLOCKS_NONE;
    for (uint32_t i = 0; i < table->capacity; i++) {
        struct tidei_block *block = &table->blocks[i];

        if (block->used) {
            uint32_t *bucket = &table->block_buckets[blocks_bucket(table, block->address)];

            block->bucket_next = *bucket;
            *bucket = i;
        }
    }
    for (uint32_t i = table->oldest; i != BLOCKS_NONE; i = table->groups[i].newer) {
        uint32_t *bucket = &table->group_buckets[blocks_bucket(table, table->groups[i].stream)];

        table->groups[i].bucket_next = *bucket;
        *bucket = i;
    }
}

/* Change the number of items of the array that `array` points to. On failure the array stays as it is. */
static bool
array_resize(void *array, uint32_t capacity, size_t item_bytes)
{
    void *items;

    memcpy(&items, array, sizeof(items)); /* a cast of `array` to void ** would violate strict aliasing */
    items = reallocarray(items, capacity, item_bytes);
    if (items != NULL)
        memcpy(array, &items, sizeof(items));
    return items != NULL;
}

bool
tidei_blocks_reserve(struct tidei_blocks *table, uint64_t count)
{
    uint32_t before = table->capacity;
    uint32_t capacity = before != 0 ? before : BLOCKS_FIRST_CAPACITY;

    if (count <= before)
        return true;
    if (count > TIDEI_BLOCKS_MAX)
        return false;
    while (capacity < count)
        capacity *= 2;
    /* An array that has grown stays so if another one cannot: `capacity` says how much of all of them counts. */
    if (!array_resize(&table->blocks, capacity, sizeof(*table->blocks)) ||
        !array_resize(&table->groups, capacity, sizeof(*table->groups)) ||
        !array_resize(&table->block_buckets, capacity, sizeof(*table->block_buckets)) ||
        !array_resize(&table->group_buckets, capacity, sizeof(*table->group_buckets)))
        return false;
    for (uint32_t i = capacity; i > before; i--) {
        table->blocks[i - 1] = (struct tidei_block){ .next = table->unused_block };
        table->unused_block = i - 1;
        table->groups[i - 1] = (struct tidei_block_group){ .bucket_next = table->unused_group };
        table->unused_group = i - 1;
    }
    table->capacity = capacity;
    blocks_rehash(table);
    return true;
}

uint32_t
tidei_blocks_add(struct tidei_blocks *table, void *pointer, tide_stream stream)
{
    uint32_t number = table->unused_block;
    struct tidei_block *block = &table->blocks[number];
    uint32_t *bucket = &table->block_buckets[blocks_bucket(table, (uintptr_t)pointer)];

    table->unused_block = block->next;
    table->count++;
    *block = (struct tidei_block){
        .address = (uintptr_t)pointer, .stream = stream, .out = true, .used = true, .bucket_next = *bucket
    };
    *bucket = number;
    return number;
}

void
tidei_blocks_remove(struct tidei_blocks *table, uint32_t number)
{
    struct tidei_block *block = &table->blocks[number];
    uint32_t *link = &table->block_buckets[blocks_bucket(table, block->address)];

    while (*link != number)
        link = &table->blocks[*link].bucket_next;
    *link = block->bucket_next;
    *block = (struct tidei_block){ .next = table->unused_block };
    table->unused_block = number;
    table->count--;
}

uint32_t
tidei_blocks_find(const struct tidei_blocks *table, const void *pointer)
{
    uint32_t number;

    if (table->capacity == 0)
        return BLOCKS_NONE;
    number = table->block_buckets[blocks_bucket(table, (uintptr_t)pointer)];
    while (number != BLOCKS_NONE && table->blocks[number].address != (uintptr_t)pointer)
        number = table->blocks[number].bucket_next;
    return number;
}

static uint32_t
group_find(const struct tidei_blocks *table, tide_stream stream)
{
    uint32_t number;

    if (table->capacity == 0)
        return BLOCKS_NONE;
    number = table->group_buckets[blocks_bucket(table, stream)];
    while (number != BLOCKS_NONE && table->groups[number].stream != stream)
        number = table->groups[number].bucket_next;
    return number;
}

/* A new, empty group. There is room, since every group has at least one block. */
static uint32_t
group_begin(struct tidei_blocks *table, tide_stream stream)
{
    uint32_t number = table->unused_group;
    struct tidei_block_group *group = &table->groups[number];
    uint32_t *bucket = &table->group_buckets[blocks_bucket(table, stream)];

    table->unused_group = group->bucket_next;
    *group = (struct tidei_block_group){
        .stream = stream, .first = BLOCKS_NONE, .bucket_next = *bucket, .older = table->newest, .newer = BLOCKS_NONE
    };
    *bucket = number;
    if (table->newest != BLOCKS_NONE)
        table->groups[table->newest].newer = number;
    else
        table->oldest = number;
    table->newest = number;
    return number;
}

static void
group_end(struct tidei_blocks *table, uint32_t number)
{
    struct tidei_block_group *group = &table->groups[number];
    uint32_t *link = &table->group_buckets[blocks_bucket(table, group->stream)];

    while (*link != number)
        link = &table->groups[*link].bucket_next;
    *link = group->bucket_next;
    *(group->older != BLOCKS_NONE ? &table->groups[group->older].newer : &table->oldest) = group->newer;
    *(group->newer != BLOCKS_NONE ? &table->groups[group->newer].older : &table->newest) = group->older;
    group->bucket_next = table->unused_group;
    table->unused_group = number;
}

static uint32_t
group_take(struct tidei_blocks *table, uint32_t number)
{
    uint32_t taken = table->groups[number].first;
    struct tidei_block *block = &table->blocks[taken];

    block->out = true;
    table->groups[number].first = block->next;
    if (block->next == BLOCKS_NONE)
        group_end(table, number);
    return taken;
}

void
tidei_blocks_put(struct tidei_blocks *table, uint32_t number, tide_stream stream)
{
    struct tidei_block *block = &table->blocks[number];
    uint32_t group = group_find(table, stream);

    if (group == BLOCKS_NONE)
        group = group_begin(table, stream);
    block->out = false;
    block->stream = stream;
    block->epoch = table->epoch;
    block->next = table->groups[group].first;
    table->groups[group].first = number;
}

uint32_t
tidei_blocks_take(struct tidei_blocks *table, tide_stream stream)
{
    uint32_t group = group_find(table, stream);

    return group != BLOCKS_NONE ? group_take(table, group) : BLOCKS_NONE;
}

uint32_t
tidei_blocks_take_any(struct tidei_blocks *table)
{
    return table->oldest != BLOCKS_NONE ? group_take(table, table->oldest) : BLOCKS_NONE;
}

uint32_t
tidei_blocks_epoch_end(struct tidei_blocks *table)
{
    return table->epoch++;
}

/* The blocks of a group are in the order of their frees, last first: those of the epoch or before are at the end. */
static void
group_move_idle(struct tidei_blocks *table, uint32_t number, uint32_t epoch, tide_stream stream)
{
    uint32_t *link = &table->groups[number].first;
    uint32_t moved, next;

    while (*link != BLOCKS_NONE && table->blocks[*link].epoch > epoch)
        link = &table->blocks[*link].next;
    moved = *link;
    *link = BLOCKS_NONE;
    if (table->groups[number].first == BLOCKS_NONE)
        group_end(table, number); /* before another begins: there are no more groups than blocks */
    for (; moved != BLOCKS_NONE; moved = next) {
        next = table->blocks[moved].next;
        tidei_blocks_put(table, moved, stream);
    }
}

void
tidei_blocks_move_idle(struct tidei_blocks *table, uint32_t epoch, tide_stream stream)
{
    uint32_t newer;

    for (uint32_t i = table->oldest; i != BLOCKS_NONE; i = newer) {
        newer = table->groups[i].newer;
        if (table->groups[i].stream != stream)
            group_move_idle(table, i, epoch, stream);
    }
}
