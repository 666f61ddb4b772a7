/*
 * Hands out pieces of a heap under a lock, and gets its chunks from upstream; see chunk-heap.h. A static function that
 * calls upstream is called with the lock held. It releases the lock for the call, and holds it again on return.
 */
#include "src/suballoc/chunk-heap.h"

#include <sched.h>
#include <string.h>

#include "src/suballoc/chunk-heap-inner.h"
#include "src/suballoc/leaving.h"
#include "src/suballoc/range.h"
#include "src/sync/fork.h"

static uint64_t
round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
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
    if (chunk_heap->waited >= TIDEI_CHUNK_HEAP_WAITED && chunk_heap->contention < TIDEI_CHUNK_HEAP_CONTENTION_MOST)
        chunk_heap->contention++;
    chunk_heap->requests += chunk_heap->entered;
    chunk_heap->entered = chunk_heap->waited = 0;
}

void
tidei_chunk_heap_reset_contention(struct tidei_chunk_heap *chunk_heap)
{
    chunk_heap->requests += chunk_heap->entered;
    chunk_heap->entered = chunk_heap->waited = chunk_heap->contention = 0;
}

/* Whether only the requests of other threads to upstream leave no room below the maximum. The caller holds the lock. */
static bool
refusal_is_temporary(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t held = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed); /* relaxed: as above */
    uint64_t most = chunk_heap->options.maximum_bytes;

    return tidei_chunk_heap_reserved(chunk_heap) > held && held <= most && bytes <= most - held;
}

/* What asking for a chunk brought. */
struct added {
    uintptr_t base; /* of the chunk; 0: there is none */
    bool temporary; /* refused, as only other threads' requests to upstream take the room */
};

/* Get a chunk of exactly this size, if that stays within the maximum, and count it. */
static enum tide_status
chunk_heap_chunk_add(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream, bool keep, struct added *out)
{
    enum tide_status status = tidei_chunk_heap_count(chunk_heap, bytes);
    uintptr_t address;

    *out = (struct added){ .temporary = status != TIDE_OK && refusal_is_temporary(chunk_heap, bytes) };
    if (status != TIDE_OK)
        return status;
    status = tidei_chunk_heap_ask(chunk_heap, bytes, stream, 0, &address);
    if (status != TIDE_OK) {
        atomic_fetch_sub_explicit(&chunk_heap->reserved, bytes, memory_order_relaxed); /* as tidei_bounded_add */
        return status;
    }
    if (tidei_chunk_heap_joins(chunk_heap))
        tidei_range_free(&chunk_heap->heap, tidei_range_add(&chunk_heap->heap, address, bytes, stream, keep));
    else
        tidei_heap_chunk_add(&chunk_heap->heap, address, bytes, stream, keep);
    out->base = address;
    tidei_figure_add(&chunk_heap->grown, 1);
    tidei_chunk_heap_hold(chunk_heap, bytes);
    return TIDE_OK;
}

