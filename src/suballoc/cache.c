/* What threads keep of the pieces that they free; see cache.h. */
#include "src/suballoc/cache.h"

static void cache_leave(struct tidei_parts *parts, struct tidei_part *part);

/* A size that is kept at all has room for a few pieces. */
uint64_t
tidei_cache_class_bytes(uint64_t most_bytes, uint64_t granule)
{
    uint64_t bytes = most_bytes / 4 < TIDEI_HEAP_SMALL_BYTES ? most_bytes / 4 : TIDEI_HEAP_SMALL_BYTES;

    if (bytes > granule * (TIDEI_CACHE_LARGEST))
        bytes = granule * TIDEI_CACHE_LARGEST;
    return bytes < granule ? 0 : bytes;
}

enum tide_status
tidei_cache_init(struct tidei_cache *cache, struct tidei_supply *supply, uint64_t most_bytes)
{
    uint64_t granule = supply->options.granule;

    cache->supply = supply;
    cache->most_bytes = most_bytes;
    cache->granule_log2 = tidei_log2(granule);
    cache->largest_bytes = tidei_cache_class_bytes(most_bytes, granule);
    return tidei_parts_init(&cache->parts, sizeof(struct tidei_cache_part), cache_leave);
}

void
tidei_cache_fini(struct tidei_cache *cache)
{
    tidei_parts_fini(&cache->parts);
}

/*
 * Free what lies in a bin behind the first `keep` pieces. With the supply's lock: so nobody who has closed the parts
 * and then takes the lock finds a piece that is in neither.
 */
static void
bin_free(struct tidei_cache *cache, struct tidei_cache_part *part, struct tidei_cache_stream *own,
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
        part->count--;
        part->bytes -= piece->bytes;
        tidei_heap_put(&cache->supply->heap, piece, number);
    }
}

/* All of a stream's pieces, or the older half of each bin; none where the host has no memory to note the stream. */
static void
stream_free(struct tidei_cache *cache, struct tidei_cache_part *part, struct tidei_cache_stream *own, bool half)
{
    uint32_t number = TIDEI_STREAM_NONE;

    if (own->count > 0)
        number = tidei_streams_number(&cache->supply->heap.streams, own->stream);
    if (number == TIDEI_STREAM_NONE)
        return;
    for (size_t i = 0; i < TIDEI_CACHE_CLASSES && own->count > 0; i++) {
        if (own->bins[i].count > 0)
            bin_free(cache, part, own, &own->bins[i], half ? own->bins[i].count / 2 : 0, number);
    }
}

/* Free all that a part holds, and forget its streams. With the lock. */
static void
part_free(struct tidei_cache *cache, struct tidei_cache_part *part)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < part->stream_count; i++) {
        stream_free(cache, part, &part->streams[i], false);
        if (part->streams[i].count > 0)
            kept = i + 1;
    }
    part->stream_count = kept;
}

/* The thread has ended: its count of bytes in use stays where it is, and goes on with the next thread. */
static void
cache_leave(struct tidei_parts *parts, struct tidei_part *part)
{
    struct tidei_cache *cache = (struct tidei_cache *)parts;
    struct tidei_cache_part *own = (struct tidei_cache_part *)part;

    tidei_lock_take(&cache->supply->lock);
    part_free(cache, own);
    cache->threads -= own->most_bytes != 0;
    own->most_bytes = 0;
    tidei_lock_give(&cache->supply->lock);
}

/* What a thread may keep as things are. With the lock. */
static uint64_t
cache_share(const struct tidei_cache *cache)
{
    /* Relaxed: a number, no data behind it. */
    uint64_t held = atomic_load_explicit(&cache->supply->held, memory_order_relaxed);
    uint64_t crowded = held / (TIDEI_CACHE_CROWDED_SHARE * cache->threads);
    uint64_t bytes = held / (TIDEI_CACHE_SHARE * cache->threads);

    if (crowded > TIDEI_CACHE_LEAST_BYTES << cache->supply->crowd)
        crowded = TIDEI_CACHE_LEAST_BYTES << cache->supply->crowd;
    if (bytes < crowded)
        bytes = crowded;
    if (bytes < TIDEI_CACHE_LEAST_BYTES)
        bytes = TIDEI_CACHE_LEAST_BYTES;
    return bytes < cache->most_bytes ? bytes : cache->most_bytes;
}

