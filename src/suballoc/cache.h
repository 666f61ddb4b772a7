/*
 * What each thread keeps of the small pieces that it frees, by stream and size class, for its own next requests: the
 * common pair of calls touches nothing that another thread writes.
 *
 * A thread keeps a bounded number of bytes, more of a large pool than of a small one: with many blocks live there is
 * more to be freed before the next request of that size. How many of each size are freed before as many are asked for
 * is a matter of chance: with N blocks live of a class some square root of N. Where threads wait for the chunk heap's
 * lock they keep more and more, until they wait no longer. What a thread keeps is freed into the chunk heap in halves
 * where there is too much of it, and as a whole where it ends, where the chunk heap gathers before a request fails, and
 * before the streams that it was freed on may go.
 */
#ifndef TIDEI_CACHE_H
#define TIDEI_CACHE_H

#include "src/suballoc/chunk-heap.h"
#include "src/sync/slots.h"

/*
 * Size classes that are cached, from the smallest on: up to 256 KiB where a granule is 256 bytes. Larger ones
 * cost less than the work on what is in them, and cut up a heap that they are kept from.
 */
#define TIDEI_CACHE_CLASSES 113
/* Granules of the largest of them; see tidei_class_of. */
#define TIDEI_CACHE_LARGEST UINT64_C(1024)
/* Classes above that of a request that it may have a piece of: a quarter of the size, as an octave has 16 of them. */
#define TIDEI_CACHE_NEAR 4
/* Streams that a thread has pieces of at a time. */
#define TIDEI_CACHE_STREAMS 8
/* Pieces of one class and stream. */
#define TIDEI_CACHE_DEPTH 64
/*
 * What a thread may keep of any pool, and the part of what is reserved that all threads may keep of a large one, and
 * that of one whose lock threads wait for: see tidei_chunk_heap_enter.
 */
#define TIDEI_CACHE_LEAST_BYTES   (UINT64_C(4) << 20)
#define TIDEI_CACHE_SHARE         64
#define TIDEI_CACHE_CROWDED_SHARE 4

struct tidei_cache_bin {
    struct tidei_piece *first; /* the one that was freed last; linked by next */
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
    uint64_t most_bytes; /* that it keeps; 0: the thread has freed nothing so far */
    int64_t used_bytes;  /* as asked for: handed out here, less what was taken back here */
    uint64_t bytes;      /* of the pieces in the bins */
    uint64_t count;      /* of these */
    struct tidei_cache_stream streams[TIDEI_CACHE_STREAMS];
};

struct tidei_cache {
    struct tidei_slots slots;
    struct tidei_chunk_heap *chunk_heap; /* borrowed */
    uint64_t most_bytes;                 /* of each thread */
    uint64_t largest_bytes;              /* of a piece that is kept */
    uint64_t threads;                    /* that have freed anything; guarded by the chunk heap's lock */
    unsigned granule_log2;
};

/* The largest piece that is kept where each thread may keep `most_bytes`; 0: none. */
uint64_t tidei_cache_class_bytes(uint64_t most_bytes, uint64_t granule);

/* The chunk heap is there. `most_bytes` below a granule: nothing is kept. */
void tidei_cache_init(struct tidei_cache *cache, struct tidei_chunk_heap *chunk_heap, uint64_t most_bytes);

/* What the bins hold is forgotten: the chunk heap goes, too. */
void tidei_cache_fini(struct tidei_cache *cache);

/* Free what all threads keep into the chunk_heap. */
void tidei_cache_gather(struct tidei_cache *cache);

/* Sums over all slots. */
struct tidei_cache_sums {
    int64_t used_bytes;
    uint64_t bytes;
    uint64_t count;
    uint64_t largest; /* bytes of one piece */
};

/*
 * Keep all threads off their slots and the chunk heap's lock, and sum up all slots. Until tidei_cache_open.
 */
void tidei_cache_close(struct tidei_cache *cache, struct tidei_cache_sums *out);
void tidei_cache_open(struct tidei_cache *cache);

