/* Caches of freed pieces, one for each thread; see cache.h. */
#include "src/suballoc/cache.h"

static void cache_leave(struct tidei_slots *slots, struct tidei_slot *slot);

/* Even the largest cached size leaves room for this many pieces. */
uint64_t
tidei_cache_class_bytes(uint64_t most_bytes, uint64_t granule)
{
    uint64_t bytes = most_bytes / 4 < TIDEI_HEAP_SMALL_BYTES ? most_bytes / 4 : TIDEI_HEAP_SMALL_BYTES;

    if (bytes > granule * (TIDEI_CACHE_LARGEST))
        bytes = granule * TIDEI_CACHE_LARGEST;
    return bytes < granule ? 0 : bytes;
}

void
tidei_cache_init(struct tidei_cache *cache, struct tidei_chunk_heap *chunk_heap, uint64_t most_bytes)
{
    uint64_t granule = chunk_heap->options.granule;

    cache->chunk_heap = chunk_heap;
    cache->most_bytes = most_bytes;
    cache->granule_log2 = tidei_log2(granule);
    cache->largest_bytes = tidei_cache_class_bytes(most_bytes, granule);
    tidei_slots_init(&cache->slots, sizeof(struct tidei_cache_slot), cache_leave);
}

void
tidei_cache_fini(struct tidei_cache *cache)
{
    tidei_slots_fini(&cache->slots);
}

/*
 * Free the pieces of a bin behind the first `keep` ones. The caller holds the chunk heap's lock, so a thread that has
 * closed the slots and then takes the lock finds every piece in a bin or in the heap.
 */
static void
bin_free(struct tidei_cache *cache, struct tidei_cache_slot *slot, struct tidei_cache_stream *own,
         struct tidei_cache_bin *bin, uint32_t keep, uint32_t number)
{
    struct tidei_piece **link = &bin->first;

    for (uint32_t i = 0; i < keep && *link != NULL; i++)
        link = &(*link)->next;
    while (*link != NULL) {
        struct tidei_piece *piece = *link;

        *link = piece->next;
        bin->count--;
        own->count--;
        slot->count--;
        slot->bytes -= piece->bytes;
        tidei_heap_put(&cache->chunk_heap->heap, piece, number);
    }
}

/* Free all of a stream's pieces, or the older half of each bin; none where the host has no memory for the stream. */
static void
stream_free(struct tidei_cache *cache, struct tidei_cache_slot *slot, struct tidei_cache_stream *own, bool half)
{
    uint32_t number = TIDEI_STREAM_NONE;

    if (own->count > 0)
        number = tidei_streams_number(&cache->chunk_heap->heap.streams, own->stream);
    if (number == TIDEI_STREAM_NONE)
        return;
    for (size_t i = 0; i < TIDEI_CACHE_CLASSES && own->count > 0; i++) {
        if (own->bins[i].count > 0)
            bin_free(cache, slot, own, &own->bins[i], half ? own->bins[i].count / 2 : 0, number);
    }
}

/* Free all pieces of a slot, and forget its streams. The caller holds the lock. */
static void
slot_free(struct tidei_cache *cache, struct tidei_cache_slot *slot)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < slot->stream_count; i++) {
        stream_free(cache, slot, &slot->streams[i], false);
        if (slot->streams[i].count > 0)
            kept = i + 1;
    }
    slot->stream_count = kept;
}

/* The thread has ended. Its count of bytes in use stays in the slot, and the next thread continues it. */
static void
cache_leave(struct tidei_slots *slots, struct tidei_slot *slot)
{
    struct tidei_cache *cache = (struct tidei_cache *)slots;
    struct tidei_cache_slot *own = (struct tidei_cache_slot *)slot;

    tidei_lock_acquire(&cache->chunk_heap->lock);
    slot_free(cache, own);
    cache->threads -= own->most_bytes != 0;
    own->most_bytes = 0;
    tidei_lock_release(&cache->chunk_heap->lock);
}

/* The current upper bound of a thread's cache. The caller holds the lock. */
static uint64_t
cache_share(const struct tidei_cache *cache)
{
    /* Relaxed: a number, no data behind it. */
    uint64_t held = atomic_load_explicit(&cache->chunk_heap->held, memory_order_relaxed);
    uint64_t contended = held / (TIDEI_CACHE_CONTENDED_SHARE * cache->threads);
    uint64_t bytes = held / (TIDEI_CACHE_SHARE * cache->threads);

    if (contended > TIDEI_CACHE_LEAST_BYTES << cache->chunk_heap->contention)
        contended = TIDEI_CACHE_LEAST_BYTES << cache->chunk_heap->contention;
    if (bytes < contended)
        bytes = contended;
    if (bytes < TIDEI_CACHE_LEAST_BYTES)
        bytes = TIDEI_CACHE_LEAST_BYTES;
    return bytes < cache->most_bytes ? bytes : cache->most_bytes;
}

