/* What a chunk heap does where nothing fits: a chunk of which size it asks upstream for, and what it does first. */
#include "src/suballoc/chunk-heap-parts.h"

#include <sched.h>

static uint64_t
round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Let another thread have its answer from upstream, or give it a chunk back. With the lock, but not throughout. */
static void
chunk_heap_await(struct tidei_chunk_heap *chunk_heap)
{
    uint64_t before = chunk_heap->answered + chunk_heap->returned;

    do {
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    } while (chunk_heap->asking > 0 && chunk_heap->answered + chunk_heap->returned == before);
}

/* What a request needs of a chunk, wherever that begins. */
static uint64_t
chunk_heap_least(const struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request)
{
    return request->bytes + request->alignment - chunk_heap->options.granule;
}

/* What the policy wants a chunk for the request to have. */
static uint64_t
chunk_heap_wanted(const struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request)
{
    uint64_t bytes = chunk_heap_least(chunk_heap, request);

    if (request->zone == TIDEI_ZONE_SMALL && bytes < tidei_heap_region_bytes(&chunk_heap->heap))
        bytes = tidei_heap_region_bytes(&chunk_heap->heap);
    bytes = round_up(bytes, TIDEI_CHUNK_HEAP_CHUNK_BYTES);
    if (bytes < chunk_heap->options.growth_bytes)
        bytes = round_up(chunk_heap->options.growth_bytes, chunk_heap->options.granule);
    return bytes;
}

/*
 * A chunk for the request, of these bytes, or of half of that again and again where upstream refuses, but no less than
 * the request needs. *crowded says of a refusal that it is for the time being.
 */
static enum tide_status
chunk_heap_chunk_for(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request, uint64_t bytes,
                     bool *crowded)
{
    uint64_t least = chunk_heap_least(chunk_heap, request);
    enum tide_status status;

    tidei_chunk_heap_make_room(chunk_heap, bytes);
    for (;;) {
        status = tidei_chunk_heap_chunk_add(chunk_heap, bytes, request->stream, false, crowded);
        if (status == TIDE_OK || status == TIDE_ENOMEM || status == TIDE_EUPSTREAM || bytes == least)
            return status;
        bytes = bytes / 2 < least ? least : round_up(bytes / 2, chunk_heap->options.granule);
    }
}

/* Whatever fits, however it is cut: of the chunk that has just been added, or not. *out is NULL where nothing does. */
static enum tide_status
chunk_heap_take_hard(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                     struct tidei_piece **out)
{
    struct tidei_heap_request any = *request;

    any.last_resort = true;
    *out = NULL;
    if (!tidei_heap_reserve(&chunk_heap->heap))
        return tidei_chunk_heap_no_memory(chunk_heap);
    *out = tidei_chunk_heap_take(chunk_heap, &any);
    return TIDE_OK;
}

/*
 * The same with a chunk that has just been added for the request: out of that one alone where what fits best is memory
 * of another stream that the request's cannot be made to wait for.
 */
static enum tide_status
chunk_heap_take_added(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                      struct tidei_piece **out)
{
    enum tide_status status = chunk_heap_take_hard(chunk_heap, request, out);

    if (status != TIDE_OK || *out != NULL)
        return status;
    if (!tidei_heap_reserve(&chunk_heap->heap))
        return tidei_chunk_heap_no_memory(chunk_heap);
    *out = tidei_chunk_heap_take_over(chunk_heap, tidei_heap_take_newest(&chunk_heap->heap, request), request);
    return TIDE_OK;
}

/* Have what is in front of the chunk heap be freed here. With the lock, but not throughout. */
static void
chunk_heap_gather(struct tidei_chunk_heap *chunk_heap)
{
    tidei_lock_release(&chunk_heap->lock);
    chunk_heap->options.gather(chunk_heap);
    tidei_lock_acquire(&chunk_heap->lock);
}

/*
 * Upstream has refused: use what is free however it is cut, with what caches held; else give all of it back, and ask
 * again. All over again where others have given something back, or have got a chunk that they need a part of, or keep
 * the maximum's last bytes for one that they ask for. Upstream may have refused because it was about to give the rest
 * to another thread: what becomes of those that ask is waited for, but that they ask is no reason to ask again, or
 * threads that are refused would keep each other at it.
 */
static enum tide_status
chunk_heap_press(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                 struct tidei_piece **out)
{
    enum tide_status status, refused;
    uint64_t changes, left, bytes;
    bool again, crowded;

    do {
        changes = chunk_heap->grown + chunk_heap->returned;
        chunk_heap_gather(chunk_heap);
        status = chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        bytes = chunk_heap_least(chunk_heap, request); /* more was refused, and nothing has changed */
        for (; tidei_chunk_heap_return_one(chunk_heap, true, UINT64_MAX); changes++)
            bytes = chunk_heap_wanted(chunk_heap, request);
        refused = chunk_heap_chunk_for(chunk_heap, request, bytes, &crowded);
        status = refused == TIDE_OK ? chunk_heap_take_added(chunk_heap, request, out)
                                    : chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        again = refused == TIDE_OK || crowded || chunk_heap->grown + chunk_heap->returned != changes;
        left = chunk_heap->left;
        if (again)
            chunk_heap_await(chunk_heap);
        else
            tidei_chunk_heap_await_all(chunk_heap, chunk_heap->asking);
        again = again || chunk_heap->left != left || chunk_heap->grown + chunk_heap->returned != changes;
    } while (again);
    return refused;
}

enum tide_status
tidei_chunk_heap_grow(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                      struct tidei_piece **out)
{
    enum tide_status status = TIDE_OK;
    bool crowded;

    tidei_chunk_heap_note_fork(chunk_heap);
    do {
        /* At the maximum a region, or a chunk of its own, may be too much for what fits somewhere else. */
        if (chunk_heap->options.maximum_bytes - tidei_chunk_heap_reserved(chunk_heap) < request->bytes) {
            status = chunk_heap_take_hard(chunk_heap, request, out);
            if (status != TIDE_OK || *out != NULL)
                return status;
        }
        status = chunk_heap_chunk_for(chunk_heap, request, chunk_heap_wanted(chunk_heap, request), &crowded);
        if (crowded)
            chunk_heap_await(chunk_heap);
    } while (crowded);
    if (status == TIDE_OK)
        status = chunk_heap_take_added(chunk_heap, request, out);
    else if (status != TIDE_ENOMEM && status != TIDE_EUPSTREAM)
        status = TIDE_OK;
    if (status != TIDE_OK || *out != NULL)
        return status;
    return chunk_heap_press(chunk_heap, request, out);
}

enum tide_status
tidei_chunk_heap_press_free(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                            struct tidei_piece **out)
{
    enum tide_status status = chunk_heap_take_hard(chunk_heap, request, out);

    if (status != TIDE_OK || *out != NULL)
        return status;
    tidei_chunk_heap_await_all(chunk_heap, chunk_heap->asking);
    status = chunk_heap_take_hard(chunk_heap, request, out);
    return status != TIDE_OK || *out != NULL ? status : TIDE_ECAPACITY;
}
