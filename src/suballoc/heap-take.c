/* Where a heap takes pieces from, and for which streams they have to wait; see heap.h. */
#include "src/suballoc/heap-parts.h"

/* A free chunk is cut for a request that leaves less than a quarter of the request's size. */
#define HEAP_CUT_MOST(bytes) ((bytes) + (bytes) / 4)
/* A piece of the own stream is preferred where it is no larger than that, of what fits best. */
#define HEAP_OWN_MOST(bytes) ((bytes) + (bytes) / 4)
/* Free chunks of one size that are looked at for one of the own stream. */
#define HEAP_RING_TRIES 8

static void
piece_link_after(struct tidei_piece *piece, struct tidei_piece *other)
{
    other->before = piece;
    other->after = piece->after;
    if (piece->after != NULL)
        piece->after->before = other;
    piece->after = other;
}

/* Take the bytes from `offset` out of a free piece that is in no index, and leave what is before and behind free. */
static void
piece_cut(struct tidei_heap *heap, struct tidei_piece **cut, uint64_t offset, uint64_t bytes)
{
    struct tidei_piece *piece = *cut;
    uint64_t behind = piece->bytes - offset - bytes;
    struct tidei_piece *other;

    if (behind > 0) {
        other = tidei_piece_new(heap, piece->span, tidei_piece_address(piece) + offset + bytes, behind);
        tidei_freed_runs_move_last(&heap->freed_runs, &piece->freed_runs, behind, &other->freed_runs);
        piece->bytes -= behind;
        piece_link_after(piece, other);
    }
    if (offset > 0) {
        other = tidei_piece_new(heap, piece->span, tidei_piece_address(piece) + offset, bytes);
        tidei_freed_runs_move_last(&heap->freed_runs, &piece->freed_runs, bytes, &other->freed_runs);
        piece->bytes = offset;
        piece_link_after(piece, other);
        *cut = other;
    }
    /* Now that the neighbours are known: a chunk is free only where its piece is whole. */
    if (offset > 0)
        tidei_heap_index_add(heap, piece);
    if (behind > 0)
        tidei_heap_index_add(heap, (*cut)->after);
}

/* What a free piece has to have so that the request fits wherever it begins. */
static uint64_t
request_need(const struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    return request->bytes + request->alignment - (UINT64_C(1) << heap->granule_log2);
}

/* One of the own stream in place of `best`, where it is not much larger. */
static struct tidei_piece *
heap_prefer_own(struct tidei_heap *heap, const struct tidei_heap_request *request, enum tidei_zone zone,
                struct tidei_piece *best)
{
    struct tidei_classes *classes = &heap->streams.streams[request->stream]->classes[zone];
    struct tidei_piece *own;

    if (best->own_stream == request->stream)
        return best;
    own = tidei_classes_find(classes, request_need(heap, request), heap->granule_log2, TIDEI_LINKS_OWN);
    return own != NULL && own->bytes <= HEAP_OWN_MOST(best->bytes) ? own : best;
}

/* A chunk that is free, of the own stream where several have the size. */
static struct tidei_piece *
heap_find_chunk(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_piece *best = tidei_tree_find(&heap->free, request_need(heap, request), heap->granule_log2);
    struct tidei_piece *piece = best;

    if (best == NULL)
        return NULL;
    if (!request->last_resort && best->bytes > heap->step_bytes && best->bytes > HEAP_CUT_MOST(request->bytes))
        return NULL;
    for (int tries = 0; tries < HEAP_RING_TRIES && piece->freed_runs.first->stream != request->stream; tries++) {
        piece = piece->next;
        if (piece == best)
            break;
    }
    return piece->freed_runs.first->stream == request->stream ? piece : best;
}

static struct tidei_piece *
heap_find_large(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_piece *best = tidei_tree_find(&heap->large, request_need(heap, request), heap->granule_log2);

    return best != NULL ? heap_prefer_own(heap, request, TIDEI_ZONE_LARGE, best) : heap_find_chunk(heap, request);
}

static struct tidei_piece *
heap_find_small(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_piece *best =
        tidei_classes_find(&heap->small, request_need(heap, request), heap->granule_log2, TIDEI_LINKS_FIT);

    return best != NULL ? heap_prefer_own(heap, request, TIDEI_ZONE_SMALL, best) : NULL;
}

/*
 * Take the request's bytes out of a free piece: the first ones, or the last where those are of the request's stream
 * and the first are not. It is MOVING, and in no table.
 */
static struct tidei_piece *
heap_take_from(struct tidei_heap *heap, struct tidei_piece *piece, const struct tidei_heap_request *request)
{
    uintptr_t address = tidei_piece_address(piece);
    uintptr_t mask = request->alignment - 1;
    uint64_t offset = ((address + mask) & ~mask) - address;

    tidei_heap_index_remove(heap, piece);
    if (piece->span == heap->idle_region)
        heap->idle_region = NULL;
    if (piece->freed_runs.first->stream != request->stream && piece->freed_runs.last->stream == request->stream)
        offset = ((address + piece->bytes - request->bytes) & ~mask) - address;
    piece_cut(heap, &piece, offset, request->bytes);
    tidei_piece_set_state(piece, TIDEI_PIECE_MOVING);
    return piece;
}