void
tidei_cache_gather(struct tidei_cache *cache)
{
    tidei_slots_quiesce(&cache->slots);
    tidei_lock_acquire(&cache->chunk_heap->lock);
    tidei_chunk_heap_reset_contention(cache->chunk_heap);
    for (struct tidei_slot *slot = cache->slots.first; slot != NULL; slot = slot->next) {
        struct tidei_cache_slot *own = (struct tidei_cache_slot *)slot;

        slot_free(cache, own);
        if (own->most_bytes != 0)
            own->most_bytes = cache_share(cache);
    }
    tidei_lock_release(&cache->chunk_heap->lock);
    tidei_slots_resume(&cache->slots);
}

/* The bytes of the largest piece that a slot holds. */
static uint64_t
slot_largest(const struct tidei_cache_slot *slot)
{
    uint64_t largest = 0;

    for (uint32_t i = 0; i < slot->stream_count; i++) {
        for (size_t j = TIDEI_CACHE_CLASSES; j > 0; j--) {
            const struct tidei_piece *piece = slot->streams[i].bins[j - 1].first;

            if (piece != NULL && piece->bytes > largest)
                largest = piece->bytes;
            if (piece != NULL)
                break;
        }
    }
    return largest;
}

void
tidei_cache_close(struct tidei_cache *cache, struct tidei_cache_sums *out)
{
    *out = (struct tidei_cache_sums){ 0 };
    tidei_slots_quiesce(&cache->slots);
    tidei_lock_acquire(&cache->chunk_heap->lock);
    for (struct tidei_slot *slot = cache->slots.first; slot != NULL; slot = slot->next) {
        const struct tidei_cache_slot *own = (const struct tidei_cache_slot *)slot;

        out->used_bytes += tidei_figure_get(&own->used_bytes);
        out->bytes += own->bytes;
        out->count += own->count;
        if (own->count > 0 && out->largest < slot_largest(own))
            out->largest = slot_largest(own);
    }
}

void
tidei_cache_open(struct tidei_cache *cache)
{
    tidei_lock_release(&cache->chunk_heap->lock);
    tidei_slots_resume(&cache->slots);
}

uint64_t
tidei_cache_used(struct tidei_cache *cache)
{
    uint64_t used_bytes = 0;

    pthread_mutex_lock(&cache->slots.mutex);
    for (struct tidei_slot *slot = cache->slots.first; slot != NULL; slot = slot->next)
        used_bytes += tidei_figure_get(&((struct tidei_cache_slot *)slot)->used_bytes);
    pthread_mutex_unlock(&cache->slots.mutex);
    return used_bytes;
}

/* Make room: free a full bin's older half; else the older halves of all; else all pieces, for another stream. */
static void
slot_make_room(struct tidei_cache *cache, struct tidei_cache_slot *slot, unsigned size_class, tide_stream stream)
{
    struct tidei_cache_stream *own = tidei_cache_find(slot, stream);
    uint32_t number;

    if (own == NULL) {
        slot_free(cache, slot);
        return;
    }
    if (own->bins[size_class].count < TIDEI_CACHE_DEPTH) {
        for (uint32_t i = 0; i < slot->stream_count; i++)
            stream_free(cache, slot, &slot->streams[i], true);
        return;
    }
    number = tidei_streams_number(&cache->chunk_heap->heap.streams, stream);
    if (number != TIDEI_STREAM_NONE)
        bin_free(cache, slot, own, &own->bins[size_class], TIDEI_CACHE_DEPTH / 2, number);
}

/* Keep the piece, and free others for it if the bound requires that; false where there is no room nevertheless. */
static bool
slot_keep(struct tidei_cache *cache, struct tidei_cache_slot *slot, struct tidei_piece *piece, tide_stream stream)
{
    cache->threads += slot->most_bytes == 0;
    slot->most_bytes = cache_share(cache);
    if (tidei_cache_keep(slot, piece, stream))
        return true;
    slot_make_room(cache, slot, piece->size_class, stream);
    return tidei_cache_keep(slot, piece, stream);
}

static bool
cache_keep_instead(struct tidei_cache *cache, struct tidei_piece *piece, tide_stream stream)
{
    struct tidei_cache_slot *slot;
    bool kept = false;

    /* The lock comes first: a thread inside its slot must not wait. The slot exists, so enter takes no mutex. */
    tidei_chunk_heap_enter(cache->chunk_heap);
    slot = (struct tidei_cache_slot *)tidei_slot_enter(&cache->slots);
    if (slot != NULL) {
        kept = slot_keep(cache, slot, piece, stream);
        tidei_slot_leave(&slot->slot);
    }
    tidei_lock_release(&cache->chunk_heap->lock);
    return kept;
}

enum tide_status
tidei_cache_put(struct tidei_cache *cache, struct tidei_piece *piece, size_t bytes, size_t alignment,
                tide_stream stream)
{
    if (piece->size_class < TIDEI_CACHE_CLASSES && cache_keep_instead(cache, piece, stream))
        return TIDE_OK;
    return tidei_chunk_heap_put(cache->chunk_heap, piece, bytes, alignment, stream);
}
