/*
 * pool: take big chunks from upstream and serve requests with blocks of them, in the order of streams.
 *
 * Usage: pool([initial=SIZE, maximum=SIZE, growth=SIZE, release_threshold=SIZE, alignment=SIZE, cache=SIZE,
 *              decay=MILLISECONDS, nvtx=auto|off])
 *     initial            size of a chunk that is taken at creation and kept; none unless given
 *     maximum            the most memory that is reserved at a time; no bound unless given
 *     growth             the least memory that is requested from upstream at a time; 2 MiB unless given
 *     release_threshold  free chunks are returned while more than this is reserved; unless given, they are kept until
 *                        the pool would have to reserve more than it ever has
 *     alignment          every address and size is a multiple of this power of two; 256 unless given
 *     cache              upper bound of each thread's cache; 64 MiB unless given, 0 for none. A thread may always cache
 *                        4 MiB; beyond that all caches together stay below 1/64 of the reserved memory (1/4 while
 *                        threads often wait for each other)
 *     decay              free chunks that were not needed for so many milliseconds are returned, a half of them at a
 *                        time, at the pool's own calls that take the lock; never unless given
 *     nvtx               auto: a tool that listens to NVTX, such as compute-sanitizer, is told the chunks and blocks;
 *                        off: never
 *
 * Example: a training program that shares the card with another one:
 *     log(trace.db) | pool(initial=1GiB, maximum=20GiB) | driver
 *
 * A thread caches the small blocks that it frees for its own next requests on the same stream. All other blocks go to a
 * heap with a lock, which merges free neighbours. src/suballoc/heap.h says how the heap chooses a block,
 * src/suballoc/chunk-heap.h when chunks are taken and returned, src/suballoc/cache.h what threads cache.
 *
 * When a block moves to another stream, tide_order orders it behind its last use at that moment, not when it is freed.
 * No order is needed where that stream has waited since.
 *
 * LIMITATIONS
 *  - A stream on which blocks were freed must live until they are taken again, because another stream that takes one is
 *    ordered behind it. Else the application calls tide_order(stack, TIDE_STREAM_ALL, 0) when it destroys streams.
 *  - Chunks from upstream are merged where they touch only over a base of pages, such as `vmm` and `sim(model=vmm)`,
 *    with no layer between that adds to blocks or chooses among several upstreams. Elsewhere no request spans two.
 *  - Requests of up to 1 MiB are rounded up by a sixteenth at most, or by a third where the thread's cache has a block
 *    of about that size.
 *  - Fragmentation: a request fails where enough bytes are free but not contiguous.
 *  - A request of another layer that upstream refuses does not make the pool release memory.
 */
#include <tidemark/pool.h>

#include "src/nvtx/blocks.h"
#include "src/resource/kind.h"
#include "src/suballoc/cache.h"
#include "src/sync/inside.h"

struct pool {
    struct tide_resource base;
    struct tide_pool_options options; /* with the defaults applied */
    struct tidei_cache cache;
    _Alignas(128) struct tidei_chunk_heap chunk_heap;
};

static void
pool_gather(struct tidei_chunk_heap *chunk_heap)
{
    struct pool *pool = (struct pool *)(void *)((char *)chunk_heap - offsetof(struct pool, chunk_heap));

    tidei_cache_gather(&pool->cache);
}

static __attribute__((noinline)) enum tide_status
pool_allocate_shared(struct pool *pool, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    enum tide_status status;
    struct tidei_piece *piece;

    if (bytes == 0 || tidei_cache_take(&pool->cache, false, bytes, alignment, stream, out))
        return TIDE_OK;
    if (bytes > TIDEI_CHUNK_HEAP_BYTES_MAX || alignment > TIDEI_CHUNK_HEAP_BYTES_MAX)
        return tidei_refused(&pool->base,
                             tide_error_set(TIDE_EINVAL,
                                            "pool: %zu B request at a multiple of %zu exceeds the largest of 128 TiB",
                                            bytes, alignment));
    status = tidei_chunk_heap_allocate(&pool->chunk_heap, bytes, alignment, stream, true, &piece);
    if (status == TIDE_OK)
        *out = (void *)tidei_piece_address(piece);
    return status;
}