enum tide_status
tidei_chunk_heap_begin(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    enum tide_status status = TIDE_ENOMEM;
    uint32_t stream;
    struct added added;

    tidei_lock_acquire(&chunk_heap->lock);
    if (tidei_chunk_heap_joins(chunk_heap))
        bytes = round_up(bytes, chunk_heap->heap.range.page_bytes);
    stream = tidei_streams_number(&chunk_heap->heap.streams, 0);
    if (stream == TIDEI_STREAM_NONE)
        status = tidei_chunk_heap_no_memory(chunk_heap);
    else
        status = chunk_heap_chunk_add(chunk_heap, bytes, stream, true, &added);
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

/*
 * Return free chunks, as far as there are any, so that a new one of `bytes` on `stream` does not raise the peak, and
 * have upstream give back what it would have beyond that. The result is whether the thread waited for work meanwhile.
 */
static bool
chunk_heap_make_room(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream)
{
    uint64_t most = tidei_chunk_heap_limit(chunk_heap), returned = 0;

    while (tidei_chunk_heap_reserved(chunk_heap) + bytes > most && tidei_chunk_heap_return_for(chunk_heap, stream) != 0)
        returned++;
    tidei_chunk_heap_pay(chunk_heap, returned);
    return chunk_heap->unit_bytes != 0 && tidei_chunk_heap_trim_for(chunk_heap, bytes);
}

/* Return free chunks while more than release_threshold_bytes, if set, is reserved. */
static void
chunk_heap_keep_threshold(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t most = chunk_heap->options.release_threshold_bytes;

    if (most == UINT64_MAX || tidei_chunk_heap_reserved(chunk_heap) <= most)
        return;
    tidei_lock_acquire(&chunk_heap->lock);
    while (tidei_chunk_heap_reserved(chunk_heap) > most &&
           tidei_chunk_heap_return_one(chunk_heap, false, UINT64_MAX) != 0)
        ;
    tidei_chunk_heap_note_owed(chunk_heap);
    tidei_lock_release(&chunk_heap->lock);
}

/* Chunks that one call returns at most because they were not needed for long: the call's thread waits for them. */
#define CHUNK_HEAP_DECAY_MOST 32

/* Have the caches, if there are any, free their pieces into this heap. The caller does not hold the lock. */
static void
chunk_heap_gather(struct tidei_chunk_heap *chunk_heap)
{
    if (chunk_heap->options.gather != NULL)
        chunk_heap->options.gather(chunk_heap);
}

/*
 * Have chunks of up to `surplus` bytes become free, with what caches have of them. That looks at all pieces, so it is
 * done only after a quarter as many requests: a heap of many small blocks may have short windows.
 */
static void
chunk_heap_empty(struct tidei_chunk_heap *chunk_heap, uint64_t surplus)
{
    if (tidei_chunk_heap_requests(chunk_heap) < chunk_heap->empty_next)
        return;
    chunk_heap->empty_next = UINT64_MAX; /* for other threads */
    tidei_lock_release(&chunk_heap->lock);
    chunk_heap_gather(chunk_heap);
    tidei_lock_acquire(&chunk_heap->lock);
    chunk_heap->empty_next = tidei_leaving_choose(&chunk_heap->heap, surplus) / 4;
    chunk_heap->empty_next += tidei_chunk_heap_requests(chunk_heap);
}

/*
 * Note what is in use; return free chunks that were not needed for long. Upstream keeps those until it finds their work
 * done, for which nobody waits: while there are any, it is asked again after a share of a window each time. Called with
 * the lock, which calls release.
 */
static void
chunk_heap_decay(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t held = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed); /* relaxed: as above */
    uint64_t returned = 0;
    uint64_t surplus = tidei_decay_note(&chunk_heap->decay, chunk_heap->heap.out_bytes, held);
    bool late = chunk_heap->late && tidei_decay_looks(&chunk_heap->decay);

    if (surplus != 0 && !tidei_chunk_heap_joins(chunk_heap)) {
        chunk_heap->limit_bytes = held - surplus / 2;
        chunk_heap_empty(chunk_heap, surplus);
    }
    for (int i = 0; i < CHUNK_HEAP_DECAY_MOST && returned < surplus / 2; i++) {
        uint64_t bytes = tidei_chunk_heap_return_one(chunk_heap, false, surplus - returned);

        if (bytes == 0)
            break;
        tidei_figure_add(&chunk_heap->decayed, 1);
        returned += bytes;
    }
    if ((returned != 0 || late) && chunk_heap->unit_bytes != 0) {
        tidei_decay_looked(&chunk_heap->decay); /* before: other threads need not look at the same time */
        tidei_chunk_heap_trim_upstream(chunk_heap);
    }
}

/*
 * Wait until the chunks that are being returned have arrived or are back, and until `requesting` of the threads that
 * call upstream have their answers. A thread that itself requests or returns a chunk never waits here.
 */
static void
chunk_heap_await_all(struct tidei_chunk_heap *chunk_heap, uint32_t requesting)
{
    uint64_t answered = chunk_heap->requests_ended + requesting,
             left = chunk_heap->returns_ended + chunk_heap->returning;

    while ((chunk_heap->requesting > 0 && chunk_heap->requests_ended < answered) ||
           (chunk_heap->returning > 0 && chunk_heap->returns_ended < left)) {
        TIDEI_TEST_POINT("chunk-heap.awaits");
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    }
}

/*
 * Over a base that keeps memory in units: those of the least chunk, and from how many reserved on; and how many the
 * maximum must have room for, as what is left of them cannot be had below it.
 */
#define CHUNK_HEAP_UNITS       2
#define CHUNK_HEAP_UNITS_FEW   8
#define CHUNK_HEAP_UNITS_LEAST 4

/* Larger chunks are halves of units up to so many units, and whole ones from there on. */
#define CHUNK_HEAP_UNITS_HALVES 16

/* Where nothing fits: choosing the size of a new chunk, and what to free first. */

/* How often a chunk has come or gone. */
static uint64_t
chunk_heap_changes(const struct tidei_chunk_heap *chunk_heap)
{
    return tidei_figure_get(&chunk_heap->grown) + tidei_figure_get(&chunk_heap->returned);
}

