/*
 * Cuts chunks of memory into pieces: the heart of `pool` and `arena`.
 *
 * Pieces that are freed merge with free neighbours at once, whichever streams they were freed on; each free piece
 * remembers, freed run by freed run, on which stream its bytes were freed and when, however often it was merged. So a
 * stream that takes a part of it waits for the streams of that part alone, and not for one that it has waited for
 * since.
 *
 * Where a request goes:
 *  - Small ones (TIDEI_HEAP_SMALL_BYTES) are rounded up to a size class. Unless they are large beside the regions, they
 *    share those, which are pieces of chunks themselves. So small pieces that live for long do not cut up the chunks.
 *  - Large ones go to the smallest free piece that fits, in a chunk that is used already; else to a whole free chunk,
 *    but only to one that they nearly fill: cutting up a free chunk costs more than having upstream exchange it.
 *  - A piece that begins with memory of the request's own stream is preferred where it is not much larger.
 *
 * Time: constant, but for a step for each digit of the size with large pieces, and one for each freed run that is
 * taken, which was made by one call that freed. No locks: the caller has one. Nothing here calls upstream.
 */
#ifndef TIDEI_HEAP_H
#define TIDEI_HEAP_H

#include "src/suballoc/piece-map.h"
#include "src/suballoc/freed-runs.h"

#define TIDEI_HEAP_SMALL_BYTES  ((uint64_t)1 << 20) /* the largest small request */
#define TIDEI_HEAP_REGION_BYTES ((uint64_t)4 << 20) /* the first regions; they grow with what is small */
#define TIDEI_HEAP_REGION_MOST  ((uint64_t)32 << 20)

/* Small requests, or large ones. */
enum tidei_zone { TIDEI_ZONE_SMALL, TIDEI_ZONE_LARGE };

/* Memory without gaps: a chunk from upstream, or a region within one. */
struct tidei_span {
    uintptr_t base;
    uint64_t bytes;
    struct tidei_piece *first;        /* the piece at `base` */
    struct tidei_piece *parent;       /* of a region: the piece that it is */
    bool keep;                        /* of a chunk: the first one, which stays */
    struct tidei_span *older, *newer; /* of a chunk that is free: in the order in which they became so */
    struct tidei_span *unused_next;
};

struct tidei_heap_request {
    uint64_t bytes;     /* what a piece is to have: a multiple of the granule */
    uint64_t alignment; /* at least the granule */
    uint32_t stream;
    enum tidei_zone zone;
    bool last_resort; /* cut whatever fits */
};

struct tidei_heap {
    unsigned granule_log2;
    uint64_t first_region_bytes;
    uint64_t step_bytes; /* chunks up to this are cut for any request, since upstream is not asked for smaller ones */
    struct tidei_slab pieces, spans;
    struct tidei_freed_run_slab freed_runs;
    struct tidei_piece_map out;
    struct tidei_streams streams;
    struct tidei_classes small; /* free pieces of regions */
    struct tidei_tree large;    /* free pieces of chunks that are in use */
    struct tidei_tree free;     /* of chunks that are not */
    struct tidei_span **chunks; /* owns; by address */
    size_t chunk_count;
    size_t chunk_capacity;
    size_t chunks_away; /* that were taken out and may be put back: there is room for them in `chunks` */
    struct tidei_span *oldest, *newest; /* chunks that are free, but for those that stay */
    struct tidei_span *idle_region;     /* one that is free, and kept; NULL where there is none */
    uint64_t region_bytes;              /* of all regions */
    uint64_t out_bytes;                 /* of pieces that are out */
    uint64_t free_count;                /* free pieces */
};

/*
 * Errors: TIDE_ENOMEM, without text. `granule` is a power of two, the least that is handed out; `most_bytes` what all
 * chunks have at most: regions are small beside that.
 */