static enum tide_status
pool_allocate_plain(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    *out = NULL;
    return pool_allocate_shared((struct pool *)self, bytes, alignment, stream, out);
}

static enum tide_status pool_deallocate_plain(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment,
                                              tide_stream stream);

static const struct tidei_nvtx_plain pool_plain = { pool_allocate_plain, pool_deallocate_plain };

static enum tide_status
pool_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct pool *pool = (struct pool *)self;

    if (__builtin_expect(pool->chunk_heap.chunks.nvtx, 0))
        return tidei_nvtx_allocate(self, &pool_plain, bytes, alignment, stream, out);
    *out = NULL;
    if (tidei_cache_take(&pool->cache, true, bytes, alignment, stream, out))
        return TIDE_OK;
    return pool_allocate_shared(pool, bytes, alignment, stream, out);
}

/* Give the block to the cache; `quickly` as for tidei_cache_give. Also the piece, NULL where none is there. */
static inline __attribute__((always_inline)) enum tidei_cache_given
pool_give(struct pool *pool, bool quickly, void *pointer, size_t bytes, size_t alignment, tide_stream stream,
          struct tidei_piece **piece)
{
    *piece = tidei_piece_map_find(&pool->chunk_heap.heap.out, pointer);
    if (__builtin_expect(*piece == NULL || bytes > TIDEI_CHUNK_HEAP_BYTES_MAX, 0))
        return TIDEI_CACHE_NOT_IT;
    return tidei_cache_give(&pool->cache, quickly, *piece, pointer, bytes, alignment, stream);
}

static __attribute__((noinline)) enum tide_status
pool_deallocate_shared(struct pool *pool, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_piece *piece;

    switch (pool_give(pool, false, pointer, bytes, alignment, stream, &piece)) {
    case TIDEI_CACHE_KEPT:
        return TIDE_OK;
    case TIDEI_CACHE_TAKEN:
        return tidei_cache_put(&pool->cache, piece, bytes, alignment, stream);
    default:
        return tidei_chunk_heap_deallocate(&pool->chunk_heap, pointer, bytes, alignment, stream);
    }
}

static enum tide_status
pool_deallocate_plain(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return pool_deallocate_shared((struct pool *)self, pointer, bytes, alignment, stream);
}

static enum tide_status
pool_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct pool *pool = (struct pool *)self;
    struct tidei_piece *piece;
    enum tidei_cache_given given;

    if (__builtin_expect(pool->chunk_heap.chunks.nvtx, 0))
        return tidei_nvtx_deallocate(self, &pool_plain, pointer, bytes, alignment, stream);
    given = pool_give(pool, true, pointer, bytes, alignment, stream, &piece);
    if (__builtin_expect(given == TIDEI_CACHE_KEPT, 1))
        return TIDE_OK;
    if (given == TIDEI_CACHE_TAKEN)
        return tidei_cache_put(&pool->cache, piece, bytes, alignment, stream);
    return pool_deallocate_shared(pool, pointer, bytes, alignment, stream);
}

/* The application orders stream 0 behind all streams to say that streams may be destroyed. */
static enum tide_status
pool_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (earlier != TIDE_STREAM_ALL || later != 0)
        return tide_pass_order(self, earlier, later);
    return tidei_chunk_heap_order_all(&((struct pool *)self)->chunk_heap);
}

static enum tide_status
pool_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct tidei_chunk_heap *chunk_heap = &((struct pool *)self)->chunk_heap;
    bool trims = tidei_chunk_heap_trims(chunk_heap, keep_bytes);
    enum tide_status status = trims ? tidei_chunk_heap_trim(chunk_heap, keep_bytes) : TIDE_OK;
    enum tide_status below = tidei_chunk_heap_pass_trim(chunk_heap, keep_bytes, trims && status == TIDE_OK);

    return status != TIDE_OK ? status : below;
}

