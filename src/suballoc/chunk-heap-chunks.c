/* How chunks come to a supply from upstream, and go back. */
#include "src/suballoc/chunk-heap-parts.h"

#include <sched.h>

static void
supply_unreserve(struct tidei_supply *supply, uint64_t bytes)
{
    /* Relaxed: as tidei_bounded_add. */
    atomic_fetch_sub_explicit(&supply->reserved, bytes, memory_order_relaxed);
}

/*
 * Count a chunk that has come, or with a negative number one that has gone. With the lock, which is why it is no sum.
 */
static void
supply_hold(struct tidei_supply *supply, uint64_t bytes)
{
    bytes += atomic_load_explicit(&supply->held, memory_order_relaxed); /* relaxed: as above */
    atomic_store_explicit(&supply->held, bytes, memory_order_relaxed);
    if (supply->peak_bytes < bytes)
        supply->peak_bytes = bytes;
}

void
tidei_supply_note_fork(struct tidei_supply *supply)
{
    uint64_t bytes = 0;

    if (supply->forks == tidei_lock_forks)
        return;
    supply->forks = tidei_lock_forks;
    supply->asking = supply->leaving = 0;
    supply->leaving_bytes = 0;
    for (size_t i = 0; i < supply->heap.chunk_count; i++)
        bytes += supply->heap.chunks[i]->bytes;
    /* Relaxed: as above. */
    atomic_store_explicit(&supply->held, bytes, memory_order_relaxed);
    atomic_store_explicit(&supply->reserved, bytes, memory_order_relaxed);
}

/* What upstream cannot have meant: nothing that is ours may be touched by it. With the lock. */
static enum tide_status
supply_check_chunk(struct tidei_supply *supply, void *pointer, uint64_t bytes)
{
    const char *name = supply->options.name, *below = tide_resource_name(supply->upstream);
    uintptr_t base = (uintptr_t)pointer;

    if (pointer == NULL)
        return tide_error_set(TIDE_EUPSTREAM, "%s: %s gave NULL for %llu B", name, below, (unsigned long long)bytes);
    if (base % supply->options.granule != 0)
        return tide_error_set(TIDE_EUPSTREAM, "%s: %s gave %p, which is no multiple of %llu", name, below, pointer,
                              (unsigned long long)supply->options.granule);
    if (base + (bytes - 1) < base || tidei_heap_overlaps(&supply->heap, base, bytes))
        return tide_error_set(TIDE_EUPSTREAM, "%s: %s gave %llu B at %p, which it gave before", name, below,
                              (unsigned long long)bytes, pointer);
    return TIDE_OK;
}

/*
 * A chunk of just these bytes, as one call of upstream gives it; with the lock, but not throughout. One that cannot be
 * used goes back, unless that would give away what is ours.
 */
static enum tide_status
supply_chunk_new(struct tidei_supply *supply, uint64_t bytes, uint32_t stream, bool keep)
{
    tide_stream handle = supply->heap.streams.streams[stream]->handle;
    struct tide_resource *upstream = supply->upstream;
    enum tide_status status;
    bool overlaps = false;
    void *pointer;

    supply->asking++;
    tidei_lock_give(&supply->lock);
    TIDEI_TEST_POINT("supply.asking");
    status = tidei_allocate(upstream, bytes, supply->options.granule, handle, &pointer);
    tidei_lock_take(&supply->lock);
    supply->asking--;
    supply->answered++;
    if (status != TIDE_OK)
        return status;
    status = supply_check_chunk(supply, pointer, bytes);
    if (status == TIDE_OK && !tidei_heap_reserve(&supply->heap))
        status = tidei_supply_no_memory(supply);
    if (status == TIDE_OK) {
        tidei_heap_chunk_add(&supply->heap, (uintptr_t)pointer, bytes, stream, keep);
        supply->grown++;
        return TIDE_OK;
    }
    overlaps = pointer != NULL && tidei_heap_overlaps(&supply->heap, (uintptr_t)pointer, bytes);
    if (pointer != NULL && !overlaps) {
        struct tidei_error error;

        tidei_lock_give(&supply->lock);
        tidei_error_save(&error);
        tidei_deallocate(upstream, pointer, bytes, supply->options.granule, handle);
        tidei_error_restore(&error);
        tidei_lock_take(&supply->lock);
    }
    return status;
}