/* Wait until another thread has its answer from upstream, or has returned a chunk. Releases the lock meanwhile. */
static void
chunk_heap_await(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t before = chunk_heap->requests_ended + tidei_figure_get(&chunk_heap->returned);

    do {
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    } while (chunk_heap->requesting > 0 &&
             chunk_heap->requests_ended + tidei_figure_get(&chunk_heap->returned) == before);
}

/*
 * The size of a chunk in units of upstream's, so that those that come back serve later ones. The first chunks are one
 * unit, later ones two: chunks up to this size are cut for any request. Larger ones fill halves of units, as upstream
 * cuts them out side by side: what a request leaves of its chunk serves only smaller ones. Very large ones fill whole
 * units, of which all go back. MiB reserved for recorded programs, by replay over sim(model=driver), of gpt2,
 * gpt2-lengths, resnet50, gpt2-generate, unet and ragged-encoder: 7,456 17,568 4,832 1,696 5,344 10,176 with whole
 * units; 7,488 17,440 4,768 1,600 5,344 10,656 with halves; 7,488 17,408 4,768 1,600 5,344 10,560 with halves up to 16
 * units; 7,488 17,952 4,992 1,568 5,568 10,816 with quarters.
 */
static uint64_t
chunk_heap_units(const struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t least = chunk_heap->unit_bytes;

    if (tidei_chunk_heap_reserved(chunk_heap) >= CHUNK_HEAP_UNITS_FEW * least)
        least *= CHUNK_HEAP_UNITS;
    if (bytes <= least)
        return least;
    if (bytes > CHUNK_HEAP_UNITS_HALVES * chunk_heap->unit_bytes)
        return round_up(bytes, chunk_heap->unit_bytes);
    return round_up(bytes, chunk_heap->unit_bytes / 2);
}

uint64_t
tidei_chunk_heap_wanted(const struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request)
{
    uint64_t bytes = tidei_heap_need(&chunk_heap->heap, request);

    if (request->zone == TIDEI_ZONE_SMALL && bytes < tidei_heap_region_bytes(&chunk_heap->heap))
        bytes = tidei_heap_region_bytes(&chunk_heap->heap);
    if (tidei_chunk_heap_joins(chunk_heap))
        return bytes;
    if (chunk_heap->unit_bytes == 0)
        bytes = round_up(bytes, TIDEI_CHUNK_HEAP_CHUNK_BYTES);
    if (bytes < chunk_heap->options.growth_bytes)
        bytes = round_up(chunk_heap->options.growth_bytes,
                         chunk_heap->unit_bytes != 0 ? chunk_heap->unit_bytes : chunk_heap->options.granule);
    return chunk_heap->unit_bytes != 0 ? chunk_heap_units(chunk_heap, bytes) : bytes;
}

/*
 * Get a chunk for the request, for which there is room, of `bytes`, then of half as much again and again where upstream
 * refuses, but no less than the request needs.
 */
static enum tide_status
chunk_heap_chunk_for(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request, uint64_t bytes,
                     struct added *out)
{
    uint64_t least = tidei_heap_need(&chunk_heap->heap, request);
    enum tide_status status;

    for (;;) {
        status = chunk_heap_chunk_add(chunk_heap, bytes, request->stream, false, out);
        if (status == TIDE_OK || status == TIDE_ENOMEM || status == TIDE_EUPSTREAM || bytes == least)
            return status;
        bytes = bytes / 2 < least ? least : round_up(bytes / 2, chunk_heap->options.granule);
    }
}

/*
 * The same after a chunk was added for the request. Only that chunk is used where the best fit is memory of another
 * stream that the request's stream cannot be made to wait for: the best fit may be a smaller chunk, and if nothing came
 * of the new one, another would be asked for, without end.
 */
static enum tide_status
chunk_heap_take_added(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                      const struct added *added, struct tidei_piece **out)
{
    enum tide_status status = tidei_chunk_heap_take_hard(chunk_heap, request, out);

    if (status != TIDE_OK || *out != NULL)
        return status;
    if (!tidei_heap_reserve(&chunk_heap->heap))
        return tidei_chunk_heap_no_memory(chunk_heap);
    *out = tidei_heap_take_chunk(&chunk_heap->heap, added->base, request);
    *out = tidei_chunk_heap_take_over(chunk_heap, *out, request);
    return TIDE_OK;
}

