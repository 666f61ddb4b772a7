/*
 * arena: give each thread its own memory to cut blocks out of, for programs that mix long-lived and short-lived blocks.
 *
 * Usage: arena([size=SIZE, nvtx=auto|off])
 *     size    the most memory that is reserved at a time; no bound unless given
 *     nvtx    auto: a tool that listens to NVTX, such as compute-sanitizer, is told the chunks and blocks; off: never
 *
 * Example: a server whose threads keep some results and drop the others:
 *     log(trace.db) | arena(size=75%) | driver
 *
 * It has two stages, both of them chunk heaps (src/suballoc/chunk-heap.h). One shared heap gets chunks from upstream.
 * It is the upstream of the arenas. The lock of an arena is biased to the thread that came first. A block that another
 * thread frees is searched for in all arenas.
 *
 * LIMITATIONS
 *  - What `pool` says about destroyed streams, rounding, and chunks that are merged holds here, too.
 *  - Arenas are assigned in the order in which threads come. With more threads than processors some threads share one.
 *  - A request that fails has tried all arenas, which takes time for each of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidemark/arena.h>

#include "src/nvtx/blocks.h"
#include "src/resource/kind.h"
#include "src/suballoc/chunk-heap.h"
#include "src/sync/slots.h"
#include "src/trace/session/recorder.h"

#define ARENA_COUNT_MOST  64
#define ARENA_BLOCK_BYTES (UINT64_C(8) << 20)
/* `size` has room for this many blocks, unless chunks get too small; a block has room for this many requests. */
#define ARENA_BLOCKS   64
#define ARENA_REQUESTS 4

/* A chunk heap as a resource: the upstream of all arenas, which request and free only what a chunk heap can serve. */
struct shared_heap {
    struct tide_resource base;          /* never released by others: an arena's chunk heap borrows it */
    struct tidei_chunk_heap chunk_heap; /* over the same upstream */
};

struct arena {
    struct tide_resource base;
    struct tidei_slots slots; /* the arena of each thread */
    _Atomic uint32_t next;    /* the next thread's arena; written once by each thread */
    uint32_t count;           /* arenas for threads */
    struct tide_arena_options options;
    uint64_t block_bytes;             /* the bytes that an arena takes at a time */
    struct tidei_chunk_heap **arenas; /* owns; [count] serves large requests */
    _Alignas(128) struct shared_heap shared_heap;
};

/* A thread's part. */
struct arena_thread {
    struct tidei_slot slot;
    uint32_t arena; /* its number plus 1; 0 at first */
};

static enum tide_status
shared_heap_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct shared_heap *shared_heap = (struct shared_heap *)self;
    struct tidei_piece *piece;
    enum tide_status status =
        tidei_chunk_heap_allocate(&shared_heap->chunk_heap, bytes, alignment, stream, true, &piece);

    *out = status == TIDE_OK ? (void *)tidei_piece_address(piece) : NULL;
    return status;
}

static enum tide_status
shared_heap_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return tidei_chunk_heap_deallocate(&((struct shared_heap *)self)->chunk_heap, pointer, bytes, alignment, stream);
}

static enum tide_status
shared_heap_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    if (what != TIDE_QUERY_CAPACITY)
        return tide_pass_query(self, what, out);
    /* Arenas then choose regions that fit into a block: regions are small beside 16 blocks. */
    *out = 16 * ((const struct arena *)(void *)((char *)self - offsetof(struct arena, shared_heap)))->block_bytes;
    return TIDE_OK;
}

static const struct tide_resource_ops shared_heap_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "arena", /* the layer that it is a part of */
    .allocate = shared_heap_allocate,
    .deallocate = shared_heap_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = shared_heap_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = tide_resource_fini,
};

static void
arena_gather(struct tidei_chunk_heap *chunk_heap)
{
    struct arena *arena = (struct arena *)(void *)((char *)chunk_heap - offsetof(struct arena, shared_heap.chunk_heap));

    for (uint32_t i = 0; i <= arena->count; i++)
        tidei_chunk_heap_release(arena->arenas[i]);
}

