/*
 * Grows a chunk heap in place, where upstream's chunks may be joined: only what is missing beside free memory is asked
 * for. Before the heap would hold more than it ever has, it returns free chunks out of holes, one for each that it asks
 * for, and so has their pages mapped where they are needed.
 *
 * One thread at a time does this. The others wait, as what it gets may serve them, too.
 */
#include <sched.h>

#include "src/suballoc/chunk-heap-inner.h"
#include "src/suballoc/range.h"

/*
 * Upstream is asked for parts of a share of what is reserved then. A part is what can be moved later, and what lies in
 * a hole smaller than a part cannot be moved. So small parts hold the least memory. Each costs some tens of
 * microseconds, in the first growth once, and then for each move. So the parts are twice as large where moving goes on
 * and on (tidei_chunk_heap_pay). Peak reserved over peak live, and the parts asked for, of
 * torch_generate, torch_gpt2, maskrcnn_infer and multistream_sort: 1.026 with 936, 1.047 with 2,002, 1.017 with 1,438,
 * 1.182 with 1,691; with parts of a 64th, up to 16 MiB: 1.102 with 292, 1.048 with 1,045, 1.024 with 598, 1.212 with
 * 3,006. Parts four times as large in place of twice: multistream_sort 1.290 with 814.
 */
#define PAGES_UNIT_SHARE 512
#define PAGES_UNIT_LEAST (UINT64_C(2) << 20)
#define PAGES_UNIT_MOST  (UINT64_C(64) << 20)

/*
 * What was ever in use, and this share above it, may be held before anything is moved: a loop of equal steps then comes
 * to rest sooner (torch_gpt2 after 19 of its 35 steps, with 1,045 calls of upstream instead of 1,176).
 */
#define PAGES_SLACK_SHARE 128

/* Attempts that may have a chunk elsewhere than wished; then the request gets one of its own. */
#define PAGES_MISSED_MOST 2

/* What one request has upstream map. */
struct growth {
    struct tidei_chunk_heap *chunk_heap;
    const struct tidei_heap_request *request;
    struct tidei_window window;
    bool elsewhere; /* a chunk came to lie where it does not help */
};

static uint64_t
between(uint64_t least, uint64_t bytes, uint64_t most)
{
    return bytes < least ? least : bytes > most ? most : bytes;
}

static uint64_t
pages_up(const struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t page = chunk_heap->heap.range.page_bytes;

    return (bytes + page - 1) & ~(page - 1);
}

/* The size of the parts in which upstream is asked for `missing` bytes. */
static uint64_t
pages_unit(const struct tidei_chunk_heap *chunk_heap, uint64_t missing)
{
    uint64_t reserved = tidei_chunk_heap_reserved(chunk_heap) + missing;
    uint64_t unit = between(PAGES_UNIT_LEAST, reserved / PAGES_UNIT_SHARE, PAGES_UNIT_MOST);

    if (chunk_heap->restless)
        unit *= 2;
    if (unit < chunk_heap->options.growth_bytes)
        unit = chunk_heap->options.growth_bytes;
    return pages_up(chunk_heap, unit);
}

/* Get a chunk, which is held; `wish` as for tidei_chunk_heap_ask. */
static enum tide_status
pages_ask(struct growth *growth, uint64_t bytes, uintptr_t wish, struct tidei_piece **out)
{
    struct tidei_chunk_heap *chunk_heap = growth->chunk_heap;
    enum tide_status status = tidei_chunk_heap_count(chunk_heap, bytes);
    uintptr_t address;

    *out = NULL;
    if (status != TIDE_OK)
        return status;
    status = tidei_chunk_heap_ask(chunk_heap, bytes, growth->request->stream, wish, &address);
    if (status != TIDE_OK) {
        atomic_fetch_sub_explicit(&chunk_heap->reserved, bytes, memory_order_relaxed); /* as tidei_bounded_add */
        return status;
    }
    *out = tidei_range_add(&chunk_heap->heap, address, bytes, growth->request->stream, false);
    tidei_figure_add(&chunk_heap->grown, 1);
    tidei_chunk_heap_hold(chunk_heap, bytes);
    return TIDE_OK;
}

