/*
 * A heap with a lock, and the upstream that it gets its chunks from. `pool` and `arena` are made of it; the caches of
 * threads lie above it.
 *
 * Upstream is called without the lock, for chunks and for the order of streams. Meanwhile no other thread can get the
 * memory that the call is about: the piece is MOVING, or the chunk is out of the heap.
 */
#ifndef TIDEI_SUBALLOC_CHUNK_HEAP_H
#define TIDEI_SUBALLOC_CHUNK_HEAP_H

#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/suballoc/heap.h"

/* Chunks are multiples of this where they may be: what drivers reserve memory in. */
#define TIDEI_CHUNK_HEAP_CHUNK_BYTES (UINT64_C(2) << 20)

/* The most bytes of a request, and of the sizes of a constructor. */
#define TIDEI_CHUNK_HEAP_BYTES_MAX (UINT64_C(1) << 47)

struct tidei_chunk_heap;

struct tidei_chunk_heap_options {
    const char *name; /* of the layer, for messages */
    uint64_t granule;
    uint64_t growth_bytes;
    uint64_t maximum_bytes;           /* UINT64_MAX: no bound */
    uint64_t release_threshold_bytes; /* UINT64_MAX: what was reserved at most */
    uint64_t class_bytes;             /* pieces up to this size are told their size class, for caches */
    /* Free what lies in front of the chunk heap, such as caches, into the chunk heap. Called without the lock. */
    void (*gather)(struct tidei_chunk_heap *chunk_heap);
};

struct tidei_chunk_heap {
    struct tide_resource *upstream; /* borrowed: of the resource that this is a part of */
    struct tidei_chunk_heap_options options;
    struct tidei_lock lock; /* guards what follows; never held over a call of upstream */
    uint64_t used_bytes;    /* as asked for, of what was handed out and taken back here */
    uint64_t peak_bytes;    /* the most that `held` has been */
    uint64_t grown, returned, taken_over, orders;
    uint32_t leaving;         /* chunks on their way to upstream, or back where that refuses */
    uint32_t asking;          /* threads that ask upstream for a chunk */
    uint64_t left;            /* what became of those that were on their way */
    uint64_t answered;        /* and of those that asked */
    uint64_t leaving_bytes;   /* of chunks on their way */
    uint32_t entered, waited; /* of late: threads that took the lock for a request, and those that had to wait for it */
    uint32_t crowd;           /* how often there were too many of these */
    uint32_t forks;           /* tidei_fork_generation when the two were counted */
    _Atomic uint64_t held;    /* bytes of all chunks; written with the lock */
    _Atomic uint64_t reserved; /* bytes of all chunks, and of those that upstream is asked for */
    struct tidei_heap heap;
};

enum tide_status tidei_chunk_heap_init(struct tidei_chunk_heap *chunk_heap, struct tide_resource *upstream,
                                       const struct tidei_chunk_heap_options *options);

/* Give all chunks back, ordered behind all work of the device. Nobody may use a piece from then on. */
void tidei_chunk_heap_fini(struct tidei_chunk_heap *chunk_heap);

/*
 * Of each ENTERED threads that take the lock, WAITED that wait for it are too many: `crowd` then rises, up to its most.
 */
#define TIDEI_CHUNK_HEAP_ENTERED    1024
#define TIDEI_CHUNK_HEAP_WAITED     (TIDEI_CHUNK_HEAP_ENTERED / 8)
#define TIDEI_CHUNK_HEAP_CROWD_MOST 16

/* Take the lock for a request, and count whether others are in the way: for caches, which can be larger then. */
void tidei_chunk_heap_enter(struct tidei_chunk_heap *chunk_heap);

/* Begin to count the crowd anew. With the lock. */
void tidei_chunk_heap_forget_crowd(struct tidei_chunk_heap *chunk_heap);

/* Get the first chunk from upstream; it stays until the end. */
enum tide_status tidei_chunk_heap_begin(struct tidei_chunk_heap *chunk_heap, uint64_t bytes);

/* A piece for 1 to TIDEI_CHUNK_HEAP_BYTES_MAX bytes, LIVE. */
enum tide_status tidei_chunk_heap_allocate(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment,
                                           tide_stream stream, struct tidei_piece **out);

/*
 * The same without asking upstream for more: out of the free memory here, and of the chunks that other threads are
 * getting just now.
 * Errors: TIDE_ENOMEM, with the error text set; TIDE_ECAPACITY, without.
 */
enum tide_status tidei_chunk_heap_allocate_free(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment,
                                                tide_stream stream, struct tidei_piece **out);

/*
 * Take back a piece that is LIVE with just these bytes and this alignment. Errors: TIDE_EPOINTER, TIDE_EMISMATCH,
 * TIDE_ENOMEM.
 */
enum tide_status tidei_chunk_heap_deallocate(struct tidei_chunk_heap *chunk_heap, void *pointer, size_t bytes,
                                             size_t alignment, tide_stream stream);

/*
 * Free a piece that the caller has made CACHED, and that has been counted as taken back. Where the host has no memory
 * to note its stream, it is LIVE again with these bytes and this alignment, and counted.
 */
enum tide_status tidei_chunk_heap_put(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes,
                                      size_t alignment, tide_stream stream);

/* Give free chunks back while more than the threshold is reserved, where there is one. */
void tidei_chunk_heap_keep_threshold(struct tidei_chunk_heap *chunk_heap);

/* Give all free chunks back to upstream, and wait for those that other threads are giving back. */
void tidei_chunk_heap_release(struct tidei_chunk_heap *chunk_heap);

/* Whether the pointer lies in one of its chunks. */
bool tidei_chunk_heap_owns(struct tidei_chunk_heap *chunk_heap, const void *pointer);

/*
 * For one wait for all streams that serves several chunk heaps. Memory that is free at the first call is free on stream
 * 0 after the second; between both the caller orders stream 0 behind all. The first returns what the second wants.
 */
uint64_t tidei_chunk_heap_order_begin(struct tidei_chunk_heap *chunk_heap);
enum tide_status tidei_chunk_heap_order_end(struct tidei_chunk_heap *chunk_heap, uint64_t epoch);

/* Gather, and order stream 0 behind all streams: the memory that is free is free on stream 0 afterwards. */
enum tide_status tidei_chunk_heap_order_all(struct tidei_chunk_heap *chunk_heap);

/* Give free chunks back as long as `keep_bytes` stay. Streams that memory was freed on before are ordered. */
void tidei_chunk_heap_shrink(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes);

/* tidei_chunk_heap_order_all, then tidei_chunk_heap_shrink; nothing where no more than `keep_bytes` are reserved. */
enum tide_status tidei_chunk_heap_trim(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes);

#endif