/*
 * Upstream has refused: use any free memory, including the caches' pieces. Else return all of it, and request again.
 * Repeat where other threads have returned something, or have got a chunk that may serve this request, or hold the last
 * bytes below the maximum for a chunk that they are requesting.
 *
 * Upstream may have refused because it was about to give the rest to another thread. So wait for the answers of threads
 * that are requesting. That they are requesting is no reason to repeat, or refused threads would keep each other
 * repeating. After each wait, look at what others have freed meanwhile.
 */
static enum tide_status
chunk_heap_press(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                 struct tidei_piece **out)
{
    enum tide_status status, refused;
    uint64_t changes, left, bytes;
    struct added added;
    bool again;

    do {
        changes = chunk_heap_changes(chunk_heap);
        tidei_lock_release(&chunk_heap->lock);
        chunk_heap_gather(chunk_heap);
        tidei_lock_acquire(&chunk_heap->lock);
        status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        bytes = tidei_heap_need(&chunk_heap->heap, request); /* more was refused, and nothing has changed */
        for (; tidei_chunk_heap_return_one(chunk_heap, true, UINT64_MAX) != 0; changes++)
            bytes = tidei_chunk_heap_wanted(chunk_heap, request);
        if (chunk_heap_make_room(chunk_heap, bytes, request->stream)) {
            status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
            if (status != TIDE_OK || *out != NULL)
                return status;
        }
        refused = chunk_heap_chunk_for(chunk_heap, request, bytes, &added);
        status = refused == TIDE_OK ? chunk_heap_take_added(chunk_heap, request, &added, out)
                                    : tidei_chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        again = refused == TIDE_OK || added.temporary || chunk_heap_changes(chunk_heap) != changes;
        left = chunk_heap->returns_ended;
        if (again)
            chunk_heap_await(chunk_heap);
        else
            chunk_heap_await_all(chunk_heap, chunk_heap->requesting);
        again = again || chunk_heap->returns_ended != left || chunk_heap_changes(chunk_heap) != changes;
    } while (again);
    status = tidei_chunk_heap_take_hard(chunk_heap, request, out); /* others may have freed memory meanwhile */
    return status != TIDE_OK || *out != NULL ? status : refused;
}

/*
 * The same where chunks are joined. What upstream has refused, and the maximum, was taken out of free memory as far as
 * there are free chunks. So this repeats only where other threads have returned some.
 */
static enum tide_status
chunk_heap_press_pages(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                       struct tidei_piece **out)
{
    enum tide_status status, refused;
    uint64_t left;

    do {
        tidei_lock_release(&chunk_heap->lock);
        chunk_heap_gather(chunk_heap);
        tidei_lock_acquire(&chunk_heap->lock);
        status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        refused = tidei_chunk_heap_grow_pages(chunk_heap, request, tidei_heap_need(&chunk_heap->heap, request), out);
        if (refused == TIDE_OK || refused == TIDE_ENOMEM || refused == TIDE_EUPSTREAM)
            return refused;
        status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        left = chunk_heap->returns_ended;
        chunk_heap_await_all(chunk_heap, chunk_heap->requesting);
    } while (chunk_heap->returns_ended != left);
    return refused;
}

static enum tide_status
chunk_heap_grow_in_place(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                         struct tidei_piece **out)
{
    enum tide_status status =
        tidei_chunk_heap_grow_pages(chunk_heap, request, tidei_chunk_heap_wanted(chunk_heap, request), out);

    if (status == TIDE_OK || status == TIDE_ENOMEM || status == TIDE_EUPSTREAM)
        return status;
    return chunk_heap_press_pages(chunk_heap, request, out);
}

/*
 * Whether a large free chunk is cut up rather than exchanged: at the maximum, where a region or a chunk of its own may
 * be too much for a request that fits somewhere else; and where exchanging goes on and on.
 */
static bool
chunk_heap_prefers_cut(const struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request)
{
    uint64_t reserved = tidei_chunk_heap_reserved(chunk_heap);

    return chunk_heap->options.maximum_bytes - reserved < request->bytes ||
           (chunk_heap->restless &&
            reserved + tidei_chunk_heap_wanted(chunk_heap, request) > tidei_chunk_heap_limit(chunk_heap));
}

/* The thread has waited: use what others have freed meanwhile. */
static enum tide_status
chunk_heap_take_again(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                      struct tidei_piece **out)
{
    if (!tidei_heap_reserve(&chunk_heap->heap))
        return tidei_chunk_heap_no_memory(chunk_heap);
    *out = tidei_chunk_heap_take(chunk_heap, request);
    return TIDE_OK;
}