enum tide_status tidei_heap_init(struct tidei_heap *heap, uint64_t granule, uint64_t step_bytes, uint64_t most_bytes);
void tidei_heap_fini(struct tidei_heap *heap);

/* Make room on the host for what one call of a function below needs. False without host memory. */
bool tidei_heap_reserve(struct tidei_heap *heap);

/* The size of the next region. */
uint64_t tidei_heap_region_bytes(const struct tidei_heap *heap);

/* The size of a piece for `bytes` (not 0, at most TIDEI_PIECE_BYTES_MAX / 2), and the zone that it is taken from. */
uint64_t tidei_heap_round(const struct tidei_heap *heap, uint64_t bytes, enum tidei_zone *zone);

/*
 * A piece for the request, MOVING, or NULL where nothing fits. Until tidei_heap_wait returns false it still has its
 * freed runs, and may be given back as it was.
 */
struct tidei_piece *tidei_heap_take(struct tidei_heap *heap, const struct tidei_heap_request *request);

/* The same out of one chunk: the one that was added last, or became free last. */
struct tidei_piece *tidei_heap_take_newest(struct tidei_heap *heap, const struct tidei_heap_request *request);

/*
 * Whether `later` has to wait for another stream before it may use the piece. Then *earlier is that stream, and *epoch
 * the epoch that ends with this call. Where it need not wait, the piece belongs to `later` from now on.
 */
bool tidei_heap_wait(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t later, uint32_t *earlier,
                     uint64_t *epoch);

/* `later` has been made to wait as tidei_heap_wait asked. */
void tidei_heap_waited(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t later, uint32_t earlier,
                       uint64_t epoch);

/* Free a piece that is out, on `stream`; the caller has made it MOVING. True where a chunk became free. */
bool tidei_heap_put(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream);

/* Free a piece that tidei_heap_take has given, as it was. */
bool tidei_heap_put_back(struct tidei_heap *heap, struct tidei_piece *piece);

/*
 * The piece that contains `pointer`, in any state; NULL where that lies in no chunk. Looks at each piece of the chunk.
 */
struct tidei_piece *tidei_heap_around(const struct tidei_heap *heap, const void *pointer);

/* Whether the memory from `base` on overlaps a chunk. */
bool tidei_heap_overlaps(const struct tidei_heap *heap, uintptr_t base, uint64_t bytes);

/* Add a chunk that may be used on `stream`; there is room for it. */
void tidei_heap_chunk_add(struct tidei_heap *heap, uintptr_t base, uint64_t bytes, uint32_t stream, bool keep);

/* A chunk that is out of the heap; its freed runs still hold their streams. */
struct tidei_heap_chunk {
    struct tidei_piece *piece; /* all of it */
    struct tidei_span *span;
};

/*
 * Take out the chunk that has been free for longest, of those with no more than `most_bytes`; with `all`, also one that
 * stays, or has the region that is kept. False where there is none.
 */
bool tidei_heap_chunk_take(struct tidei_heap *heap, bool all, uint64_t most_bytes, struct tidei_heap_chunk *out);

/* The chunk has waited for all streams that tidei_heap_wait named; it is free on `stream` from now on. */
void tidei_heap_chunk_own(struct tidei_heap *heap, const struct tidei_heap_chunk *chunk, uint32_t stream);

/* Put the chunk back, or forget it. */
void tidei_heap_chunk_put_back(struct tidei_heap *heap, const struct tidei_heap_chunk *chunk);
void tidei_heap_chunk_forget(struct tidei_heap *heap, const struct tidei_heap_chunk *chunk);

/* Make what was freed up to `epoch`, which has ended, and is still free, free on `stream`. */
void tidei_heap_settle(struct tidei_heap *heap, uint64_t epoch, uint32_t stream);

/* Bytes that are free in all chunks, and those of the largest piece of them. */
uint64_t tidei_heap_free_bytes(const struct tidei_heap *heap);
uint64_t tidei_heap_largest(const struct tidei_heap *heap);

#endif
