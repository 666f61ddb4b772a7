/* The pieces of a heap: how they are found, and merge when they are freed; see heap.h. */
#include "src/suballoc/heap-parts.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"

/* Regions of the first size that the most bytes of all chunks have room for. */
#define HEAP_REGIONS_LEAST 16
/* Small pieces that a region has room for. */
#define HEAP_REGION_PIECES 4

/* What one call may need: a region and a piece on either side in chunk and region, and their freed_runs. */
#define HEAP_PIECES    6
#define HEAP_STRETCHES 8
#define HEAP_SPANS     2

static void
piece_number(void *item, uint32_t number)
{
    ((struct tidei_piece *)item)->number = number;
}

enum tide_status
tidei_heap_init(struct tidei_heap *heap, uint64_t granule, uint64_t step_bytes, uint64_t most_bytes)
{
    memset(heap, 0, sizeof(*heap));
    heap->first_region_bytes = TIDEI_HEAP_REGION_BYTES;
    while (heap->first_region_bytes > most_bytes / HEAP_REGIONS_LEAST && heap->first_region_bytes > granule)
        heap->first_region_bytes /= 2;
    heap->granule_log2 = tidei_log2(granule);
    heap->step_bytes = step_bytes;
    tidei_slab_init(&heap->pieces, sizeof(struct tidei_piece), piece_number);
    tidei_slab_init(&heap->spans, sizeof(struct tidei_span), NULL);
    tidei_streams_init(&heap->streams);
    tidei_freed_run_slab_init(&heap->freed_runs, &heap->streams);
    return tidei_piece_map_init(&heap->out, &heap->pieces);
}

void
tidei_heap_fini(struct tidei_heap *heap)
{
    tidei_piece_map_fini(&heap->out);
    tidei_streams_fini(&heap->streams);
    tidei_slab_fini(&heap->spans);
    tidei_slab_fini(&heap->freed_runs.items);
    tidei_slab_fini(&heap->pieces);
    free(heap->chunks);
}

bool
tidei_heap_reserve(struct tidei_heap *heap)
{
    return tidei_slab_reserve(&heap->pieces, HEAP_PIECES) &&
           tidei_slab_reserve(&heap->freed_runs.items, HEAP_STRETCHES) &&
           tidei_slab_reserve(&heap->spans, HEAP_SPANS) && tidei_piece_map_reserve(&heap->out) &&
           tidei_grow(&heap->chunks, &heap->chunk_capacity, heap->chunk_count + heap->chunks_away, 1);
}

uint64_t
tidei_heap_round(const struct tidei_heap *heap, uint64_t bytes, enum tidei_zone *zone)
{
    uint64_t granules = (bytes + (UINT64_C(1) << heap->granule_log2) - 1) >> heap->granule_log2;

    *zone = TIDEI_ZONE_LARGE;
    if (bytes <= TIDEI_HEAP_SMALL_BYTES)
        granules = tidei_class_round_up(granules);
    if (granules << heap->granule_log2 <= heap->first_region_bytes / HEAP_REGION_PIECES)
        *zone = TIDEI_ZONE_SMALL;
    return granules << heap->granule_log2;
}

/* Pieces. */

struct tidei_piece *
tidei_piece_new(struct tidei_heap *heap, struct tidei_span *span, uintptr_t address, uint64_t bytes)
{
    struct tidei_piece *piece = tidei_slab_take(&heap->pieces);
    uint64_t number = atomic_load_explicit(&piece->word, memory_order_relaxed) + TIDEI_PIECE_NUMBER_ONE;

    atomic_store_explicit(&piece->word, number & TIDEI_PIECE_NUMBER, memory_order_relaxed);
    atomic_store_explicit(&piece->address, address, memory_order_relaxed);
    piece->bytes = bytes;
    piece->span = span;
    piece->before = piece->after = NULL;
    piece->freed_runs.first = piece->freed_runs.last = NULL;
    piece->size_class = TIDEI_PIECE_NO_CLASS;
    return piece;
}

static bool
piece_is_whole(const struct tidei_piece *piece)
{
    return piece->before == NULL && piece->after == NULL;
}

/* A chunk that is free and may go. */
static bool
piece_is_chunk(const struct tidei_piece *piece)
{
    return piece->span->parent == NULL && !piece->span->keep && piece_is_whole(piece);
}

static void
span_list_add(struct tidei_heap *heap, struct tidei_span *span)
{
    span->newer = NULL;
    span->older = heap->newest;
    if (heap->newest != NULL)
        heap->newest->newer = span;
    else
        heap->oldest = span;
    heap->newest = span;
}

static void
span_list_remove(struct tidei_heap *heap, struct tidei_span *span)
{
    if (span->older != NULL)
        span->older->newer = span->newer;
    else
        heap->oldest = span->newer;
    if (span->newer != NULL)
        span->newer->older = span->older;
    else
        heap->newest = span->older;
}