static void
pool_read(struct tide_resource *self, struct tide_pool_figures *out)
{
    struct pool *pool = (struct pool *)self;
    const struct tidei_chunk_heap *chunk_heap = &pool->chunk_heap;
    struct tidei_cache_sums sums;

    *out = (struct tide_pool_figures){ TIDE_FIGURES(*out) };
    tidei_cache_close(&pool->cache, &sums);
    out->used_bytes = tidei_figure_get(&chunk_heap->used_bytes) + sums.used_bytes;
    out->cached_bytes = sums.bytes;
    /* Relaxed: a number, no data behind it. */
    out->reserved_bytes = atomic_load_explicit(&chunk_heap->held, memory_order_relaxed);
    out->reserved_peak_bytes = chunk_heap->peak_bytes;
    out->largest_free_bytes = sums.largest;
    out->free_blocks = sums.count;
    tidei_chunk_heap_add_free(chunk_heap, out);
    out->chunks = chunk_heap->heap.chunk_count;
    out->grown = tidei_figure_get(&chunk_heap->grown);
    out->returned = tidei_figure_get(&chunk_heap->returned);
    out->taken_over = tidei_figure_get(&chunk_heap->taken_over);
    out->orders = tidei_figure_get(&chunk_heap->orders);
    out->remapped = tidei_figure_get(&chunk_heap->remapped);
    out->decayed = tidei_figure_get(&chunk_heap->decayed);
    out->waits = tidei_figure_get(&chunk_heap->waits);
    tidei_cache_open(&pool->cache);
}

static enum tide_status
pool_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    return tidei_chunk_heap_query(&((struct pool *)self)->chunk_heap, self, pool_read, what, out);
}

static struct tidei_chunks *
pool_chunks(struct tide_resource *self)
{
    return &((struct pool *)self)->chunk_heap.chunks;
}

static void
pool_figures(struct tide_resource *self, struct tidei_layer_figures *out)
{
    struct pool *pool = (struct pool *)self;

    tidei_chunks_figures(&pool->chunk_heap.chunks,
                         tidei_figure_get(&pool->chunk_heap.used_bytes) + tidei_cache_used(&pool->cache), out);
}

/*
 * Chunks up to this are cut up for any request over plain bases, though smaller ones are asked for. Chunks asked for,
 * in the geometric mean of 13 recorded programs, and peak reserved over peak live in the mean: 3,969 and 1.0460 where
 * only chunks of the growth of 2 MiB were cut up, 2,047 and 1.0455 with 8 MiB, 1,635 and 1.0514 with 12 MiB, 1,361 and
 * 1.0587 with 16 MiB; asking for 4 MiB besides, 2,000 and 1.0471. A share of what is reserved in place of it, from 2 to
 * 8 MiB, is no better: a 64th 2,045 and 1.0460. With 34 traces of scaled sizes, from 28 MiB live on: 3,973 and 1.1291,
 * with 8 MiB 1,898 and 1.1220, with the share 2,649 and 1.1301. An arena keeps to its growth: 1,865 and 1.0507 with
 * 8 MiB, 2,027 and 1.0496 without.
 */
#define POOL_CUT_BYTES (UINT64_C(8) << 20)

static enum tide_status
pool_chunk_heap_init(struct pool *pool, struct tide_resource *upstream)
{
    const struct tidei_chunk_heap_options options = {
        .name = "pool",
        .layer = &pool->base,
        .granule = pool->options.alignment,
        .growth_bytes = pool->options.growth_bytes,
        .cut_bytes = POOL_CUT_BYTES,
        .maximum_bytes = pool->options.maximum_bytes,
        .release_threshold_bytes = pool->options.release_threshold_bytes,
        .decay_ms = pool->options.decay_ms,
        .class_bytes = tidei_cache_class_bytes(pool->options.cache_bytes, pool->options.alignment),
        .gather = pool_gather,
    };

    return tidei_chunk_heap_init(&pool->chunk_heap, upstream, &options);
}