/* Whether upstream, or the maximum, has refused memory, which returning free chunks may help. */
static bool
is_refusal(enum tide_status status)
{
    return status != TIDE_OK && status != TIDE_ENOMEM && status != TIDE_EUPSTREAM;
}

/* The bytes that may be reserved before free chunks are moved. */
static uint64_t
pages_limit(const struct tidei_chunk_heap *chunk_heap)
{
    uint64_t limit = tidei_chunk_heap_limit(chunk_heap), used = chunk_heap->used_peak_bytes;

    used += used / PAGES_SLACK_SHARE;
    return limit > used ? limit : used;
}

/* Return free chunks, so that as much can be mapped elsewhere: `bytes`, or more by a part of the last one, or less. */
static uint64_t
pages_return(struct tidei_chunk_heap *chunk_heap, uint64_t bytes)
{
    uint64_t returned = 0, chunk_bytes, moves = 0;

    while (returned < bytes && (chunk_bytes = tidei_chunk_heap_return_one(chunk_heap, false, UINT64_MAX)) != 0) {
        returned += chunk_bytes;
        moves++;
    }
    tidei_figure_add(&chunk_heap->remapped, moves);
    tidei_chunk_heap_pay(chunk_heap, moves);
    return returned;
}

/*
 * Choose how much to ask for at the gap. Where too much would be reserved, free chunks are returned, and as much asked
 * for, so that a base that keeps its pages can map the same ones; where there is none, no more than is missing.
 */
static uint64_t
pages_part(struct growth *growth, const struct tidei_range_gap *gap)
{
    struct tidei_chunk_heap *chunk_heap = growth->chunk_heap;
    uint64_t unit = pages_unit(chunk_heap, gap->bytes), bytes = gap->bytes < unit ? gap->bytes : unit, moved;
    uint64_t wanted = gap->at_end && unit <= gap->room_bytes ? unit : bytes;

    if (tidei_chunk_heap_reserved(chunk_heap) + wanted <= pages_limit(chunk_heap))
        return wanted;
    moved = pages_return(chunk_heap, bytes);
    return moved != 0 && moved <= (gap->at_end ? gap->room_bytes : gap->bytes) ? moved : bytes;
}

/* Have the first part of a gap filled. */
static enum tide_status
pages_fill_part(struct growth *growth, const struct tidei_range_gap *gap)
{
    struct tidei_chunk_heap *chunk_heap = growth->chunk_heap;
    uint64_t bytes = pages_part(growth, gap);
    struct tidei_piece *piece;
    enum tide_status status;

    for (;;) {
        status = pages_ask(growth, bytes, gap->begin, &piece);
        if (!is_refusal(status))
            break;
        if (bytes > gap->bytes) {
            bytes = gap->bytes;
            continue;
        }
        if (tidei_chunk_heap_return_one(chunk_heap, true, UINT64_MAX) == 0)
            break;
        tidei_figure_add(&chunk_heap->remapped, 1);
    }
    if (status != TIDE_OK)
        return status;
    growth->elsewhere = tidei_piece_address(piece) != gap->begin;
    if (growth->elsewhere) {
        tidei_range_free(&chunk_heap->heap, piece);
        tidei_range_refused(&chunk_heap->heap, gap->begin);
    } else {
        tidei_range_window_add(&growth->window, piece);
    }
    return TIDE_OK;
}

/* Have the gaps of a window filled, one part after the other. */
static enum tide_status
pages_fill(struct growth *growth)
{
    struct tidei_heap *heap = &growth->chunk_heap->heap;
    enum tide_status status = TIDE_OK;
    struct tidei_range_gap gap;

    while (status == TIDE_OK && !growth->elsewhere && tidei_range_gap(heap, &growth->window, &gap))
        status = pages_fill_part(growth, &gap);
    tidei_range_release(heap, &growth->window);
    return status;
}