/* The number of this thread's arena; 0 where its slot is closed. */
static uint32_t
arena_number(struct arena *arena)
{
    struct arena_thread *thread = (struct arena_thread *)tidei_slot_enter(&arena->slots);
    uint32_t number;

    if (thread == NULL)
        return 0;
    /* Relaxed: a number. */
    if (thread->arena == 0)
        thread->arena = 1 + atomic_fetch_add_explicit(&arena->next, 1, memory_order_relaxed) % arena->count;
    number = thread->arena - 1;
    tidei_slot_leave(&thread->slot);
    return number;
}

/*
 * The figures of one moment; free memory in arenas counts as cached. The newest lock first, as fork() takes them: a
 * thread that holds one may only take an older one.
 */
static void
arena_read(struct tide_resource *self, struct tide_pool_figures *out)
{
    struct arena *arena = (struct arena *)self;
    struct tidei_chunk_heap *shared_heap = &arena->shared_heap.chunk_heap;

    *out = (struct tide_pool_figures){ 0 };
    for (uint32_t i = arena->count + 1; i > 0; i--)
        tidei_lock_acquire(&arena->arenas[i - 1]->lock);
    tidei_lock_acquire(&shared_heap->lock);
    for (uint32_t i = 0; i <= arena->count; i++) {
        out->used_bytes += tidei_figure_get(&arena->arenas[i]->used_bytes);
        tidei_chunk_heap_add_free(arena->arenas[i], out);
    }
    out->cached_bytes = out->free_bytes;
    tidei_chunk_heap_add_free(shared_heap, out);
    /* Relaxed: a number, no data behind it. */
    out->reserved_bytes = atomic_load_explicit(&shared_heap->held, memory_order_relaxed);
    out->reserved_peak_bytes = shared_heap->peak_bytes;
    tidei_lock_release(&shared_heap->lock);
    for (uint32_t i = 0; i <= arena->count; i++)
        tidei_lock_release(&arena->arenas[i]->lock);
}

/* Record the arenas' state in traces when a request fails; keeps the thread's error. */
static void
arena_mark(struct arena *arena, size_t bytes)
{
    struct tide_pool_figures figures;
    struct tidei_error error;
    char text[256];
    double whole = 0;

    arena_read(&arena->base, &figures);
    if (figures.free_bytes > 0)
        whole = (double)figures.largest_free_bytes / (double)figures.free_bytes;
    snprintf(text, sizeof(text),
             "arena: %zu B refused: reserved %llu B, used %llu B, free %llu B in %llu blocks, largest %llu B, "
             "fragmentation %.3f",
             bytes, (unsigned long long)figures.reserved_bytes, (unsigned long long)figures.used_bytes,
             (unsigned long long)figures.free_bytes, (unsigned long long)figures.free_blocks,
             (unsigned long long)figures.largest_free_bytes, figures.free_bytes > 0 ? 1 - whole : 0.0);
    tidei_error_save(&error);
    tidei_trace_mark(text);
    tidei_error_restore(&error);
}

/*
 * The request's arena has no memory, and gets none: another arena may have room within its chunks. None of them
 * requests more, because the shared heap has just refused, and would repeat all its attempts for each arena.
 */
static __attribute__((noinline)) enum tide_status
arena_allocate_hard(struct arena *arena, uint32_t number, size_t bytes, size_t alignment, tide_stream stream,
                    struct tidei_piece **out)
{
    struct tidei_error error;
    enum tide_status status = TIDE_ENOMEM;

    tidei_error_save(&error);
    for (uint32_t i = 0; i <= arena->count && status != TIDE_OK; i++) {
        if (i != number)
            status = tidei_chunk_heap_allocate(arena->arenas[i], bytes, alignment, stream, false, out);
    }
    tidei_error_restore(&error);
    return status;
}

static __attribute__((noinline)) enum tide_status
arena_allocate_plain(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct arena *arena = (struct arena *)self;
    uint32_t number = arena->count;
    struct tidei_piece *piece;
    enum tide_status status;

    *out = NULL;
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > TIDEI_CHUNK_HEAP_BYTES_MAX || alignment > TIDEI_CHUNK_HEAP_BYTES_MAX)
        return tidei_refused(self,
                             tide_error_set(TIDE_EINVAL,
                                            "arena: %zu B request at a multiple of %zu exceeds the largest of 128 TiB",
                                            bytes, alignment));
    if (bytes <= arena->block_bytes / ARENA_REQUESTS && alignment <= arena->block_bytes / ARENA_REQUESTS)
        number = arena_number(arena);
    status = tidei_chunk_heap_allocate(arena->arenas[number], bytes, alignment, stream, true, &piece);
    if (status != TIDE_OK && status != TIDE_ENOMEM && status != TIDE_EUPSTREAM) {
        if (arena_allocate_hard(arena, number, bytes, alignment, stream, &piece) == TIDE_OK)
            status = TIDE_OK;
        else
            arena_mark(arena, bytes);
    }
    if (status == TIDE_OK)
        *out = (void *)tidei_piece_address(piece);
    return status;
}

