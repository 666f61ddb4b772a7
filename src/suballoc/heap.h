/*
 * Cuts chunks of memory into pieces: the core of `pool` and `arena`.
 *
 * A freed piece merges with free neighbours at once, whichever streams they were freed on. Each free piece keeps a list
 * of freed runs, which say on which stream each of its bytes was freed and when. So a stream that takes a part of a
 * piece waits only for the streams of that part, and not for one that it has waited for since.
 *
 * How a piece is chosen for a request:
 *  - Small requests (up to TIDEI_HEAP_SMALL_BYTES) are rounded up to a size class. They share regions, which are pieces
 *    of chunks, unless they are large beside a region. So small pieces that live for long do not fragment the chunks.
 *  - Large requests get the smallest free piece that fits in a chunk that is in use; else a whole free chunk, but only
 *    if they nearly fill it, or it is small: cutting up a large one costs more than having upstream exchange it.
 *  - A piece that begins with memory of the request's own stream is preferred where it is not much larger.
 *
 * Time: constant, plus one step for each digit of the size of a large piece, plus one step for each freed run that is
 * taken. No locks: the caller holds one. Nothing here calls upstream.
 */
#ifndef TIDEI_HEAP_H
#define TIDEI_HEAP_H

#include "src/suballoc/piece-map.h"
#include "src/suballoc/streams.h"

#define TIDEI_HEAP_SMALL_BYTES  ((uint64_t)1 << 20) /* the largest small request */
#define TIDEI_HEAP_REGION_BYTES ((uint64_t)4 << 20) /* the first regions; later ones are larger */
#define TIDEI_HEAP_REGION_MOST  ((uint64_t)32 << 20)

/*
 * What a request, or the free pieces of a span, are for: small requests, large ones, or only what fits nowhere else, as
 * the chunk is to become free (leaving.h).
 */
enum tidei_zone { TIDEI_ZONE_SMALL, TIDEI_ZONE_LARGE, TIDEI_ZONE_LEAVING };

/*
 * Contiguous memory: a chunk from upstream, or a region within one. A heap whose chunks may be joined has one span of
 * all pieces besides (range.h); a chunk's own has none then.
 */
struct tidei_span {
    uintptr_t base;
    uint64_t bytes;
    struct tidei_piece *first;        /* the piece at `base`; NULL: pieces may span chunks */
    struct tidei_piece *parent;       /* of a region: its piece in the chunk */
    enum tidei_zone zone;             /* of its free pieces, unless it is a free chunk */
    uint32_t fullness;                /* of a chunk: scratch of leaving.c */
    bool keep;                        /* of a chunk: the first one, which is never returned */
    struct tidei_span *older, *newer; /* of a free chunk: a list in the order in which they became free */
    struct tidei_span *unused_next;
};

struct tidei_heap_request {
    uint64_t bytes;     /* the size of the piece: a multiple of the granule */
    uint64_t alignment; /* at least the granule */
    uint32_t stream;
    enum tidei_zone zone;
    bool last_resort; /* cut any piece that fits */
};

/* The pieces of chunks that may be joined; see range.h. */
struct tidei_range {
    uint64_t page_bytes;       /* 0: chunks are not joined */
    struct tidei_span span;    /* of all pieces and gaps */
    struct tidei_piece **gaps; /* owns; by address */
    size_t gap_count;
    size_t gap_capacity;
    uintptr_t lowest; /* that any chunk had */
};

struct tidei_heap {
    unsigned granule_log2;
    uint64_t first_region_bytes;
    uint64_t step_bytes; /* chunks up to this are cut for any request */
    struct tidei_slab pieces, spans, freed_runs;
    struct tidei_piece_map out;
    struct tidei_streams streams;
    struct tidei_classes small; /* free pieces of regions */
    struct tidei_tree large;    /* free pieces of chunks in use */
    struct tidei_tree free;     /* pieces of free chunks */
    struct tidei_tree leaving;  /* free pieces of chunks that are to become free, and of their regions */
    struct tidei_span **chunks; /* owns; by address */
    size_t chunk_count;
    size_t chunk_capacity;
    size_t chunks_away;                 /* taken out, and may be put back: `chunks` has room for them */
    struct tidei_span *oldest, *newest; /* free chunks, except those that stay */
    struct tidei_span *idle_region;     /* a free region that is kept for reuse; may be NULL */
    uint64_t region_bytes;              /* of all regions */
    uint64_t out_bytes;                 /* of all pieces that are out */
    uint64_t free_count;                /* free pieces */
    struct tidei_range range;           /* range.h; used where `page_bytes` is set */
};

