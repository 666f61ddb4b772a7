/* The address space of a pool at one moment. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/analysis/groups.h"
#include "viewer/base/output.h"
#include "viewer/analysis/space.h"

int
space_layers_make(struct view *view, uint64_t page_bytes, struct space_layers *out)
{
    int status = COMMAND_FINE;

    *out = (struct space_layers){ .page_bytes = page_bytes };
    for (size_t i = 0; i < view->layers.count && status == COMMAND_FINE; i++) {
        const struct trace_layer *above = &view->layers.layers[i];

        if (filter_has_layer(&view->filter, above->layer_id))
            status = filter_set_add(&out->upper, above->layer_id);
    }
    for (size_t i = 0; i < view->layers.count && status == COMMAND_FINE; i++) {
        const struct trace_layer *below = &view->layers.layers[i];

        for (size_t j = 0; j < view->layers.count && status == COMMAND_FINE; j++) {
            const struct trace_layer *above = &view->layers.layers[j];

            if (filter_set_has(&out->upper, above->layer_id) && !filter_set_has(&out->upper, below->layer_id) &&
                trace_layers_is_next_log(&view->layers, above, below))
                status = filter_set_add(&out->lower, below->layer_id);
        }
        if (status == COMMAND_FINE && out->lower.active && filter_set_has(&out->lower, below->layer_id))
            status = filter_set_add(&view->filter.layers, below->layer_id);
    }
    if (status != COMMAND_FINE)
        space_layers_free(out);
    return status;
}

void
space_layers_free(struct space_layers *layers)
{
    id_map_free(&layers->upper.ids);
    id_map_free(&layers->lower.ids);
}

void
space_free(struct space *space)
{
    free(space->blocks);
    free(space->chunks);
    *space = (struct space){ 0 };
}

uint64_t
space_rounded(const struct scan_life *life)
{
    uint64_t alignment = life->alignment > 0 ? (uint64_t)life->alignment : 1;
    uint64_t rest = life->size % alignment;

    if (rest == 0 || life->size > (uint64_t)INT64_MAX - alignment)
        return life->size;
    return life->size + (alignment - rest);
}

static void
space_add_block(struct space *space, const struct scan_life *life)
{
    space->failed = space->failed || !tidei_grow(&space->blocks, &space->block_capacity, space->block_count, 1);
    if (space->failed)
        return;
    space->blocks[space->block_count++] = (struct space_block){
        .address = life->address,
        .size = life->size,
        .rounded = space_rounded(life),
        .allocation_id = life->allocation_id,
        .tag_id = life->tag_id,
        .callstack_id = life->callstack_id,
        .stream_id = life->alloc_stream_id,
        .alloc_ns = life->alloc_ns,
    };
}

static void
space_add_chunk(struct space *space, uint64_t address, uint64_t size)
{
    space->failed = space->failed || !tidei_grow(&space->chunks, &space->chunk_capacity, space->chunk_count, 1);
    if (space->failed)
        return;
    space->chunks[space->chunk_count++] = (struct space_chunk){ .address = address, .size = size };
}

static void
space_add(void *context, const struct scan_life *life)
{
    struct space *space = context;

    if (life->size == 0 || life->status != 0)
        return;
    if (filter_set_has(&space->layers->upper, life->layer_id))
        space_add_block(space, life);
    else if (space->layers->lower.active && filter_set_has(&space->layers->lower, life->layer_id))
        space_add_chunk(space, life->address, life->size);
}

/* Blocks and chunks begin with their address. */
static int
space_compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a;
    uint64_t other = *(const uint64_t *)b;

    return one < other ? -1 : one > other;
}

/* Without a log below: make chunks from the runs of pages that the blocks, sorted by address, touch. */
static void
space_make_runs(struct space *space, uint64_t page_bytes)
{
    uint64_t begin = 0;
    uint64_t end = 0;

    for (size_t i = 0; i < space->block_count; i++) {
        const struct space_block *block = &space->blocks[i];
        uint64_t first = block->address / page_bytes * page_bytes;
        uint64_t last = block->address + block->rounded;

        last = last > UINT64_MAX - page_bytes ? last : (last + page_bytes - 1) / page_bytes * page_bytes;
        if (i > 0 && first <= end) {
            end = last > end ? last : end;
            continue;
        }
        if (i > 0)
            space_add_chunk(space, begin, end - begin);
        begin = first;
        end = last;
    }
    if (space->block_count > 0)
        space_add_chunk(space, begin, end - begin);
}

/* Whether a block, of the sorted ones, lies in two chunks that touch, and so says that they are used as one. */
static bool
space_spans(const struct space *space)
{
    size_t chunk = 0;

    for (size_t i = 0; i < space->block_count; i++) {
        const struct space_block *block = &space->blocks[i];
        uint64_t end;

        while (chunk + 1 < space->chunk_count && space->chunks[chunk + 1].address <= block->address)
            chunk++;
        end = space->chunks[chunk].address + space->chunks[chunk].size;
        if (block->address >= space->chunks[chunk].address && block->address < end &&
            block->rounded > end - block->address && chunk + 1 < space->chunk_count &&
            space->chunks[chunk + 1].address == end)
            return true;
    }
    return false;
}