/*
 * The arena that has the pointer. A lookup without locks finds every block. For a pointer that is no block, a search
 * with the locks tells which arena's memory contains it; any arena where none does.
 */
static struct tidei_chunk_heap *
arena_owner(struct arena *arena, uint32_t number, const void *pointer)
{
    if (tidei_piece_map_find(&arena->arenas[number]->heap.out, pointer) != NULL)
        return arena->arenas[number];
    for (uint32_t i = 0; i <= arena->count; i++) {
        if (tidei_piece_map_find(&arena->arenas[i]->heap.out, pointer) != NULL)
            return arena->arenas[i];
    }
    for (uint32_t i = 0; i <= arena->count; i++) {
        if (tidei_chunk_heap_owns(arena->arenas[i], pointer))
            return arena->arenas[i];
    }
    return arena->arenas[number];
}

static __attribute__((noinline)) enum tide_status
arena_deallocate_plain(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct arena *arena = (struct arena *)self;

    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    return tidei_chunk_heap_deallocate(arena_owner(arena, arena_number(arena), pointer), pointer, bytes, alignment,
                                       stream);
}

static const struct tidei_nvtx_plain arena_plain = { arena_allocate_plain, arena_deallocate_plain };

static enum tide_status
arena_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    if (__builtin_expect(((struct arena *)self)->shared_heap.chunk_heap.chunks.nvtx, 0))
        return tidei_nvtx_allocate(self, &arena_plain, bytes, alignment, stream, out);
    return arena_allocate_plain(self, bytes, alignment, stream, out);
}

static enum tide_status
arena_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    if (__builtin_expect(((struct arena *)self)->shared_heap.chunk_heap.chunks.nvtx, 0))
        return tidei_nvtx_deallocate(self, &arena_plain, pointer, bytes, alignment, stream);
    return arena_deallocate_plain(self, pointer, bytes, alignment, stream);
}

/* All free memory of the shared heap is free on stream 0 afterwards. */
static enum tide_status
arena_order_shared(struct arena *arena)
{
    struct tidei_chunk_heap_order order;
    enum tide_status status;

    tidei_chunk_heap_order_begin(&arena->shared_heap.chunk_heap, &order);
    status = tide_pass_order(&arena->base, TIDE_STREAM_ALL, 0);
    return status == TIDE_OK ? tidei_chunk_heap_order_end(&arena->shared_heap.chunk_heap, &order, NULL) : status;
}

/*
 * Wait for all streams once: all free memory, in arenas or in the shared heap, is free on stream 0 afterwards. Where an
 * arena has given the shared heap memory meanwhile, on a stream that may be destroyed then, wait once more.
 */
static enum tide_status
arena_order_all(struct arena *arena)
{
    struct tidei_chunk_heap *shared_heap = &arena->shared_heap.chunk_heap;
    struct tidei_chunk_heap_order orders[ARENA_COUNT_MOST + 1], shared_order;
    enum tide_status status, ended;
    bool named, again = false;

    for (uint32_t i = 0; i <= arena->count; i++)
        tidei_chunk_heap_order_begin(arena->arenas[i], &orders[i]);
    tidei_chunk_heap_order_begin(shared_heap, &shared_order);
    status = tide_pass_order(&arena->base, TIDE_STREAM_ALL, 0);
    if (status != TIDE_OK)
        return status;
    status = tidei_chunk_heap_order_end(shared_heap, &shared_order, NULL);
    for (uint32_t i = 0; i <= arena->count; i++) {
        ended = tidei_chunk_heap_order_end(arena->arenas[i], &orders[i], &named);
        again = again || named;
        if (status == TIDE_OK)
            status = ended;
    }
    return status == TIDE_OK && again ? arena_order_shared(arena) : status;
}

