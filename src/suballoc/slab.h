/* Hands out structs of one type and takes them back. Their memory returns to the host only at the end. No locks. */
#ifndef TIDEI_SUBALLOC_SLAB_H
#define TIDEI_SUBALLOC_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed host memory; `bytes` is a power of two. The caller frees it. NULL where the host has none. */
void *tidei_slab_memory(size_t bytes);

#define TIDEI_SLAB_SEGMENTS      4096
#define TIDEI_SLAB_SEGMENT_BYTES ((size_t)2 << 20) /* except the first few, which are smaller */

struct tidei_slab {
    size_t item_bytes;
    void (*number)(void *item, uint32_t number); /* gives an item its number, once; NULL: items have none */
    void *unused;                                /* items, linked through their last word; see slab_next */
    size_t count;                                /* unused items */
    void **segments;                             /* owns; never moved */
    size_t segment_count;
};

void tidei_slab_init(struct tidei_slab *slab, size_t item_bytes, void (*number)(void *item, uint32_t number));
void tidei_slab_fini(struct tidei_slab *slab);

/* Reserve `count` items; false where the host has no memory for them. */
bool tidei_slab_reserve(struct tidei_slab *slab, size_t count);

/* Take an item that was reserved. It is zero at first, and later as it was when it was given back. */
void *tidei_slab_take(struct tidei_slab *slab);
void tidei_slab_give(struct tidei_slab *slab, void *item);

/* The item whose number is `number`. Safe while other threads add items. */
static inline void *
tidei_slab_item(const struct tidei_slab *slab, uint32_t number, size_t item_bytes)
{
    size_t most = TIDEI_SLAB_SEGMENT_BYTES / item_bytes;

    return (char *)slab->segments[number / most] + number % most * item_bytes;
}

#endif
