/* Models a pool of the driver; see sim-mempool.h. */
#include "src/bases/sim-mempool.h"

#include <stdlib.h>
#include <string.h>

#include "src/bases/sim-search.h"
#include "src/tables/grow.h"

#define MEMPOOL_STEP UINT64_C(512)

static uint64_t
mempool_down(uint64_t address)
{
    return address & ~(TIDEI_SIM_MEMPOOL_UNIT - 1);
}

static uint64_t
mempool_piece_end(const struct tidei_sim_piece *piece)
{
    return piece->address + piece->bytes;
}

void
tidei_sim_mempool_init(struct tidei_sim_mempool *pool, uint64_t begin, struct tidei_sim_tally *tally)
{
    *pool = (struct tidei_sim_mempool){ .begin = begin, .tally = tally };
    tidei_lock_init(&pool->lock);
}

void
tidei_sim_mempool_fini(struct tidei_sim_mempool *pool)
{
    for (size_t i = 0; i < pool->stream_count; i++) {
        tidei_sim_pieces_fini(&pool->streams[i]->pending);
        free(pool->streams[i]);
    }
    free(pool->streams);
    tidei_sim_pieces_fini(&pool->pool);
    tidei_sim_pieces_fini(&pool->holes);
    tidei_sim_lives_fini(&pool->lives);
    free(pool->done);
    tidei_lock_fini(&pool->lock);
}

/* All below is under the lock. */

/* All addresses become one free piece without memory, once. False: no memory. */
static bool
mempool_begin(struct tidei_sim_mempool *pool)
{
    if (pool->begin == 0)
        return true;
    if (!tidei_sim_pieces_reserve(&pool->pool) || !tidei_sim_pieces_reserve(&pool->holes))
        return false;
    tidei_sim_pieces_join(&pool->pool, pool->begin, TIDEI_SIM_END - pool->begin, 0);
    tidei_sim_pieces_join(&pool->holes, pool->begin, TIDEI_SIM_END - pool->begin, 0);
    pool->begin = 0;
    return true;
}

/* The place of a stream among those that are known. */
static size_t
mempool_stream_at(const struct tidei_sim_mempool *pool, tide_stream stream)
{
    size_t low = 0, high = pool->stream_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pool->streams[middle]->stream < stream)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The stream at that place, if it is the one; else NULL. */
static struct tidei_sim_stream *
mempool_known(const struct tidei_sim_mempool *pool, tide_stream stream, size_t i)
{
    return i < pool->stream_count && pool->streams[i]->stream == stream ? pool->streams[i] : NULL;
}

/* The stream, which is known from now on. NULL: no memory. */
static struct tidei_sim_stream *
mempool_stream(struct tidei_sim_mempool *pool, tide_stream stream)
{
    size_t i = mempool_stream_at(pool, stream);
    struct tidei_sim_stream *known = mempool_known(pool, stream, i);

    if (known != NULL || !tidei_grow(&pool->streams, &pool->stream_capacity, pool->stream_count, 1))
        return known;
    known = calloc(1, sizeof(*known));
    if (known == NULL)
        return NULL;
    known->stream = stream;
    known->number = pool->stream_count;
    memmove(&pool->streams[i + 1], &pool->streams[i], (pool->stream_count - i) * sizeof(*pool->streams));
    pool->streams[i] = known;
    pool->stream_count++;
    return known;
}

/* How many holes begin before `end`. */
static size_t
mempool_holes_before(const struct tidei_sim_mempool *pool, uint64_t end)
{
    return tidei_sim_pieces_at(&pool->holes, end);
}

/* How many bytes of [begin, end) have no memory. */
static uint64_t
mempool_missing(const struct tidei_sim_mempool *pool, uint64_t begin, uint64_t end)
{
    uint64_t missing = 0;

    for (size_t i = mempool_holes_before(pool, end); i-- > 0;) {
        const struct tidei_sim_piece *hole = &pool->holes.items[i];
        uint64_t hole_end = mempool_piece_end(hole);

        if (hole_end <= begin)
            break;
        missing += (hole_end < end ? hole_end : end) - (hole->address > begin ? hole->address : begin);
    }
    return missing;
}

/* The last memory of units that lie whole in [*begin, *end), side by side; false: there is none. */
static bool
mempool_memory(const struct tidei_sim_mempool *pool, uint64_t *begin, uint64_t *end)
{
    uint64_t first = tidei_sim_up(*begin, TIDEI_SIM_MEMPOOL_UNIT), last = mempool_down(*end);

    while (first < last) {
        size_t before = mempool_holes_before(pool, last);
        uint64_t hole_end = before > 0 ? mempool_piece_end(&pool->holes.items[before - 1]) : 0;

        if (hole_end < last) {
            *begin = hole_end > first ? hole_end : first;
            *end = last;
            return true;
        }
        last = pool->holes.items[before - 1].address;
    }
    return false;
}