/* The application orders stream 0 behind all streams to say that streams may be destroyed. */
static enum tide_status
arena_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (earlier != TIDE_STREAM_ALL || later != 0)
        return tide_pass_order(self, earlier, later);
    return arena_order_all((struct arena *)self);
}

static enum tide_status
arena_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct arena *arena = (struct arena *)self;
    bool trims = tidei_chunk_heap_trims(&arena->shared_heap.chunk_heap, keep_bytes);
    enum tide_status status = TIDE_OK, below;

    if (trims) {
        /* Streams on which memory was freed may be destroyed: no call may name one. */
        status = arena_order_all(arena);
        for (uint32_t i = 0; i <= arena->count && status == TIDE_OK; i++)
            tidei_chunk_heap_release(arena->arenas[i]);
        if (status == TIDE_OK)
            tidei_chunk_heap_shrink(&arena->shared_heap.chunk_heap, keep_bytes);
    }
    below = tidei_chunk_heap_pass_trim(&arena->shared_heap.chunk_heap, keep_bytes, trims && status == TIDE_OK);
    return status != TIDE_OK ? status : below;
}

static enum tide_status
arena_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    return tidei_chunk_heap_query(&((struct arena *)self)->shared_heap.chunk_heap, self, arena_read, what, out);
}

static struct tidei_chunks *
arena_chunks(struct tide_resource *self)
{
    return &((struct arena *)self)->shared_heap.chunk_heap.chunks;
}

static void
arena_figures(struct tide_resource *self, struct tidei_layer_figures *out)
{
    const struct arena *arena = (const struct arena *)self;
    uint64_t used_bytes = 0;

    for (uint32_t i = 0; i <= arena->count; i++)
        used_bytes += tidei_figure_get(&arena->arenas[i]->used_bytes);
    tidei_chunks_figures(&arena->shared_heap.chunk_heap.chunks, used_bytes, out);
}

static enum tide_status
shared_heap_init(struct arena *arena, struct tide_resource *upstream, uint64_t maximum_bytes)
{
    struct shared_heap *shared_heap = &arena->shared_heap;
    const struct tidei_chunk_heap_options options = {
        .name = "arena",
        .layer = &arena->base,
        .granule = TIDE_DEFAULT_ALIGNMENT,
        .growth_bytes = TIDEI_CHUNK_HEAP_CHUNK_BYTES,
        .maximum_bytes = maximum_bytes,
        .release_threshold_bytes = UINT64_MAX,
        .gather = arena_gather,
    };
    enum tide_status status = tidei_chunk_heap_init(&shared_heap->chunk_heap, upstream, &options);

    if (status != TIDE_OK)
        return status;
    status = tide_resource_init(&shared_heap->base, &shared_heap_ops, NULL);
    if (status != TIDE_OK) {
        tidei_chunk_heap_fini(&shared_heap->chunk_heap);
        return status;
    }
    shared_heap->chunk_heap.chunks.nvtx = tidei_nvtx_wanted(arena->options.nvtx);
    tidei_resource_set_own(&shared_heap->base);
    shared_heap->base.upstream = upstream; /* borrowed: the arena holds the only reference */
    return TIDE_OK;
}

/* Create one arena; the one for large requests returns free chunks at once. */
static enum tide_status
arenas_add(struct arena *arena, uint32_t number)
{
    const struct tidei_chunk_heap_options options = {
        .name = "arena",
        .layer = &arena->base,
        .granule = TIDE_DEFAULT_ALIGNMENT,
        .growth_bytes = number < arena->count ? arena->block_bytes : TIDE_DEFAULT_ALIGNMENT,
        .maximum_bytes = UINT64_MAX,
        .release_threshold_bytes = number < arena->count ? arena->block_bytes : 1,
        .is_inner = true,
    };
    struct tidei_chunk_heap *chunk_heap = malloc(sizeof(*chunk_heap));
    enum tide_status status;

    if (chunk_heap == NULL)
        return tide_error_set(TIDE_ENOMEM, "arena: no host memory for %zu B", sizeof(*chunk_heap));
    status = tidei_chunk_heap_init(chunk_heap, &arena->shared_heap.base, &options);
    if (status == TIDE_OK)
        arena->arenas[number] = chunk_heap;
    else
        free(chunk_heap);
    return status;
}