/* Serve a request that no free piece fits: call upstream. The caller holds the request's stream. */
static enum tide_status
chunk_heap_grow(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    enum tide_status status = TIDE_OK;
    struct added added;
    uint64_t bytes;

    tidei_chunk_heap_note_fork(chunk_heap);
    if (tidei_chunk_heap_joins(chunk_heap))
        return chunk_heap_grow_in_place(chunk_heap, request, out);
    do {
        if (chunk_heap_prefers_cut(chunk_heap, request)) {
            status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
            if (status != TIDE_OK || *out != NULL)
                return status;
        }
        bytes = tidei_chunk_heap_wanted(chunk_heap, request);
        if (chunk_heap_make_room(chunk_heap, bytes, request->stream)) {
            status = chunk_heap_take_again(chunk_heap, request, out);
            if (status != TIDE_OK || *out != NULL)
                return status;
        }
        status = chunk_heap_chunk_for(chunk_heap, request, bytes, &added);
        if (added.temporary)
            chunk_heap_await(chunk_heap);
    } while (added.temporary);
    if (status == TIDE_OK)
        status = chunk_heap_take_added(chunk_heap, request, &added, out);
    else if (status != TIDE_ENOMEM && status != TIDE_EUPSTREAM)
        status = TIDE_OK;
    if (status != TIDE_OK || *out != NULL)
        return status;
    return chunk_heap_press(chunk_heap, request, out);
}

/* The same without calling upstream. TIDE_ECAPACITY where nothing fits. */
static enum tide_status
chunk_heap_press_free(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                      struct tidei_piece **out)
{
    enum tide_status status = tidei_chunk_heap_take_hard(chunk_heap, request, out);

    if (status != TIDE_OK || *out != NULL)
        return status;
    chunk_heap_await_all(chunk_heap, chunk_heap->requesting);
    status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
    return status != TIDE_OK || *out != NULL ? status : TIDE_ECAPACITY;
}

/* Pieces in and out. */

/* Record the request that the piece serves. The caller holds the lock. */
static void
chunk_heap_hand_out(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes, size_t alignment)
{
    tidei_figure_add(&chunk_heap->used_bytes, bytes);
    piece->size_class = TIDEI_PIECE_NO_CLASS;
    if (piece->bytes <= chunk_heap->options.class_bytes)
        piece->size_class = (uint16_t)tidei_class_of(piece->bytes >> chunk_heap->heap.granule_log2);
    tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
}

/* Translate the request for the heap. The caller holds the lock. */
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

/* The slow path holds the request's stream meanwhile. */
enum tide_status
tidei_chunk_heap_allocate(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment, tide_stream stream,
                          bool may_grow, struct tidei_piece **out)
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
            status = may_grow ? chunk_heap_grow(chunk_heap, &request, out)
                              : chunk_heap_press_free(chunk_heap, &request, out);
            tidei_streams_release(&chunk_heap->heap.streams, request.stream);
        }
    }
    if (status == TIDE_OK)
        chunk_heap_hand_out(chunk_heap, *out, bytes, alignment);
    if (chunk_heap->decay.window_ns != 0 && status == TIDE_OK)
        chunk_heap_decay(chunk_heap);
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

/* Report why `pointer` cannot be freed; `piece` is the piece that is out there, or NULL. The caller holds the lock. */
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

/* Free a piece that is counted as taken back; on failure as in tidei_chunk_heap_put. Releases the lock. */
static enum tide_status
chunk_heap_free(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes, size_t alignment,
                tide_stream stream)
{
    uint32_t number = tidei_streams_number(&chunk_heap->heap.streams, stream);
    enum tide_status status = TIDE_OK;

    if (number != TIDEI_STREAM_NONE) {
        tidei_heap_put(&chunk_heap->heap, piece, number);
    } else {
        tidei_figure_add(&chunk_heap->used_bytes, bytes);
        tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
        status = tidei_chunk_heap_no_memory(chunk_heap);
    }
    if (chunk_heap->decay.window_ns != 0 && status == TIDE_OK)
        chunk_heap_decay(chunk_heap);
    tidei_lock_release(&chunk_heap->lock);
    if (status == TIDE_OK)
        chunk_heap_keep_threshold(chunk_heap);
    return status;
}