/* What is not taken out of units: what the piece at `address` has up to `end`. */
struct mempool_kept {
    uint64_t address, end;
};

/*
 * Take the memory out of units that are free whole, from the highest addresses on, `most` bytes of it at most, or only
 * count it. Returns how much that is; without memory to note holes it is less.
 */
static uint64_t
mempool_strip(struct tidei_sim_mempool *pool, uint64_t most, struct mempool_kept kept, bool only_count)
{
    uint64_t sum = 0;

    for (size_t i = pool->pool.count; i-- > 0 && sum < most;) {
        const struct tidei_sim_piece *piece = &pool->pool.items[i];
        uint64_t first = piece->address == kept.address ? kept.end : piece->address;
        uint64_t begin = first, end = mempool_piece_end(piece);

        while (sum < most && mempool_memory(pool, &begin, &end)) {
            begin = end - begin > most - sum ? end - (most - sum) : begin;
            if (!only_count && !tidei_sim_pieces_reserve(&pool->holes))
                return sum;
            if (!only_count)
                tidei_sim_pieces_join(&pool->holes, begin, end - begin, 0);
            sum += end - begin;
            end = begin;
            begin = first;
        }
    }
    return sum;
}

/* Give the device the memory of units that are free whole, `most` bytes of it at most. */
static void
mempool_return(struct tidei_sim_mempool *pool, uint64_t most)
{
    uint64_t returned = mempool_strip(pool, most, (struct mempool_kept){ TIDEI_SIM_END, TIDEI_SIM_END }, false);

    if (returned == 0)
        return;
    tidei_figure_add(&pool->reserved_bytes, 0 - returned);
    tidei_sim_tally_return(pool->tally, returned);
}

static int
mempool_compare_later(const void *a, const void *b)
{
    uint64_t one = ((const struct tidei_sim_piece *)a)->since, other = ((const struct tidei_sim_piece *)b)->since;

    return (one < other) - (one > other);
}

/* The pieces of a stream go to the pool. Without memory for that some stay. Returns whether there were any. */
static bool
mempool_collect(struct tidei_sim_mempool *pool, struct tidei_sim_stream *stream)
{
    struct tidei_sim_pieces *pending = &stream->pending;
    size_t count = pending->count;

    if (count == 0 || !tidei_grow(&pool->done, &pool->done_capacity, 0, count))
        return false;
    memcpy(pool->done, pending->items, count * sizeof(*pool->done));
    qsort(pool->done, count, sizeof(*pool->done), mempool_compare_later);
    for (size_t i = 0; i < count && tidei_sim_pieces_reserve(&pool->pool); i++) {
        tidei_sim_pieces_remove(pending, tidei_sim_pieces_at(pending, pool->done[i].address));
        tidei_sim_pieces_join(&pool->pool, pool->done[i].address, pool->done[i].bytes, 0);
    }
    return true;
}

static bool
mempool_collect_all(struct tidei_sim_mempool *pool)
{
    bool any = false;

    for (size_t i = 0; i < pool->stream_count; i++)
        any = mempool_collect(pool, pool->streams[i]) || any;
    return any;
}

/* A set that has room for a block, and where. */
struct mempool_place {
    struct tidei_sim_pieces *pieces;
    uint64_t address;
};

/* The smallest piece of the pool that has room and all of its memory, as the last one never has. */
static bool
mempool_find_whole(struct tidei_sim_mempool *pool, uint64_t bytes, struct mempool_place *out)
{
    const struct tidei_sim_pieces *pieces = &pool->pool;

    for (size_t k = tidei_sim_pieces_fit(pieces, bytes); k < pieces->count; k++) {
        const struct tidei_sim_size *size = &pieces->sizes[k];

        if (mempool_missing(pool, size->address, size->address + size->bytes) == 0) {
            *out = (struct mempool_place){ &pool->pool, size->address };
            return true;
        }
    }
    return false;
}