/*
 * The slow side of tidei_cache_give, for what it has TAKEN: free others to make room for the piece where caches keep
 * its like, else free it itself. On failure it is live again.
 * Errors: TIDE_ENOMEM.
 */
enum tide_status tidei_cache_put(struct tidei_cache *cache, struct tidei_piece *piece, size_t bytes, size_t alignment,
                                 tide_stream stream);

/* This thread's bins of a stream; NULL where it has none. Inside the slot. */
static inline struct tidei_cache_stream *
tidei_cache_find(struct tidei_cache_slot *slot, tide_stream stream)
{
    for (uint32_t i = 0; i < slot->stream_count; i++) {
        if (slot->streams[i].stream == stream)
            return &slot->streams[i];
    }
    return NULL;
}

/* The class of a request; TIDEI_CACHE_CLASSES or more where no cache has pieces for it. */
static inline unsigned
tidei_cache_class(const struct tidei_cache *cache, size_t bytes, size_t alignment)
{
    uint64_t granule = UINT64_C(1) << cache->granule_log2;

    if (__builtin_expect(bytes > cache->largest_bytes || alignment > granule, 0))
        return TIDEI_CACHE_CLASSES;
    return tidei_class_of(tidei_class_round_up((bytes + granule - 1) >> cache->granule_log2));
}

/*
 * This thread's bin for a class: that one, or where it is empty one of the next, whose pieces are larger by a quarter
 * at most. A thread with a hundred blocks has one or two pieces of a class: of 100 requests 17 would have to take the
 * chunk heap's lock otherwise, where it is a quarter of one now, and threads would wait for each other.
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

/* A block for the request into *out, where this thread has one. Wait-free. */
static inline bool
tidei_cache_take(struct tidei_cache *cache, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    unsigned size_class = tidei_cache_class(cache, bytes, alignment);
    struct tidei_cache_stream *own;
    struct tidei_cache_slot *slot;
    struct tidei_cache_bin *bin = NULL;

    if (size_class >= TIDEI_CACHE_CLASSES)
        return false;
    slot = (struct tidei_cache_slot *)tidei_slot_enter(&cache->slots);
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
        slot->used_bytes += (int64_t)bytes;
        *out = (void *)tidei_piece_address(piece);
        tidei_piece_set_word(piece, tidei_piece_live(bytes, alignment));
    }
    tidei_slot_leave(&slot->slot);
    return bin != NULL;
}

/* This thread's bins of a stream, where it has room for a piece of theirs; inside the slot. */
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

/* Keep a piece that is CACHED, where there is room; inside the slot. */
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

/* What came of an attempt to free a block. */
enum tidei_cache_given {
    TIDEI_CACHE_KEPT,
    TIDEI_CACHE_TAKEN,  /* it is CACHED, and in no bin: to be freed with tidei_cache_put */
    TIDEI_CACHE_NOT_IT, /* nothing has changed */
};

/*
 * Take back a block with these bytes and this alignment, where `piece` is it, and keep it where there is room. Nothing
 * but what is atomic is read of a piece before it is taken: another thread may be making it another one. Wait-free.
 */
static inline enum tidei_cache_given
tidei_cache_give(struct tidei_cache *cache, struct tidei_piece *piece, void *pointer, size_t bytes, size_t alignment,
                 tide_stream stream)
{
    struct tidei_cache_slot *slot = (struct tidei_cache_slot *)tidei_slot_enter(&cache->slots);
    enum tidei_cache_given given = TIDEI_CACHE_NOT_IT;

    if (slot == NULL)
        return TIDEI_CACHE_NOT_IT;
    if (tidei_piece_claim(piece, pointer, tidei_piece_live(bytes, alignment), TIDEI_PIECE_CACHED)) {
        slot->used_bytes -= (int64_t)bytes;
        given = tidei_cache_keep(slot, piece, stream) ? TIDEI_CACHE_KEPT : TIDEI_CACHE_TAKEN;
    }
    tidei_slot_leave(&slot->slot);
    return given;
}

#endif
