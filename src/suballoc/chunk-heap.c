/* A heap with a lock: what is handed out and taken back, and the order of streams; see supply.h. */
#include "src/suballoc/chunk-heap-parts.h"

#include <sched.h>

/* The most that chunks can have in all: what this layer may reserve, or upstream has. */
static uint64_t
supply_most(const struct tidei_supply *supply)
{
    struct tidei_error error;
    uint64_t capacity;

    tidei_error_save(&error);
    if (tide_query(supply->upstream, TIDE_QUERY_CAPACITY, &capacity) != TIDE_OK)
        capacity = UINT64_MAX;
    tidei_error_restore(&error);
    return capacity < supply->options.maximum_bytes ? capacity : supply->options.maximum_bytes;
}

enum tide_status
tidei_supply_init(struct tidei_supply *supply, struct tide_resource *upstream,
                  const struct tidei_supply_options *options)
{
    enum tide_status status;

    memset(supply, 0, sizeof(*supply));
    supply->upstream = upstream;
    supply->options = *options;
    supply->forks = tidei_lock_forks;
    status = tidei_lock_init(&supply->lock);
    if (status != TIDE_OK)
        return status;
    if (tidei_heap_init(&supply->heap, options->granule, options->growth_bytes, supply_most(supply)) == TIDE_OK)
        return TIDE_OK;
    tidei_heap_fini(&supply->heap);
    tidei_lock_fini(&supply->lock);
    return tidei_supply_no_memory(supply);
}

void
tidei_supply_enter(struct tidei_supply *supply)
{
    if (!tidei_lock_try(&supply->lock)) {
        TIDEI_TEST_POINT("supply.waits");
        tidei_lock_take(&supply->lock);
        supply->waited++;
    }
    if (++supply->entered < TIDEI_SUPPLY_ENTERED)
        return;
    if (supply->waited >= TIDEI_SUPPLY_WAITED && supply->crowd < TIDEI_SUPPLY_CROWD_MOST)
        supply->crowd++;
    supply->entered = supply->waited = 0;
}

void
tidei_supply_forget_crowd(struct tidei_supply *supply)
{
    supply->entered = supply->waited = supply->crowd = 0;
}

enum tide_status
tidei_supply_no_memory(const struct tidei_supply *supply)
{
    return tide_error_set(TIDE_ENOMEM, "%s: no host memory to note another block", supply->options.name);
}

/*
 * Have the stream wait for all that the piece was freed on, with the lock, but not throughout. Where it cannot, the
 * piece is not the stream's, and has its stretches still.
 */
enum tide_status
tidei_supply_wait(struct tidei_supply *supply, struct tidei_piece *piece, uint32_t later)
{
    struct tidei_streams *streams = &supply->heap.streams;
    enum tide_status status = TIDE_OK;
    uint32_t earlier;
    uint64_t epoch, orders = 0;

    tidei_streams_hold(streams, later);
    while (status == TIDE_OK && tidei_heap_wait(&supply->heap, piece, later, &earlier, &epoch)) {
        tide_stream from = streams->streams[earlier]->handle, to = streams->streams[later]->handle;

        tidei_lock_give(&supply->lock);
        TIDEI_TEST_POINT("supply.moving");
        status = supply->upstream->ops->order(supply->upstream, from, to);
        tidei_lock_take(&supply->lock);
        if (status != TIDE_OK)
            break;
        orders++;
        tidei_heap_waited(&supply->heap, piece, later, earlier, epoch);
    }
    tidei_streams_release(streams, later);
    supply->orders += orders;
    return status;
}

struct tidei_piece *
tidei_supply_take_over(struct tidei_supply *supply, struct tidei_piece *piece, const struct tidei_heap_request *request)
{
    uint64_t orders = supply->orders;

    if (piece == NULL)
        return NULL;
    if (tidei_supply_wait(supply, piece, request->stream) == TIDE_OK) {
        supply->taken_over += supply->orders != orders;
        return piece;
    }
    tidei_heap_put_back(&supply->heap, piece);
    return NULL;
}

struct tidei_piece *
tidei_supply_take(struct tidei_supply *supply, const struct tidei_heap_request *request)
{
    return tidei_supply_take_over(supply, tidei_heap_take(&supply->heap, request), request);
}

/* Note what the piece is out for. With the lock. */
static void
supply_hand_out(struct tidei_supply *supply, struct tidei_piece *piece, size_t bytes, size_t alignment)
{
    supply->used_bytes += bytes;
    piece->size_class = TIDEI_PIECE_NO_CLASS;
    if (piece->bytes <= supply->options.class_bytes)
        piece->size_class = (uint16_t)tidei_class_of(piece->bytes >> supply->heap.granule_log2);
    tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
}

/* What the request needs of the heap; with the lock. */
static enum tide_status
supply_request(struct tidei_supply *supply, size_t bytes, size_t alignment, tide_stream stream,
               struct tidei_heap_request *out)
{
    uint64_t granule = supply->options.granule;

    *out = (struct tidei_heap_request){ .alignment = alignment > granule ? alignment : granule };
    out->bytes = tidei_heap_round(&supply->heap, bytes, &out->zone);
    if (!tidei_heap_reserve(&supply->heap))
        return tidei_supply_no_memory(supply);
    out->stream = tidei_streams_number(&supply->heap.streams, stream);
    return out->stream != TIDEI_STREAM_NONE ? TIDE_OK : tidei_supply_no_memory(supply);
}