uint64_t
tidei_heap_region_bytes(const struct tidei_heap *heap)
{
    uint64_t bytes = heap->region_bytes / 4;

    if (bytes <= heap->first_region_bytes)
        return heap->first_region_bytes;
    if (heap->first_region_bytes < TIDEI_HEAP_REGION_BYTES)
        return heap->first_region_bytes;
    return bytes < TIDEI_HEAP_REGION_MOST ? UINT64_C(1) << tidei_log2(bytes) : TIDEI_HEAP_REGION_MOST;
}

/* A new region, free, with the freed runs of the memory that it takes. */
static struct tidei_piece *
heap_region_new(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_heap_request wanted = *request;
    struct tidei_piece *parent, *piece;
    struct tidei_span *region;

    wanted.bytes = tidei_heap_region_bytes(heap);
    wanted.alignment = UINT64_C(1) << heap->granule_log2;
    parent = heap_find_large(heap, &wanted);
    if (parent == NULL)
        return NULL;
    parent = heap_take_from(heap, parent, &wanted);
    region = tidei_slab_take(&heap->spans);
    piece = tidei_piece_new(heap, region, tidei_piece_address(parent), parent->bytes);
    *region = (struct tidei_span){
        .base = tidei_piece_address(parent), .bytes = parent->bytes, .first = piece, .parent = parent
    };
    piece->freed_runs = parent->freed_runs;
    parent->freed_runs.first = parent->freed_runs.last = NULL;
    parent->size_class = TIDEI_PIECE_REGION;
    parent->fit.child[0] = piece;
    heap->region_bytes += region->bytes;
    tidei_heap_index_add(heap, piece);
    return piece;
}

/* A free piece that the request fits into. */
static struct tidei_piece *
heap_find(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_heap_request common = *request;
    struct tidei_piece *piece = NULL;

    common.last_resort = false;
    if (request->zone == TIDEI_ZONE_SMALL && request_need(heap, request) <= heap->first_region_bytes) {
        piece = heap_find_small(heap, request);
        if (piece == NULL)
            piece = heap_region_new(heap, &common);
        if (piece != NULL || !request->last_resort)
            return piece;
    }
    piece = heap_find_large(heap, request);
    if (piece == NULL && request->last_resort) {
        tidei_heap_region_release(heap);
        piece = heap_find_large(heap, request);
    }
    return piece;
}

static struct tidei_piece *
heap_take_out_of(struct tidei_heap *heap, struct tidei_piece *piece, const struct tidei_heap_request *request)
{
    piece = heap_take_from(heap, piece, request);
    tidei_piece_map_add(&heap->out, piece);
    heap->out_bytes += piece->bytes;
    return piece;
}

struct tidei_piece *
tidei_heap_take(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_piece *piece = heap_find(heap, request);

    return piece != NULL ? heap_take_out_of(heap, piece, request) : NULL;
}

struct tidei_piece *
tidei_heap_take_newest(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    const struct tidei_span *newest = heap->newest;

    if (newest == NULL || newest->bytes < request_need(heap, request))
        return NULL;
    return heap_take_out_of(heap, newest->first, request);
}

bool
tidei_heap_wait(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t later, uint32_t *earlier, uint64_t *epoch)
{
    struct tidei_freed_runs *list = &piece->freed_runs;
    struct tidei_freed_runs rest;

    for (struct tidei_freed_run *freed_run = list->first; freed_run != NULL; freed_run = freed_run->next) {
        if (tidei_streams_wait(&heap->streams, freed_run->stream, freed_run->epoch, later)) {
            *earlier = freed_run->stream;
            *epoch = heap->streams.epoch++;
            return true;
        }
    }
    /* One is kept for when the piece is freed, so that this needs no memory; it holds no stream till then. */
    rest.first = list->first->next;
    tidei_freed_runs_free(&heap->freed_runs, &rest);
    list->first->next = NULL;
    list->last = list->first;
    tidei_streams_release(&heap->streams, list->first->stream);
    return false;
}

void
tidei_heap_waited(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t later, uint32_t earlier, uint64_t epoch)
{
    tidei_streams_note(&heap->streams, earlier, epoch, later);
    for (struct tidei_freed_run *freed_run = piece->freed_runs.first; freed_run != NULL; freed_run = freed_run->next) {
        if (freed_run->stream != earlier || freed_run->epoch > epoch)
            continue;
        tidei_streams_hold(&heap->streams, later);
        freed_run->stream = later;
        freed_run->epoch = heap->streams.epoch;
        tidei_streams_release(&heap->streams, earlier);
    }
}
