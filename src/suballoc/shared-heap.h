/*
 * A chunk heap as a resource: what the arenas of `arena` have for an upstream. Whoever it serves asks for and frees
 * what a chunk heap can, so that nothing is checked twice.
 */
#ifndef TIDEI_SUBALLOC_SHARED_HEAP_H
#define TIDEI_SUBALLOC_SHARED_HEAP_H

#include "src/suballoc/chunk-heap.h"

struct tidei_shared_heap {
    struct tide_resource base;
    struct tidei_chunk_heap chunk_heap; /* over the same upstream */
    uint64_t capacity_bytes;            /* what it says to whom it serves */
    void *context;                      /* borrowed; for `gather` of the options */
};

/* With one reference in base, for the caller. Errors: TIDE_ENOMEM, with the error text set. */
enum tide_status tidei_shared_heap_create(struct tide_resource *upstream,
                                          const struct tidei_chunk_heap_options *options, uint64_t capacity_bytes,
                                          void *context, struct tidei_shared_heap **out);

/* The one that has this chunk_heap. */
static inline struct tidei_shared_heap *
tidei_shared_heap_of(struct tidei_chunk_heap *chunk_heap)
{
    return (struct tidei_shared_heap *)(void *)((char *)chunk_heap - offsetof(struct tidei_shared_heap, chunk_heap));
}

#endif
