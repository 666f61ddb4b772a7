/*
 * Chunks that lie side by side and are used as one, where upstream's memory may be joined (TIDE_QUERY_PAGE).
 *
 * All pieces of such a heap, in the order of addresses, form one list. A gap, addresses without memory between chunks,
 * is a piece, too, so free pieces meet only where their memory does. Pieces may span chunks; a chunk can be returned
 * where it lies within a free piece, and leaves a gap.
 *
 * A window is where a request would fit if its gaps were filled: a row of free pieces and gaps. It is held while
 * upstream is asked for the chunks that fill them, so no other thread takes the free pieces meanwhile. One thread at a
 * time has a window.
 */
#ifndef TIDEI_SUBALLOC_RANGE_H
#define TIDEI_SUBALLOC_RANGE_H

#include "src/suballoc/heap.h"

struct tidei_window {
    uintptr_t begin;
    uint64_t bytes;
    uint64_t missing_bytes;    /* of the gaps in it, in pages */
    struct tidei_piece *first; /* the lowest piece that is held; NULL: none */
};

/* A part of a gap. */
struct tidei_range_gap {
    uintptr_t begin;
    uint64_t bytes;      /* up to the end of the window, in pages */
    uint64_t room_bytes; /* up to the end of the gap */
    bool at_end;         /* it lies behind all chunks */
};

/* Have chunks joined, whose addresses and sizes are multiples of `page_bytes`. False without host memory. */
bool tidei_range_init(struct tidei_heap *heap, uint64_t page_bytes);
void tidei_range_fini(struct tidei_heap *heap);

/* As tidei_heap_reserve, with what one call of a function below needs. */
bool tidei_range_reserve(struct tidei_heap *heap);

/*
 * Choose the window of `bytes` whose gaps are the least bytes to fill, among equal ones the lowest, and hold its free
 * pieces. With `at_end` only the last gap is filled. False where there is no chunk yet, or no gap may be filled. Takes
 * time for each gap and each free piece beside one.
 */
bool tidei_range_window(struct tidei_heap *heap, uint64_t bytes, bool at_end, struct tidei_window *out);

/* The first gap of the window; false where none is left. */
bool tidei_range_gap(const struct tidei_heap *heap, const struct tidei_window *window, struct tidei_range_gap *out);

/* The window holds a piece that lies in it, too. */
void tidei_range_window_add(struct tidei_window *window, struct tidei_piece *piece);

/* Give the pieces that the window holds free, and merge them. */
void tidei_range_release(struct tidei_heap *heap, struct tidei_window *window);

/* Upstream did not grant the wish at this address: the gap there is no place, until a chunk beside it goes. */
void tidei_range_refused(struct tidei_heap *heap, uintptr_t address);

/* Whether the bytes lie in a gap, as a new chunk must. */
bool tidei_range_is_gap(const struct tidei_heap *heap, uintptr_t base, uint64_t bytes);

/* Add a chunk, ready for use on `stream`. The result is its piece, which is held. */
struct tidei_piece *tidei_range_add(struct tidei_heap *heap, uintptr_t base, uint64_t bytes, uint32_t stream,
                                    bool keep);

/* Give a held piece free. */
void tidei_range_free(struct tidei_heap *heap, struct tidei_piece *piece);

/*
 * Take out a chunk of at most `most_bytes` within the smallest free piece that has one, as a larger piece more likely
 * serves the next request as it is; with `all`, also a chunk that would stay, or that has the idle region. As
 * tidei_heap_chunk_take.
 */
struct tidei_piece *tidei_range_chunk_take(struct tidei_heap *heap, bool all, uint64_t most_bytes);

/* Put the chunk back, or make a gap of it. */
void tidei_range_chunk_put_back(struct tidei_heap *heap, struct tidei_piece *chunk);
void tidei_range_chunk_forget(struct tidei_heap *heap, struct tidei_piece *chunk);

#endif