/* Whether it is what other threads are asking upstream for that leaves no room below the maximum. With the lock. */
static bool
supply_is_crowded(struct tidei_supply *supply, uint64_t bytes)
{
    uint64_t held = atomic_load_explicit(&supply->held, memory_order_relaxed); /* relaxed: as above */
    uint64_t most = supply->options.maximum_bytes;

    return tidei_supply_reserved(supply) > held && held <= most && bytes <= most - held;
}

enum tide_status
tidei_supply_chunk_add(struct tidei_supply *supply, uint64_t bytes, uint32_t stream, bool keep, bool *crowded)
{
    enum tide_status status;
    uint64_t before;

    *crowded = false;
    if (!tidei_bounded_add(&supply->reserved, bytes, supply->options.maximum_bytes, &before)) {
        *crowded = supply_is_crowded(supply, bytes);
        return tide_error_set(TIDE_ECAPACITY, "%s: another %s exceed its maximum of %s (%s reserved)",
                              supply->options.name, tidei_size_text(bytes),
                              tidei_size_text(supply->options.maximum_bytes), tidei_size_text(before));
    }
    status = supply_chunk_new(supply, bytes, stream, keep);
    if (status != TIDE_OK)
        supply_unreserve(supply, bytes);
    else
        supply_hold(supply, bytes);
    return status;
}

enum tide_status
tidei_supply_begin(struct tidei_supply *supply, uint64_t bytes)
{
    enum tide_status status = TIDE_ENOMEM;
    uint32_t stream;
    bool crowded; /* nobody else is here yet */

    tidei_lock_take(&supply->lock);
    stream = tidei_streams_number(&supply->heap.streams, 0);
    if (stream == TIDEI_STREAM_NONE)
        status = tidei_supply_no_memory(supply);
    else
        status = tidei_supply_chunk_add(supply, bytes, stream, true, &crowded);
    tidei_lock_give(&supply->lock);
    return status;
}

/* The stream of the latest stretch: the one that need not wait for the most. */
static uint32_t
chunk_stream(const struct tidei_heap_chunk *chunk)
{
    const struct tidei_stretch *latest = chunk->piece->stretches.first;

    for (const struct tidei_stretch *stretch = latest; stretch != NULL; stretch = stretch->next) {
        if (stretch->epoch > latest->epoch)
            latest = stretch;
    }
    return latest->stream;
}

/* Give a chunk that is out of the heap back, behind the work of all streams that it was freed on. */
static enum tide_status
supply_return_chunk(struct tidei_supply *supply, const struct tidei_heap_chunk *chunk)
{
    uint32_t stream = chunk_stream(chunk);
    enum tide_status status = tidei_supply_wait(supply, chunk->piece, stream);
    tide_stream handle;

    if (status != TIDE_OK)
        return status;
    handle = supply->heap.streams.streams[stream]->handle;
    tidei_heap_chunk_own(&supply->heap, chunk, stream);
    tidei_lock_give(&supply->lock);
    TIDEI_TEST_POINT("supply.returning");
    status = tidei_deallocate(supply->upstream, (void *)chunk->span->base, chunk->span->bytes, supply->options.granule,
                              handle);
    tidei_lock_take(&supply->lock);
    return status;
}

bool
tidei_supply_return_one(struct tidei_supply *supply, bool all, uint64_t most_bytes)
{
    struct tidei_heap_chunk chunk;
    enum tide_status status;

    tidei_supply_note_fork(supply);
    if (!tidei_heap_chunk_take(&supply->heap, all, most_bytes, &chunk))
        return false;
    supply->leaving++;
    supply->leaving_bytes += chunk.span->bytes;
    status = supply_return_chunk(supply, &chunk);
    supply->leaving--;
    supply->left++;
    supply->leaving_bytes -= chunk.span->bytes;
    if (status != TIDE_OK) {
        tidei_heap_chunk_put_back(&supply->heap, &chunk);
        return false;
    }
    supply_hold(supply, 0 - chunk.span->bytes);
    supply_unreserve(supply, chunk.span->bytes);
    supply->returned++;
    tidei_heap_chunk_forget(&supply->heap, &chunk);
    return true;
}