enum tide_status
tidei_chunk_heap_deallocate(struct tidei_chunk_heap *chunk_heap, void *pointer, size_t bytes, size_t alignment,
                            tide_stream stream)
{
    enum tide_status status;
    struct tidei_piece *piece;

    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    tidei_chunk_heap_enter(chunk_heap);
    piece = tidei_piece_map_find(&chunk_heap->heap.out, pointer);
    if (piece == NULL || bytes > TIDEI_CHUNK_HEAP_BYTES_MAX ||
        !tidei_piece_claim(piece, pointer, tidei_piece_live(bytes, alignment), TIDEI_PIECE_MOVING)) {
        status = chunk_heap_refuse(chunk_heap, piece, pointer, bytes, alignment);
        tidei_lock_release(&chunk_heap->lock);
        return status;
    }
    tidei_figure_add(&chunk_heap->used_bytes, 0 - (uint64_t)bytes);
    return chunk_heap_free(chunk_heap, piece, bytes, alignment, stream);
}

enum tide_status
tidei_chunk_heap_put(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes, size_t alignment,
                     tide_stream stream)
{
    tidei_chunk_heap_enter(chunk_heap);
    return chunk_heap_free(chunk_heap, piece, bytes, alignment, stream);
}

/* Take the epoch before the order, which does not cover work submitted, and memory freed behind it, meanwhile. */
void
tidei_chunk_heap_order_begin(struct tidei_chunk_heap *chunk_heap, struct tidei_chunk_heap_order *out)
{
    tidei_lock_acquire(&chunk_heap->lock);
    out->epoch = chunk_heap->heap.streams.epoch++;
    out->given_back = chunk_heap->given_back;
    tidei_lock_release(&chunk_heap->lock);
}

/* Whether a call that names streams has begun before number `most`, or with it, and has not ended. */
static bool
chunk_heap_is_naming(struct tidei_chunk_heap *chunk_heap, uint64_t most)
{
    const struct tidei_chunk_heap_naming *naming = tidei_chunk_heap_named(chunk_heap);

    while (naming != NULL && naming->number > most)
        naming = naming->next;
    return naming != NULL;
}

/* Whether this thread is within such a call: upstream has called what waits for all streams. */
static bool
chunk_heap_names_here(struct tidei_chunk_heap *chunk_heap)
{
    const struct tidei_chunk_heap_naming *naming = tidei_chunk_heap_named(chunk_heap);

    while (naming != NULL && !pthread_equal(naming->thread, pthread_self()))
        naming = naming->next;
    return naming != NULL;
}

/*
 * Wait until no thread names upstream streams that the caller's wait for all lets the application destroy. Calls that
 * begin from now on name none of them. A thread that is within such a call waits for none: two of them would wait for
 * each other.
 */
static void
chunk_heap_await_named(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t most = chunk_heap->named;

    if (chunk_heap_names_here(chunk_heap))
        return;
    while (chunk_heap_is_naming(chunk_heap, most)) {
        TIDEI_TEST_POINT("chunk-heap.awaits-named");
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    }
}

/* Make memory that was free at the epoch free on the stream, also what the heap does not have at the moment. */
static void
chunk_heap_reassign(struct tidei_chunk_heap *chunk_heap, uint64_t epoch, uint32_t stream)
{
    struct tidei_chunk_heap_naming *naming = tidei_chunk_heap_named(chunk_heap);

    tidei_heap_reassign(&chunk_heap->heap, epoch, stream);
    for (; naming != NULL; naming = naming->next) {
        if (naming->piece != NULL)
            tidei_heap_reassign_taken(&chunk_heap->heap, naming->piece, epoch, stream);
    }
}

enum tide_status
tidei_chunk_heap_order_end(struct tidei_chunk_heap *chunk_heap, const struct tidei_chunk_heap_order *order, bool *named)
{
    enum tide_status status = TIDE_OK;
    uint32_t number;

    tidei_lock_acquire(&chunk_heap->lock);
    tidei_chunk_heap_note_fork(chunk_heap);
    number = tidei_streams_number(&chunk_heap->heap.streams, 0);
    chunk_heap->owed_count = 0; /* their work is done, and they may be destroyed */
    if (number != TIDEI_STREAM_NONE)
        chunk_heap_reassign(chunk_heap, order->epoch, number);
    else
        status = tidei_chunk_heap_no_memory(chunk_heap);
    chunk_heap_await_named(chunk_heap);
    if (named != NULL)
        *named = chunk_heap->given_back != order->given_back;
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

enum tide_status
tidei_chunk_heap_order_all(struct tidei_chunk_heap *chunk_heap)
{
    struct tidei_chunk_heap_order order;
    enum tide_status status;

    chunk_heap_gather(chunk_heap);
    tidei_chunk_heap_order_begin(chunk_heap, &order);
    status = chunk_heap->upstream->ops->order(chunk_heap->upstream, TIDE_STREAM_ALL, 0);
    return status == TIDE_OK ? tidei_chunk_heap_order_end(chunk_heap, &order, NULL) : status;
}

void
tidei_chunk_heap_release(struct tidei_chunk_heap *chunk_heap)
{
    if (tidei_chunk_heap_reserved(chunk_heap) == 0)
        return;
    tidei_lock_acquire(&chunk_heap->lock);
    while (tidei_chunk_heap_return_one(chunk_heap, true, UINT64_MAX) != 0)
        ;
    chunk_heap_await_all(chunk_heap, 0); /* a thread that releases arenas may be requesting for one of them */
    tidei_lock_release(&chunk_heap->lock);
}

/* The bytes of chunks, besides those being returned, that may be returned if `keep_bytes` stay. Under the lock. */
static uint64_t
chunk_heap_above(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    /* Relaxed: as above. */
    uint64_t staying = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed) - chunk_heap->returning_bytes;

    return staying > keep_bytes ? staying - keep_bytes : 0;
}

