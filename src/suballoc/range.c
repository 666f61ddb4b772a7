/* Joins chunks that touch, and finds where others would have to lie; see range.h. */
#include "src/suballoc/range.h"

#include <stdlib.h>
#include <string.h>

#include "src/suballoc/heap-inner.h"
#include "src/tables/grow.h"

/* A gap's mark that upstream places no chunk there stands in the field of its stream. */
#define GAP_REFUSED 1

static uintptr_t
piece_end(const struct tidei_piece *piece)
{
    return tidei_piece_address(piece) + piece->bytes;
}

static bool
is_gap(const struct tidei_piece *piece)
{
    return piece != NULL && piece->size_class == TIDEI_PIECE_GAP;
}

static uint64_t
page_down(const struct tidei_heap *heap, uint64_t bytes)
{
    return bytes & ~(heap->range.page_bytes - 1);
}

static uint64_t
page_up(const struct tidei_heap *heap, uint64_t bytes)
{
    return page_down(heap, bytes + heap->range.page_bytes - 1);
}

/* Gaps. */

static void
gap_mark(struct tidei_piece *piece)
{
    piece->size_class = TIDEI_PIECE_GAP;
    piece->own_stream = 0;
    tidei_piece_set_word(piece, TIDEI_PIECE_MOVING);
}