void
tidei_heap_index_add(struct tidei_heap *heap, struct tidei_piece *piece)
{
    enum tidei_zone zone = piece->span->parent != NULL ? TIDEI_ZONE_SMALL : TIDEI_ZONE_LARGE;

    heap->free_count++;
    piece->own_stream = TIDEI_STREAMS_MOST;
    if (piece_is_chunk(piece)) {
        tidei_tree_add(&heap->free, piece, heap->granule_log2);
        span_list_add(heap, piece->span);
        return;
    }
    if (zone == TIDEI_ZONE_SMALL)
        tidei_classes_add(&heap->small, piece, heap->granule_log2, TIDEI_LINKS_FIT);
    else
        tidei_tree_add(&heap->large, piece, heap->granule_log2);
    piece->own_stream = (uint16_t)piece->freed_runs.first->stream;
    tidei_classes_add(&heap->streams.streams[piece->own_stream]->classes[zone], piece, heap->granule_log2,
                      TIDEI_LINKS_OWN);
}

void
tidei_heap_index_remove(struct tidei_heap *heap, struct tidei_piece *piece)
{
    enum tidei_zone zone = piece->span->parent != NULL ? TIDEI_ZONE_SMALL : TIDEI_ZONE_LARGE;

    heap->free_count--;
    if (piece_is_chunk(piece)) {
        tidei_tree_remove(&heap->free, piece, heap->granule_log2);
        span_list_remove(heap, piece->span);
        return;
    }
    if (zone == TIDEI_ZONE_SMALL)
        tidei_classes_remove(&heap->small, piece, heap->granule_log2, TIDEI_LINKS_FIT);
    else
        tidei_tree_remove(&heap->large, piece, heap->granule_log2);
    tidei_classes_remove(&heap->streams.streams[piece->own_stream]->classes[zone], piece, heap->granule_log2,
                         TIDEI_LINKS_OWN);
}

/* Merge `right` into `left`, its neighbour; both are in no index. */
static void
piece_merge(struct tidei_heap *heap, struct tidei_piece *left, struct tidei_piece *right)
{
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after != NULL)
        left->after->before = left;
    tidei_freed_runs_join(&heap->freed_runs, &left->freed_runs, &right->freed_runs);
    tidei_piece_set_state(right, TIDEI_PIECE_FREE);
    tidei_slab_give(&heap->pieces, right);
}

/* Regions. */

static void
region_end(struct tidei_heap *heap, struct tidei_span *region)
{
    struct tidei_piece *piece = region->first, *parent = region->parent;

    parent->freed_runs = piece->freed_runs;
    parent->size_class = TIDEI_PIECE_NO_CLASS;
    piece->freed_runs.first = piece->freed_runs.last = NULL;
    tidei_slab_give(&heap->pieces, piece);
    heap->region_bytes -= region->bytes;
    tidei_slab_give(&heap->spans, region);
}

static bool heap_put_stretches(struct tidei_heap *heap, struct tidei_piece *piece);

void
tidei_heap_region_release(struct tidei_heap *heap)
{
    struct tidei_span *region = heap->idle_region;
    struct tidei_piece *parent;

    if (region == NULL)
        return;
    parent = region->parent;
    heap->idle_region = NULL;
    tidei_heap_index_remove(heap, region->first);
    region_end(heap, region);
    heap_put_stretches(heap, parent);
}

/*
 * Free a piece that has its freed runs, with all that touches it. One free region is kept, so that a small request does
 * not make and end one again and again. True where a chunk became free.
 */
static bool
heap_put_stretches(struct tidei_heap *heap, struct tidei_piece *piece)
{
    struct tidei_piece *neighbour = piece->before;
    struct tidei_span *span = piece->span;

    tidei_piece_set_state(piece, TIDEI_PIECE_FREE);
    if (neighbour != NULL && tidei_piece_state(neighbour) == TIDEI_PIECE_FREE) {
        tidei_heap_index_remove(heap, neighbour);
        piece_merge(heap, neighbour, piece);
        piece = neighbour;
    }
    neighbour = piece->after;
    if (neighbour != NULL && tidei_piece_state(neighbour) == TIDEI_PIECE_FREE) {
        tidei_heap_index_remove(heap, neighbour);
        piece_merge(heap, piece, neighbour);
    }
    if (!piece_is_whole(piece) || span->parent == NULL) {
        tidei_heap_index_add(heap, piece);
        return piece_is_chunk(piece);
    }
    if (heap->idle_region == NULL) {
        heap->idle_region = span;
        tidei_heap_index_add(heap, piece);
        return false;
    }
    piece = span->parent;
    region_end(heap, span);
    return heap_put_stretches(heap, piece);
}

bool
tidei_heap_put_back(struct tidei_heap *heap, struct tidei_piece *piece)
{
    tidei_piece_map_remove(&heap->out, piece);
    heap->out_bytes -= piece->bytes;
    return heap_put_stretches(heap, piece);
}

void
tidei_heap_stretch_own(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream)
{
    /* The one that was kept for this, which held no stream. */
    struct tidei_freed_run *freed_run = piece->freed_runs.first;

    freed_run->bytes = piece->bytes;
    freed_run->epoch = heap->streams.epoch;
    freed_run->stream = stream;
    tidei_streams_hold(&heap->streams, stream);
}

bool
tidei_heap_put(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream)
{
    tidei_heap_stretch_own(heap, piece, stream);
    return tidei_heap_put_back(heap, piece);
}
