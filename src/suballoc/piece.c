/* Stores the structs that say what is known of pieces, and finds pieces by their addresses. */
#include "suballoc/piece.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STORE_FIRST_BYTES ((size_t)64 << 10)
#define MAP_FIRST_SLOTS   1024

/*
 * From this size on memory is of huge pages, where the kernel has them: with 100,000 blocks that are freed in random
 * order every one of them costs misses of the TLB beside those of the caches.
 */
#define PIECE_HUGE_BYTES ((size_t)2 << 20)

/* Zeros; `bytes` is a power of two. NULL where the host has none. */
static void *
piece_memory(size_t bytes)
{
    size_t alignment = bytes < PIECE_HUGE_BYTES ? 4096 : PIECE_HUGE_BYTES;
    void *memory = aligned_alloc(alignment, bytes < alignment ? alignment : bytes);

    if (memory == NULL)
        return NULL;
    if (bytes >= PIECE_HUGE_BYTES)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a hint, which may be refused */
    return memset(memory, 0, bytes);
}

void
tidei_store_init(struct tidei_store *store, size_t item_bytes)
{
    *store = (struct tidei_store){ .item_bytes = item_bytes };
}

void
tidei_store_fini(struct tidei_store *store)
{
    for (size_t i = 0; i < store->segment_count; i++)
        free(store->segments[i]);
    free(store->segments);
}

/* The link of an unused item lies in its last word: the first of a piece may still be read by who looks for another. */
static void **
store_next(const struct tidei_store *store, void *item)
{
    return (void **)(void *)((char *)item + store->item_bytes - sizeof(void *));
}

/* Segments double until they are huge pages. */
static bool
store_grow(struct tidei_store *store)
{
    size_t bytes = STORE_FIRST_BYTES << (store->segment_count < 5 ? store->segment_count : 5);
    void **segments = realloc(store->segments, (store->segment_count + 1) * sizeof(*segments));
    char *segment;

    if (segments == NULL)
        return false;
    store->segments = segments;
    segment = piece_memory(bytes);
    if (segment == NULL)
        return false;
    segments[store->segment_count++] = segment;
    for (size_t i = bytes / store->item_bytes; i > 0; i--)
        tidei_store_give(store, segment + (i - 1) * store->item_bytes);
    return true;
}

bool
tidei_store_reserve(struct tidei_store *store, size_t count)
{
    while (store->count < count) {
        if (!store_grow(store))
            return false;
    }
    return true;
}

void *
tidei_store_take(struct tidei_store *store)
{
    void *item = store->unused;

    store->unused = *store_next(store, item);
    store->count--;
    return item;
}

void
tidei_store_give(struct tidei_store *store, void *item)
{
    *store_next(store, item) = store->unused;
    store->unused = item;
    store->count++;
}

static struct tidei_piece_table *
table_new(size_t slots)
{
    struct tidei_piece_table *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return NULL;
    table->mask = slots - 1;
    table->slots = piece_memory(slots * sizeof(table->slots[0]));
    if (table->slots != NULL)
        return table;
    free(table);
    return NULL;
}

/* The piece before its address: who sees the address sees the piece. */
static void
slot_set(struct tidei_piece_slot *slot, uintptr_t address, struct tidei_piece *piece)
{
    atomic_store_explicit(&slot->piece, piece, memory_order_relaxed);
    atomic_store_explicit(&slot->address, address, memory_order_release); /* pairs as in tidei_piece_map_find */
}

/* Relaxed, here and below: only the holder of the lock writes, and this is it. */
static uintptr_t
slot_address(const struct tidei_piece_slot *slot)
{
    return atomic_load_explicit(&slot->address, memory_order_relaxed);
}

static struct tidei_piece *
slot_piece(const struct tidei_piece_slot *slot)
{
    return atomic_load_explicit(&slot->piece, memory_order_relaxed);
}

static void
table_add(struct tidei_piece_table *table, uintptr_t address, struct tidei_piece *piece)
{
    size_t i = tidei_piece_hash(address) & table->mask;

    while (slot_address(&table->slots[i]) != 0)
        i = (i + 1) & table->mask;
    slot_set(&table->slots[i], address, piece);
}

enum tide_status
tidei_piece_map_init(struct tidei_piece_map *map)
{
    struct tidei_piece_table *table = table_new(MAP_FIRST_SLOTS);

    map->count = 0;
    atomic_init(&map->table, table);
    return table != NULL ? TIDE_OK : TIDE_ENOMEM;
}

void
tidei_piece_map_fini(struct tidei_piece_map *map)
{
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

    while (table != NULL) {
        struct tidei_piece_table *smaller = table->smaller;

        free(table->slots);
        free(table);
        table = smaller;
    }
}

static bool
map_grow(struct tidei_piece_map *map, struct tidei_piece_table *table)
{
    struct tidei_piece_table *larger = table_new(2 * (table->mask + 1));

    if (larger == NULL)
        return false;
    larger->smaller = table;
    for (size_t i = 0; i <= table->mask; i++) {
        if (slot_address(&table->slots[i]) != 0)
            table_add(larger, slot_address(&table->slots[i]), slot_piece(&table->slots[i]));
    }
    atomic_store_explicit(&map->table, larger, memory_order_release); /* pairs as in tidei_piece_map_find */
    return true;
}

bool
tidei_piece_map_reserve(struct tidei_piece_map *map)
{
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

    /* Half of the slots at most, so that few are looked at for one piece. */
    return map->count + 1 <= (table->mask + 1) / 2 || map_grow(map, table);
}

void
tidei_piece_map_add(struct tidei_piece_map *map, struct tidei_piece *piece)
{
    table_add(atomic_load_explicit(&map->table, memory_order_relaxed), tidei_piece_address(piece), piece);
    map->count++;
}

/* Those behind move up, so that no search ends at the gap: who looks for one of them meanwhile may miss it. */
void
tidei_piece_map_remove(struct tidei_piece_map *map, const struct tidei_piece *piece)
{
    struct tidei_piece_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
    size_t gap = tidei_piece_hash(tidei_piece_address(piece)) & table->mask;

    while (slot_address(&table->slots[gap]) != tidei_piece_address(piece))
        gap = (gap + 1) & table->mask;
    for (size_t i = (gap + 1) & table->mask; slot_address(&table->slots[i]) != 0; i = (i + 1) & table->mask) {
        size_t home = tidei_piece_hash(slot_address(&table->slots[i])) & table->mask;

        /* It may stay where its home lies behind the gap. */
        if (((i - home) & table->mask) < ((i - gap) & table->mask))
            continue;
        slot_set(&table->slots[gap], slot_address(&table->slots[i]), slot_piece(&table->slots[i]));
        gap = i;
    }
    slot_set(&table->slots[gap], 0, NULL);
    map->count--;
}