void
tidei_supply_make_room(struct tidei_supply *supply, uint64_t bytes)
{
    uint64_t most = supply->options.release_threshold_bytes;

    if (most == UINT64_MAX || most < supply->peak_bytes)
        most = supply->peak_bytes;
    while (tidei_supply_reserved(supply) + bytes > most && tidei_supply_return_one(supply, false, UINT64_MAX))
        ;
}

void
tidei_supply_keep_threshold(struct tidei_supply *supply)
{
    uint64_t most = supply->options.release_threshold_bytes;

    if (most == UINT64_MAX || tidei_supply_reserved(supply) <= most)
        return;
    tidei_lock_take(&supply->lock);
    while (tidei_supply_reserved(supply) > most && tidei_supply_return_one(supply, false, UINT64_MAX))
        ;
    tidei_lock_give(&supply->lock);
}

void
tidei_supply_await_all(struct tidei_supply *supply, uint32_t asking)
{
    uint64_t answered = supply->answered + asking, left = supply->left + supply->leaving;

    while ((supply->asking > 0 && supply->answered < answered) || (supply->leaving > 0 && supply->left < left)) {
        TIDEI_TEST_POINT("supply.awaits");
        tidei_lock_give(&supply->lock);
        sched_yield();
        tidei_lock_take(&supply->lock);
    }
}

void
tidei_supply_release(struct tidei_supply *supply)
{
    if (tidei_supply_reserved(supply) == 0)
        return;
    tidei_lock_take(&supply->lock);
    while (tidei_supply_return_one(supply, true, UINT64_MAX))
        ;
    tidei_supply_await_all(supply, 0); /* who releases arenas may be asking for one of them */
    tidei_lock_give(&supply->lock);
}

/* What may go so that `keep_bytes` stay, whatever else is on its way to upstream. With the lock. */
static uint64_t
supply_above(struct tidei_supply *supply, uint64_t keep_bytes)
{
    /* Relaxed: as above. */
    uint64_t staying = atomic_load_explicit(&supply->held, memory_order_relaxed) - supply->leaving_bytes;

    return staying > keep_bytes ? staying - keep_bytes : 0;
}

void
tidei_supply_shrink(struct tidei_supply *supply, uint64_t keep_bytes)
{
    tidei_lock_take(&supply->lock);
    while (tidei_supply_return_one(supply, true, supply_above(supply, keep_bytes)))
        ;
    tidei_lock_give(&supply->lock);
}

enum tide_status
tidei_supply_trim(struct tidei_supply *supply, uint64_t keep_bytes)
{
    enum tide_status status;

    if (tidei_supply_reserved(supply) <= keep_bytes)
        return TIDE_OK;
    /* Streams that memory was freed on may be gone: no call may name one. */
    status = tidei_supply_order_all(supply);
    if (status == TIDE_OK)
        tidei_supply_shrink(supply, keep_bytes);
    return status;
}

/*
 * Also what is out: it is upstream's, and nobody may use it from now on. Without order it stays there: that it is lost
 * does less harm than that somebody else gets it while the device still works on it.
 */
void
tidei_supply_fini(struct tidei_supply *supply)
{
    struct tide_resource *upstream = supply->upstream;
    struct tidei_heap *heap = &supply->heap;

    if (heap->chunk_count > 0 && upstream->ops->order(upstream, TIDE_STREAM_ALL, 0) != TIDE_OK) {
        tidei_message(TIDE_WARNING, "%s: %s in %zu chunks stay with upstream, not ordered behind their use",
                      supply->options.name, tidei_size_text(tidei_supply_reserved(supply)), heap->chunk_count);
        heap->chunk_count = 0;
    }
    for (size_t i = 0; i < heap->chunk_count; i++)
        tidei_deallocate(upstream, (void *)heap->chunks[i]->base, heap->chunks[i]->bytes, supply->options.granule, 0);
    tidei_heap_fini(heap);
    tidei_lock_fini(&supply->lock);
}
