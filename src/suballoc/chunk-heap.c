/* A heap with a lock: what is handed out and taken back, and the order of streams; see chunk-heap.h. */
#include "src/suballoc/chunk-heap-parts.h"

#include <sched.h>

/* The most that chunks can have in all: what this layer may reserve, or upstream has. */
static uint64_t
chunk_heap_most(const struct tidei_chunk_heap *chunk_heap)
{
    struct tidei_error error;
    uint64_t capacity;

    tidei_error_save(&error);
    if (tide_query(chunk_heap->upstream, TIDE_QUERY_CAPACITY, &capacity) != TIDE_OK)
        capacity = UINT64_MAX;
    tidei_error_restore(&error);
    return capacity < chunk_heap->options.maximum_bytes ? capacity : chunk_heap->options.maximum_bytes;
}

enum tide_status
tidei_chunk_heap_init(struct tidei_chunk_heap *chunk_heap, struct tide_resource *upstream,
                      const struct tidei_chunk_heap_options *options)
{
    enum tide_status status;

    memset(chunk_heap, 0, sizeof(*chunk_heap));
    chunk_heap->upstream = upstream;
    chunk_heap->options = *options;
    chunk_heap->forks = tidei_lock_forks;
    status = tidei_lock_init(&chunk_heap->lock);
    if (status != TIDE_OK)
        return status;
    if (tidei_heap_init(&chunk_heap->heap, options->granule, options->growth_bytes, chunk_heap_most(chunk_heap)) ==
        TIDE_OK)
        return TIDE_OK;
    tidei_heap_fini(&chunk_heap->heap);
    tidei_lock_fini(&chunk_heap->lock);
    return tidei_chunk_heap_no_memory(chunk_heap);
}

void
tidei_chunk_heap_enter(struct tidei_chunk_heap *chunk_heap)
{
    if (!tidei_lock_try(&chunk_heap->lock)) {
        TIDEI_TEST_POINT("chunk-heap.waits");
        tidei_lock_acquire(&chunk_heap->lock);
        chunk_heap->waited++;
    }
    if (++chunk_heap->entered < TIDEI_CHUNK_HEAP_ENTERED)
        return;
    if (chunk_heap->waited >= TIDEI_CHUNK_HEAP_WAITED && chunk_heap->crowd < TIDEI_CHUNK_HEAP_CROWD_MOST)
        chunk_heap->crowd++;
    chunk_heap->entered = chunk_heap->waited = 0;
}

void
tidei_chunk_heap_forget_crowd(struct tidei_chunk_heap *chunk_heap)
{
    chunk_heap->entered = chunk_heap->waited = chunk_heap->crowd = 0;
}

enum tide_status
tidei_chunk_heap_no_memory(const struct tidei_chunk_heap *chunk_heap)
{
    return tide_error_set(TIDE_ENOMEM, "%s: no host memory to note another block", chunk_heap->options.name);
}

/*
 * Have the stream wait for all that the piece was freed on, with the lock, but not throughout. Where it cannot, the
 * piece is not the stream's, and has its freed runs still.
 */
enum tide_status
tidei_chunk_heap_wait(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, uint32_t later)
{
    struct tidei_streams *streams = &chunk_heap->heap.streams;
    enum tide_status status = TIDE_OK;
    uint32_t earlier;
    uint64_t epoch, orders = 0;

    tidei_streams_hold(streams, later);
    while (status == TIDE_OK && tidei_heap_wait(&chunk_heap->heap, piece, later, &earlier, &epoch)) {
        tide_stream from = streams->streams[earlier]->handle, to = streams->streams[later]->handle;

        tidei_lock_release(&chunk_heap->lock);
        TIDEI_TEST_POINT("chunk-heap.moving");
        status = chunk_heap->upstream->ops->order(chunk_heap->upstream, from, to);
        tidei_lock_acquire(&chunk_heap->lock);
        if (status != TIDE_OK)
            break;
        orders++;
        tidei_heap_waited(&chunk_heap->heap, piece, later, earlier, epoch);
    }
    tidei_streams_release(streams, later);
    chunk_heap->orders += orders;
    return status;
}