/* The smallest piece of a stream's set that has room, of those that were freed up to a call. */
static bool
mempool_find_pending(struct tidei_sim_stream *stream, uint64_t bytes, uint64_t until, struct mempool_place *out)
{
    struct tidei_sim_pieces *pieces = &stream->pending;

    for (size_t k = tidei_sim_pieces_fit(pieces, bytes); k < pieces->count; k++) {
        uint64_t address = pieces->sizes[k].address;

        if (until == UINT64_MAX || pieces->items[tidei_sim_pieces_at(pieces, address)].since <= until) {
            *out = (struct mempool_place){ pieces, address };
            return true;
        }
    }
    return false;
}

/* What one stream has freed before the work of another. */
static uint64_t
mempool_behind(const struct tidei_sim_stream *stream, const struct tidei_sim_stream *earlier)
{
    return earlier->number < TIDEI_SIM_ORDERED ? stream->behind[earlier->number] : 0;
}

/* The same in the sets of other streams. */
static bool
mempool_find_other(struct tidei_sim_mempool *pool, const struct tidei_sim_stream *stream, uint64_t bytes,
                   struct mempool_place *out)
{
    for (size_t i = 0; i < pool->stream_count; i++) {
        struct tidei_sim_stream *other = pool->streams[i];

        if (other != stream && mempool_find_pending(other, bytes, mempool_behind(stream, other), out))
            return true;
    }
    for (size_t i = 0; i < pool->stream_count; i++) {
        if (pool->streams[i] != stream && mempool_find_pending(pool->streams[i], bytes, UINT64_MAX, out))
            return true;
    }
    return false;
}

/* Map memory where [begin, end), whole units, has none. Returns how much; without memory to note holes it is less. */
static uint64_t
mempool_map(struct tidei_sim_mempool *pool, uint64_t begin, uint64_t end, uint64_t need)
{
    uint64_t sum = 0;

    while (sum < need && tidei_sim_pieces_reserve(&pool->holes)) {
        size_t i = mempool_holes_before(pool, end) - 1;
        uint64_t hole = pool->holes.items[i].address, hole_end = mempool_piece_end(&pool->holes.items[i]);

        hole = hole > begin ? hole : begin;
        hole_end = hole_end < end ? hole_end : end;
        tidei_sim_pieces_cut(&pool->holes, i, hole, hole_end);
        sum += hole_end - hole;
    }
    return sum;
}

/* Have all of [begin, end), whole units, of the piece at `address`, in memory. */
static enum tide_status
mempool_fill(struct tidei_sim_mempool *pool, uint64_t address, uint64_t begin, uint64_t end, uint64_t capacity,
             uint64_t *missing)
{
    uint64_t reserved = tidei_figure_get(&pool->reserved_bytes), need = mempool_missing(pool, begin, end);
    struct mempool_kept kept = { address, end };
    uint64_t moved = mempool_strip(pool, need, kept, true), stripped, mapped;

    *missing = need - moved;
    if (need > moved && (need - moved > capacity || reserved > capacity - (need - moved)))
        return TIDE_ECAPACITY;
    stripped = mempool_strip(pool, moved, kept, false);
    mapped = stripped == moved ? mempool_map(pool, begin, end, need) : 0;
    tidei_figure_add(&pool->reserved_bytes, mapped - stripped);
    if (mapped < need)
        return TIDE_ENOMEM;
    if (moved > 0)
        tidei_sim_tally_map(pool->tally, moved / TIDEI_SIM_MEMPOOL_UNIT);
    if (*missing > 0)
        tidei_sim_tally_grow(pool->tally, *missing, reserved + *missing);
    return TIDE_OK;
}

/* The smallest piece of the pool that has room, with all the memory that it needs. */
static enum tide_status
mempool_extend(struct tidei_sim_mempool *pool, uint64_t bytes, uint64_t capacity, uint64_t *missing,
               struct mempool_place *out)
{
    size_t k;

    mempool_collect_all(pool);
    k = tidei_sim_pieces_fit(&pool->pool, bytes);
    if (k == pool->pool.count)
        return tide_error_set(TIDE_ENOMEM, "sim: no more addresses");
    *out = (struct mempool_place){ &pool->pool, pool->pool.sizes[k].address };
    return mempool_fill(pool, out->address, mempool_down(out->address),
                        tidei_sim_up(out->address + bytes, TIDEI_SIM_MEMPOOL_UNIT), capacity, missing);
}

