/* Empties chunks that a heap does not need; see leaving.h. */
#include "src/suballoc/leaving.h"

#include "src/suballoc/heap-inner.h"

/* Chunks are sorted by how full they are, in so many steps. Those in the last one stay. */
#define LEAVING_STEPS 64

static bool
may_leave(const struct tidei_span *chunk)
{
    return !chunk->keep && chunk->fullness > 0 && chunk->fullness < LEAVING_STEPS;
}

/* Set how full each chunk is (0: free), and add up the bytes of each step. Returns those of free chunks. */
static uint64_t
leaving_sort(struct tidei_heap *heap, uint64_t sums[LEAVING_STEPS + 1], uint64_t *visited)
{
    uint64_t free_bytes = 0;

    for (size_t i = 0; i < heap->chunk_count; i++) {
        struct tidei_span *chunk = heap->chunks[i];
        uint64_t used;

        if (chunk->zone == TIDEI_ZONE_LEAVING)
            tidei_heap_chunk_set_zone(heap, chunk, false);
        used = tidei_heap_chunk_used(chunk, visited);
        chunk->fullness = used == 0 ? 0 : 1 + (uint32_t)((used - 1) / (chunk->bytes / LEAVING_STEPS + 1));
        if (chunk->fullness == 0)
            free_bytes += chunk->bytes;
        else if (may_leave(chunk))
            sums[chunk->fullness] += chunk->bytes;
    }
    return free_bytes;
}

uint64_t
tidei_leaving_choose(struct tidei_heap *heap, uint64_t bytes)
{
    uint64_t sums[LEAVING_STEPS + 1] = { 0 }, visited = 0, free_bytes;
    uint32_t step = 1;

    tidei_heap_region_release(heap);
    free_bytes = leaving_sort(heap, sums, &visited);
    bytes = bytes > free_bytes ? bytes - free_bytes : 0;
    for (uint64_t sum = sums[1]; step < LEAVING_STEPS && sum <= bytes; sum += sums[step])
        step++;
    /* All of the steps before this one leave, and of this one as many as there are bytes left. */
    for (uint32_t k = 1; k < step; k++)
        bytes -= sums[k];
    for (size_t i = 0; i < heap->chunk_count; i++) {
        struct tidei_span *chunk = heap->chunks[i];

        if (!may_leave(chunk) || chunk->fullness > step || (chunk->fullness == step && chunk->bytes > bytes))
            continue;
        bytes -= chunk->fullness == step ? chunk->bytes : 0;
        tidei_heap_chunk_set_zone(heap, chunk, true);
    }
    return visited;
}
