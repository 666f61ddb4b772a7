/*
 * The address space of a pool at one moment: chunks, the blocks in them, and the holes between the blocks.
 *
 * Chunks are the live allocations of the next log below. Without such a log they are guessed from the addresses: a
 * chunk is a run of pages that hold blocks, since a page with a block cannot be released.
 *
 * A pool over a base of pages uses chunks that touch as one. The trace shows it by a block that lies in two: then all
 * chunks that touch count as one.
 */
#ifndef VIEWER_ANALYSIS_SPACE_H
#define VIEWER_ANALYSIS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/scan.h"
#include "viewer/read/view.h"

/* The granularity of the driver's allocations. */
#define SPACE_PAGE (UINT64_C(2) << 20)

/* The blocks of the upper logs lie in the chunks of the lower logs. */
struct space_layers {
    struct filter_set upper;
    struct filter_set lower; /* inactive: there is no lower log */
    uint64_t page_bytes;
};

struct space_block {
    uint64_t address;
    uint64_t size;    /* requested */
    uint64_t rounded; /* size, rounded up to the alignment */
    int64_t allocation_id;
    int64_t tag_id;
    int64_t callstack_id;
    int64_t stream_id;
    int64_t alloc_ns;
};

struct space_chunk {
    uint64_t address;
    uint64_t size;
    uint64_t used_bytes; /* rounded bytes of the blocks in it */
    uint64_t largest_hole;
    uint64_t holes;
    size_t first_block; /* its blocks are consecutive in space.blocks */
    size_t block_count;
};

struct space {
    const struct space_layers *layers; /* borrows; of the last space_look */
    struct space_block *blocks;        /* owns; sorted by address once measured */
    size_t block_count;
    size_t block_capacity;
    struct space_chunk *chunks; /* owns; sorted by address once measured */
    size_t chunk_count;
    size_t chunk_capacity;
    bool joins;  /* chunks that touch are one */
    bool failed; /* no memory */
    /* The results of space_measure. */
    uint64_t requested_bytes;
    uint64_t rounded_bytes;
    uint64_t inside_bytes;   /* rounded bytes of the blocks that lie in a chunk */
    uint64_t reserved_bytes; /* of all chunks */
    uint64_t free_bytes;     /* reserved_bytes - inside_bytes */
    uint64_t largest_hole;
    uint64_t holes;
    uint64_t empty_bytes; /* of chunks without a block */
};

/* Find the upper and lower logs of `view`, and extend its filter to the lower ones. */
int space_layers_make(struct view *view, uint64_t page_bytes, struct space_layers *out);
void space_layers_free(struct space_layers *layers);

void space_free(struct space *space);

/* The least bytes that a request takes: its size rounded up to the alignment. */
uint64_t space_rounded(const struct scan_life *life);

/* Take in what is live in the scan now, plus `besides` (NULL: nothing), and measure. Replaces the previous state. */
void space_look(struct space *space, const struct space_layers *layers, const struct scan *scan,
                const struct scan_life *besides);

/* The bytes in holes smaller than `size`. */
uint64_t space_unusable(const struct space *space, uint64_t size);

/* Describe the first three blocks of a chunk: "#12 4 KiB step/forward, #13 ...". */
void space_pins(const struct view *view, const struct space *space, const struct space_chunk *chunk, char *text,
                size_t size);

#endif