/* A piece for the request; what is to be done where none fits holds its stream meanwhile. */
static enum tide_status
supply_allocate(struct tidei_supply *supply, size_t bytes, size_t alignment, tide_stream stream,
                enum tide_status (*grow)(struct tidei_supply *supply, const struct tidei_heap_request *request,
                                         struct tidei_piece **out),
                struct tidei_piece **out)
{
    struct tidei_heap_request request;
    enum tide_status status;

    *out = NULL;
    tidei_supply_enter(supply);
    status = supply_request(supply, bytes, alignment, stream, &request);
    if (status == TIDE_OK) {
        *out = tidei_supply_take(supply, &request);
        if (*out == NULL) {
            tidei_streams_hold(&supply->heap.streams, request.stream);
            status = grow(supply, &request, out);
            tidei_streams_release(&supply->heap.streams, request.stream);
        }
    }
    if (status == TIDE_OK)
        supply_hand_out(supply, *out, bytes, alignment);
    tidei_lock_give(&supply->lock);
    return status;
}

enum tide_status
tidei_supply_allocate(struct tidei_supply *supply, size_t bytes, size_t alignment, tide_stream stream,
                      struct tidei_piece **out)
{
    return supply_allocate(supply, bytes, alignment, stream, tidei_supply_grow, out);
}

enum tide_status
tidei_supply_allocate_free(struct tidei_supply *supply, size_t bytes, size_t alignment, tide_stream stream,
                           struct tidei_piece **out)
{
    return supply_allocate(supply, bytes, alignment, stream, tidei_supply_press_free, out);
}

/* What `pointer` is when it cannot be freed; `piece` where it is one that is out. With the lock. */
static enum tide_status
supply_refuse(struct tidei_supply *supply, struct tidei_piece *piece, void *pointer, size_t bytes, size_t alignment)
{
    const char *name = supply->options.name;
    uint64_t word;

    if (piece == NULL)
        piece = tidei_heap_around(&supply->heap, pointer);
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
tidei_supply_owns(struct tidei_supply *supply, const void *pointer)
{
    bool owns;

    tidei_lock_take(&supply->lock);
    owns = tidei_heap_around(&supply->heap, pointer) != NULL;
    tidei_lock_give(&supply->lock);
    return owns;
}

enum tide_status
tidei_supply_deallocate(struct tidei_supply *supply, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    enum tide_status status = TIDE_OK;
    struct tidei_piece *piece;
    uint32_t number;

    tidei_supply_enter(supply);
    piece = tidei_piece_map_find(&supply->heap.out, pointer);
    number = tidei_streams_number(&supply->heap.streams, stream);
    if (number == TIDEI_STREAM_NONE)
        status = tidei_supply_no_memory(supply);
    else if (piece == NULL || bytes > TIDEI_SUPPLY_BYTES_MAX ||
             !tidei_piece_claim(piece, pointer, tidei_piece_live(bytes, alignment), TIDEI_PIECE_MOVING))
        status = supply_refuse(supply, piece, pointer, bytes, alignment);
    if (status == TIDE_OK) {
        supply->used_bytes -= bytes;
        tidei_heap_put(&supply->heap, piece, number);
    }
    tidei_lock_give(&supply->lock);
    if (status == TIDE_OK)
        tidei_supply_keep_threshold(supply);
    return status;
}

enum tide_status
tidei_supply_put(struct tidei_supply *supply, struct tidei_piece *piece, size_t bytes, size_t alignment,
                 tide_stream stream)
{
    enum tide_status status = TIDE_OK;
    uint32_t number;

    tidei_supply_enter(supply);
    number = tidei_streams_number(&supply->heap.streams, stream);
    if (number != TIDEI_STREAM_NONE) {
        tidei_heap_put(&supply->heap, piece, number);
    } else {
        supply->used_bytes += bytes;
        tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
        status = tidei_supply_no_memory(supply);
    }
    tidei_lock_give(&supply->lock);
    if (status == TIDE_OK)
        tidei_supply_keep_threshold(supply);
    return status;
}

/* Before the order, which says nothing of work that is submitted, and then freed behind, while it waits. */
uint64_t
tidei_supply_order_begin(struct tidei_supply *supply)
{
    uint64_t epoch;

    tidei_lock_take(&supply->lock);
    epoch = supply->heap.streams.epoch++;
    tidei_lock_give(&supply->lock);
    return epoch;
}

enum tide_status
tidei_supply_order_end(struct tidei_supply *supply, uint64_t epoch)
{
    enum tide_status status = TIDE_OK;
    uint32_t number;

    tidei_lock_take(&supply->lock);
    number = tidei_streams_number(&supply->heap.streams, 0);
    if (number != TIDEI_STREAM_NONE)
        tidei_heap_settle(&supply->heap, epoch, number);
    else
        status = tidei_supply_no_memory(supply);
    tidei_lock_give(&supply->lock);
    return status;
}

enum tide_status
tidei_supply_order_all(struct tidei_supply *supply)
{
    enum tide_status status;
    uint64_t epoch;

    supply->options.gather(supply);
    epoch = tidei_supply_order_begin(supply);
    status = supply->upstream->ops->order(supply->upstream, TIDE_STREAM_ALL, 0);
    return status == TIDE_OK ? tidei_supply_order_end(supply, epoch) : status;
}
