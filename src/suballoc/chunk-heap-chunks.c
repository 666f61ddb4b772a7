/* How chunks come to a chunk heap from upstream, and go back. */
#include "src/suballoc/chunk-heap-parts.h"

#include <sched.h>

static void
chunk_heap_unreserve(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    /* Relaxed: as tidei_bounded_add. */
    atomic_fetch_sub_explicit(&chunk_heap->reserved, bytes, memory_order_relaxed);
}

/*
 * Count a chunk that has come, or with a negative number one that has gone. With the lock, which is why it is no sum.
 */
static void
chunk_heap_hold(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    bytes += atomic_load_explicit(&chunk_heap->held, memory_order_relaxed); /* relaxed: as above */
    atomic_store_explicit(&chunk_heap->held, bytes, memory_order_relaxed);
    if (chunk_heap->peak_bytes < bytes)
        chunk_heap->peak_bytes = bytes;
}

void
tidei_chunk_heap_note_fork(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t bytes = 0;

    if (chunk_heap->forks == tidei_lock_forks)
        return;
    chunk_heap->forks = tidei_lock_forks;
    chunk_heap->asking = chunk_heap->leaving = 0;
    chunk_heap->leaving_bytes = 0;
    for (size_t i = 0; i < chunk_heap->heap.chunk_count; i++)
        bytes += chunk_heap->heap.chunks[i]->bytes;
    /* Relaxed: as above. */
    atomic_store_explicit(&chunk_heap->held, bytes, memory_order_relaxed);
    atomic_store_explicit(&chunk_heap->reserved, bytes, memory_order_relaxed);
}

/* What upstream cannot have meant: nothing that is ours may be touched by it. With the lock. */
static enum tide_status
chunk_heap_check_chunk(struct tidei_chunk_heap *chunk_heap, void *pointer, uint64_t bytes)
{
    const char *name = chunk_heap->options.name, *below = tide_resource_name(chunk_heap->upstream);
    uintptr_t base = (uintptr_t)pointer;

    if (pointer == NULL)
        return tide_error_set(TIDE_EUPSTREAM, "%s: %s gave NULL for %llu B", name, below, (unsigned long long)bytes);
    if (base % chunk_heap->options.granule != 0)
        return tide_error_set(TIDE_EUPSTREAM, "%s: %s gave %p, which is no multiple of %llu", name, below, pointer,
                              (unsigned long long)chunk_heap->options.granule);
    if (base + (bytes - 1) < base || tidei_heap_overlaps(&chunk_heap->heap, base, bytes))
        return tide_error_set(TIDE_EUPSTREAM, "%s: %s gave %llu B at %p, which it gave before", name, below,
                              (unsigned long long)bytes, pointer);
    return TIDE_OK;
}

/*
 * A chunk of just these bytes, as one call of upstream gives it; with the lock, but not throughout. One that cannot be
 * used goes back, unless that would give away what is ours.
 */
static enum tide_status
chunk_heap_chunk_new(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream, bool keep)
{
    tide_stream handle = chunk_heap->heap.streams.streams[stream]->handle;
    struct tide_resource *upstream = chunk_heap->upstream;
    enum tide_status status;
    bool overlaps = false;
    void *pointer;

    chunk_heap->asking++;
    tidei_lock_release(&chunk_heap->lock);
    TIDEI_TEST_POINT("chunk-heap.asking");
    status = tidei_allocate(upstream, bytes, chunk_heap->options.granule, handle, &pointer);
    tidei_lock_acquire(&chunk_heap->lock);
    chunk_heap->asking--;
    chunk_heap->answered++;
    if (status != TIDE_OK)
        return status;
    status = chunk_heap_check_chunk(chunk_heap, pointer, bytes);
    if (status == TIDE_OK && !tidei_heap_reserve(&chunk_heap->heap))
        status = tidei_chunk_heap_no_memory(chunk_heap);
    if (status == TIDE_OK) {
        tidei_heap_chunk_add(&chunk_heap->heap, (uintptr_t)pointer, bytes, stream, keep);
        chunk_heap->grown++;
        return TIDE_OK;
    }
    overlaps = pointer != NULL && tidei_heap_overlaps(&chunk_heap->heap, (uintptr_t)pointer, bytes);
    if (pointer != NULL && !overlaps) {
        struct tidei_error error;

        tidei_lock_release(&chunk_heap->lock);
        tidei_error_save(&error);
        tidei_deallocate(upstream, pointer, bytes, chunk_heap->options.granule, handle);
        tidei_error_restore(&error);
        tidei_lock_acquire(&chunk_heap->lock);
    }
    return status;
}

