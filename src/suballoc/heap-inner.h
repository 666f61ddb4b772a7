/* What range.c and leaving.c need of heap.c; see heap.h. */
#ifndef TIDEI_SUBALLOC_HEAP_INNER_H
#define TIDEI_SUBALLOC_HEAP_INNER_H

#include "src/suballoc/heap.h"

/* Return the idle region, if any, to its chunk. */
void tidei_heap_region_release(struct tidei_heap *heap);

/* A new piece in no list; room for it is reserved. */
struct tidei_piece *tidei_heap_piece_new(struct tidei_heap *heap, struct tidei_span *span, uintptr_t address,
                                         uint64_t bytes);

/* Give a piece the one freed run `stream`, now. */
void tidei_heap_piece_freed(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream);

void tidei_heap_runs_free(struct tidei_heap *heap, struct tidei_piece *piece);

/* Link `other` behind `piece`. */
void tidei_heap_link_after(struct tidei_piece *piece, struct tidei_piece *other);

/* Whether the piece is free, and in the indexes. */
bool tidei_heap_is_free(const struct tidei_piece *piece);

/* Take a part of a free piece out of the indexes, MOVING; what is left of it before and behind stays free. */
struct tidei_piece *tidei_heap_hold(struct tidei_heap *heap, struct tidei_piece *piece, uint64_t offset,
                                    uint64_t bytes);

/* Free a piece that has its freed runs, and merge it with its free neighbours. */
void tidei_heap_free_held(struct tidei_heap *heap, struct tidei_piece *piece);

/* The chunks by address: the first that ends behind `address`; enter one; take one out. */
size_t tidei_heap_chunks_at(const struct tidei_heap *heap, uintptr_t address);
void tidei_heap_chunks_insert(struct tidei_heap *heap, struct tidei_span *span);
void tidei_heap_chunks_remove(struct tidei_heap *heap, const struct tidei_span *span);

/* Have the free pieces of a chunk, and of its regions, in the index of what is leaving, or in those of what stays. */
void tidei_heap_chunk_set_zone(struct tidei_heap *heap, struct tidei_span *chunk, bool leaving);

/* The bytes of a chunk that are out, of regions those of their pieces. Adds the pieces that it has to *visited. */
uint64_t tidei_heap_chunk_used(const struct tidei_span *chunk, uint64_t *visited);

#endif
