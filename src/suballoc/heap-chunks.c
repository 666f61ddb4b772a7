/* The chunks of a heap: how they come and go, and what is found in them by its address. */
#include "src/suballoc/heap-parts.h"

#include <string.h>

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

static void
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
    piece = pieces_at(heap->chunks[i]->first, address);
    return piece->size_class == TIDEI_PIECE_REGION ? pieces_at(tidei_region_first(piece), address) : piece;
}

void
tidei_heap_chunk_add(struct tidei_heap *heap, uintptr_t base, uint64_t bytes, uint32_t stream, bool keep)
{
    struct tidei_span *span = tidei_slab_take(&heap->spans);
    struct tidei_piece *piece = tidei_piece_new(heap, span, base, bytes);
    struct tidei_freed_run *freed_run = tidei_freed_run_new(&heap->freed_runs, bytes, stream, heap->streams.epoch);

    *span = (struct tidei_span){ .base = base, .bytes = bytes, .first = piece, .keep = keep };
    piece->freed_runs.first = piece->freed_runs.last = freed_run;
    chunks_insert(heap, span);
    tidei_heap_index_add(heap, piece);
}

static bool
chunk_is_free(const struct tidei_span *span)
{
    return span->first->bytes == span->bytes && tidei_piece_state(span->first) == TIDEI_PIECE_FREE;
}

bool
tidei_heap_chunk_take(struct tidei_heap *heap, bool all, uint64_t most_bytes, struct tidei_heap_chunk *out)
{
    struct tidei_span *span;

    if (all)
        tidei_heap_region_release(heap);
    for (span = heap->oldest; span != NULL && span->bytes > most_bytes; span = span->newer)
        ;
    for (size_t i = 0; all && span == NULL && i < heap->chunk_count; i++) {
        if (chunk_is_free(heap->chunks[i]) && heap->chunks[i]->bytes <= most_bytes)
            span = heap->chunks[i];
    }
    if (span == NULL)
        return false;
    tidei_heap_index_remove(heap, span->first);
    tidei_piece_set_state(span->first, TIDEI_PIECE_MOVING);
    chunks_remove(heap, span);
    heap->chunks_away++;
    out->span = span;
    out->piece = span->first;
    return true;
}

void
tidei_heap_chunk_own(struct tidei_heap *heap, const struct tidei_heap_chunk *chunk, uint32_t stream)
{
    tidei_heap_stretch_own(heap, chunk->piece, stream);
}

void
tidei_heap_chunk_put_back(struct tidei_heap *heap, const struct tidei_heap_chunk *chunk)
{
    heap->chunks_away--;
    chunks_insert(heap, chunk->span);
    tidei_piece_set_state(chunk->piece, TIDEI_PIECE_FREE);
    tidei_heap_index_add(heap, chunk->piece);
}

void
tidei_heap_chunk_forget(struct tidei_heap *heap, const struct tidei_heap_chunk *chunk)
{
    heap->chunks_away--;
    tidei_freed_runs_free(&heap->freed_runs, &chunk->piece->freed_runs);
    tidei_slab_give(&heap->pieces, chunk->piece);
    tidei_slab_give(&heap->spans, chunk->span);
}

static void
pieces_settle(struct tidei_heap *heap, struct tidei_piece *piece, uint64_t epoch, uint32_t stream)
{
    for (; piece != NULL; piece = piece->after) {
        if (piece->size_class == TIDEI_PIECE_REGION)
            pieces_settle(heap, tidei_region_first(piece), epoch, stream);
        if (tidei_piece_state(piece) != TIDEI_PIECE_FREE)
            continue;
        tidei_heap_index_remove(heap, piece);
        tidei_freed_runs_settle(&heap->freed_runs, &piece->freed_runs, epoch, stream);
        tidei_heap_index_add(heap, piece);
    }
}

void
tidei_heap_settle(struct tidei_heap *heap, uint64_t epoch, uint32_t stream)
{
    tidei_streams_forget(&heap->streams, epoch);
    for (size_t i = 0; i < heap->chunk_count; i++)
        pieces_settle(heap, heap->chunks[i]->first, epoch, stream);
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
                                            tidei_classes_largest(&heap->small) };
    uint64_t bytes = 0;

    for (size_t i = 0; i < sizeof(largest) / sizeof(largest[0]); i++) {
        if (largest[i] != NULL && largest[i]->bytes > bytes)
            bytes = largest[i]->bytes;
    }
    return bytes;
}