static enum tide_status
mempool_take(struct tidei_sim_mempool *pool, uint64_t bytes, uint64_t word, struct tidei_sim_stream *stream,
             uint64_t capacity, uint64_t *missing, void **out)
{
    enum tide_status status = TIDE_OK;
    struct mempool_place place = { NULL, 0 };

    if (!mempool_find_pending(stream, bytes, UINT64_MAX, &place) && !mempool_find_whole(pool, bytes, &place) &&
        !mempool_find_other(pool, stream, bytes, &place))
        status = mempool_extend(pool, bytes, capacity, missing, &place);
    if (status != TIDE_OK)
        return status;
    if (!tidei_sim_pieces_reserve(place.pieces) || !tidei_sim_lives_add(&pool->lives, place.address, bytes, word))
        return TIDE_ENOMEM;
    tidei_sim_pieces_cut(place.pieces, tidei_sim_pieces_at(place.pieces, place.address), place.address,
                         place.address + bytes);
    *out = (void *)(uintptr_t)place.address;
    return TIDE_OK;
}

enum tide_status
tidei_sim_mempool_take(struct tidei_sim_mempool *pool, uint64_t bytes, uint64_t word, tide_stream stream,
                       uint64_t capacity_bytes, uint64_t *missing, void **out)
{
    enum tide_status status = TIDE_ENOMEM;
    struct tidei_sim_stream *known;

    tidei_lock_acquire(&pool->lock);
    pool->calls++;
    known = mempool_begin(pool) ? mempool_stream(pool, stream) : NULL;
    if (known != NULL)
        status = mempool_take(pool, tidei_sim_up(bytes, MEMPOOL_STEP), word, known, capacity_bytes, missing, out);
    if (status == TIDE_ENOMEM)
        tide_error_set(status, "sim: no memory to note %zu requests", pool->lives.count + 1);
    tidei_lock_release(&pool->lock);
    return status;
}

enum tide_status
tidei_sim_mempool_give(struct tidei_sim_mempool *pool, const void *pointer, uint64_t word, tide_stream stream)
{
    struct tidei_sim_stream *known;
    struct tidei_sim_life life;
    enum tide_status status;

    tidei_lock_acquire(&pool->lock);
    status = tidei_sim_lives_find(&pool->lives, pointer, word, &life);
    if (status == TIDE_OK) {
        known = mempool_stream(pool, stream);
        if (known == NULL || !tidei_sim_pieces_reserve(&known->pending))
            status = tide_error_set(TIDE_ENOMEM, "sim: no memory to free a block");
    }
    if (status == TIDE_OK) {
        tidei_sim_lives_remove(&pool->lives, &life);
        tidei_sim_pieces_join(&known->pending, life.address, life.bytes, ++pool->calls);
    }
    tidei_lock_release(&pool->lock);
    return status;
}

void
tidei_sim_mempool_order(struct tidei_sim_mempool *pool, tide_stream earlier, tide_stream later)
{
    struct tidei_sim_stream *first, *second;

    tidei_lock_acquire(&pool->lock);
    first = mempool_stream(pool, earlier);
    second = first != NULL ? mempool_stream(pool, later) : NULL;
    if (second != NULL) {
        for (size_t i = 0; i < TIDEI_SIM_ORDERED; i++)
            second->behind[i] = second->behind[i] > first->behind[i] ? second->behind[i] : first->behind[i];
        if (first->number < TIDEI_SIM_ORDERED)
            second->behind[first->number] = pool->calls;
    }
    tidei_lock_release(&pool->lock);
}

/* All that is asked for is done at once, so nobody has to wait for long. */
void
tidei_sim_mempool_await(struct tidei_sim_mempool *pool, struct tidei_await *await)
{
    tidei_lock_acquire(&pool->lock);
    for (size_t i = 0; i < await->count; i++) {
        size_t at = mempool_stream_at(pool, await->streams[i]);
        struct tidei_sim_stream *stream = mempool_known(pool, await->streams[i], at);

        if (stream != NULL && mempool_collect(pool, stream))
            mempool_return(pool, UINT64_MAX);
    }
    await->waited = await->vain = await->late = false;
    tidei_lock_release(&pool->lock);
}

void
tidei_sim_mempool_wait(struct tidei_sim_mempool *pool)
{
    tidei_lock_acquire(&pool->lock);
    if (mempool_collect_all(pool))
        mempool_return(pool, UINT64_MAX);
    tidei_lock_release(&pool->lock);
}

void
tidei_sim_mempool_trim(struct tidei_sim_mempool *pool, uint64_t keep_bytes)
{
    uint64_t reserved;

    tidei_lock_acquire(&pool->lock);
    tidei_figure_add(&pool->tally->trims, 1);
    reserved = tidei_figure_get(&pool->reserved_bytes);
    /* In whole units, so that no more goes back than that. */
    if (reserved > keep_bytes)
        mempool_return(pool, mempool_down(reserved - keep_bytes));
    tidei_lock_release(&pool->lock);
}
