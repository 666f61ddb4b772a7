/* A slab of structs; see slab.h. */
#include "src/suballoc/slab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLAB_FIRST_BYTES ((size_t)64 << 10)

/*
 * Memory of this size or more uses huge pages, where the kernel has them. When 100,000 blocks are freed in random
 * order, each access would cost a TLB miss beside the cache misses.
 */
#define SLAB_HUGE_BYTES TIDEI_SLAB_SEGMENT_BYTES

void *
tidei_slab_memory(size_t bytes)
{
    size_t alignment = bytes < SLAB_HUGE_BYTES ? 4096 : SLAB_HUGE_BYTES;
    void *memory = aligned_alloc(alignment, bytes < alignment ? alignment : bytes);

    if (memory == NULL)
        return NULL;
    if (bytes >= SLAB_HUGE_BYTES)
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a hint, which may be refused */
    return memset(memory, 0, bytes);
}

void
tidei_slab_init(struct tidei_slab *slab, size_t item_bytes, void (*number)(void *item, uint32_t number))
{
    *slab = (struct tidei_slab){ .item_bytes = item_bytes, .number = number };
}

void
tidei_slab_fini(struct tidei_slab *slab)
{
    for (size_t i = 0; i < slab->segment_count; i++)
        free(slab->segments[i]);
    free(slab->segments);
}

/* The link of an unused item lies in its last word: another thread may still read the first words of a piece. */
static void **
slab_next(const struct tidei_slab *slab, void *item)
{
    return (void **)(void *)((char *)item + slab->item_bytes - sizeof(void *));
}

/* Segments double in size until they are huge pages. */
static bool
slab_grow(struct tidei_slab *slab)
{
    size_t bytes = SLAB_FIRST_BYTES << (slab->segment_count < 5 ? slab->segment_count : 5);
    uint64_t first = slab->segment_count * (TIDEI_SLAB_SEGMENT_BYTES / slab->item_bytes);
    char *segment;

    if (slab->segments == NULL)
        slab->segments = calloc(TIDEI_SLAB_SEGMENTS, sizeof(*slab->segments));
    if (slab->segments == NULL || slab->segment_count == TIDEI_SLAB_SEGMENTS)
        return false;
    segment = tidei_slab_memory(bytes);
    if (segment == NULL)
        return false;
    slab->segments[slab->segment_count++] = segment;
    for (size_t i = bytes / slab->item_bytes; i > 0; i--) {
        if (slab->number != NULL)
            slab->number(segment + (i - 1) * slab->item_bytes, (uint32_t)(first + i - 1));
        tidei_slab_give(slab, segment + (i - 1) * slab->item_bytes);
    }
    return true;
}

bool
tidei_slab_reserve(struct tidei_slab *slab, size_t count)
{
    while (slab->count < count) {
        if (!slab_grow(slab))
            return false;
    }
    return true;
}

void *
tidei_slab_take(struct tidei_slab *slab)
{
    void *item = slab->unused;

    slab->unused = *slab_next(slab, item);
    slab->count--;
    return item;
}

void
tidei_slab_give(struct tidei_slab *slab, void *item)
{
    *slab_next(slab, item) = slab->unused;
    slab->unused = item;
    slab->count++;
}