/* Whether it is what other threads are asking upstream for that leaves no room below the maximum. With the lock. */
static bool
chunk_heap_is_crowded(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t held = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed); /* relaxed: as above */
    uint64_t most = chunk_heap->options.maximum_bytes;

    return tidei_chunk_heap_reserved(chunk_heap) > held && held <= most && bytes <= most - held;
}

enum tide_status
tidei_chunk_heap_chunk_add(struct tidei_chunk_heap *chunk_heap, uint64_t bytes, uint32_t stream, bool keep,
                           bool *crowded)
{
    enum tide_status status;
    uint64_t before;

    *crowded = false;
    if (!tidei_bounded_add(&chunk_heap->reserved, bytes, chunk_heap->options.maximum_bytes, &before)) {
        *crowded = chunk_heap_is_crowded(chunk_heap, bytes);
        return tide_error_set(TIDE_ECAPACITY, "%s: another %s exceed its maximum of %s (%s reserved)",
                              chunk_heap->options.name, tidei_size_text(bytes),
                              tidei_size_text(chunk_heap->options.maximum_bytes), tidei_size_text(before));
    }
    status = chunk_heap_chunk_new(chunk_heap, bytes, stream, keep);
    if (status != TIDE_OK)
        chunk_heap_unreserve(chunk_heap, bytes);
    else
        chunk_heap_hold(chunk_heap, bytes);
    return status;
}

enum tide_status
tidei_chunk_heap_begin(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    enum tide_status status = TIDE_ENOMEM;
    uint32_t stream;
    bool crowded; /* nobody else is here yet */

    tidei_lock_acquire(&chunk_heap->lock);
    stream = tidei_streams_number(&chunk_heap->heap.streams, 0);
    if (stream == TIDEI_STREAM_NONE)
        status = tidei_chunk_heap_no_memory(chunk_heap);
    else
        status = tidei_chunk_heap_chunk_add(chunk_heap, bytes, stream, true, &crowded);
    tidei_lock_release(&chunk_heap->lock);
    return status;
}

/* The stream of the latest freed run: the one that need not wait for the most. */
static uint32_t
chunk_stream(const struct tidei_heap_chunk *chunk)
{
    const struct tidei_freed_run *latest = chunk->piece->freed_runs.first;

    for (const struct tidei_freed_run *freed_run = latest; freed_run != NULL; freed_run = freed_run->next) {
        if (freed_run->epoch > latest->epoch)
            latest = freed_run;
    }
    return latest->stream;
}

/* Give a chunk that is out of the heap back, behind the work of all streams that it was freed on. */
static enum tide_status
chunk_heap_return_chunk(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_chunk *chunk)
{
    uint32_t stream = chunk_stream(chunk);
    enum tide_status status = tidei_chunk_heap_wait(chunk_heap, chunk->piece, stream);
    tide_stream handle;

    if (status != TIDE_OK)
        return status;
    handle = chunk_heap->heap.streams.streams[stream]->handle;
    tidei_heap_chunk_own(&chunk_heap->heap, chunk, stream);
    tidei_lock_release(&chunk_heap->lock);
    TIDEI_TEST_POINT("chunk-heap.returning");
    status = tidei_deallocate(chunk_heap->upstream, (void *)chunk->span->base, chunk->span->bytes,
                              chunk_heap->options.granule, handle);
    tidei_lock_acquire(&chunk_heap->lock);
    return status;
}

