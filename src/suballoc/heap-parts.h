/* What the files of a heap share. */
#ifndef TIDEI_HEAP_PARTS_H
#define TIDEI_HEAP_PARTS_H

#include "src/suballoc/heap.h"

static inline uint64_t
tidei_piece_state(const struct tidei_piece *piece)
{
    /* Relaxed: the states that are asked for here change with the lock alone. */
    return atomic_load_explicit(&piece->word, memory_order_relaxed) & TIDEI_PIECE_STATE;
}

/* Of a piece that is a region. */
static inline struct tidei_piece *
tidei_region_first(const struct tidei_piece *piece)
{
    return piece->fit.child[0];
}

struct tidei_piece *tidei_piece_new(struct tidei_heap *heap, struct tidei_span *span, uintptr_t address,
                                    uint64_t bytes);

/* Have the one freed run of a piece that was out say that it is freed now. */
void tidei_heap_stretch_own(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream);

/* Have a free piece be found, and be not found any more. */
void tidei_heap_index_add(struct tidei_heap *heap, struct tidei_piece *piece);
void tidei_heap_index_remove(struct tidei_heap *heap, struct tidei_piece *piece);

/* Give the region that is kept, where there is one, back to its chunk. */
void tidei_heap_region_release(struct tidei_heap *heap);

#endif
