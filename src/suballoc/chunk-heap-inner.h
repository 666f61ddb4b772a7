/*
 * The parts of a chunk heap: chunk-heap-upstream.c asks upstream for chunks and returns them, chunk-heap-pages.c lets
 * the heap grow in place, and chunk-heap.c uses both. All are called with the lock held. What calls upstream releases
 * it for the call, and holds it again on return.
 */
#ifndef TIDEI_SUBALLOC_CHUNK_HEAP_INNER_H
#define TIDEI_SUBALLOC_CHUNK_HEAP_INNER_H

#include "src/suballoc/chunk-heap.h"

/* Bytes of all chunks, and of those requested. */
static inline uint64_t
tidei_chunk_heap_reserved(const struct tidei_chunk_heap *chunk_heap)
{
    return atomic_load_explicit(&chunk_heap->reserved, memory_order_relaxed); /* relaxed: a number, no data behind it */
}

/* Requests and frees that took the lock. */
static inline uint64_t
tidei_chunk_heap_requests(const struct tidei_chunk_heap *chunk_heap)
{
    return chunk_heap->requests + chunk_heap->entered;
}

/* Whether upstream's chunks are joined. */
static inline bool
tidei_chunk_heap_joins(const struct tidei_chunk_heap *chunk_heap)
{
    return chunk_heap->heap.range.page_bytes != 0;
}

/*
 * Around a call of upstream, made without the lock, that names streams on which memory was freed. Another thread may
 * wait for all streams meanwhile, after which they may be destroyed. So tidei_chunk_heap_order_end waits for the call,
 * and reassigns the piece, as the heap does not have it. NULL: none.
 */
void tidei_chunk_heap_name(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece,
                           struct tidei_chunk_heap_naming *out);

/* Those that have begun in this process, the latest first. */
struct tidei_chunk_heap_naming *tidei_chunk_heap_named(struct tidei_chunk_heap *chunk_heap);

void tidei_chunk_heap_name_end(struct tidei_chunk_heap *chunk_heap, struct tidei_chunk_heap_naming *naming);

/*
 * Make `later` wait for `earlier`, on which a part of the piece was freed up to `epoch`, which has ended. With *again
 * all streams were waited for meanwhile, and the piece does not count as moved to `later`.
 */
enum tide_status tidei_chunk_heap_order(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, uint32_t later,
                                        uint32_t earlier, uint64_t epoch, bool *again);

/*
 * Make stream `later` wait for all streams on which the piece was freed. On failure the piece keeps its freed runs, and
 * does not belong to `later`. So it is with *again: all streams were waited for meanwhile, and `later` may be gone if
 * the caller knows it from the piece alone.
 */
static inline enum tide_status
tidei_chunk_heap_wait(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, uint32_t later, bool *again)
{
    struct tidei_streams *streams = &chunk_heap->heap.streams;
    enum tide_status status = TIDE_OK;
    uint32_t earlier;
    uint64_t epoch;

    *again = false;
    tidei_streams_hold(streams, later);
    while (status == TIDE_OK && !*again && tidei_heap_wait(&chunk_heap->heap, piece, later, &earlier, &epoch))
        status = tidei_chunk_heap_order(chunk_heap, piece, later, earlier, epoch, again);
    tidei_streams_release(streams, later);
    return status;
}

/* Make the request's stream wait for the piece. On failure the piece goes back to the heap, and the result is NULL. */
static inline struct tidei_piece *
tidei_chunk_heap_take_over(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece,
                           const struct tidei_heap_request *request)
{
    uint64_t orders = tidei_figure_get(&chunk_heap->orders);
    enum tide_status status;
    bool again;

    if (piece == NULL)
        return NULL;
    do
        status = tidei_chunk_heap_wait(chunk_heap, piece, request->stream, &again);
    while (status == TIDE_OK && again);
    if (status == TIDE_OK) {
        tidei_figure_add(&chunk_heap->taken_over, tidei_figure_get(&chunk_heap->orders) != orders);
        return piece;
    }
    tidei_heap_put_back(&chunk_heap->heap, piece);
    return NULL;
}

/* A piece for the request, MOVING; NULL where none fits, or where the stream could not be made to wait for it. */
static inline struct tidei_piece *
tidei_chunk_heap_take(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request)
{
    return tidei_chunk_heap_take_over(chunk_heap, tidei_heap_take(&chunk_heap->heap, request), request);
}

/* The error of a host without memory. */
enum tide_status tidei_chunk_heap_no_memory(const struct tidei_chunk_heap *chunk_heap);

/* In the child of a fork(): forget what other threads of the parent had begun. */
void tidei_chunk_heap_note_fork(struct tidei_chunk_heap *chunk_heap);