static uint64_t
pool_alignment(const struct tide_pool_options *options)
{
    return options->alignment != 0 ? options->alignment : TIDE_DEFAULT_ALIGNMENT;
}

static enum tide_status
pool_check(void *given, size_t *fault)
{
    const struct tide_pool_options *options = given;
    uint64_t maximum_bytes = options->maximum_bytes != 0 ? options->maximum_bytes : UINT64_MAX;
    uint64_t growth_bytes = options->growth_bytes != 0 ? options->growth_bytes : TIDEI_CHUNK_HEAP_CHUNK_BYTES;
    uint64_t alignment = pool_alignment(options);

    (void)fault;
    if (options->growth_bytes > maximum_bytes)
        return tide_error_set(TIDE_EINVAL, "pool: growth of %s exceeds the maximum of %s",
                              tidei_size_text(options->growth_bytes), tidei_size_text(maximum_bytes));
    if (alignment > TIDEI_CHUNK_HEAP_CHUNK_BYTES || alignment < 16)
        return tide_error_set(TIDE_EINVAL, "pool: alignment %llu is no power of two from 16 to 2 MiB",
                              (unsigned long long)alignment);
    if (options->initial_bytes > TIDEI_CHUNK_HEAP_BYTES_MAX || growth_bytes > TIDEI_CHUNK_HEAP_BYTES_MAX)
        return tide_error_set(TIDE_EINVAL, "pool: an initial size of %s and a growth of %s, the largest is 128 TiB",
                              tidei_size_text(options->initial_bytes), tidei_size_text(growth_bytes));
    if (options->initial_bytes > maximum_bytes)
        return tide_error_set(TIDE_EINVAL, "pool: initial size of %s exceeds the maximum of %s",
                              tidei_size_text(options->initial_bytes), tidei_size_text(maximum_bytes));
    if (options->initial_bytes % alignment != 0)
        return tide_error_set(TIDE_EINVAL, "pool: initial size of %s is no multiple of the alignment %s",
                              tidei_size_text(options->initial_bytes), tidei_size_text(alignment));
    return TIDE_OK;
}

static enum tide_status
pool_init(struct tide_resource *self, size_t *fault)
{
    struct pool *pool = (struct pool *)self;
    enum tide_status status = pool_chunk_heap_init(pool, self->upstream);

    (void)fault;
    if (status != TIDE_OK)
        return status;
    pool->chunk_heap.chunks.nvtx = tidei_nvtx_wanted(pool->options.nvtx);
    /* A cache of 1 B caches nothing. */
    tidei_cache_init(&pool->cache, &pool->chunk_heap, pool->options.cache_bytes != 0 ? pool->options.cache_bytes : 1);
    if (pool->options.initial_bytes != 0)
        status = tidei_chunk_heap_begin(&pool->chunk_heap, pool->options.initial_bytes);
    if (status != TIDE_OK) {
        tidei_cache_fini(&pool->cache);
        tidei_chunk_heap_fini(&pool->chunk_heap);
    }
    return status;
}

static void
pool_fini(struct tide_resource *self)
{
    struct pool *pool = (struct pool *)self;

    tidei_cache_fini(&pool->cache);
    tidei_chunk_heap_fini(&pool->chunk_heap);
}

extern const struct tidei_kind tidei_pool_kind;

/* A share of the device's memory is rounded down to the pool's granule. */
static enum tide_status
pool_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_pool_options options;

    tidei_kind_read_text(&tidei_pool_kind, arguments, &options);
    options.initial_bytes &= ~(pool_alignment(&options) - 1);
    return tidei_kind_create_read(&tidei_pool_kind, arguments, &options, upstream, out);
}