/* Make one of the chunks that touch, where the pool uses them so; once it has done so, it always does. */
static void
space_join(struct space *space)
{
    size_t kept = 0;

    if (space->failed || space->chunk_count == 0)
        return;
    space->joins = space->joins || space_spans(space);
    for (size_t i = 1; space->joins && i < space->chunk_count; i++) {
        struct space_chunk *before = &space->chunks[kept];

        if (before->address + before->size == space->chunks[i].address)
            before->size += space->chunks[i].size;
        else
            space->chunks[++kept] = space->chunks[i];
    }
    if (space->joins)
        space->chunk_count = kept + 1;
}

static void
space_add_hole(struct space_chunk *chunk, uint64_t bytes)
{
    if (bytes == 0)
        return;
    chunk->holes++;
    if (bytes > chunk->largest_hole)
        chunk->largest_hole = bytes;
}

/*
 * Walk through a chunk. Returns the bytes in holes smaller than `below`. With `store`, also sets the figures of the
 * chunk. In a broken trace, blocks overlap or reach past the end of the chunk: each byte of the chunk counts once.
 */
static uint64_t
space_walk(const struct space *space, struct space_chunk *chunk, uint64_t below, bool store)
{
    uint64_t at = chunk->address;
    uint64_t end = chunk->address + chunk->size;
    uint64_t small = 0;
    uint64_t used = 0;

    for (size_t i = 0; i <= chunk->block_count; i++) {
        const struct space_block *block =
            i < chunk->block_count ? &space->blocks[chunk->first_block + i] : NULL; /* the end of the chunk */
        uint64_t next = block != NULL ? block->address : end;

        if (next > at) {
            small += next - at < below ? next - at : 0;
            if (store)
                space_add_hole(chunk, next - at);
        }
        if (block != NULL) {
            uint64_t stop = block->address + block->rounded;

            stop = stop > end || stop < block->address ? end : stop;
            next = next > at ? next : at;
            used += stop > next ? stop - next : 0;
            at = stop > at ? stop : at;
        }
    }
    if (store)
        chunk->used_bytes = used;
    return small;
}

/* Assign the sorted blocks to the sorted chunks, and measure the holes. */
static void
space_measure(struct space *space)
{
    size_t block = 0;

    if (space->failed)
        return;
    for (size_t i = 0; i < space->chunk_count; i++) {
        struct space_chunk *chunk = &space->chunks[i];

        while (block < space->block_count && space->blocks[block].address < chunk->address)
            block++;
        chunk->first_block = block;
        while (block < space->block_count && space->blocks[block].address - chunk->address < chunk->size)
            block++;
        chunk->block_count = block - chunk->first_block;
        space_walk(space, chunk, 0, true);
        space->inside_bytes += chunk->used_bytes;
        space->reserved_bytes += chunk->size;
        space->holes += chunk->holes;
        if (chunk->block_count == 0)
            space->empty_bytes += chunk->size;
        if (chunk->largest_hole > space->largest_hole)
            space->largest_hole = chunk->largest_hole;
    }
    space->free_bytes = space->reserved_bytes - space->inside_bytes;
}

void
space_look(struct space *space, const struct space_layers *layers, const struct scan *scan,
           const struct scan_life *besides)
{
    space->layers = layers;
    space->block_count = space->chunk_count = 0;
    space->requested_bytes = space->rounded_bytes = space->inside_bytes = space->reserved_bytes = 0;
    space->largest_hole = space->holes = space->empty_bytes = 0;
    scan_each_live(scan, space_add, space);
    if (besides != NULL)
        space_add(space, besides);
    for (size_t i = 0; i < space->block_count; i++) {
        space->requested_bytes += space->blocks[i].size;
        space->rounded_bytes += space->blocks[i].rounded;
    }
    if (space->block_count > 0)
        qsort(space->blocks, space->block_count, sizeof(*space->blocks), space_compare);
    if (!layers->lower.active)
        space_make_runs(space, layers->page_bytes);
    if (space->chunk_count > 0)
        qsort(space->chunks, space->chunk_count, sizeof(*space->chunks), space_compare);
    space_join(space);
    space_measure(space);
}

uint64_t
space_unusable(const struct space *space, uint64_t size)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < space->chunk_count; i++)
        bytes += space_walk(space, &space->chunks[i], size, false);
    return bytes;
}

void
space_pins(const struct view *view, const struct space *space, const struct space_chunk *chunk, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < chunk->block_count && i < 3 && length < size; i++) {
        const struct space_block *block = &space->blocks[chunk->first_block + i];
        struct output_figure figure;
        char tag[GROUPS_NAME];

        length += (size_t)snprintf(text + length, size - length, "%s#%lld %s%s%s", i > 0 ? ", " : "",
                                   (long long)block->allocation_id, output_size(&figure, block->size),
                                   block->tag_id != 0 ? " " : "",
                                   block->tag_id != 0 ? names_tag(&view->names, block->tag_id, tag, sizeof(tag)) : "");
    }
    if (chunk->block_count > 3 && length < size)
        snprintf(text + length, size - length, ", ...");
}