static uint64_t
arena_block_bytes(uint64_t size_bytes)
{
    uint64_t bytes = ARENA_BLOCK_BYTES;

    while (bytes > size_bytes / ARENA_BLOCKS && bytes > TIDEI_CHUNK_HEAP_CHUNK_BYTES)
        bytes /= 2;
    return bytes;
}

/* Destroy the arenas, of which a failed creation may have left a part, and the shared heap. */
static void
arenas_fini(struct arena *arena)
{
    for (uint32_t i = 0; i <= arena->count; i++) {
        if (arena->arenas[i] != NULL)
            tidei_chunk_heap_fini(arena->arenas[i]);
        free(arena->arenas[i]);
    }
    free(arena->arenas);
    tidei_chunk_heap_fini(&arena->shared_heap.chunk_heap);
    arena->shared_heap.base.upstream = NULL;
    tide_resource_fini(&arena->shared_heap.base);
}

static enum tide_status
arena_check(void *options, size_t *fault)
{
    uint64_t size_bytes = ((struct tide_arena_options *)options)->size_bytes;

    (void)fault;
    return size_bytes <= TIDEI_CHUNK_HEAP_BYTES_MAX || size_bytes == TIDE_UNLIMITED
               ? TIDE_OK
               : tide_error_set(TIDE_EINVAL, "arena: a size of %s, the largest is 128 TiB",
                                tidei_size_text(size_bytes));
}

static enum tide_status
arena_init(struct tide_resource *self, size_t *fault)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct arena *arena = (struct arena *)self;
    enum tide_status status;

    (void)fault;
    arena->block_bytes = arena_block_bytes(arena->options.size_bytes);
    arena->count = processors < 1 ? 1 : processors > ARENA_COUNT_MOST ? ARENA_COUNT_MOST : (uint32_t)processors;
    arena->arenas = calloc(arena->count + 1, sizeof(*arena->arenas));
    if (arena->arenas == NULL)
        return tide_error_set(TIDE_ENOMEM, "arena: no host memory for its arenas");
    status = shared_heap_init(arena, self->upstream, arena->options.size_bytes);
    if (status != TIDE_OK) {
        free(arena->arenas);
        return status;
    }
    for (uint32_t i = 0; status == TIDE_OK && i <= arena->count; i++)
        status = arenas_add(arena, i);
    if (status == TIDE_OK)
        tidei_slots_init(&arena->slots, sizeof(struct arena_thread), NULL);
    else
        arenas_fini(arena);
    return status;
}

static void
arena_fini(struct tide_resource *self)
{
    tidei_slots_fini(&((struct arena *)self)->slots);
    arenas_fini((struct arena *)self);
}

static const struct tidei_argument arena_arguments[] = {
    TIDEI_ARGUMENT("size", SIZE, struct tide_arena_options, size_bytes, "a size such as 8GiB, or a share such as 50%",
                   .share = true, .least = 1, .default_value = UINT64_MAX),
    TIDEI_NVTX_ARGUMENT(struct tide_arena_options),
};

static const struct tidei_count arena_counts[] = {
    TIDEI_COUNT("grown", struct arena, shared_heap.chunk_heap.grown),
    TIDEI_COUNT("returned", struct arena, shared_heap.chunk_heap.returned),
    TIDEI_COUNT("remapped", struct arena, shared_heap.chunk_heap.remapped),
    TIDEI_COUNT("waits", struct arena, shared_heap.chunk_heap.waits),
};

const struct tidei_kind tidei_arena_kind = {
    .ops = {
        TIDEI_KIND_OPS("arena"),
        .allocate = arena_allocate,
        .deallocate = arena_deallocate,
        .order = arena_order,
        .trim = arena_trim,
        .query = arena_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(arena_arguments),
    .options_size = offsetof(struct tide_arena_options, reserved),
    TIDEI_KIND_STRUCT(struct arena),
    .check = arena_check,
    .init = arena_init,
    .fini = arena_fini,
    .chunks = arena_chunks,
    .figures = arena_figures,
    TIDEI_KIND_COUNTS(arena_counts),
};

enum tide_status
tide_arena_create(struct tide_resource *upstream, const struct tide_arena_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_arena_kind, upstream, options, out);
}
