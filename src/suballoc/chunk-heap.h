/*
 * A heap with a lock, which gets its chunks from an upstream resource. `pool` and `arena` are built on it; the caches
 * of threads lie above it.
 *
 * The lock is released for calls to upstream, which get chunks and order streams. During such a call no other thread
 * can get the memory concerned: the piece is MOVING, or the chunk is out of the heap.
 */
#ifndef TIDEI_SUBALLOC_CHUNK_HEAP_H
#define TIDEI_SUBALLOC_CHUNK_HEAP_H

#include <pthread.h>

#include <tidemark/pool.h>

#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/suballoc/chunks.h"
#include "src/suballoc/decay.h"
#include "src/suballoc/heap.h"

/* Chunk sizes are multiples of this where possible, because drivers reserve memory in such units. */
#define TIDEI_CHUNK_HEAP_CHUNK_BYTES (UINT64_C(2) << 20)

/* Upper bound of a request, and of the sizes that a constructor takes. */
#define TIDEI_CHUNK_HEAP_BYTES_MAX (UINT64_C(1) << 47)

/* How many streams are known at a time on which chunks went back. */
#define TIDEI_CHUNK_HEAP_OWED 8

struct tidei_chunk_heap;

/*
 * A call of upstream that names streams on which memory was freed; see tidei_chunk_heap_name. A list of those that have
 * begun, the latest first.
 */
struct tidei_chunk_heap_naming {
    struct tidei_piece
        *piece;       /* borrowed: what the call is about, which no other thread finds meanwhile; NULL: a wish */
    uint64_t number;  /* from 1 upwards */
    pthread_t thread; /* whose call it is */
    int cancel;       /* how the thread may be cancelled behind it */
    struct tidei_chunk_heap_naming *next;
};

struct tidei_chunk_heap_options {
    const char *name;                  /* of the layer, for messages */
    const struct tide_resource *layer; /* borrowed: that layer, which its refusals name */
    uint64_t granule;
    uint64_t growth_bytes;            /* the least that upstream is asked for */
    uint64_t cut_bytes;               /* over bases without pages and units: chunks up to this size, */
                                      /* and up to `growth_bytes`, are cut up for any request */
    uint64_t maximum_bytes;           /* UINT64_MAX: no bound */
    uint64_t release_threshold_bytes; /* UINT64_MAX: the peak of the reserved bytes */
    uint64_t decay_ms;                /* free chunks are returned that were not needed for so long; 0: never */
    uint64_t class_bytes;             /* pieces up to this size get a size class, for caches */
    bool is_inner;                    /* a part of a layer: its upstream is another part of it */
    /* Free the pieces of caches above the chunk heap into it; NULL: there are none. Called without the lock. */
    void (*gather)(struct tidei_chunk_heap *chunk_heap);
};

