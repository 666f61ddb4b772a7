/* Cuts chunks into pieces, and merges the pieces when they are freed; see heap.h. */
#include "src/suballoc/heap.h"

#include <stdlib.h>
#include <string.h>

#include "src/suballoc/heap-inner.h"
#include "src/tables/grow.h"

/* The bound of all chunks must have room for this many regions of the first size. */
#define HEAP_REGIONS_LEAST 16
/* A region has room for at least this many small pieces. */
#define HEAP_REGION_PIECES 4

/* Host memory that one call may need: a region and a piece on either side in chunk and region, and their freed runs. */
#define HEAP_PIECES     6
#define HEAP_FREED_RUNS 8
#define HEAP_SPANS      2

/* A free chunk is cut for a request that leaves less than a quarter of the request's size. */
#define HEAP_CUT_MOST(bytes) ((bytes) + (bytes) / 4)
/* A piece of the request's own stream is preferred up to this size, given the size of the best fit. */
#define HEAP_OWN_MOST(bytes) ((bytes) + (bytes) / 4)
/* Free chunks of one size that are searched for one of the request's stream. */
#define HEAP_RING_TRIES 8

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
    tidei_slab_init(&heap->freed_runs, sizeof(struct tidei_freed_run), NULL);
    return tidei_piece_map_init(&heap->out, &heap->pieces);
}

void
tidei_heap_fini(struct tidei_heap *heap)
{
    tidei_piece_map_fini(&heap->out);
    tidei_streams_fini(&heap->streams);
    tidei_slab_fini(&heap->spans);
    tidei_slab_fini(&heap->freed_runs);
    tidei_slab_fini(&heap->pieces);
    free(heap->chunks);
}

