/*
 * The address space of a pool at one moment: chunks, the blocks in them, and the holes between those.
 *
 * Chunks are what the next log below has live. Where there is none they are taken from the addresses alone: the runs of
 * pages in which some block lies, since a page with a block cannot be given back.
 */
#ifndef VIEWER_ANALYSIS_SPACE_H
#define VIEWER_ANALYSIS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/scan.h"
#include "viewer/read/view.h"

/* The granularity of the driver's memory. */
#define SPACE_PAGE (UINT64_C(2) << 20)

/* Which log is the upper one, whose blocks lie in the chunks of the lower. */
struct space_layers {
    struct filter_set upper;
    struct filter_set lower; /* not active: there is none */
    uint64_t page_bytes;
};

struct space_block {
    uint64_t address;
    uint64_t size;    /* requested */
    uint64_t rounded; /* up to the alignment */
    int64_t allocation_id;
    int64_t tag_id;
    int64_t stream_id;
    int64_t alloc_ns;
};

struct space_chunk {
    uint64_t address;
    uint64_t size;
    uint64_t used_bytes; /* rounded, of the blocks in it */
    uint64_t largest_hole;
    uint64_t holes;
    size_t first_block; /* those in it follow each other */
    size_t block_count;
};

struct space {
    struct space_block *blocks; /* owns; by address once measured */
    size_t block_count;
    size_t block_capacity;
    struct space_chunk *chunks; /* owns; by address once measured */
    size_t chunk_count;
    size_t chunk_capacity;
    bool failed; /* no memory */
    /* What space_measure finds. */
    uint64_t requested_bytes;
    uint64_t rounded_bytes;
    uint64_t inside_bytes;   /* rounded, of the blocks that lie in a chunk */
    uint64_t reserved_bytes; /* all chunks */
    uint64_t free_bytes;     /* reserved and not inside */
    uint64_t largest_hole;
    uint64_t holes;
    uint64_t empty_bytes; /* of chunks without a block */
};

/* Find the layers for what `view` looks at, and have its filter take the lower one, too. */
int space_layers_make(struct view *view, uint64_t page_bytes, struct space_layers *out);
void space_layers_free(struct space_layers *layers);

void space_free(struct space *space);

/* The bytes that a request takes at least. */
uint64_t space_rounded(const struct scan_life *life);

/* Take in what is live in the scan now, and `besides` (NULL: nothing), and measure. Replaces what was there. */
void space_look(struct space *space, const struct space_layers *layers, const struct scan *scan,
                const struct scan_life *besides);

/* Bytes of holes that are smaller than `size`. */
uint64_t space_unusable(const struct space *space, uint64_t size);

/* The blocks of a chunk in words, the first three: "#12 4 KiB step/forward, #13 ...". */
void space_pins(const struct view *view, const struct space *space, const struct space_chunk *chunk, char *text,
                size_t size);

/* 1 - largest hole / free: 0 where all that is free is one hole. */
double space_external(const struct space *space);

#endif