/* The first gap that ends behind the address: there is one, as no memory lies at the end of all addresses. */
static size_t
gaps_at(const struct tidei_heap *heap, uintptr_t address)
{
    size_t low = 0, high = heap->range.gap_count - 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (piece_end(heap->range.gaps[middle]) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void
gaps_insert(struct tidei_range *range, size_t i, struct tidei_piece *gap)
{
    memmove(&range->gaps[i + 1], &range->gaps[i], (range->gap_count - i) * sizeof(range->gaps[0]));
    range->gaps[i] = gap;
    range->gap_count++;
}

static void
gaps_remove(struct tidei_range *range, size_t i)
{
    range->gap_count--;
    memmove(&range->gaps[i], &range->gaps[i + 1], (range->gap_count - i) * sizeof(range->gaps[0]));
}

bool
tidei_range_init(struct tidei_heap *heap, uint64_t page_bytes)
{
    struct tidei_range *range = &heap->range;
    struct tidei_piece *gap;

    if (!tidei_slab_reserve(&heap->pieces, 1) || !tidei_grow(&range->gaps, &range->gap_capacity, 0, 1))
        return false;
    range->page_bytes = page_bytes;
    range->span.zone = TIDEI_ZONE_LARGE;
    range->span.keep = true; /* no piece of it is a free chunk */
    gap = tidei_heap_piece_new(heap, &range->span, page_bytes, page_down(heap, UINT64_MAX - 2 * page_bytes));
    gap_mark(gap);
    range->span.first = gap;
    gaps_insert(range, 0, gap);
    return true;
}

void
tidei_range_fini(struct tidei_heap *heap)
{
    free(heap->range.gaps);
}

bool
tidei_range_reserve(struct tidei_heap *heap)
{
    struct tidei_range *range = &heap->range;

    return tidei_heap_reserve(heap) &&
           tidei_grow(&range->gaps, &range->gap_capacity, range->gap_count + heap->chunks_away, 1);
}

bool
tidei_range_is_gap(const struct tidei_heap *heap, uintptr_t base, uint64_t bytes)
{
    const struct tidei_piece *gap = heap->range.gaps[gaps_at(heap, base)];

    return base >= tidei_piece_address(gap) && base < piece_end(gap) && bytes <= piece_end(gap) - base;
}

void
tidei_range_refused(struct tidei_heap *heap, uintptr_t address)
{
    struct tidei_piece *gap = heap->range.gaps[gaps_at(heap, address)];

    if (tidei_piece_address(gap) <= address)
        gap->own_stream = GAP_REFUSED;
}

/* Chunks. */

/* Link `other` before `piece`. */
static void
link_before(struct tidei_heap *heap, struct tidei_piece *piece, struct tidei_piece *other)
{
    other->before = piece->before;
    other->after = piece;
    if (piece->before != NULL)
        piece->before->after = other;
    else
        heap->range.span.first = other;
    piece->before = other;
}

/* Cut the piece of a chunk out of the gap in which it lies. */
static struct tidei_piece *
gap_cut(struct tidei_heap *heap, uintptr_t base, uint64_t bytes)
{
    struct tidei_range *range = &heap->range;
    size_t i = gaps_at(heap, base);
    struct tidei_piece *gap = range->gaps[i], *chunk, *rest;
    uint64_t offset = base - tidei_piece_address(gap), behind = gap->bytes - offset - bytes;

    gap->own_stream = 0;
    if (offset == 0 && behind == 0) {
        gaps_remove(range, i);
        gap->size_class = TIDEI_PIECE_NO_CLASS;
        return gap;
    }
    chunk = tidei_heap_piece_new(heap, &range->span, base, bytes);
    if (offset == 0) {
        link_before(heap, gap, chunk);
        atomic_store_explicit(&gap->address, base + bytes, memory_order_relaxed);
        gap->bytes = behind;
        return chunk;
    }
    tidei_heap_link_after(gap, chunk);
    gap->bytes = offset;
    if (behind == 0)
        return chunk;
    rest = tidei_heap_piece_new(heap, &range->span, base + bytes, behind);
    gap_mark(rest);
    tidei_heap_link_after(chunk, rest);
    gaps_insert(range, i + 1, rest);
    return chunk;
}

struct tidei_piece *
tidei_range_add(struct tidei_heap *heap, uintptr_t base, uint64_t bytes, uint32_t stream, bool keep)
{
    struct tidei_span *span = tidei_slab_take(&heap->spans);
    struct tidei_piece *piece = gap_cut(heap, base, bytes);

    *span = (struct tidei_span){ .base = base, .bytes = bytes, .zone = TIDEI_ZONE_LARGE, .keep = keep };
    tidei_heap_chunks_insert(heap, span);
    if (heap->range.lowest == 0 || base < heap->range.lowest)
        heap->range.lowest = base;
    tidei_heap_piece_freed(heap, piece, stream);
    tidei_piece_set_word(piece, TIDEI_PIECE_MOVING);
    piece->size_class = TIDEI_PIECE_HELD;
    return piece;
}

void
tidei_range_free(struct tidei_heap *heap, struct tidei_piece *piece)
{
    piece->size_class = TIDEI_PIECE_NO_CLASS;
    tidei_heap_free_held(heap, piece);
}

/* The gap that is left where a chunk was: it merges with the gaps on either side. */
static void
gap_new(struct tidei_heap *heap, struct tidei_piece *piece)
{
    struct tidei_range *range = &heap->range;
    size_t i = gaps_at(heap, tidei_piece_address(piece));
    struct tidei_piece *before = piece->before, *after = piece->after;

    gap_mark(piece);
    if (is_gap(before)) {
        before->bytes += piece->bytes;
        before->own_stream = 0;
        before->after = after;
        after->before = before; /* the last gap lies behind all chunks */
        tidei_piece_set_word(piece, TIDEI_PIECE_FREE);
        tidei_slab_give(&heap->pieces, piece);
        piece = before;
    } else {
        gaps_insert(range, i, piece);
    }
    if (is_gap(after)) {
        gaps_remove(range, gaps_at(heap, tidei_piece_address(after)));
        piece->bytes += after->bytes;
        piece->after = after->after;
        if (piece->after != NULL)
            piece->after->before = piece;
        tidei_piece_set_word(after, TIDEI_PIECE_FREE);
        tidei_slab_give(&heap->pieces, after);
    }
}

/*
 * A chunk within the free piece: at its end, or at its beginning where a gap lies before it, so that what is left of
 * the piece stays in one.
 */
static struct tidei_span *
chunk_within(const struct tidei_heap *heap, const struct tidei_piece *piece, bool all, uint64_t most_bytes)
{
    size_t low = tidei_heap_chunks_at(heap, tidei_piece_address(piece));
    size_t high = tidei_heap_chunks_at(heap, piece_end(piece) - 1) + 1;

    if (heap->chunks[low]->base < tidei_piece_address(piece))
        low++;
    if (heap->chunks[high - 1]->base + heap->chunks[high - 1]->bytes > piece_end(piece))
        high--;
    for (size_t i = low; i < high; i++) {
        struct tidei_span *chunk = heap->chunks[is_gap(piece->before) ? i : low + high - 1 - i];

        if (chunk->bytes <= most_bytes && (all || !chunk->keep))
            return chunk;
    }
    return NULL;
}

/* The smallest free piece that has such a chunk, which *out is; NULL where there is none. */
static struct tidei_piece *
piece_with_chunk(const struct tidei_heap *heap, bool all, uint64_t most_bytes, struct tidei_span **out)
{
    uint64_t least = heap->range.page_bytes;
    struct tidei_piece *first, *piece;

    while ((first = tidei_tree_find(&heap->large, least, heap->granule_log2)) != NULL) {
        piece = first;
        do {
            *out = chunk_within(heap, piece, all, most_bytes);
            if (*out != NULL)
                return piece;
            piece = piece->next;
        } while (piece != first);
        least = first->bytes + 1;
    }
    return NULL;
}

struct tidei_piece *
tidei_range_chunk_take(struct tidei_heap *heap, bool all, uint64_t most_bytes)
{
    struct tidei_span *chunk;
    struct tidei_piece *piece;

    if (all)
        tidei_heap_region_release(heap);
    if (!tidei_range_reserve(heap))
        return NULL;
    piece = piece_with_chunk(heap, all, most_bytes, &chunk);
    if (piece == NULL)
        return NULL;
    tidei_heap_chunks_remove(heap, chunk);
    heap->chunks_away++;
    piece = tidei_heap_hold(heap, piece, chunk->base - tidei_piece_address(piece), chunk->bytes);
    piece->span = chunk; /* for the time that it is out */
    return piece;
}

void
tidei_range_chunk_put_back(struct tidei_heap *heap, struct tidei_piece *chunk)
{
    heap->chunks_away--;
    tidei_heap_chunks_insert(heap, chunk->span);
    chunk->span = &heap->range.span;
    tidei_range_free(heap, chunk);
}

void
tidei_range_chunk_forget(struct tidei_heap *heap, struct tidei_piece *chunk)
{
    heap->chunks_away--;
    tidei_slab_give(&heap->spans, chunk->span);
    chunk->span = &heap->range.span;
    tidei_heap_runs_free(heap, chunk);
    gap_new(heap, chunk);
}

/* Windows. */

/* Whether chunks may be placed in the gap. The first gap ends below all that upstream ever gave. */
static bool
gap_is_place(const struct tidei_heap *heap, const struct tidei_piece *piece)
{
    return is_gap(piece) && piece->own_stream != GAP_REFUSED && piece_end(piece) > heap->range.lowest;
}

static bool
may_hold(const struct tidei_heap *heap, const struct tidei_piece *piece)
{
    return piece != NULL && (tidei_heap_is_free(piece) || gap_is_place(heap, piece));
}

/* Where the piece begins for windows. */
static uintptr_t
place_begin(const struct tidei_heap *heap, const struct tidei_piece *piece)
{
    uintptr_t begin = tidei_piece_address(piece);

    return is_gap(piece) && begin < heap->range.lowest ? heap->range.lowest : begin;
}

/*
 * The window of `bytes` from `begin`, which lies in `piece`, a piece of a row of free ones and gaps. False where the
 * row is too short.
 */
static bool
window_from(const struct tidei_heap *heap, const struct tidei_piece *piece, uintptr_t begin, uint64_t bytes,
            struct tidei_window *out)
{
    uint64_t left = bytes;

    *out = (struct tidei_window){ .begin = begin, .bytes = bytes };
    for (; left > 0; piece = piece->after) {
        uint64_t part;

        if (!may_hold(heap, piece))
            return false;
        part = piece_end(piece) - begin < left ? piece_end(piece) - begin : left;
        if (is_gap(piece))
            out->missing_bytes += page_up(heap, part);
        begin += part;
        left -= part;
    }
    return true;
}

/* The window of `bytes` that ends where `piece`, a free one, ends; its row begins at `first`. */
static bool
window_up_to(const struct tidei_heap *heap, const struct tidei_piece *first, const struct tidei_piece *piece,
             uint64_t bytes, struct tidei_window *out)
{
    uintptr_t end = piece_end(piece), begin = end - bytes;

    if (end < bytes || begin < place_begin(heap, first))
        return false;
    while (begin < tidei_piece_address(piece))
        piece = piece->before;
    if (is_gap(piece))
        begin = page_down(heap, begin);
    return window_from(heap, piece, begin, end - begin, out);
}

/* Compare the windows in the row that begins at `first` with the best one so far. */
static void
windows_of_row(const struct tidei_heap *heap, const struct tidei_piece *first, uint64_t bytes,
               struct tidei_window *best)
{
    struct tidei_window window;

    for (const struct tidei_piece *piece = first; may_hold(heap, piece); piece = piece->after) {
        if (window_from(heap, piece, place_begin(heap, piece), bytes, &window) &&
            window.missing_bytes < best->missing_bytes)
            *best = window;
        if (!is_gap(piece) && window_up_to(heap, first, piece, bytes, &window) &&
            window.missing_bytes < best->missing_bytes)
            *best = window;
    }
}

/* Hold the free pieces of the window, or what lies in it of them. */
static void
window_hold(struct tidei_heap *heap, struct tidei_window *window)
{
    size_t i = gaps_at(heap, window->begin);
    struct tidei_piece *piece = heap->range.gaps[i];

    while (tidei_piece_address(piece) > window->begin)
        piece = piece->before;
    for (; piece != NULL && tidei_piece_address(piece) < window->begin + window->bytes; piece = piece->after) {
        uintptr_t begin = tidei_piece_address(piece), end = piece_end(piece);

        if (is_gap(piece))
            continue;
        if (begin < window->begin)
            begin = window->begin;
        if (end > window->begin + window->bytes)
            end = window->begin + window->bytes;
        piece = tidei_heap_hold(heap, piece, begin - tidei_piece_address(piece), end - begin);
        piece->size_class = TIDEI_PIECE_HELD;
        if (window->first == NULL)
            window->first = piece;
    }
}

bool
tidei_range_window(struct tidei_heap *heap, uint64_t bytes, bool at_end, struct tidei_window *out)
{
    const struct tidei_range *range = &heap->range;

    *out = (struct tidei_window){ .missing_bytes = UINT64_MAX };
    for (size_t i = at_end ? range->gap_count - 1 : 0; range->lowest != 0 && i < range->gap_count; i++) {
        const struct tidei_piece *first = range->gaps[i];

        if (!gap_is_place(heap, first))
            continue;
        if (first->before != NULL && tidei_heap_is_free(first->before))
            first = first->before;
        if (!at_end && !is_gap(first) && gap_is_place(heap, first->before))
            continue; /* its row began at an earlier gap */
        windows_of_row(heap, first, bytes, out);
    }
    if (out->missing_bytes == UINT64_MAX)
        return false;
    window_hold(heap, out);
    return true;
}

bool
tidei_range_gap(const struct tidei_heap *heap, const struct tidei_window *window, struct tidei_range_gap *out)
{
    const struct tidei_piece *gap = heap->range.gaps[gaps_at(heap, window->begin)];
    uintptr_t end = window->begin + window->bytes;

    if (tidei_piece_address(gap) >= end)
        return false;
    out->begin = tidei_piece_address(gap) > window->begin ? tidei_piece_address(gap) : window->begin;
    out->bytes = page_up(heap, (piece_end(gap) < end ? piece_end(gap) : end) - out->begin);
    out->room_bytes = piece_end(gap) - out->begin;
    out->at_end = gap->after == NULL;
    return true;
}

void
tidei_range_window_add(struct tidei_window *window, struct tidei_piece *piece)
{
    if (window->first == NULL || tidei_piece_address(piece) < tidei_piece_address(window->first))
        window->first = piece;
}

void
tidei_range_release(struct tidei_heap *heap, struct tidei_window *window)
{
    uintptr_t end = window->begin + window->bytes;
    struct tidei_piece *piece = window->first, *next;

    for (; piece != NULL; piece = next) {
        next = piece->after;
        while (next != NULL && next->size_class != TIDEI_PIECE_HELD)
            next = tidei_piece_address(next) < end ? next->after : NULL;
        tidei_range_free(heap, piece);
    }
    window->first = NULL;
}