void
tidei_chunk_heap_shrink(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    tidei_lock_acquire(&chunk_heap->lock);
    while (tidei_chunk_heap_return_one(chunk_heap, true, chunk_heap_above(chunk_heap, keep_bytes)) != 0)
        ;
    tidei_lock_release(&chunk_heap->lock);
}

bool
tidei_chunk_heap_trims(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    return tidei_chunk_heap_reserved(chunk_heap) > keep_bytes;
}

enum tide_status
tidei_chunk_heap_trim(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    enum tide_status status;

    if (!tidei_chunk_heap_trims(chunk_heap, keep_bytes))
        return TIDE_OK;
    /* Streams on which memory was freed may be destroyed: no call may name one. */
    status = tidei_chunk_heap_order_all(chunk_heap);
    if (status == TIDE_OK)
        tidei_chunk_heap_shrink(chunk_heap, keep_bytes);
    return status;
}

/* Upper bound of all chunks together: this layer's maximum, or upstream's capacity. */
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

/* Upstream's answer, a power of two, or the granule where that is larger; 0 where it has none. */
static uint64_t
chunk_heap_query_size(const struct tidei_chunk_heap *chunk_heap, enum tide_query what)
{
    struct tidei_error error;
    uint64_t bytes;

    if (chunk_heap->options.is_inner)
        return 0;
    tidei_error_save(&error);
    if (tide_query(chunk_heap->upstream, what, &bytes) != TIDE_OK || (bytes & (bytes - 1)) != 0)
        bytes = 0;
    tidei_error_restore(&error);
    return bytes != 0 && bytes < chunk_heap->options.granule ? chunk_heap->options.granule : bytes;
}

/* Up to which size chunks are cut up for any request. */
static uint64_t
chunk_heap_step(const struct tidei_chunk_heap *chunk_heap, uint64_t page)
{
    uint64_t least = chunk_heap->options.cut_bytes, growth = chunk_heap->options.growth_bytes;

    if (page != 0)
        return growth;
    if (chunk_heap->unit_bytes != 0)
        least = CHUNK_HEAP_UNITS * chunk_heap->unit_bytes;
    return growth > least ? growth : least;
}

enum tide_status
tidei_chunk_heap_init(struct tidei_chunk_heap *chunk_heap, struct tide_resource *upstream,
                      const struct tidei_chunk_heap_options *options)
{
    uint64_t page;
    struct tidei_error error;

    memset(chunk_heap, 0, sizeof(*chunk_heap));
    chunk_heap->upstream = upstream;
    chunk_heap->options = *options;
    chunk_heap->forks = tidei_fork_generation();
    tidei_decay_init(&chunk_heap->decay, options->decay_ms);
    if (!options->is_inner)
        tidei_chunks_init(&chunk_heap->chunks, options->name, upstream);
    tidei_lock_init(&chunk_heap->lock);
    page = chunk_heap_query_size(chunk_heap, TIDE_QUERY_PAGE);
    chunk_heap->unit_bytes = page == 0 ? chunk_heap_query_size(chunk_heap, TIDE_QUERY_UNIT) : 0;
    if (chunk_heap_most(chunk_heap) / CHUNK_HEAP_UNITS_LEAST < chunk_heap->unit_bytes)
        chunk_heap->unit_bytes = 0;
    tidei_error_save(&error);
    if (chunk_heap->unit_bytes != 0)
        tide_query(upstream, TIDE_QUERY_KEPT, &chunk_heap->kept_bytes);
    tidei_error_restore(&error);
    if (tidei_heap_init(&chunk_heap->heap, options->granule, chunk_heap_step(chunk_heap, page),
                        chunk_heap_most(chunk_heap)) == TIDE_OK &&
        (page == 0 || tidei_range_init(&chunk_heap->heap, page)))
        return TIDE_OK;
    tidei_range_fini(&chunk_heap->heap);
    tidei_heap_fini(&chunk_heap->heap);
    tidei_lock_fini(&chunk_heap->lock);
    if (!options->is_inner)
        tidei_chunks_fini(&chunk_heap->chunks);
    return tidei_chunk_heap_no_memory(chunk_heap);
}