struct tidei_piece *
tidei_chunk_heap_take_over(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece,
                           const struct tidei_heap_request *request)
{
    uint64_t orders = chunk_heap->orders;

    if (piece == NULL)
        return NULL;
    if (tidei_chunk_heap_wait(chunk_heap, piece, request->stream) == TIDE_OK) {
        chunk_heap->taken_over += chunk_heap->orders != orders;
        return piece;
    }
    tidei_heap_put_back(&chunk_heap->heap, piece);
    return NULL;
}

struct tidei_piece *
tidei_chunk_heap_take(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request)
{
    return tidei_chunk_heap_take_over(chunk_heap, tidei_heap_take(&chunk_heap->heap, request), request);
}

/* Note what the piece is out for. With the lock. */
static void
chunk_heap_hand_out(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes, size_t alignment)
{
    chunk_heap->used_bytes += bytes;
    piece->size_class = TIDEI_PIECE_NO_CLASS;
    if (piece->bytes <= chunk_heap->options.class_bytes)
        piece->size_class = (uint16_t)tidei_class_of(piece->bytes >> chunk_heap->heap.granule_log2);
    tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
}

/* What the request needs of the heap; with the lock. */
static enum tide_status
chunk_heap_request(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment, tide_stream stream,
                   struct tidei_heap_request *out)
{
    uint64_t granule = chunk_heap->options.granule;

    *out = (struct tidei_heap_request){ .alignment = alignment > granule ? alignment : granule };
    out->bytes = tidei_heap_round(&chunk_heap->heap, bytes, &out->zone);
    if (!tidei_heap_reserve(&chunk_heap->heap))
        return tidei_chunk_heap_no_memory(chunk_heap);
    out->stream = tidei_streams_number(&chunk_heap->heap.streams, stream);
    return out->stream != TIDEI_STREAM_NONE ? TIDE_OK : tidei_chunk_heap_no_memory(chunk_heap);
}

/* A piece for the request; what is to be done where none fits holds its stream meanwhile. */
static enum tide_status
chunk_heap_allocate(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment, tide_stream stream,
                    enum tide_status (*grow)(struct tidei_chunk_heap *chunk_heap,
                                             const struct tidei_heap_request *request, struct tidei_piece **out),
                    struct tidei_piece **out)
{
    struct tidei_heap_request request;
    enum tide_status status;

