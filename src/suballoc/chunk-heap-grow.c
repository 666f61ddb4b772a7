/* What a supply does where nothing fits: a chunk of which size it asks upstream for, and what it does first. */
#include "src/suballoc/chunk-heap-parts.h"

#include <sched.h>

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

    tidei_supply_make_room(supply, bytes);
    for (;;) {
        status = tidei_supply_chunk_add(supply, bytes, request->stream, false, crowded);
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
        for (; tidei_supply_return_one(supply, true, UINT64_MAX); changes++)
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
            tidei_supply_await_all(supply, supply->asking);
        again = again || supply->left != left || supply->grown + supply->returned != changes;
    } while (again);
    return refused;
}

enum tide_status
tidei_supply_grow(struct tidei_supply *supply, const struct tidei_heap_request *request, struct tidei_piece **out)
{
    enum tide_status status = TIDE_OK;
    bool crowded;

    tidei_supply_note_fork(supply);
    do {
        /* At the maximum a region, or a chunk of its own, may be too much for what fits somewhere else. */
        if (supply->options.maximum_bytes - tidei_supply_reserved(supply) < request->bytes) {
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
    tidei_supply_await_all(supply, supply->asking);
    status = supply_take_hard(supply, request, out);
    return status != TIDE_OK || *out != NULL ? status : TIDE_ECAPACITY;
}
