/* Hands out structs and takes them back, without giving them back to the host before the end. No locks. */
#ifndef TIDEI_SUBALLOC_SLAB_H
#define TIDEI_SUBALLOC_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeros; `bytes` is a power of two. The caller frees it. NULL where the host has none. */
void *tidei_store_memory(size_t bytes);

#define TIDEI_STORE_SEGMENTS      4096
#define TIDEI_STORE_SEGMENT_BYTES ((size_t)2 << 20) /* of all but the first few, which are smaller */

struct tidei_store {
    size_t item_bytes;
    void (*number)(void *item, uint32_t number); /* tells an item its number, once; NULL: they have none */
    void *unused;                                /* items, linked through their last word; see store_next */
    size_t count;                                /* of these */
    void **segments;                             /* owns; stays where it is */
    size_t segment_count;
};

void tidei_store_init(struct tidei_store *store, size_t item_bytes, void (*number)(void *item, uint32_t number));
void tidei_store_fini(struct tidei_store *store);

/* Make sure that `count` items can be taken; false where the host has no memory for them. */
bool tidei_store_reserve(struct tidei_store *store, size_t count);

/* An item; there is one. What it holds is what it held when it was given back; zeros at first. */
void *tidei_store_take(struct tidei_store *store);
void tidei_store_give(struct tidei_store *store, void *item);

/* The item of `item_bytes` with a number that one was told, also while others are added. */
static inline void *
tidei_store_item(const struct tidei_store *store, uint32_t number, size_t item_bytes)
{
    size_t most = TIDEI_STORE_SEGMENT_BYTES / item_bytes;

    return (char *)store->segments[number / most] + number % most * item_bytes;
}

#endif