struct tidei_chunk_heap {
    struct tide_resource *upstream; /* borrowed: the upstream of the resource that embeds this struct */
    struct tidei_chunks chunks;     /* unless is_inner */
    struct tidei_chunk_heap_options options;
    struct tidei_lock lock;      /* guards the fields below; never held over a call of upstream */
    _Atomic uint64_t used_bytes; /* as requested: handed out here, less taken back here */
    uint64_t peak_bytes;         /* peak of `held` */
    uint64_t limit_bytes;        /* the same, less what has decayed since, where chunks are not joined */
    _Atomic uint64_t grown, returned, taken_over, orders; /* as in struct tide_pool_figures */
    uint64_t used_peak_bytes; /* of all pieces that are out, when chunks had to be requested; where chunks are joined */
    _Atomic uint64_t remapped; /* of `returned`: to have as much mapped elsewhere, where chunks are joined */
    int64_t paid_moves;        /* this and the next two: see tidei_chunk_heap_pay */
    uint64_t paid_requests;    /* of all requests */
    bool restless;             /* more chunks go back for others than the requests pay for */
    bool growing;              /* a thread has upstream map chunks beside others; see chunk-heap-pages.c */
    uint32_t returning;        /* chunks being returned to upstream */
    uint32_t requesting;       /* threads that are requesting a chunk from upstream */
    uint64_t wishes;           /* how often a thread has begun to trim upstream and name it streams */
    uint64_t named;            /* how often any call has begun that names streams */
    uint64_t given_back;       /* how many of them have given memory back on a stream */
    struct tidei_chunk_heap_naming *naming; /* those that have not ended; each on its thread's stack */
    uint32_t naming_forks;                  /* tidei_fork_generation of these */
    uint64_t returns_ended;                 /* events: a chunk in `returning` arrived or came back */
    uint64_t requests_ended;                /* events: a thread in `requesting` got its answer */
    uint64_t returning_bytes;               /* of the chunks in `returning` */
    uint64_t requests;                      /* threads that took the lock for a request, before those in `entered` */
    uint32_t entered, waited;  /* recent count: threads that took the lock for a request, and those that had to wait */
    uint32_t contention;       /* level of contention: how often `waited` was too high */
    uint32_t forks;            /* tidei_fork_generation when the two were counted */
    _Atomic uint64_t held;     /* bytes of all chunks; written with the lock */
    _Atomic uint64_t reserved; /* bytes of all chunks, and of those requested from upstream */
    uint64_t unit_bytes; /* of the memory that upstream keeps for later requests (TIDE_QUERY_UNIT); 0: it keeps none */
    uint64_t kept_bytes; /* that upstream is not trimmed below (TIDE_QUERY_KEPT) */
    tide_stream owed[TIDEI_CHUNK_HEAP_OWED]; /* on which chunks went back just now, which upstream is to note */
    uint32_t owed_count;
    bool late;              /* upstream has some of which the work is late: see await.h */
    uint64_t patience_ns;   /* how long a request waits for that at most; less after a wait in vain */
    _Atomic uint64_t waits; /* how often one did */
    struct tidei_decay decay;
    uint64_t empty_next;      /* the request from which on chunks are chosen that shall become free; see leaving.h */
    _Atomic uint64_t decayed; /* of `returned`: because of it */
    struct tidei_heap heap;
};

enum tide_status tidei_chunk_heap_init(struct tidei_chunk_heap *chunk_heap, struct tide_resource *upstream,
                                       const struct tidei_chunk_heap_options *options);

/* Return all chunks, ordered behind all work of the device. Nobody may use a piece afterwards. */
void tidei_chunk_heap_fini(struct tidei_chunk_heap *chunk_heap);

/* When WAITED of the last ENTERED threads had to wait for the lock, `contention` rises, up to CONTENTION_MOST. */
#define TIDEI_CHUNK_HEAP_ENTERED         1024
#define TIDEI_CHUNK_HEAP_WAITED          (TIDEI_CHUNK_HEAP_ENTERED / 8)
#define TIDEI_CHUNK_HEAP_CONTENTION_MOST 16

/* Take the lock for a request, and count whether the thread had to wait: with contention, caches may be larger. */
void tidei_chunk_heap_enter(struct tidei_chunk_heap *chunk_heap);

/* Reset the measure of contention. The caller holds the lock. */
void tidei_chunk_heap_reset_contention(struct tidei_chunk_heap *chunk_heap);

/* Get the first chunk from upstream; it is kept until tidei_chunk_heap_fini. */
enum tide_status tidei_chunk_heap_begin(struct tidei_chunk_heap *chunk_heap, uint64_t bytes);

/*
 * A piece for 1 to TIDEI_CHUNK_HEAP_BYTES_MAX bytes, LIVE. If the heap may not grow, the piece comes from free memory:
 * its own, and that of chunks that other threads are requesting just now. Then the errors are TIDE_ENOMEM, with the
 * error text set, and TIDE_ECAPACITY, without.
 */
enum tide_status tidei_chunk_heap_allocate(struct tidei_chunk_heap *chunk_heap, size_t bytes, size_t alignment,
                                           tide_stream stream, bool may_grow, struct tidei_piece **out);

