/* Stores structs; see store.h. */
#include "src/suballoc/slab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STORE_FIRST_BYTES ((size_t)64 << 10)

/*
 * From this size on memory is of huge pages, where the kernel has them: with 100,000 blocks that are freed in random
 * order every one of them costs misses of the TLB beside those of the caches.
 */
#define STORE_HUGE_BYTES TIDEI_STORE_SEGMENT_BYTES

void *
tidei_store_memory(size_t bytes)
{
    size_t alignment = bytes < STORE_HUGE_BYTES ? 4096 : STORE_HUGE_BYTES;
    void *memory = aligned_alloc(alignment, bytes < alignment ? alignment : bytes);

    if (memory == NULL)
        return NULL;
    if (bytes >= STORE_HUGE_BYTES)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a hint, which may be refused */
    return memset(memory, 0, bytes);
}

void
tidei_store_init(struct tidei_store *store, size_t item_bytes, void (*number)(void *item, uint32_t number))
{
    *store = (struct tidei_store){ .item_bytes = item_bytes, .number = number };
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
    uint64_t first = store->segment_count * (TIDEI_STORE_SEGMENT_BYTES / store->item_bytes);
    char *segment;

    if (store->segments == NULL)
        store->segments = calloc(TIDEI_STORE_SEGMENTS, sizeof(*store->segments));
    if (store->segments == NULL || store->segment_count == TIDEI_STORE_SEGMENTS)
        return false;
    segment = tidei_store_memory(bytes);
    if (segment == NULL)
        return false;
    store->segments[store->segment_count++] = segment;
    for (size_t i = bytes / store->item_bytes; i > 0; i--) {
        if (store->number != NULL)
            store->number(segment + (i - 1) * store->item_bytes, (uint32_t)(first + i - 1));
        tidei_store_give(store, segment + (i - 1) * store->item_bytes);
    }
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
