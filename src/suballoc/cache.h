/*
 * Caches of small freed pieces: each thread keeps some, by stream and size class, for its own next requests. An
 * allocation and a free that the cache serves write no memory that other threads write.
 *
 * A thread's cache has an upper bound, which is larger for a large pool: with many live blocks, more pieces of a size
 * are freed before the next request of that size. Frees run ahead of requests by chance: with N live blocks of a class
 * by about the square root of N. While threads wait for the chunk heap's lock, the bound rises until they no longer
 * wait. A cache over its bound frees half of its pieces into the chunk heap. It frees all of them when its thread ends,
 * when the chunk heap gathers before a request fails, and before the streams that they were freed on may be destroyed.
 */
#ifndef TIDEI_CACHE_H
#define TIDEI_CACHE_H

#include "src/suballoc/chunk-heap.h"
#include "src/sync/slots.h"

/*
 * Size classes that are cached, from the smallest on: up to 256 KiB with granules of 256 bytes. Larger blocks cost
 * little beside the work on their contents, and without them in the heap it would fragment.
 */
#define TIDEI_CACHE_CLASSES 113
/* Granules of the largest cached class; see tidei_class_of. */
#define TIDEI_CACHE_LARGEST UINT64_C(1024)
/* A request may take a piece this many classes above its own: a quarter more, as an octave has 16 classes. */
#define TIDEI_CACHE_NEAR 4
/* Streams of which one cache holds pieces at a time. */
#define TIDEI_CACHE_STREAMS 8
/* Pieces of one class and stream in a cache. */
#define TIDEI_CACHE_DEPTH 64
/*
 * A thread may always cache LEAST_BYTES. Beyond that, all caches together may hold 1/SHARE of the reserved memory, or
 * 1/CONTENDED_SHARE while threads wait for the lock: see tidei_chunk_heap_enter.
 */
#define TIDEI_CACHE_LEAST_BYTES     (UINT64_C(4) << 20)
#define TIDEI_CACHE_SHARE           64
#define TIDEI_CACHE_CONTENDED_SHARE 4

struct tidei_cache_bin {
    struct tidei_piece *first; /* last freed first; linked by next */
    uint32_t count;
};

struct tidei_cache_stream {
    tide_stream stream;
    uint32_t count;                                                      /* pieces in all bins */
    struct tidei_cache_bin bins[TIDEI_CACHE_CLASSES + TIDEI_CACHE_NEAR]; /* the last ones stay empty */
};

/* One thread's slot. */
struct tidei_cache_slot {
    struct tidei_slot slot;
    uint32_t stream_count;
    uint64_t most_bytes; /* upper bound of `bytes`; 0: the thread has freed nothing so far */
    /* as requested: handed out here, less taken back here, a negative number in two's complement */
    _Atomic uint64_t used_bytes;
    uint64_t bytes; /* of all pieces in the bins */
    uint64_t count; /* pieces in the bins */
    struct tidei_cache_stream streams[TIDEI_CACHE_STREAMS];
};

struct tidei_cache {
    struct tidei_slots slots;
    struct tidei_chunk_heap *chunk_heap; /* borrowed */
    uint64_t most_bytes;                 /* upper bound of one thread's cache */
    uint64_t largest_bytes;              /* largest piece that is cached */
    uint64_t threads;                    /* that have freed a block; guarded by the chunk heap's lock */
    unsigned granule_log2;
};

/* The size of the largest piece that is cached where each thread may keep `most_bytes`; 0: none. */
uint64_t tidei_cache_class_bytes(uint64_t most_bytes, uint64_t granule);

/* `chunk_heap` must be initialized. Nothing is cached where `most_bytes` is below a granule. */
void tidei_cache_init(struct tidei_cache *cache, struct tidei_chunk_heap *chunk_heap, uint64_t most_bytes);

/* Forget the pieces in the bins: the chunk heap is destroyed, too. */
void tidei_cache_fini(struct tidei_cache *cache);

/* Free the pieces of all caches into the chunk heap. */
void tidei_cache_gather(struct tidei_cache *cache);

/* Sums over all slots. */
struct tidei_cache_sums {
    uint64_t used_bytes; /* may be negative, as above */
    uint64_t bytes;
    uint64_t count;
    uint64_t largest; /* bytes of the largest piece */
};

/* Block all threads from their slots and the chunk heap's lock until tidei_cache_open, and sum up all slots. */
void tidei_cache_close(struct tidei_cache *cache, struct tidei_cache_sums *out);
void tidei_cache_open(struct tidei_cache *cache);

/* The sum of used_bytes, one slot after the other, while threads go on. Waits only for threads that come or end. */
uint64_t tidei_cache_used(struct tidei_cache *cache);

/*
 * The slow path of tidei_cache_give, for a piece that it has TAKEN. If pieces of this size are cached, free others to
 * make room for it; else free the piece itself. On failure the piece is live again. Errors: TIDE_ENOMEM.
 */
enum tide_status tidei_cache_put(struct tidei_cache *cache, struct tidei_piece *piece, size_t bytes, size_t alignment,
                                 tide_stream stream);

/* This thread's bins of a stream; NULL where it has none. The caller is inside the slot. */
static inline struct tidei_cache_stream *
tidei_cache_find(struct tidei_cache_slot *slot, tide_stream stream)
{
    for (uint32_t i = 0; i < slot->stream_count; i++) {
        if (slot->streams[i].stream == stream)
            return &slot->streams[i];
    }
    return NULL;
}