bool
tidei_heap_reserve(struct tidei_heap *heap)
{
    return tidei_slab_reserve(&heap->pieces, HEAP_PIECES) && tidei_slab_reserve(&heap->freed_runs, HEAP_FREED_RUNS) &&
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

/* Lists of freed runs. */

/* A new freed run, in no list; room for it is reserved. */
static struct tidei_freed_run *
run_new(struct tidei_heap *heap, uint64_t bytes, uint32_t stream, uint64_t epoch)
{
    struct tidei_freed_run *freed_run = tidei_slab_take(&heap->freed_runs);

    *freed_run = (struct tidei_freed_run){ .bytes = bytes, .epoch = epoch, .stream = stream };
    tidei_streams_hold(&heap->streams, stream);
    return freed_run;
}

static void
run_free(struct tidei_heap *heap, struct tidei_freed_run *freed_run)
{
    tidei_streams_release(&heap->streams, freed_run->stream);
    tidei_slab_give(&heap->freed_runs, freed_run);
}

/* Inlined in each place, here and below, as it was with one caller: 2% of the instructions of a request. */
static inline __attribute__((always_inline)) void
runs_free(struct tidei_heap *heap, struct tidei_freed_runs *list)
{
    while (list->first != NULL) {
        struct tidei_freed_run *next = list->first->next;

        run_free(heap, list->first);
        list->first = next;
    }
    list->last = NULL;
}

/* Merge the run behind `left`, freed on the same stream, into it. The later epoch of the two applies to both. */
static void
run_merge_next(struct tidei_heap *heap, struct tidei_freed_runs *list, struct tidei_freed_run *left)
{
    struct tidei_freed_run *right = left->next;

    left->bytes += right->bytes;
    if (left->epoch < right->epoch)
        left->epoch = right->epoch;
    left->next = right->next;
    if (left->next != NULL)
        left->next->before = left;
    else
        list->last = left;
    run_free(heap, right);
}

/* Move all runs of `more` behind those of `list`; neither is empty. */
static void
runs_join(struct tidei_heap *heap, struct tidei_freed_runs *list, struct tidei_freed_runs *more)
{
    struct tidei_freed_run *left = list->last, *right = more->first;

    left->next = right;
    right->before = left;
    list->last = more->last;
    more->first = more->last = NULL;
    if (left->stream == right->stream)
        run_merge_next(heap, list, left);
}

/* Move the last `bytes` of `from` into `to`, which is empty. Takes at most one freed run from the slab. */
static void
runs_move_last(struct tidei_heap *heap, struct tidei_freed_runs *from, uint64_t bytes, struct tidei_freed_runs *to)
{
    while (bytes > 0) {
        struct tidei_freed_run *freed_run = from->last;

        if (freed_run->bytes > bytes) {
            freed_run->bytes -= bytes;
            freed_run = run_new(heap, bytes, freed_run->stream, freed_run->epoch);
        } else {
            from->last = freed_run->before;
            if (from->last != NULL)
                from->last->next = NULL;
            else
                from->first = NULL;
        }
        bytes -= freed_run->bytes;
        freed_run->before = NULL;
        freed_run->next = to->first;
        if (to->first != NULL)
            to->first->before = freed_run;
        else
            to->last = freed_run;
        to->first = freed_run;
    }
}

/* Assign the runs that were freed up to `epoch` to `stream`, as if they had been freed now. */
static void
runs_reassign(struct tidei_heap *heap, struct tidei_freed_runs *list, uint64_t epoch, uint32_t stream)
{
    for (struct tidei_freed_run *freed_run = list->first; freed_run != NULL; freed_run = freed_run->next) {
        if (freed_run->epoch <= epoch) {
            tidei_streams_hold(&heap->streams, stream);
            tidei_streams_release(&heap->streams, freed_run->stream);
            freed_run->stream = stream;
            freed_run->epoch = heap->streams.epoch;
        }
        if (freed_run->before != NULL && freed_run->before->stream == freed_run->stream) {
            freed_run = freed_run->before;
            run_merge_next(heap, list, freed_run);
        }
    }
}

/* Pieces. */

static uint64_t
piece_state(const struct tidei_piece *piece)
{
    /* Relaxed: the states tested here change only under the lock. */
    return atomic_load_explicit(&piece->word, memory_order_relaxed) & TIDEI_PIECE_STATE;
}

/* The span of a piece that is a region. */
static struct tidei_piece *
region_first(const struct tidei_piece *piece)
{
    return piece->fit.child[0];
}

static struct tidei_piece *
piece_new(struct tidei_heap *heap, struct tidei_span *span, uintptr_t address, uint64_t bytes)
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

/* Whether a chunk is free and may be returned. */
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

/* Enter a free piece into the indexes. */
static void
index_add(struct tidei_heap *heap, struct tidei_piece *piece)
{
    enum tidei_zone zone = piece->span->zone;

    heap->free_count++;
    piece->own_stream = TIDEI_STREAMS_MOST;
    if (piece_is_chunk(piece)) {
        piece->span->zone = TIDEI_ZONE_LARGE;
        tidei_tree_add(&heap->free, piece, heap->granule_log2);
        span_list_add(heap, piece->span);
        return;
    }
    if (zone == TIDEI_ZONE_LEAVING) {
        tidei_tree_add(&heap->leaving, piece, heap->granule_log2);
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

static void
index_remove(struct tidei_heap *heap, struct tidei_piece *piece)
{
    enum tidei_zone zone = piece->span->zone;

    heap->free_count--;
    if (piece_is_chunk(piece)) {
        tidei_tree_remove(&heap->free, piece, heap->granule_log2);
        span_list_remove(heap, piece->span);
        return;
    }
    if (zone == TIDEI_ZONE_LEAVING) {
        tidei_tree_remove(&heap->leaving, piece, heap->granule_log2);
        return;
    }
    if (zone == TIDEI_ZONE_SMALL)
        tidei_classes_remove(&heap->small, piece, heap->granule_log2, TIDEI_LINKS_FIT);
    else
        tidei_tree_remove(&heap->large, piece, heap->granule_log2);
    tidei_classes_remove(&heap->streams.streams[piece->own_stream]->classes[zone], piece, heap->granule_log2,
                         TIDEI_LINKS_OWN);
}

/* Merge `right` into `left`, its neighbour; neither is in an index. */
static void
piece_merge(struct tidei_heap *heap, struct tidei_piece *left, struct tidei_piece *right)
{
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after != NULL)
        left->after->before = left;
    runs_join(heap, &left->freed_runs, &right->freed_runs);
    tidei_piece_set_word(right, TIDEI_PIECE_FREE);
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

static void heap_put_runs(struct tidei_heap *heap, struct tidei_piece *piece);

/* Return the idle region, if any, to its chunk. */
static void
region_release(struct tidei_heap *heap)
{
    struct tidei_span *region = heap->idle_region;
    struct tidei_piece *parent;

    if (region == NULL)
        return;
    parent = region->parent;
    heap->idle_region = NULL;
    index_remove(heap, region->first);
    region_end(heap, region);
    heap_put_runs(heap, parent);
}

/*
 * Free a piece that has its freed runs, and merge it with its free neighbours. One free region is kept, so that a
 * single small request does not create and destroy one again and again.
 */
static void
heap_put_runs(struct tidei_heap *heap, struct tidei_piece *piece)
{
    struct tidei_piece *neighbour = piece->before;
    struct tidei_span *span = piece->span;

    tidei_piece_set_word(piece, TIDEI_PIECE_FREE);
    if (neighbour != NULL && piece_state(neighbour) == TIDEI_PIECE_FREE) {
        index_remove(heap, neighbour);
        piece_merge(heap, neighbour, piece);
        piece = neighbour;
    }
    neighbour = piece->after;
    if (neighbour != NULL && piece_state(neighbour) == TIDEI_PIECE_FREE) {
        index_remove(heap, neighbour);
        piece_merge(heap, piece, neighbour);
    }
    if (!piece_is_whole(piece) || span->parent == NULL) {
        index_add(heap, piece);
    } else if (heap->idle_region == NULL && span->zone != TIDEI_ZONE_LEAVING) {
        heap->idle_region = span;
        index_add(heap, piece);
    } else {
        piece = span->parent;
        region_end(heap, span);
        heap_put_runs(heap, piece);
    }
}

void
tidei_heap_put_back(struct tidei_heap *heap, struct tidei_piece *piece)
{
    tidei_piece_map_remove(&heap->out, piece);
    heap->out_bytes -= piece->bytes;
    heap_put_runs(heap, piece);
}

void
tidei_heap_own(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream)
{
    /* Kept for this moment; it holds no stream yet. */
    struct tidei_freed_run *freed_run = piece->freed_runs.first;

    freed_run->bytes = piece->bytes;
    freed_run->epoch = heap->streams.epoch;
    freed_run->stream = stream;
    tidei_streams_hold(&heap->streams, stream);
}

void
tidei_heap_put(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream)
{
    tidei_heap_own(heap, piece, stream);
    tidei_heap_put_back(heap, piece);
}

/* Taking pieces for requests, and the streams that they have to wait for. */

static void
piece_link_after(struct tidei_piece *piece, struct tidei_piece *other)
{
    other->before = piece;
    other->after = piece->after;
    if (piece->after != NULL)
        piece->after->before = other;
    piece->after = other;
}

/* Cut the bytes at `offset` out of a free piece that is in no index; the rest before and behind stays free. */
static inline __attribute__((always_inline)) void
piece_cut(struct tidei_heap *heap, struct tidei_piece **cut, uint64_t offset, uint64_t bytes)
{
    struct tidei_piece *piece = *cut;
    uint64_t behind = piece->bytes - offset - bytes;
    struct tidei_piece *other;

    if (behind > 0) {
        other = piece_new(heap, piece->span, tidei_piece_address(piece) + offset + bytes, behind);
        runs_move_last(heap, &piece->freed_runs, behind, &other->freed_runs);
        piece->bytes -= behind;
        piece_link_after(piece, other);
    }
    if (offset > 0) {
        other = piece_new(heap, piece->span, tidei_piece_address(piece) + offset, bytes);
        runs_move_last(heap, &piece->freed_runs, bytes, &other->freed_runs);
        piece->bytes = offset;
        piece_link_after(piece, other);
        *cut = other;
    }
    /* Only now that the neighbours are linked: a chunk counts as free only where its piece is whole. */
    if (offset > 0)
        index_add(heap, piece);
    if (behind > 0)
        index_add(heap, (*cut)->after);
}

uint64_t
tidei_heap_need(const struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    return request->bytes + request->alignment - (UINT64_C(1) << heap->granule_log2);
}

/* A piece of the request's own stream in place of `best`, where it is not much larger. */
static struct tidei_piece *
heap_prefer_own(struct tidei_heap *heap, const struct tidei_heap_request *request, enum tidei_zone zone,
                struct tidei_piece *best)
{
    struct tidei_classes *classes = &heap->streams.streams[request->stream]->classes[zone];
    struct tidei_piece *own;

    if (best->own_stream == request->stream)
        return best;
    own = tidei_classes_find(classes, tidei_heap_need(heap, request), heap->granule_log2, TIDEI_LINKS_OWN);
    return own != NULL && own->bytes <= HEAP_OWN_MOST(best->bytes) ? own : best;
}

/* A free chunk; among several of one size, one of the request's stream. */
static struct tidei_piece *
heap_find_chunk(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_piece *best = tidei_tree_find(&heap->free, tidei_heap_need(heap, request), heap->granule_log2);
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
    struct tidei_piece *best = tidei_tree_find(&heap->large, tidei_heap_need(heap, request), heap->granule_log2);

    return best != NULL ? heap_prefer_own(heap, request, TIDEI_ZONE_LARGE, best) : heap_find_chunk(heap, request);
}

static size_t chunks_at(const struct tidei_heap *heap, uintptr_t address);

static bool
is_gap(const struct tidei_piece *piece)
{
    return piece != NULL && piece->size_class == TIDEI_PIECE_GAP;
}

/*
 * Whether `bytes` are better cut out of the end of a free piece than out of its beginning, where chunks are joined: so
 * that the rest lies beside a gap, where more can be mapped beside it; or, where no gap is beside the piece, so that
 * the rest has more of the chunk that is cut in two, and may have chunks whole, which can be moved. By replay of
 * torch_gpt2: 760 chunks moved in place of 1,152; in the last 27 of 35 parts of it 138 asked for in place of 343.
 */
static bool
heap_cuts_last(const struct tidei_heap *heap, const struct tidei_piece *piece, uint64_t bytes)
{
    uintptr_t end = tidei_piece_address(piece) + bytes, begin = tidei_piece_address(piece) + piece->bytes - bytes;
    const struct tidei_span *first_cut, *last_cut;

    if (is_gap(piece->after) || is_gap(piece->before))
        return !is_gap(piece->after);
    first_cut = heap->chunks[chunks_at(heap, end - 1)];
    last_cut = heap->chunks[chunks_at(heap, begin)];
    return begin - last_cut->base < first_cut->base + first_cut->bytes - end;
}

/*
 * Cut the request's bytes out of a free piece: the first ones, or the last where only those are of the request's
 * stream, or where chunks are joined and the rest is worth more that way. The result is MOVING, and in no table.
 */
static struct tidei_piece *
heap_take_from(struct tidei_heap *heap, struct tidei_piece *piece, const struct tidei_heap_request *request)
{
    uintptr_t address = tidei_piece_address(piece);
    uintptr_t mask = request->alignment - 1;
    uint64_t offset = ((address + mask) & ~mask) - address;

    index_remove(heap, piece);
    if (piece->span == heap->idle_region)
        heap->idle_region = NULL;
    if ((piece->freed_runs.first->stream != request->stream && piece->freed_runs.last->stream == request->stream) ||
        (piece->span == &heap->range.span && heap_cuts_last(heap, piece, request->bytes)))
        offset = ((address + piece->bytes - request->bytes) & ~mask) - address;
    piece_cut(heap, &piece, offset, request->bytes);
    tidei_piece_set_word(piece, TIDEI_PIECE_MOVING);
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

/* Create a free region, with the freed runs of the memory that it takes. */
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
    piece = piece_new(heap, region, tidei_piece_address(parent), parent->bytes);
    *region = (struct tidei_span){ .base = tidei_piece_address(parent),
                                   .bytes = parent->bytes,
                                   .first = piece,
                                   .parent = parent,
                                   .zone = TIDEI_ZONE_SMALL };
    piece->freed_runs = parent->freed_runs;
    parent->freed_runs.first = parent->freed_runs.last = NULL;
    parent->size_class = TIDEI_PIECE_REGION;
    parent->fit.child[0] = piece;
    heap->region_bytes += region->bytes;
    index_add(heap, piece);
    return piece;
}

/* Find a free piece that fits the request, in a chunk that may stay. */
static struct tidei_piece *
heap_find_staying(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_heap_request common = *request;
    uint64_t need = tidei_heap_need(heap, request);
    struct tidei_piece *piece = NULL;

    common.last_resort = false;
    if (request->zone == TIDEI_ZONE_SMALL && need <= heap->first_region_bytes) {
        piece = tidei_classes_find(&heap->small, need, heap->granule_log2, TIDEI_LINKS_FIT);
        if (piece != NULL)
            piece = heap_prefer_own(heap, request, TIDEI_ZONE_SMALL, piece);
        else
            piece = heap_region_new(heap, &common);
        if (piece != NULL || !request->last_resort)
            return piece;
    }
    piece = heap_find_large(heap, request);
    if (piece == NULL && request->last_resort) {
        region_release(heap);
        piece = heap_find_large(heap, request);
    }
    return piece;
}

/* The same in any chunk. */
static struct tidei_piece *
heap_find(struct tidei_heap *heap, const struct tidei_heap_request *request)
{
    struct tidei_piece *piece = heap_find_staying(heap, request);

    if (piece != NULL || heap->leaving.octaves == 0)
        return piece;
    return tidei_tree_find(&heap->leaving, tidei_heap_need(heap, request), heap->granule_log2);
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
tidei_heap_take_held(struct tidei_heap *heap, struct tidei_piece *piece, const struct tidei_heap_request *request)
{
    struct tidei_piece *rests[2];

    piece->size_class = TIDEI_PIECE_NO_CLASS;
    tidei_piece_set_word(piece, TIDEI_PIECE_FREE);
    index_add(heap, piece);
    piece = heap_take_out_of(heap, piece, request);
    rests[0] = piece->before;
    rests[1] = piece->after;
    for (int i = 0; i < 2; i++) {
        if (rests[i] != NULL && piece_state(rests[i]) == TIDEI_PIECE_FREE) {
            index_remove(heap, rests[i]);
            heap_put_runs(heap, rests[i]);
        }
    }
    return piece;
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
    /* Keep one run for the piece's free, which then needs no host memory; it holds no stream till then. */
    rest.first = list->first->next;
    runs_free(heap, &rest);
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

/* Chunks: adding and taking them, and finding pieces in them by address. */

/* The first chunk that ends behind `address`. */
static size_t
chunks_at(const struct tidei_heap *heap, uintptr_t address)
{
    size_t low = 0, high = heap->chunk_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (heap->chunks[middle]->base + (heap->chunks[middle]->bytes - 1) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void
chunks_insert(struct tidei_heap *heap, struct tidei_span *span)
{
    size_t i = chunks_at(heap, span->base);

    memmove(&heap->chunks[i + 1], &heap->chunks[i], (heap->chunk_count - i) * sizeof(heap->chunks[0]));
    heap->chunks[i] = span;
    heap->chunk_count++;
}

static inline __attribute__((always_inline)) void
chunks_remove(struct tidei_heap *heap, const struct tidei_span *span)
{
    size_t i = chunks_at(heap, span->base);

    heap->chunk_count--;
    memmove(&heap->chunks[i], &heap->chunks[i + 1], (heap->chunk_count - i) * sizeof(heap->chunks[0]));
}

bool
tidei_heap_overlaps(const struct tidei_heap *heap, uintptr_t base, uint64_t bytes)
{
    size_t i = chunks_at(heap, base);

    return i < heap->chunk_count && heap->chunks[i]->base <= base + (bytes - 1);
}

static struct tidei_piece *
pieces_at(struct tidei_piece *piece, uintptr_t address)
{
    while (piece->after != NULL && tidei_piece_address(piece->after) <= address)
        piece = piece->after;
    return piece;
}

struct tidei_piece *
tidei_heap_around(const struct tidei_heap *heap, const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    size_t i = chunks_at(heap, address);
    struct tidei_piece *piece;

    if (i == heap->chunk_count || heap->chunks[i]->base > address)
        return NULL;
    piece = pieces_at(heap->range.page_bytes != 0 ? heap->range.span.first : heap->chunks[i]->first, address);
    return piece->size_class == TIDEI_PIECE_REGION ? pieces_at(region_first(piece), address) : piece;
}

void
tidei_heap_chunk_add(struct tidei_heap *heap, uintptr_t base, uint64_t bytes, uint32_t stream, bool keep)
{
    struct tidei_span *span = tidei_slab_take(&heap->spans);
    struct tidei_piece *piece = piece_new(heap, span, base, bytes);

    *span = (struct tidei_span){ .base = base, .bytes = bytes, .first = piece, .zone = TIDEI_ZONE_LARGE, .keep = keep };
    tidei_heap_piece_freed(heap, piece, stream);
    chunks_insert(heap, span);
    index_add(heap, piece);
}

static bool
chunk_is_free(const struct tidei_span *span)
{
    return span->first->bytes == span->bytes && piece_state(span->first) == TIDEI_PIECE_FREE;
}

struct tidei_piece *
tidei_heap_take_chunk(struct tidei_heap *heap, uintptr_t base, const struct tidei_heap_request *request)
{
    size_t i = chunks_at(heap, base);

    if (i == heap->chunk_count || heap->chunks[i]->base != base || !chunk_is_free(heap->chunks[i]) ||
        heap->chunks[i]->bytes < tidei_heap_need(heap, request))
        return NULL;
    return heap_take_out_of(heap, heap->chunks[i]->first, request);
}

struct tidei_piece *
tidei_heap_chunk_take(struct tidei_heap *heap, bool all, uint64_t most_bytes)
{
    struct tidei_span *span;

    if (all)
        region_release(heap);
    for (span = heap->oldest; span != NULL && span->bytes > most_bytes; span = span->newer)
        ;
    for (size_t i = 0; all && span == NULL && i < heap->chunk_count; i++) {
        if (chunk_is_free(heap->chunks[i]) && heap->chunks[i]->bytes <= most_bytes)
            span = heap->chunks[i];
    }
    if (span == NULL)
        return NULL;
    index_remove(heap, span->first);
    tidei_piece_set_word(span->first, TIDEI_PIECE_MOVING);
    chunks_remove(heap, span);
    heap->chunks_away++;
    return span->first;
}

void
tidei_heap_chunk_put_back(struct tidei_heap *heap, struct tidei_piece *chunk)
{
    heap->chunks_away--;
    chunks_insert(heap, chunk->span);
    tidei_piece_set_word(chunk, TIDEI_PIECE_FREE);
    index_add(heap, chunk);
}

void
tidei_heap_chunk_forget(struct tidei_heap *heap, struct tidei_piece *chunk)
{
    struct tidei_span *span = chunk->span;

    heap->chunks_away--;
    runs_free(heap, &chunk->freed_runs);
    tidei_slab_give(&heap->pieces, chunk);
    tidei_slab_give(&heap->spans, span);
}

/* For range.c and leaving.c: see heap-inner.h. */

void
tidei_heap_region_release(struct tidei_heap *heap)
{
    region_release(heap);
}

struct tidei_piece *
tidei_heap_piece_new(struct tidei_heap *heap, struct tidei_span *span, uintptr_t address, uint64_t bytes)
{
    return piece_new(heap, span, address, bytes);
}

void
tidei_heap_piece_freed(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream)
{
    piece->freed_runs.first = piece->freed_runs.last = run_new(heap, piece->bytes, stream, heap->streams.epoch);
}

void
tidei_heap_runs_free(struct tidei_heap *heap, struct tidei_piece *piece)
{
    runs_free(heap, &piece->freed_runs);
}

void
tidei_heap_link_after(struct tidei_piece *piece, struct tidei_piece *other)
{
    piece_link_after(piece, other);
}

bool
tidei_heap_is_free(const struct tidei_piece *piece)
{
    return piece_state(piece) == TIDEI_PIECE_FREE;
}

struct tidei_piece *
tidei_heap_hold(struct tidei_heap *heap, struct tidei_piece *piece, uint64_t offset, uint64_t bytes)
{
    index_remove(heap, piece);
    piece_cut(heap, &piece, offset, bytes);
    tidei_piece_set_word(piece, TIDEI_PIECE_MOVING);
    return piece;
}

void
tidei_heap_free_held(struct tidei_heap *heap, struct tidei_piece *piece)
{
    heap_put_runs(heap, piece);
}

size_t
tidei_heap_chunks_at(const struct tidei_heap *heap, uintptr_t address)
{
    return chunks_at(heap, address);
}

void
tidei_heap_chunks_insert(struct tidei_heap *heap, struct tidei_span *span)
{
    chunks_insert(heap, span);
}

void
tidei_heap_chunks_remove(struct tidei_heap *heap, const struct tidei_span *span)
{
    chunks_remove(heap, span);
}

static void
pieces_index(struct tidei_heap *heap, struct tidei_span *span, bool add)
{
    for (struct tidei_piece *piece = span->first; piece != NULL; piece = piece->after) {
        if (piece->size_class == TIDEI_PIECE_REGION)
            pieces_index(heap, region_first(piece)->span, add);
        else if (piece_state(piece) == TIDEI_PIECE_FREE)
            (add ? index_add : index_remove)(heap, piece);
    }
}

void
tidei_heap_chunk_set_zone(struct tidei_heap *heap, struct tidei_span *chunk, bool leaving)
{
    pieces_index(heap, chunk, false);
    chunk->zone = leaving ? TIDEI_ZONE_LEAVING : TIDEI_ZONE_LARGE;
    for (struct tidei_piece *piece = chunk->first; piece != NULL; piece = piece->after) {
        if (piece->size_class == TIDEI_PIECE_REGION)
            region_first(piece)->span->zone = leaving ? TIDEI_ZONE_LEAVING : TIDEI_ZONE_SMALL;
    }
    pieces_index(heap, chunk, true);
}

uint64_t
tidei_heap_chunk_used(const struct tidei_span *span, uint64_t *visited)
{
    uint64_t bytes = 0;

    for (const struct tidei_piece *piece = span->first; piece != NULL; piece = piece->after) {
        ++*visited;
        if (piece->size_class == TIDEI_PIECE_REGION)
            bytes += tidei_heap_chunk_used(region_first(piece)->span, visited);
        else if (piece_state(piece) != TIDEI_PIECE_FREE)
            bytes += piece->bytes;
    }
    return bytes;
}

static void
pieces_reassign(struct tidei_heap *heap, struct tidei_piece *piece, uint64_t epoch, uint32_t stream)
{
    for (; piece != NULL; piece = piece->after) {
        if (piece->size_class == TIDEI_PIECE_REGION)
            pieces_reassign(heap, region_first(piece), epoch, stream);
        if (piece->size_class == TIDEI_PIECE_HELD)
            runs_reassign(heap, &piece->freed_runs, epoch, stream);
        if (piece_state(piece) != TIDEI_PIECE_FREE)
            continue;
        index_remove(heap, piece);
        runs_reassign(heap, &piece->freed_runs, epoch, stream);
        index_add(heap, piece);
    }
}

void
tidei_heap_reassign(struct tidei_heap *heap, uint64_t epoch, uint32_t stream)
{
    tidei_streams_forget(&heap->streams, epoch);
    if (heap->range.page_bytes != 0) {
        pieces_reassign(heap, heap->range.span.first, epoch, stream);
        return;
    }
    for (size_t i = 0; i < heap->chunk_count; i++)
        pieces_reassign(heap, heap->chunks[i]->first, epoch, stream);
}

void
tidei_heap_reassign_taken(struct tidei_heap *heap, struct tidei_piece *piece, uint64_t epoch, uint32_t stream)
{
    runs_reassign(heap, &piece->freed_runs, epoch, stream);
}

uint64_t
tidei_heap_free_bytes(const struct tidei_heap *heap)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < heap->chunk_count; i++)
        bytes += heap->chunks[i]->bytes;
    return bytes - heap->out_bytes;
}

uint64_t
tidei_heap_largest(const struct tidei_heap *heap)
{
    const struct tidei_piece *largest[] = { tidei_tree_largest(&heap->large), tidei_tree_largest(&heap->free),
                                            tidei_tree_largest(&heap->leaving), tidei_classes_largest(&heap->small) };
    uint64_t bytes = 0;

    for (size_t i = 0; i < sizeof(largest) / sizeof(largest[0]); i++) {
        if (largest[i] != NULL && largest[i]->bytes > bytes)
            bytes = largest[i]->bytes;
    }
    return bytes;
}