void
tidei_cache_gather(struct tidei_cache *cache)
{
    tidei_parts_close(&cache->parts);
    tidei_lock_take(&cache->supply->lock);
    tidei_supply_forget_crowd(cache->supply);
    for (struct tidei_part *part = cache->parts.first; part != NULL; part = part->next) {
        struct tidei_cache_part *own = (struct tidei_cache_part *)part;

        part_free(cache, own);
        if (own->most_bytes != 0)
            own->most_bytes = cache_share(cache);
    }
    tidei_lock_give(&cache->supply->lock);
    tidei_parts_open(&cache->parts);
}

/* Bytes of the largest piece that a part holds. */
static uint64_t
part_largest(const struct tidei_cache_part *part)
{
    uint64_t largest = 0;

    for (uint32_t i = 0; i < part->stream_count; i++) {
        for (size_t j = TIDEI_CACHE_CLASSES; j > 0; j--) {
            const struct tidei_piece *piece = part->streams[i].bins[j - 1].first;

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
    tidei_parts_close(&cache->parts);
    tidei_lock_take(&cache->supply->lock);
    for (struct tidei_part *part = cache->parts.first; part != NULL; part = part->next) {
        const struct tidei_cache_part *own = (const struct tidei_cache_part *)part;

        out->used_bytes += own->used_bytes;
        out->bytes += own->bytes;
        out->count += own->count;
        if (own->count > 0 && out->largest < part_largest(own))
            out->largest = part_largest(own);
    }
}

void
tidei_cache_open(struct tidei_cache *cache)
{
    tidei_lock_give(&cache->supply->lock);
    tidei_parts_open(&cache->parts);
}

/* A full bin's older half; else the older halves of all; else all of it, so that there is room for another stream. */
static void
part_make_room(struct tidei_cache *cache, struct tidei_cache_part *part, unsigned size_class, tide_stream stream)
{
    struct tidei_cache_stream *own = tidei_cache_find(part, stream);
    uint32_t number;

    if (own == NULL) {
        part_free(cache, part);
        return;
    }
    if (own->bins[size_class].count < TIDEI_CACHE_DEPTH) {
        for (uint32_t i = 0; i < part->stream_count; i++)
            stream_free(cache, part, &part->streams[i], true);
        return;
    }
    number = tidei_streams_number(&cache->supply->heap.streams, stream);
    if (number != TIDEI_STREAM_NONE)
        bin_free(cache, part, own, &own->bins[size_class], TIDEI_CACHE_DEPTH / 2, number);
}

/* Keep the piece, in the place of others where the bound wants it; false where there is no room nevertheless. */
static bool
part_keep(struct tidei_cache *cache, struct tidei_cache_part *part, struct tidei_piece *piece, tide_stream stream)
{
    cache->threads += part->most_bytes == 0;
    part->most_bytes = cache_share(cache);
    if (tidei_cache_keep(part, piece, stream))
        return true;
    part_make_room(cache, part, piece->size_class, stream);
    return tidei_cache_keep(part, piece, stream);
}

static bool
cache_keep_instead(struct tidei_cache *cache, struct tidei_piece *piece, tide_stream stream)
{
    struct tidei_cache_part *part;
    bool kept = false;

    /* The lock first: inside nobody waits. This thread has its part already, so that enter takes no mutex. */
    tidei_supply_enter(cache->supply);
    part = (struct tidei_cache_part *)tidei_part_enter(&cache->parts);
    if (part != NULL) {
        kept = part_keep(cache, part, piece, stream);
        tidei_part_leave(&part->part);
    }
    tidei_lock_give(&cache->supply->lock);
    return kept;
}

enum tide_status
tidei_cache_put(struct tidei_cache *cache, struct tidei_piece *piece, size_t bytes, size_t alignment,
                tide_stream stream)
{
    if (piece->size_class < TIDEI_CACHE_CLASSES && cache_keep_instead(cache, piece, stream))
        return TIDE_OK;
    return tidei_supply_put(cache->supply, piece, bytes, alignment, stream);
}