/* The class of a request; TIDEI_CACHE_CLASSES or more where such requests are not cached. */
static inline unsigned
tidei_cache_class(const struct tidei_cache *cache, size_t bytes, size_t alignment)
{
    uint64_t granule = UINT64_C(1) << cache->granule_log2;

    if (__builtin_expect(bytes > cache->largest_bytes || alignment > granule, 0))
        return TIDEI_CACHE_CLASSES;
    return tidei_class_of(tidei_class_round_up((bytes + granule - 1) >> cache->granule_log2));
}

/*
 * This thread's bin for a class. Where that is empty, one of the next classes, whose pieces are at most a quarter
 * larger. A thread with a hundred blocks has one or two pieces of a class. Without the next classes, 17 of 100 requests
 * would take the chunk heap's lock, where now a quarter of one does, and threads would wait for each other.
 */
static inline struct tidei_cache_bin *
tidei_cache_bin_near(struct tidei_cache_stream *own, unsigned size_class)
{
    unsigned most = size_class / 4 < TIDEI_CACHE_NEAR ? size_class / 4 : TIDEI_CACHE_NEAR;

    for (struct tidei_cache_bin *bin = &own->bins[size_class]; bin <= &own->bins[size_class + most]; bin++) {
        if (bin->first != NULL)
            return bin;
    }
    return NULL;
}

static inline __attribute__((always_inline)) struct tidei_cache_slot *
tidei_cache_enter(struct tidei_cache *cache, bool quickly)
{
    return (struct tidei_cache_slot *)(quickly ? tidei_slot_enter_quickly(&cache->slots)
                                               : tidei_slot_enter(&cache->slots));
}

/*
 * Take a block for the request from this thread's cache; false where it has none. Wait-free. `quickly`: false, too, if
 * the slot cannot be entered without a call of a function.
 */
static inline __attribute__((always_inline)) bool
tidei_cache_take(struct tidei_cache *cache, bool quickly, size_t bytes, size_t alignment, tide_stream stream,
                 void **out)
{
    unsigned size_class = tidei_cache_class(cache, bytes, alignment);
    struct tidei_cache_stream *own;
    struct tidei_cache_slot *slot;
    struct tidei_cache_bin *bin = NULL;

    if (size_class >= TIDEI_CACHE_CLASSES)
        return false;
    slot = tidei_cache_enter(cache, quickly);
    if (slot == NULL)
        return false;
    own = tidei_cache_find(slot, stream);
    if (own != NULL)
        bin = tidei_cache_bin_near(own, size_class);
    if (bin != NULL) {
        struct tidei_piece *piece = bin->first;

        bin->first = piece->next;
        bin->count--;
        own->count--;
        slot->count--;
        slot->bytes -= piece->bytes;
        tidei_figure_add(&slot->used_bytes, bytes);
        *out = (void *)tidei_piece_address(piece);
        tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
    }
    tidei_slot_leave(&slot->slot);
    return bin != NULL;
}

/* This thread's bins of a stream; NULL where there is no room for the piece. The caller is inside the slot. */
static inline struct tidei_cache_stream *
tidei_cache_room(struct tidei_cache_slot *slot, const struct tidei_piece *piece, tide_stream stream)
{
    struct tidei_cache_stream *own = tidei_cache_find(slot, stream);

    if (__builtin_expect(piece->size_class >= TIDEI_CACHE_CLASSES, 0))
        return NULL;
    if (__builtin_expect(own == NULL, 0)) {
        if (slot->stream_count == TIDEI_CACHE_STREAMS)
            return NULL;
        own = &slot->streams[slot->stream_count++];
        own->stream = stream;
    }
    if (slot->bytes + piece->bytes > slot->most_bytes || own->bins[piece->size_class].count >= TIDEI_CACHE_DEPTH)
        return NULL;
    return own;
}

/* Keep a CACHED piece; false where there is no room. The caller is inside the slot. */
static inline bool
tidei_cache_keep(struct tidei_cache_slot *slot, struct tidei_piece *piece, tide_stream stream)
{
    struct tidei_cache_stream *own = tidei_cache_room(slot, piece, stream);
    struct tidei_cache_bin *bin;

    if (__builtin_expect(own == NULL, 0))
        return false;
    bin = &own->bins[piece->size_class];
    piece->next = bin->first;
    bin->first = piece;
    bin->count++;
    own->count++;
    slot->count++;
    slot->bytes += piece->bytes;
    return true;
}

/* The result of an attempt to free a block. */
enum tidei_cache_given {
    TIDEI_CACHE_KEPT,
    TIDEI_CACHE_TAKEN,  /* CACHED, but in no bin: free it with tidei_cache_put */
    TIDEI_CACHE_NOT_IT, /* another block's piece; nothing has changed */
};

/*
 * Take back a block of this size and alignment if `piece` is that block, and keep it if there is room. Only the piece's
 * atomic fields may be read before it is claimed, because another thread may be reusing the struct. Wait-free.
 * `quickly` as above.
 */
static inline __attribute__((always_inline)) enum tidei_cache_given
tidei_cache_give(struct tidei_cache *cache, bool quickly, struct tidei_piece *piece, void *pointer, size_t bytes,
                 size_t alignment, tide_stream stream)
{
    struct tidei_cache_slot *slot = tidei_cache_enter(cache, quickly);
    enum tidei_cache_given given = TIDEI_CACHE_NOT_IT;

    if (slot == NULL)
        return TIDEI_CACHE_NOT_IT;
    if (tidei_piece_claim(piece, pointer, tidei_piece_live(bytes, alignment), TIDEI_PIECE_CACHED)) {
        tidei_figure_add(&slot->used_bytes, 0 - (uint64_t)bytes);
        given = tidei_cache_keep(slot, piece, stream) ? TIDEI_CACHE_KEPT : TIDEI_CACHE_TAKEN;
    }
    tidei_slot_leave(&slot->slot);
    return given;
}

#endif