static const struct tidei_argument pool_arguments[] = {
    TIDEI_ARGUMENT("initial", SIZE, struct tide_pool_options, initial_bytes,
                   "a size such as 1GiB, or a share such as 25%", .share = true),
    TIDEI_ARGUMENT("maximum", SIZE, struct tide_pool_options, maximum_bytes,
                   "a size such as 8GiB, or a share such as 50%", .share = true, .least = 1,
                   .default_value = UINT64_MAX),
    TIDEI_ARGUMENT("growth", SIZE, struct tide_pool_options, growth_bytes, "a size such as 64MiB", .least = 1,
                   .default_value = TIDEI_CHUNK_HEAP_CHUNK_BYTES),
    TIDEI_ARGUMENT("release_threshold", SIZE, struct tide_pool_options, release_threshold_bytes,
                   "a size such as 1GiB, or a share such as 25%", .share = true, .default_value = UINT64_MAX,
                   .zero_value = TIDE_NONE),
    TIDEI_ARGUMENT("alignment", SIZE, struct tide_pool_options, alignment, "a power of two such as 256",
                   .power_of_two = true, .default_value = TIDE_DEFAULT_ALIGNMENT),
    TIDEI_ARGUMENT("cache", SIZE, struct tide_pool_options, cache_bytes, "a size such as 4MiB",
                   .default_value = UINT64_C(64) << 20, .zero_value = TIDE_NONE),
    TIDEI_ARGUMENT("decay", COUNT, struct tide_pool_options, decay_ms, "milliseconds such as 10000, up to a year",
                   .least = 8, .most = UINT64_C(366) * 86400 * 1000),
    TIDEI_NVTX_ARGUMENT(struct tide_pool_options),
};

static const struct tidei_count pool_counts[] = {
    TIDEI_COUNT("grown", struct pool, chunk_heap.grown),
    TIDEI_COUNT("returned", struct pool, chunk_heap.returned),
    TIDEI_COUNT("taken_over", struct pool, chunk_heap.taken_over),
    TIDEI_COUNT("orders", struct pool, chunk_heap.orders),
    TIDEI_COUNT("remapped", struct pool, chunk_heap.remapped),
    TIDEI_COUNT("decayed", struct pool, chunk_heap.decayed),
    TIDEI_COUNT("waits", struct pool, chunk_heap.waits),
};

const struct tidei_kind tidei_pool_kind = {
    .ops = {
        TIDEI_KIND_OPS("pool"),
        .allocate = pool_allocate,
        .deallocate = pool_deallocate,
        .order = pool_order,
        .trim = pool_trim,
        .query = pool_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(pool_arguments),
    .options_size = offsetof(struct tide_pool_options, reserved),
    TIDEI_KIND_STRUCT(struct pool),
    .check = pool_check,
    .init = pool_init,
    .fini = pool_fini,
    .create_text = pool_from_text,
    .chunks = pool_chunks,
    .figures = pool_figures,
    TIDEI_KIND_COUNTS(pool_counts),
};

enum tide_status
tide_pool_create(struct tide_resource *upstream, const struct tide_pool_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_pool_kind, upstream, options, out);
}

static bool
is_pool(const struct tide_resource *resource)
{
    return resource != NULL && resource->ops == &tidei_pool_kind.ops;
}

enum tide_status
tide_pool_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    TIDEI_INSIDE(resource);

    if (!is_pool(resource))
        return tide_error_set(TIDE_EINVAL, "pool: not a pool resource");
    return tidei_chunk_heap_trim(&((struct pool *)resource)->chunk_heap, keep_bytes);
}

enum tide_status
tide_pool_read(struct tide_resource *resource, struct tide_pool_figures *out)
{
    TIDEI_INSIDE(resource);
    enum tide_status status = tidei_figures_clear("pool", out);
    struct tide_pool_figures figures;

    if (status != TIDE_OK)
        return status;
    if (!is_pool(resource))
        return tide_error_set(TIDE_EINVAL, "pool: not a pool resource");
    pool_read(resource, &figures);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}