    *out = NULL;
    tidei_chunk_heap_enter(chunk_heap);
    status = chunk_heap_request(chunk_heap, bytes, alignment, stream, &request);
    if (status == TIDE_OK) {
        *out = tidei_chunk_heap_take(chunk_heap, &request);
        if (*out == NULL) {
            tidei_streams_hold(&chunk_heap->heap.streams, request.stream);
            status = grow(chunk_heap, &request, out);
            tidei_streams_release(&chunk_heap->heap.streams, request.stream);
        }
    }
    if (status == TIDE_OK)
        chunk_heap_hand_out(chunk_heap, *out, bytes, alignment);
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

enum tide_status
tidei_chunk_heap_allocate(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment, tide_stream stream,
                          struct tidei_piece **out)
{
    return chunk_heap_allocate(chunk_heap, bytes, alignment, stream, tidei_chunk_heap_grow, out);
}

enum tide_status
tidei_chunk_heap_allocate_free(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment, tide_stream stream,
                               struct tidei_piece **out)
{
    return chunk_heap_allocate(chunk_heap, bytes, alignment, stream, tidei_chunk_heap_press_free, out);
}

/* What `pointer` is when it cannot be freed; `piece` where it is one that is out. With the lock. */
static enum tide_status
chunk_heap_refuse(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, void *pointer, size_t bytes,
                  size_t alignment)
{
    const char *name = chunk_heap->options.name;
    uint64_t word;

    if (piece == NULL)
        piece = tidei_heap_around(&chunk_heap->heap, pointer);
    if (piece == NULL)
        return tide_error_set(TIDE_EPOINTER, "%s: %p given back, which is none of its blocks", name, pointer);
    word = atomic_load_explicit(&piece->word, memory_order_relaxed); /* relaxed: for the message */
    if ((word & TIDEI_PIECE_STATE) != TIDEI_PIECE_LIVE)
        return tide_error_set(TIDE_EPOINTER, "%s: %p given back, which was given back before", name, pointer);
    if (tidei_piece_address(piece) != (uintptr_t)pointer)
        return tide_error_set(TIDE_EPOINTER, "%s: %p given back, which lies within the block of %llu B at %p", name,
                              pointer, (unsigned long long)(word >> 16), (void *)tidei_piece_address(piece));
    return tide_error_set(TIDE_EMISMATCH,
                          "%s: %p given back with %zu B at a multiple of %zu, allocated with %llu B at %llu", name,
                          pointer, bytes, alignment, (unsigned long long)(word >> 16), 1ULL << (word >> 2 & 63));
}

bool
tidei_chunk_heap_owns(struct tidei_chunk_heap *chunk_heap, const void *pointer)
{
    bool owns;

    tidei_lock_acquire(&chunk_heap->lock);
    owns = tidei_heap_around(&chunk_heap->heap, pointer) != NULL;
    tidei_lock_release(&chunk_heap->lock);
    return owns;
}

enum tide_status
tidei_chunk_heap_deallocate(struct tidei_chunk_heap *chunk_heap, void *pointer, size_t bytes, size_t alignment,
                            tide_stream stream)
{
    enum tide_status status = TIDE_OK;
    struct tidei_piece *piece;
    uint32_t number;

    tidei_chunk_heap_enter(chunk_heap);
    piece = tidei_piece_map_find(&chunk_heap->heap.out, pointer);
    number = tidei_streams_number(&chunk_heap->heap.streams, stream);
    if (number == TIDEI_STREAM_NONE)
        status = tidei_chunk_heap_no_memory(chunk_heap);
    else if (piece == NULL || bytes > TIDEI_CHUNK_HEAP_BYTES_MAX ||
             !tidei_piece_claim(piece, pointer, tidei_piece_live(bytes, alignment), TIDEI_PIECE_MOVING))
        status = chunk_heap_refuse(chunk_heap, piece, pointer, bytes, alignment);
    if (status == TIDE_OK) {
        chunk_heap->used_bytes -= bytes;
        tidei_heap_put(&chunk_heap->heap, piece, number);
    }
    tidei_lock_release(&chunk_heap->lock);
    if (status == TIDE_OK)
        tidei_chunk_heap_keep_threshold(chunk_heap);
    return status;
}

enum tide_status
tidei_chunk_heap_put(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes, size_t alignment,
                     tide_stream stream)
{
    enum tide_status status = TIDE_OK;
    uint32_t number;

    tidei_chunk_heap_enter(chunk_heap);
    number = tidei_streams_number(&chunk_heap->heap.streams, stream);
    if (number != TIDEI_STREAM_NONE) {
        tidei_heap_put(&chunk_heap->heap, piece, number);
    } else {
        chunk_heap->used_bytes += bytes;
        tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
        status = tidei_chunk_heap_no_memory(chunk_heap);
    }
    tidei_lock_release(&chunk_heap->lock);
    if (status == TIDE_OK)
        tidei_chunk_heap_keep_threshold(chunk_heap);
    return status;
}

/* Before the order, which says nothing of work that is submitted, and then freed behind, while it waits. */
uint64_t
tidei_chunk_heap_order_begin(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t epoch;

    tidei_lock_acquire(&chunk_heap->lock);
    epoch = chunk_heap->heap.streams.epoch++;
    tidei_lock_release(&chunk_heap->lock);
    return epoch;
}

enum tide_status
tidei_chunk_heap_order_end(struct tidei_chunk_heap *chunk_heap, uint64_t epoch)
{
    enum tide_status status = TIDE_OK;
    uint32_t number;

    tidei_lock_acquire(&chunk_heap->lock);
    number = tidei_streams_number(&chunk_heap->heap.streams, 0);
    if (number != TIDEI_STREAM_NONE)
        tidei_heap_settle(&chunk_heap->heap, epoch, number);
    else
        status = tidei_chunk_heap_no_memory(chunk_heap);
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

enum tide_status
tidei_chunk_heap_order_all(struct tidei_chunk_heap *chunk_heap)
{
    enum tide_status status;
    uint64_t epoch;

    chunk_heap->options.gather(chunk_heap);
    epoch = tidei_chunk_heap_order_begin(chunk_heap);
    status = chunk_heap->upstream->ops->order(chunk_heap->upstream, TIDE_STREAM_ALL, 0);
    return status == TIDE_OK ? tidei_chunk_heap_order_end(chunk_heap, epoch) : status;
}
