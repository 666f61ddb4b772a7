/* How a supply gets chunks from upstream, and gives them back. */
#include <sched.h>

#include "suballoc/supply-parts.h"

static uint64_t
supply_reserved(struct tidei_supply *supply)
{
    return atomic_load_explicit(&supply->reserved, memory_order_relaxed); /* relaxed: a number, no data behind it */
}

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

/*
 * In the child of a fork() the threads that were with upstream are not there, and nobody is to wait for them: what they
 * asked for never comes, and chunks that they were about to give back are gone. With the lock.
 */
static void
supply_note_fork(struct tidei_supply *supply)
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

    return supply_reserved(supply) > held && held <= most && bytes <= most - held;
}

/* The same, within the maximum, and counted. *crowded says of a refusal that it is one for the time being. */
static enum tide_status
supply_chunk_add(struct tidei_supply *supply, uint64_t bytes, uint32_t stream, bool keep, bool *crowded)
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
        status = supply_chunk_add(supply, bytes, stream, true, &crowded);
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

/*
 * Give the chunk that has been free for longest back to upstream, of those with no more than `most_bytes`; with `all`,
 * also the first one. With the lock, but not throughout. False where there is none, or where it could not be given
 * back, and is there as before.
 */
static bool
supply_return_one(struct tidei_supply *supply, bool all, uint64_t most_bytes)
{
    struct tidei_heap_chunk chunk;
    enum tide_status status;

    supply_note_fork(supply);
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

/*
 * Have free chunks make room for one of `bytes`, so that no more than ever is reserved, as far as there are any, and
 * upstream takes them.
 */
static void
supply_make_room(struct tidei_supply *supply, uint64_t bytes)
{
    uint64_t most = supply->options.release_threshold_bytes;

    if (most == UINT64_MAX || most < supply->peak_bytes)
        most = supply->peak_bytes;
    while (supply_reserved(supply) + bytes > most && supply_return_one(supply, false, UINT64_MAX))
        ;
}

void
tidei_supply_keep_threshold(struct tidei_supply *supply)
{
    uint64_t most = supply->options.release_threshold_bytes;

    if (most == UINT64_MAX || supply_reserved(supply) <= most)
        return;
    tidei_lock_take(&supply->lock);
    while (supply_reserved(supply) > most && supply_return_one(supply, false, UINT64_MAX))
        ;
    tidei_lock_give(&supply->lock);
}

static uint64_t
round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Let another thread have its answer from upstream, or give it a chunk back. With the lock, but not throughout. */
static void
supply_await(struct tidei_supply *supply)
{
    uint64_t before = supply->answered + supply->returned;

    do {
        tidei_lock_give(&supply->lock);
        sched_yield();
        tidei_lock_take(&supply->lock);
    } while (supply->asking > 0 && supply->answered + supply->returned == before);
}

/*
 * Wait for what becomes of the chunks that are on their way to upstream, and of `asking` threads that ask it. With the
 * lock, but not throughout. Nobody waits so while it asks this supply's upstream, or gives back to it.
 */
static void
supply_await_all(struct tidei_supply *supply, uint32_t asking)
{
    uint64_t answered = supply->answered + asking, left = supply->left + supply->leaving;

    while ((supply->asking > 0 && supply->answered < answered) || (supply->leaving > 0 && supply->left < left)) {
        TIDEI_TEST_POINT("supply.awaits");
        tidei_lock_give(&supply->lock);
        sched_yield();
        tidei_lock_take(&supply->lock);
    }
}

/* What a request needs of a chunk, wherever that begins. */
static uint64_t
supply_least(const struct tidei_supply *supply, const struct tidei_heap_request *request)
{
    return request->bytes + request->alignment - supply->options.granule;
}

/* What the policy wants a chunk for the request to have. */
static uint64_t
supply_wanted(const struct tidei_supply *supply, const struct tidei_heap_request *request)
{
    uint64_t bytes = supply_least(supply, request);

    if (request->zone == TIDEI_ZONE_SMALL && bytes < tidei_heap_region_bytes(&supply->heap))
        bytes = tidei_heap_region_bytes(&supply->heap);
    bytes = round_up(bytes, TIDEI_SUPPLY_CHUNK_BYTES);
    if (bytes < supply->options.growth_bytes)
        bytes = round_up(supply->options.growth_bytes, supply->options.granule);
    return bytes;
}

/*
 * A chunk for the request, of these bytes, or of half of that again and again where upstream refuses, but no less than
 * the request needs. *crowded says of a refusal that it is for the time being.
 */
static enum tide_status
supply_chunk_for(struct tidei_supply *supply, const struct tidei_heap_request *request, uint64_t bytes, bool *crowded)
{
    uint64_t least = supply_least(supply, request);
    enum tide_status status;

    supply_make_room(supply, bytes);
    for (;;) {
        status = supply_chunk_add(supply, bytes, request->stream, false, crowded);
        if (status == TIDE_OK || status == TIDE_ENOMEM || status == TIDE_EUPSTREAM || bytes == least)
            return status;
        bytes = bytes / 2 < least ? least : round_up(bytes / 2, supply->options.granule);
    }
}

/* Whatever fits, however it is cut: of the chunk that has just been added, or not. *out is NULL where nothing does. */
static enum tide_status
supply_take_hard(struct tidei_supply *supply, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    struct tidei_heap_request any = *request;

    any.last_resort = true;
    *out = NULL;
    if (!tidei_heap_reserve(&supply->heap))
        return tidei_supply_no_memory(supply);
    *out = tidei_supply_take(supply, &any);
    return TIDE_OK;
}

/*
 * The same with a chunk that has just been added for the request: out of that one alone where what fits best is memory
 * of another stream that the request's cannot be made to wait for.
 */
static enum tide_status
supply_take_added(struct tidei_supply *supply, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    enum tide_status status = supply_take_hard(supply, request, out);

    if (status != TIDE_OK || *out != NULL)
        return status;
    if (!tidei_heap_reserve(&supply->heap))
        return tidei_supply_no_memory(supply);
    *out = tidei_supply_take_over(supply, tidei_heap_take_newest(&supply->heap, request), request);
    return TIDE_OK;
}

/* Have what is in front of the supply be freed here. With the lock, but not throughout. */
static void
supply_gather(struct tidei_supply *supply)
{
    tidei_lock_give(&supply->lock);
    supply->options.gather(supply);
    tidei_lock_take(&supply->lock);
}

/*
 * Upstream has refused: use what is free however it is cut, with what caches held; else give all of it back, and ask
 * again. All over again where others have given something back, or have got a chunk that they need a part of, or keep
 * the maximum's last bytes for one that they ask for. Upstream may have refused because it was about to give the rest
 * to another thread: what becomes of those that ask is waited for, but that they ask is no reason to ask again, or
 * threads that are refused would keep each other at it.
 */
static enum tide_status
supply_press(struct tidei_supply *supply, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    enum tide_status status, refused;
    uint64_t changes, left, bytes;
    bool again, crowded;

    do {
        changes = supply->grown + supply->returned;
        supply_gather(supply);
        status = supply_take_hard(supply, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        bytes = supply_least(supply, request); /* more was refused, and nothing has changed */
        for (; supply_return_one(supply, true, UINT64_MAX); changes++)
            bytes = supply_wanted(supply, request);
        refused = supply_chunk_for(supply, request, bytes, &crowded);
        status = refused == TIDE_OK ? supply_take_added(supply, request, out) : supply_take_hard(supply, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        again = refused == TIDE_OK || crowded || supply->grown + supply->returned != changes;
        left = supply->left;
        if (again)
            supply_await(supply);
        else
            supply_await_all(supply, supply->asking);
        again = again || supply->left != left || supply->grown + supply->returned != changes;
    } while (again);
    return refused;
}

enum tide_status
tidei_supply_grow(struct tidei_supply *supply, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    enum tide_status status = TIDE_OK;
    bool crowded;

    supply_note_fork(supply);
    do {
        /* At the maximum a region, or a chunk of its own, may be too much for what fits somewhere else. */
        if (supply->options.maximum_bytes - supply_reserved(supply) < request->bytes) {
            status = supply_take_hard(supply, request, out);
            if (status != TIDE_OK || *out != NULL)
                return status;
        }
        status = supply_chunk_for(supply, request, supply_wanted(supply, request), &crowded);
        if (crowded)
            supply_await(supply);
    } while (crowded);
    if (status == TIDE_OK)
        status = supply_take_added(supply, request, out);
    else if (status != TIDE_ENOMEM && status != TIDE_EUPSTREAM)
        status = TIDE_OK;
    if (status != TIDE_OK || *out != NULL)
        return status;
    return supply_press(supply, request, out);
}

enum tide_status
tidei_supply_press_free(struct tidei_supply *supply, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    enum tide_status status = supply_take_hard(supply, request, out);

    if (status != TIDE_OK || *out != NULL)
        return status;
    supply_await_all(supply, supply->asking);
    status = supply_take_hard(supply, request, out);
    return status != TIDE_OK || *out != NULL ? status : TIDE_ECAPACITY;
}

void
tidei_supply_release(struct tidei_supply *supply)
{
    if (supply_reserved(supply) == 0)
        return;
    tidei_lock_take(&supply->lock);
    while (supply_return_one(supply, true, UINT64_MAX))
        ;
    supply_await_all(supply, 0); /* who releases arenas may be asking for one of them */
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
    while (supply_return_one(supply, true, supply_above(supply, keep_bytes)))
        ;
    tidei_lock_give(&supply->lock);
}

enum tide_status
tidei_supply_trim(struct tidei_supply *supply, uint64_t keep_bytes)
{
    enum tide_status status;

    if (supply_reserved(supply) <= keep_bytes)
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
                      supply->options.name, tidei_size_text(supply_reserved(supply)), heap->chunk_count);
        heap->chunk_count = 0;
    }
    for (size_t i = 0; i < heap->chunk_count; i++)
        tidei_deallocate(upstream, (void *)heap->chunks[i]->base, heap->chunks[i]->bytes, supply->options.granule, 0);
    tidei_heap_fini(heap);
    tidei_lock_fini(&supply->lock);
}
