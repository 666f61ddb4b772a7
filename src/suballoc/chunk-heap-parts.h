/* What the files of a chunk heap share. */
#ifndef TIDEI_SUBALLOC_CHUNK_HEAP_PARTS_H
#define TIDEI_SUBALLOC_CHUNK_HEAP_PARTS_H

#include <string.h>

#include "src/suballoc/chunk-heap.h"

static inline uint64_t
tidei_chunk_heap_reserved(struct tidei_chunk_heap *chunk_heap)
{
    return atomic_load_explicit(&chunk_heap->reserved, memory_order_relaxed); /* relaxed: a number, no data behind it */
}

enum tide_status tidei_chunk_heap_no_memory(const struct tidei_chunk_heap *chunk_heap);

/* What follows is called with the lock, and gives it and takes it again meanwhile, where it is not said otherwise. */

/*
 * In the child of a fork() the threads that were with upstream are not there, and nobody is to wait for them: what they
 * asked for never comes, and chunks that they were about to give back are gone. Keeps the lock.
 */
void tidei_chunk_heap_note_fork(struct tidei_chunk_heap *chunk_heap);

/*
 * A chunk of just these bytes, as one call of upstream gives it, within the maximum, and counted. *crowded says of a
 * refusal that it is one for the time being.
 */
enum tide_status tidei_chunk_heap_chunk_add(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream,
                                            bool keep, bool *crowded);

/*
 * Give the chunk that has been free for longest back to upstream, of those with no more than `most_bytes`; with `all`,
 * also the first one. False where there is none, or where it could not be given back, and is there as before.
 */
bool tidei_chunk_heap_return_one(struct tidei_chunk_heap *chunk_heap, bool all, uint64_t most_bytes);

/*
 * Have free chunks make room for one of `bytes`, so that no more than ever is reserved, as far as there are any, and
 * upstream takes them.
 */
void tidei_chunk_heap_make_room(struct tidei_chunk_heap *chunk_heap, uint64_t bytes);

/*
 * Wait for what becomes of the chunks that are on their way to upstream, and of `asking` threads that ask it. Nobody
 * waits so while it asks this chunk heap's upstream, or gives back to it.
 */
void tidei_chunk_heap_await_all(struct tidei_chunk_heap *chunk_heap, uint32_t asking);

/* Have the stream wait for all that the piece was freed on; where it cannot, it is not the stream's. */
enum tide_status tidei_chunk_heap_wait(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, uint32_t later);

/* A piece for the request, MOVING; NULL where none fits, or where the stream could not be made to wait for it. */
struct tidei_piece *tidei_chunk_heap_take(struct tidei_chunk_heap *chunk_heap,
                                          const struct tidei_heap_request *request);

/* Have the request's stream wait for a piece that the heap has given for it; NULL where that fails, and it is back. */
struct tidei_piece *tidei_chunk_heap_take_over(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece,
                                               const struct tidei_heap_request *request);

/* The same where nothing fits so far. The caller holds the request's stream. */
enum tide_status tidei_chunk_heap_grow(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                                       struct tidei_piece **out);

/* The same where upstream is not to be asked. TIDE_ECAPACITY where nothing fits. */
enum tide_status tidei_chunk_heap_press_free(struct tidei_chunk_heap *chunk_heap,
                                             const struct tidei_heap_request *request, struct tidei_piece **out);

#endif