/*
 * Returns chunks with live pieces, too: their memory is upstream's, and nobody may use it from now on. Where ordering
 * fails the chunks are leaked, which does less harm than giving them to another user while the device still works on
 * them.
 */
void
tidei_chunk_heap_fini(struct tidei_chunk_heap *chunk_heap)
{
    struct tide_resource *upstream = chunk_heap->upstream;
    struct tidei_heap *heap = &chunk_heap->heap;

    if (heap->chunk_count > 0 && upstream->ops->order(upstream, TIDE_STREAM_ALL, 0) != TIDE_OK) {
        tidei_message(TIDE_WARNING, "%s: %s in %zu chunks stay with upstream, not ordered behind their use",
                      chunk_heap->options.name, tidei_size_text(tidei_chunk_heap_reserved(chunk_heap)),
                      heap->chunk_count);
        heap->chunk_count = 0;
    }
    for (size_t i = 0; i < heap->chunk_count; i++)
        tidei_chunk_heap_give_back(chunk_heap, (void *)heap->chunks[i]->base, heap->chunks[i]->bytes, 0);
    tidei_range_fini(heap);
    tidei_heap_fini(heap);
    tidei_lock_fini(&chunk_heap->lock);
    if (!chunk_heap->options.is_inner)
        tidei_chunks_fini(&chunk_heap->chunks);
}

void
tidei_chunk_heap_add_free(const struct tidei_chunk_heap *chunk_heap, struct tide_pool_figures *figures)
{
    uint64_t largest = tidei_heap_largest(&chunk_heap->heap);

    figures->free_bytes += tidei_heap_free_bytes(&chunk_heap->heap);
    figures->free_blocks += chunk_heap->heap.free_count;
    if (figures->largest_free_bytes < largest)
        figures->largest_free_bytes = largest;
}

/* The capacity of a layer over this chunk heap: its maximum, or what upstream has where that is less. */
static enum tide_status
chunk_heap_capacity(const struct tidei_chunk_heap *chunk_heap, struct tide_resource *layer, uint64_t *out)
{
    enum tide_status status = tide_pass_query(layer, TIDE_QUERY_CAPACITY, out);

    if (chunk_heap->options.maximum_bytes == UINT64_MAX)
        return status;
    if (status != TIDE_OK || *out > chunk_heap->options.maximum_bytes)
        *out = chunk_heap->options.maximum_bytes;
    return TIDE_OK;
}

enum tide_status
tidei_chunk_heap_query(struct tidei_chunk_heap *chunk_heap, struct tide_resource *layer,
                       void (*read)(struct tide_resource *layer, struct tide_pool_figures *out), enum tide_query what,
                       uint64_t *out)
{
    struct tide_pool_figures figures;

    switch (what) {
    case TIDE_QUERY_CAPACITY:
        return chunk_heap_capacity(chunk_heap, layer, out);
    case TIDE_QUERY_ALIGNMENT:
        *out = chunk_heap->options.granule;
        return TIDE_OK;
    case TIDE_QUERY_BYTES_RESERVED:
        *out = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed); /* relaxed: as above */
        return TIDE_OK;
    case TIDE_QUERY_BYTES_USED_HIGH:
    case TIDE_QUERY_PAGE:
    case TIDE_QUERY_UNIT:
        return tide_base_query(layer, what, out); /* upstream's figure is about chunks */
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED_HIGH:
    case TIDE_QUERY_BYTES_CACHED:
    case TIDE_QUERY_LARGEST_FREE:
    case TIDE_QUERY_FREE_BLOCKS:
        break;
    default:
        return tide_pass_query(layer, what, out);
    }
    read(layer, &figures);
    *out = what == TIDE_QUERY_BYTES_USED            ? figures.used_bytes
           : what == TIDE_QUERY_BYTES_RESERVED_HIGH ? figures.reserved_peak_bytes
           : what == TIDE_QUERY_BYTES_CACHED        ? figures.cached_bytes
           : what == TIDE_QUERY_LARGEST_FREE        ? figures.largest_free_bytes
                                                    : figures.free_blocks;
    return TIDE_OK;
}