/*
 * `granule` (power of two) is the smallest unit that is handed out. `most_bytes` bounds the sum of all chunks; regions
 * are small beside it. Errors: TIDE_ENOMEM, without text.
 */
enum tide_status tidei_heap_init(struct tidei_heap *heap, uint64_t granule, uint64_t step_bytes, uint64_t most_bytes);
void tidei_heap_fini(struct tidei_heap *heap);

/* Reserve the host memory that one call of a function below needs. False where the host has none. */
bool tidei_heap_reserve(struct tidei_heap *heap);

/* The size of the next region. */
uint64_t tidei_heap_region_bytes(const struct tidei_heap *heap);

/* The size of a piece for `bytes` (not 0, at most TIDEI_PIECE_BYTES_MAX / 2), and the zone from which it is taken. */
uint64_t tidei_heap_round(const struct tidei_heap *heap, uint64_t bytes, enum tidei_zone *zone);

/* The size of a free piece, or of a chunk, that fits the request whatever its address. */
uint64_t tidei_heap_need(const struct tidei_heap *heap, const struct tidei_heap_request *request);

/*
 * A piece for the request, MOVING, or NULL where nothing fits. Until tidei_heap_wait returns false it still has its
 * freed runs, and may be given back as it was.
 */
struct tidei_piece *tidei_heap_take(struct tidei_heap *heap, const struct tidei_heap_request *request);

/* The same from the chunk at `base` only; NULL also where there is none that is free. */
struct tidei_piece *tidei_heap_take_chunk(struct tidei_heap *heap, uintptr_t base,
                                          const struct tidei_heap_request *request);

/* The same from a held piece that fits it whatever its address; see range.h. */
struct tidei_piece *tidei_heap_take_held(struct tidei_heap *heap, struct tidei_piece *piece,
                                         const struct tidei_heap_request *request);

/*
 * Whether `later` has to wait for another stream before it may use the piece. If so, *earlier is that stream, and
 * *epoch is the epoch that ends with this call. If not, the piece belongs to `later` from now on.
 */
bool tidei_heap_wait(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t later, uint32_t *earlier,
                     uint64_t *epoch);

/* `later` has been made to wait as tidei_heap_wait asked. */
void tidei_heap_waited(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t later, uint32_t earlier,
                       uint64_t epoch);

/* Free a piece that is out, on `stream`; the caller has made it MOVING. */
void tidei_heap_put(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream);

/* Undo tidei_heap_take: free the piece with the freed runs that it had. */
void tidei_heap_put_back(struct tidei_heap *heap, struct tidei_piece *piece);

/* The piece, in any state, that contains `pointer`; NULL where that lies in no chunk. Scans the pieces of the chunk. */
struct tidei_piece *tidei_heap_around(const struct tidei_heap *heap, const void *pointer);

/* Whether the `bytes` bytes at `base` overlap a chunk. */
bool tidei_heap_overlaps(const struct tidei_heap *heap, uintptr_t base, uint64_t bytes);

/* Add a chunk, ready for use on `stream`; room for it is reserved. */
void tidei_heap_chunk_add(struct tidei_heap *heap, uintptr_t base, uint64_t bytes, uint32_t stream, bool keep);

/*
 * Take out the chunk that has been free for longest, among those of at most `most_bytes`. With `all`, also a chunk that
 * would stay, or that has the idle region. NULL where there is none. The result is the piece that covers exactly the
 * chunk; its freed runs still hold their streams.
 */
struct tidei_piece *tidei_heap_chunk_take(struct tidei_heap *heap, bool all, uint64_t most_bytes);

/* Set the one freed run of a piece that has waited for all streams that tidei_heap_wait named: `stream`, now. */
void tidei_heap_own(struct tidei_heap *heap, struct tidei_piece *piece, uint32_t stream);

/* Put the chunk back into the heap, or forget it. */
void tidei_heap_chunk_put_back(struct tidei_heap *heap, struct tidei_piece *chunk);
void tidei_heap_chunk_forget(struct tidei_heap *heap, struct tidei_piece *chunk);

/* Make all memory that was freed up to `epoch`, which has ended, and is still free, free on `stream`. */
void tidei_heap_reassign(struct tidei_heap *heap, uint64_t epoch, uint32_t stream);

/* The same for a piece, or a chunk, that was taken and still has its freed runs. */
void tidei_heap_reassign_taken(struct tidei_heap *heap, struct tidei_piece *piece, uint64_t epoch, uint32_t stream);

/* The free bytes of all chunks, and those of the largest free piece. */
uint64_t tidei_heap_free_bytes(const struct tidei_heap *heap);
uint64_t tidei_heap_largest(const struct tidei_heap *heap);

#endif