/* Get one chunk that serves the whole request, wherever it lies. */
static enum tide_status
pages_alone(struct growth *growth, uint64_t bytes, struct tidei_piece **out)
{
    struct tidei_chunk_heap *chunk_heap = growth->chunk_heap;
    struct tidei_piece *piece;
    enum tide_status status;

    bytes = pages_up(chunk_heap, bytes);
    while (tidei_chunk_heap_reserved(chunk_heap) + bytes > tidei_chunk_heap_limit(chunk_heap) &&
           tidei_chunk_heap_return_one(chunk_heap, false, UINT64_MAX) != 0)
        ;
    do {
        status = pages_ask(growth, bytes, 0, &piece);
    } while (is_refusal(status) && tidei_chunk_heap_return_one(chunk_heap, true, UINT64_MAX) != 0);
    if (status != TIDE_OK)
        return status;
    status = tidei_chunk_heap_reserve(chunk_heap);
    if (status == TIDE_OK)
        *out = tidei_heap_take_held(&chunk_heap->heap, piece, growth->request);
    else
        tidei_range_free(&chunk_heap->heap, piece);
    return status;
}

/* The first chunk, beside which others are wished for. */
static enum tide_status
pages_first(struct growth *growth, uint64_t bytes)
{
    struct tidei_piece *piece;
    enum tide_status status = pages_ask(growth, pages_unit(growth->chunk_heap, bytes), 0, &piece);

    if (is_refusal(status))
        status = pages_ask(growth, pages_up(growth->chunk_heap, bytes), 0, &piece);
    if (status == TIDE_OK)
        tidei_range_free(&growth->chunk_heap->heap, piece);
    return status;
}

/* Wait for a thread that has upstream map something. False where there is none. */
static bool
pages_await(struct tidei_chunk_heap *chunk_heap)
{
    if (!chunk_heap->growing)
        return false;
    while (chunk_heap->growing) {
        TIDEI_TEST_POINT("chunk-heap.awaits-growth");
        tidei_lock_release(&chunk_heap->lock);
        sched_yield();
        tidei_lock_acquire(&chunk_heap->lock);
    }
    return true;
}

/*
 * One attempt, after `missed` ones that had a chunk where it did not help. The base may still have the addresses of a
 * chunk that went back a moment ago, so then others are asked for behind all chunks only. At last the request gets a
 * chunk of its own; else its piece is taken afterwards.
 */
static enum tide_status
pages_attempt(struct growth *growth, uint64_t bytes, unsigned missed, struct tidei_piece **out)
{
    struct tidei_chunk_heap *chunk_heap = growth->chunk_heap;
    enum tide_status status = tidei_chunk_heap_reserve(chunk_heap);

    if (status != TIDE_OK)
        return status;
    growth->elsewhere = false;
    chunk_heap->growing = true;
    if (chunk_heap->used_peak_bytes < chunk_heap->heap.out_bytes + bytes)
        chunk_heap->used_peak_bytes = chunk_heap->heap.out_bytes + bytes;
    if (missed > PAGES_MISSED_MOST)
        status = pages_alone(growth, bytes, out);
    else if (tidei_range_window(&chunk_heap->heap, bytes, missed > 0, &growth->window))
        status = pages_fill(growth);
    else if (chunk_heap->heap.chunk_count == 0)
        status = pages_first(growth, bytes);
    else
        growth->elsewhere = true;
    chunk_heap->growing = false;
    return status;
}

enum tide_status
tidei_chunk_heap_grow_pages(struct tidei_chunk_heap *chunk_heap, const struct tidei_heap_request *request,
                            uint64_t bytes, struct tidei_piece **out)
{
    struct growth growth = { .chunk_heap = chunk_heap, .request = request };
    enum tide_status status;
    unsigned missed = 0;
    bool first;

    for (;;) {
        while (pages_await(chunk_heap)) {
            status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
            if (status != TIDE_OK || *out != NULL)
                return status;
        }
        first = chunk_heap->heap.chunk_count == 0;
        status = pages_attempt(&growth, bytes, missed, out);
        if (status != TIDE_OK)
            return status;
        missed += growth.elsewhere;
        if (*out != NULL)
            *out = tidei_chunk_heap_take_over(chunk_heap, *out, request);
        else
            status = tidei_chunk_heap_take_hard(chunk_heap, request, out);
        if (status != TIDE_OK || *out != NULL)
            return status;
        /* The memory is of a stream that cannot be waited for, or another thread took it. */
        if (!growth.elsewhere && !first)
            missed = PAGES_MISSED_MOST + 1;
    }
}