bool
tidei_chunk_heap_return_one(struct tidei_chunk_heap *chunk_heap, bool all, uint64_t most_bytes)
{
    struct tidei_heap_chunk chunk;
    enum tide_status status;

    tidei_chunk_heap_note_fork(chunk_heap);
    if (!tidei_heap_chunk_take(&chunk_heap->heap, all, most_bytes, &chunk))
        return false;
    chunk_heap->leaving++;
    chunk_heap->leaving_bytes += chunk.span->bytes;
    status = chunk_heap_return_chunk(chunk_heap, &chunk);
    chunk_heap->leaving--;
    chunk_heap->left++;
    chunk_heap->leaving_bytes -= chunk.span->bytes;
    if (status != TIDE_OK) {
        tidei_heap_chunk_put_back(&chunk_heap->heap, &chunk);
        return false;
    }
    chunk_heap_hold(chunk_heap, 0 - chunk.span->bytes);
    chunk_heap_unreserve(chunk_heap, chunk.span->bytes);
    chunk_heap->returned++;
    tidei_heap_chunk_forget(&chunk_heap->heap, &chunk);
    return true;
}

void
tidei_chunk_heap_make_room(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t most = chunk_heap->options.release_threshold_bytes;

    if (most == UINT64_MAX || most < chunk_heap->peak_bytes)
        most = chunk_heap->peak_bytes;
    while (tidei_chunk_heap_reserved(chunk_heap) + bytes > most &&
           tidei_chunk_heap_return_one(chunk_heap, false, UINT64_MAX))
        ;
}

void
tidei_chunk_heap_keep_threshold(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t most = chunk_heap->options.release_threshold_bytes;

    if (most == UINT64_MAX || tidei_chunk_heap_reserved(chunk_heap) <= most)
        return;
    tidei_lock_acquire(&chunk_heap->lock);
    while (tidei_chunk_heap_reserved(chunk_heap) > most && tidei_chunk_heap_return_one(chunk_heap, false, UINT64_MAX))
        ;
    tidei_lock_release(&chunk_heap->lock);
}

void
tidei_chunk_heap_await_all(struct tidei_chunk_heap *chunk_heap, uint32_t asking)
{
    uint64_t answered = chunk_heap->answered + asking, left = chunk_heap->left + chunk_heap->leaving;

    while ((chunk_heap->asking > 0 && chunk_heap->answered < answered) ||
           (chunk_heap->leaving > 0 && chunk_heap->left < left)) {
        TIDEI_TEST_POINT("chunk-heap.awaits");
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    }
}

void
tidei_chunk_heap_release(struct tidei_chunk_heap *chunk_heap)
{
    if (tidei_chunk_heap_reserved(chunk_heap) == 0)
        return;
    tidei_lock_acquire(&chunk_heap->lock);
    while (tidei_chunk_heap_return_one(chunk_heap, true, UINT64_MAX))
        ;
    tidei_chunk_heap_await_all(chunk_heap, 0); /* who releases arenas may be asking for one of them */
    tidei_lock_release(&chunk_heap->lock);
}

/* What may go so that `keep_bytes` stay, whatever else is on its way to upstream. With the lock. */
static uint64_t
chunk_heap_above(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    /* Relaxed: as above. */
    uint64_t staying = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed) - chunk_heap->leaving_bytes;

    return staying > keep_bytes ? staying - keep_bytes : 0;
}

void
tidei_chunk_heap_shrink(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    tidei_lock_acquire(&chunk_heap->lock);
    while (tidei_chunk_heap_return_one(chunk_heap, true, chunk_heap_above(chunk_heap, keep_bytes)))
        ;
    tidei_lock_release(&chunk_heap->lock);
}

enum tide_status
tidei_chunk_heap_trim(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes)
{
    enum tide_status status;

    if (tidei_chunk_heap_reserved(chunk_heap) <= keep_bytes)
        return TIDE_OK;
    /* Streams that memory was freed on may be gone: no call may name one. */
    status = tidei_chunk_heap_order_all(chunk_heap);
    if (status == TIDE_OK)
        tidei_chunk_heap_shrink(chunk_heap, keep_bytes);
    return status;
}

/*
 * Also what is out: it is upstream's, and nobody may use it from now on. Without order it stays there: that it is lost
 * does less harm than that somebody else gets it while the device still works on it.
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
        tidei_deallocate(upstream, (void *)heap->chunks[i]->base, heap->chunks[i]->bytes, chunk_heap->options.granule,
                         0);
    tidei_heap_fini(heap);
    tidei_lock_fini(&chunk_heap->lock);
}