/*
 * Take back a LIVE piece of exactly this size and alignment; NULL of 0 bytes is none. Errors: TIDE_EPOINTER,
 * TIDE_EMISMATCH, TIDE_ENOMEM.
 */
enum tide_status tidei_chunk_heap_deallocate(struct tidei_chunk_heap *chunk_heap, void *pointer, size_t bytes,
                                             size_t alignment, tide_stream stream);

/*
 * Free a piece that the caller has made CACHED and counted as taken back. Where the host has no memory to note its
 * stream, the piece is LIVE again with this size and alignment, and counted as out.
 */
enum tide_status tidei_chunk_heap_put(struct tidei_chunk_heap *chunk_heap, struct tidei_piece *piece, size_t bytes,
                                      size_t alignment, tide_stream stream);

/* Return all free chunks to upstream, and wait for those that other threads are returning. */
void tidei_chunk_heap_release(struct tidei_chunk_heap *chunk_heap);

/* Whether the pointer lies in one of the heap's chunks. */
bool tidei_chunk_heap_owns(struct tidei_chunk_heap *chunk_heap, const void *pointer);

/* A moment before a wait for all streams. */
struct tidei_chunk_heap_order {
    uint64_t epoch;      /* memory that was freed up to this one is free on stream 0 behind the wait */
    uint64_t given_back; /* calls that had given memory back on a stream */
};

/*
 * For one wait for all streams that serves several chunk heaps. The caller calls order_begin, orders stream 0 behind
 * all streams, and calls order_end with the same struct. Memory that was free at order_begin is then free on stream 0.
 * No call of upstream names a stream that may be destroyed then. One that has ended since order_begin may have given
 * upstream memory on it: *named says that there were such calls. NULL: that does not matter. Where upstream is another
 * chunk heap that the same wait serves, order_begin of that one comes last, so that what a call gave it before this
 * one's order_begin was free there, too.
 */
void tidei_chunk_heap_order_begin(struct tidei_chunk_heap *chunk_heap, struct tidei_chunk_heap_order *out);
enum tide_status tidei_chunk_heap_order_end(struct tidei_chunk_heap *chunk_heap,
                                            const struct tidei_chunk_heap_order *order, bool *named);

/* Gather, and order stream 0 behind all streams. All free memory is then free on stream 0. */
enum tide_status tidei_chunk_heap_order_all(struct tidei_chunk_heap *chunk_heap);

/* Return free chunks as long as `keep_bytes` stay. Each chunk is ordered behind the streams on which it was freed. */
void tidei_chunk_heap_shrink(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes);

/*
 * Whether there is anything to trim: more than `keep_bytes` is reserved. Then it is behind a wait for all streams,
 * which fails while one of them is being captured. Nobody waits for all where there is nothing to trim.
 */
bool tidei_chunk_heap_trims(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes);

/* tidei_chunk_heap_order_all, then tidei_chunk_heap_shrink; nothing where there is nothing to trim. */
enum tide_status tidei_chunk_heap_trim(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes);

/*
 * Pass the trim of the layer on. `ordered`: its chunks went back on stream 0, behind a wait for all streams. Upstream
 * may wait for a short time, so that what went back is free there.
 */
enum tide_status tidei_chunk_heap_pass_trim(struct tidei_chunk_heap *chunk_heap, uint64_t keep_bytes, bool ordered);

/* Add the figures of the heap's free memory to *figures. The caller holds the lock. */
void tidei_chunk_heap_add_free(const struct tidei_chunk_heap *chunk_heap, struct tide_pool_figures *figures);

/*
 * The query operation of a layer whose memory comes through this chunk heap. `read` is called without the lock, and
 * sets the figures that the chunk heap alone does not know.
 */
enum tide_status tidei_chunk_heap_query(struct tidei_chunk_heap *chunk_heap, struct tide_resource *layer,
                                        void (*read)(struct tide_resource *layer, struct tide_pool_figures *out),
                                        enum tide_query what, uint64_t *out);

#endif