/* Give upstream a chunk. Called without the lock. */
enum tide_status tidei_chunk_heap_give_back(struct tidei_chunk_heap *chunk_heap, void *pointer, uint64_t bytes,
                                            tide_stream stream);

/*
 * Ask upstream for a chunk that is counted in `reserved`; `wish` is the address at which it should lie, or 0. A chunk
 * that cannot be used is returned, unless that would free memory of this heap. There is room for a usable one in the
 * heap, and the caller adds it.
 */
enum tide_status tidei_chunk_heap_ask(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream,
                                      uintptr_t wish, uintptr_t *out);

/* Count the bytes of a chunk that may be requested; on failure, at the maximum, the error text is set. */
enum tide_status tidei_chunk_heap_count(struct tidei_chunk_heap *chunk_heap, uint64_t bytes);

/* Add the bytes of a chunk that has arrived. */
void tidei_chunk_heap_hold(struct tidei_chunk_heap *chunk_heap, uint64_t bytes);

/*
 * Return to upstream a free chunk of at most `most_bytes`: the one that has been free for longest, or, where chunks are
 * joined, one of the smallest free piece that has any; with `all`, also the first one. The result is its size; 0 where
 * there is none, or where returning failed and left it in the heap.
 */
uint64_t tidei_chunk_heap_return_one(struct tidei_chunk_heap *chunk_heap, bool all, uint64_t most_bytes);

/* The same for a request on `stream`, which is made to wait for the chunk: another chunk there may have its memory. */
uint64_t tidei_chunk_heap_return_for(struct tidei_chunk_heap *chunk_heap, uint32_t stream);

/*
 * Reserved bytes that need no free chunk to be returned first: the peak, less what has decayed since where chunks are
 * not joined, or the release threshold.
 */
uint64_t tidei_chunk_heap_limit(const struct tidei_chunk_heap *chunk_heap);

/*
 * Count chunks that went back to have others in their place, less one for each 64 requests, over units 1,536, which pay
 * for it. The heap is restless from the moment that more are unpaid than a quarter of those that it has, over units
 * (over pages a quarter more than it has, over other bases 32 times as many), until requests have paid for as many more
 * than went back since. While it is, it asks for larger parts of pages, and cuts up the chunks that it has rather than
 * to exchange them.
 */
void tidei_chunk_heap_pay(struct tidei_chunk_heap *chunk_heap, uint64_t moved);

/*
 * Have an upstream that keeps what comes back give back what neither this heap nor others use. What its streams have
 * just come to the end of goes back with this call, or with a later one. Releases the lock.
 */
void tidei_chunk_heap_trim_upstream(struct tidei_chunk_heap *chunk_heap);

/*
 * The same before a request has it give a chunk of `bytes`, where the heap may hold as much: so that it has
 * no more of this heap then than the heap ever had. It may have no place for the chunk in what it keeps, and keeps what
 * its streams still use. So a thread for which chunks went back waits for their work, up to a bound, as a part of that
 * work may depend on this thread. It holds no lock meanwhile, and is not counted in `requesting`. The heap is restless
 * where upstream has more nevertheless: what was returned is still held, so exchanging chunks takes memory. The result
 * is whether the thread waited: others may have freed memory.
 */
bool tidei_chunk_heap_trim_for(struct tidei_chunk_heap *chunk_heap, uint64_t bytes);

/*
 * Have upstream note the streams on which chunks went back and that it knows nothing of, if any: afterwards they may be
 * destroyed. Releases the lock then.
 */
void tidei_chunk_heap_note_owed(struct tidei_chunk_heap *chunk_heap);

/* The size of the piece or region that the policy wants for the request. */
uint64_t tidei_chunk_heap_wanted(const struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request);

/* Take any free piece that fits, however it must be cut. *out is NULL where none fits. */
enum tide_status tidei_chunk_heap_take_hard(struct tidei_chunk_heap *chunk_heap,
                                            const struct tidei_heap_request *request, struct tidei_piece **out);

/* Host memory for a chunk that is added or cut out of a piece; on failure the error text is set. */
enum tide_status tidei_chunk_heap_reserve(struct tidei_chunk_heap *chunk_heap);

/*
 * Serve a request that no free piece fits, where upstream's chunks may be joined: have what is missing of `bytes`
 * mapped beside free memory. On failure *out is NULL. Errors: upstream's, TIDE_ECAPACITY, TIDE_ENOMEM.
 */
enum tide_status tidei_chunk_heap_grow_pages(struct tidei_chunk_heap *chunk_heap,
                                             const struct tidei_heap_request *request, uint64_t bytes,
                                             struct tidei_piece **out);

#endif
