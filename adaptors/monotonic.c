/*
 * monotonic: hand out memory by moving a pointer, and take it back all at once.
 *
 * Usage: monotonic([SIZE, nvtx=auto|off])
 *     SIZE  of the chunks taken from upstream; 32 MiB unless given
 *     nvtx  auto: a tool that listens to NVTX, such as compute-sanitizer, is told the chunks and blocks; off: never
 *
 * Example: the memory of one step of a program, released with tide_monotonic_reset at its end:
 *     monotonic(256MiB) | driver
 *
 * Blocks follow each other in a chunk. Where the rest of a chunk is too small for a request, the next chunk is used. A
 * request larger than a chunk gets a chunk of its own. After a reset the chunks are filled again in the same order.
 *
 * LIMITATIONS
 *  - Freeing a block releases no memory. It is only counted, so that the bytes outstanding can be queried.
 *  - Deallocation knows only the chunk of a pointer. It detects a double free only when a chunk gets back more bytes
 *    than it has outstanding.
 *  - The stream on which a chunk was taken or last reset must live until the chunk is reset again or released.
 *  - TIDE_QUERY_BYTES_USED is the bytes requested and not yet freed, TIDE_QUERY_BYTES_RESERVED those of all chunks.
 */
#include <stdlib.h>

#include <tidemark/monotonic.h>

#include "src/nvtx/blocks.h"
#include "src/resource/kind.h"
#include "src/suballoc/chunks.h"
#include "src/sync/inside.h"
#include "src/sync/lock.h"
#include "src/tables/grow.h"

/* Streams of a chunk that are known to wait for its own. Beyond these, each block is ordered. */
#define MONOTONIC_STREAMS 8

struct monotonic_chunk {
    uintptr_t address;
    size_t bytes;
    size_t filled;      /* bytes in use, from the chunk's begin */
    size_t alignment;   /* as requested from upstream */
    tide_stream stream; /* on which it was taken, or reset */
    tide_stream ordered[MONOTONIC_STREAMS];
    unsigned ordered_count;
};

struct monotonic {
    struct tide_resource base; /* first */
    struct tide_monotonic_options options;
    struct tidei_lock lock;         /* guards the fields below; never held over a call of upstream */
    struct monotonic_chunk *chunks; /* owns; in the order in which they are filled */
    size_t count;
    size_t in_flight; /* chunks being taken or returned; `chunks` has room for them */
    size_t capacity;
    size_t current; /* the first chunk that may have room; later ones are empty, except for single large blocks */
    _Atomic uint64_t used_bytes;
    uint64_t reserved_bytes;
    struct tidei_chunks from_upstream;
};

/* The chunk, and the address in it, for a block; NULL where none has room. The caller holds `lock`. */
static struct monotonic_chunk *
monotonic_find(struct monotonic *self, size_t bytes, size_t alignment, uint64_t *out)
{
    for (size_t i = self->current; i < self->count; i++) {
        const struct monotonic_chunk *chunk = &self->chunks[i];

        if (!tidei_round_up(chunk->address + chunk->filled, alignment, out) || *out - chunk->address > chunk->bytes ||
            bytes > chunk->bytes - (*out - chunk->address))
            continue;
        /* A block larger than the usual chunk does not change the current chunk. */
        if (bytes <= self->options.chunk_bytes)
            self->current = i;
        return &self->chunks[i];
    }
    return NULL;
}

/* Whether `stream` has to wait for the chunk's; if so, it is noted as waiting. The caller holds `lock`. */
static bool
monotonic_must_order(struct monotonic_chunk *chunk, tide_stream stream)
{
    if (stream == chunk->stream)
        return false;
    for (unsigned i = 0; i < chunk->ordered_count; i++) {
        if (chunk->ordered[i] == stream)
            return false;
    }
    return true;
}

/* Note that `stream` waits for the chunk at `address`, which may be another chunk's address by now. */
static void
monotonic_note_order(struct monotonic *self, uintptr_t address, tide_stream chunk_stream, tide_stream stream)
{
    tidei_lock_acquire(&self->lock);
    for (size_t i = 0; i < self->count; i++) {
        struct monotonic_chunk *chunk = &self->chunks[i];

        if (chunk->address == address && chunk->stream == chunk_stream && monotonic_must_order(chunk, stream) &&
            chunk->ordered_count < MONOTONIC_STREAMS)
            chunk->ordered[chunk->ordered_count++] = stream;
    }
    tidei_lock_release(&self->lock);
}

/* Make `stream` wait for the chunk's, from which `bytes` have been handed out: they are taken back where that fails. */
static __attribute__((noinline)) enum tide_status
monotonic_order_behind(struct monotonic *self, uintptr_t chunk_address, tide_stream chunk_stream, tide_stream stream,
                       size_t bytes)
{
    struct tide_resource *upstream = self->base.upstream;
    enum tide_status status = upstream->ops->order(upstream, chunk_stream, stream);

    if (status == TIDE_OK) {
        monotonic_note_order(self, chunk_address, chunk_stream, stream);
        return TIDE_OK;
    }
    /* The block's bytes are lost until the reset; nobody has them. */
    tidei_lock_acquire(&self->lock);
    tidei_figure_add(&self->used_bytes, 0 - (uint64_t)bytes);
    tidei_lock_release(&self->lock);
    return status;
}

/* Allocate from the existing chunks; *found is false where none has room. */
static enum tide_status
monotonic_bump(struct monotonic *self, size_t bytes, size_t alignment, tide_stream stream, void **out, bool *found)
{
    struct monotonic_chunk *chunk;
    tide_stream chunk_stream = stream;
    uintptr_t chunk_address = 0;
    uint64_t address = 0;
    enum tide_status status;
    bool order = false;

    tidei_lock_acquire(&self->lock);
    chunk = monotonic_find(self, bytes, alignment, &address);
    *found = chunk != NULL;
    if (chunk != NULL) {
        chunk->filled = address + bytes - chunk->address;
        tidei_figure_add(&self->used_bytes, bytes);
        order = monotonic_must_order(chunk, stream);
        chunk_stream = chunk->stream;
        chunk_address = chunk->address;
    }
    tidei_lock_release(&self->lock);
    *out = chunk != NULL ? (void *)(uintptr_t)address : NULL;
    if (!order)
        return TIDE_OK;
    status = monotonic_order_behind(self, chunk_address, chunk_stream, stream, bytes);
    if (status != TIDE_OK)
        *out = NULL;
    return status;
}

/* Enter a chunk that has arrived. The caller holds `lock`. */
static void
monotonic_add(struct monotonic *self, const struct monotonic_chunk *chunk)
{
    self->chunks[self->count++] = *chunk;
    self->reserved_bytes += chunk->bytes;
}

/* Whether a chunk overlaps an existing one. The caller holds `lock`. */
static bool
monotonic_overlaps(const struct monotonic *self, const struct monotonic_chunk *chunk)
{
    for (size_t i = 0; i < self->count; i++) {
        const struct monotonic_chunk *other = &self->chunks[i];

        if (chunk->address <= other->address + (other->bytes - 1) &&
            other->address <= chunk->address + (chunk->bytes - 1))
            return true;
    }
    return false;
}

/* Get a chunk from upstream; an invalid one is returned, and reported as an error. */
static enum tide_status
monotonic_take_from_upstream(struct monotonic *self, struct monotonic_chunk *chunk)
{
    void *pointer;
    enum tide_status status =
        tidei_chunks_allocate(&self->from_upstream, chunk->bytes, chunk->alignment, chunk->stream, &pointer);

    if (status != TIDE_OK)
        return status;
    chunk->address = (uintptr_t)pointer;
    if (pointer != NULL && chunk->address % chunk->alignment == 0)
        return TIDE_OK;
    if (pointer != NULL)
        tidei_chunks_deallocate(&self->from_upstream, pointer, chunk->bytes, chunk->alignment, chunk->stream);
    return tidei_refused(&self->base,
                         tide_error_set(TIDE_EUPSTREAM, "monotonic: %s gave out %p for a chunk aligned to %s",
                                        tide_resource_name(self->base.upstream), pointer,
                                        tidei_size_text(chunk->alignment)));
}

/* Get a chunk in which the request has room. Threads that need one at the same time get one each; all are used. */
static __attribute__((noinline)) enum tide_status
monotonic_grow(struct monotonic *self, size_t bytes, size_t alignment, tide_stream stream)
{
    struct monotonic_chunk chunk = { .bytes = bytes, .alignment = alignment, .stream = stream };
    enum tide_status status;
    uint64_t rounded;
    bool room, overlaps = false;

    if (chunk.bytes < self->options.chunk_bytes)
        chunk.bytes = self->options.chunk_bytes;
    if (chunk.alignment < TIDE_DEFAULT_ALIGNMENT)
        chunk.alignment = TIDE_DEFAULT_ALIGNMENT;
    if (!tidei_round_up(chunk.bytes, TIDE_DEFAULT_ALIGNMENT, &rounded))
        return tidei_refused(&self->base, tide_error_set(TIDE_EOVERFLOW, "monotonic: %zu B request overflows", bytes));
    chunk.bytes = (size_t)rounded;
    tidei_lock_acquire(&self->lock);
    room = tidei_grow(&self->chunks, &self->capacity, self->count + self->in_flight, 1);
    self->in_flight += room;
    tidei_lock_release(&self->lock);
    if (!room)
        return tidei_refused(&self->base,
                             tide_error_set(TIDE_ENOMEM, "monotonic: no host memory to note another chunk of %s",
                                            tidei_size_text(chunk.bytes)));
    status = monotonic_take_from_upstream(self, &chunk);
    tidei_lock_acquire(&self->lock);
    self->in_flight--;
    if (status == TIDE_OK) {
        overlaps = monotonic_overlaps(self, &chunk);
        if (!overlaps)
            monotonic_add(self, &chunk);
    }
    tidei_lock_release(&self->lock);
    /* Returning it would free memory that is in use here. */
    if (overlaps)
        return tidei_refused(&self->base,
                             tide_error_set(TIDE_EUPSTREAM, "monotonic: %s gave out %p, which it gave before",
                                            tide_resource_name(self->base.upstream), (void *)chunk.address));
    return status;
}

static __attribute__((noinline)) enum tide_status
monotonic_allocate_slowly(struct monotonic *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    enum tide_status status;
    bool found;

    for (;;) {
        status = monotonic_bump(self, bytes, alignment, stream, out, &found);
        if (found)
            return status;
        status = monotonic_grow(self, bytes, alignment, stream);
        if (status != TIDE_OK)
            return status;
    }
}

/* The address of a block at the end of the current chunk, if that is of the stream; else 0. The caller holds `lock`. */
static inline uintptr_t
monotonic_bump_current(struct monotonic *self, size_t bytes, size_t alignment, tide_stream stream)
{
    struct monotonic_chunk *chunk;
    uint64_t address;

    if (self->current >= self->count)
        return 0;
    chunk = &self->chunks[self->current];
    if (stream != chunk->stream || !tidei_round_up(chunk->address + chunk->filled, alignment, &address) ||
        address - chunk->address > chunk->bytes || bytes > chunk->bytes - (address - chunk->address))
        return 0;
    chunk->filled = address + bytes - chunk->address;
    tidei_figure_add(&self->used_bytes, bytes);
    return (uintptr_t)address;
}

static enum tide_status
monotonic_allocate_plain(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    *out = NULL;
    return bytes != 0 ? monotonic_allocate_slowly((struct monotonic *)self, bytes, alignment, stream, out) : TIDE_OK;
}

static enum tide_status monotonic_deallocate_plain(struct tide_resource *resource, void *pointer, size_t bytes,
                                                   size_t alignment, tide_stream stream);

static const struct tidei_nvtx_plain monotonic_plain = { monotonic_allocate_plain, monotonic_deallocate_plain };

/* Quick for the lock's owner; what calls a function is apart, so that no register need be saved here. */
static enum tide_status
monotonic_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct monotonic *self = (struct monotonic *)resource;
    uintptr_t address;

    if (__builtin_expect(self->from_upstream.nvtx, 0))
        return tidei_nvtx_allocate(resource, &monotonic_plain, bytes, alignment, stream, out);
    *out = NULL;
    if (bytes == 0)
        return TIDE_OK;
    if (__builtin_expect(tidei_lock_enter(&self->lock), 1)) {
        address = monotonic_bump_current(self, bytes, alignment, stream);
        tidei_lock_release(&self->lock);
        if (__builtin_expect(address != 0, 1)) {
            *out = (void *)address;
            return TIDE_OK;
        }
    }
    return monotonic_allocate_slowly(self, bytes, alignment, stream, out);
}

/* Whether a block of `bytes` at `address` may lie in one of the chunks. The caller holds `lock`. */
static bool
monotonic_owns(const struct monotonic *self, uintptr_t address, size_t bytes)
{
    for (size_t i = self->count; i-- > 0;) {
        const struct monotonic_chunk *chunk = &self->chunks[i];

        if (address >= chunk->address && address - chunk->address < chunk->filled)
            return bytes <= chunk->filled - (address - chunk->address);
    }
    return false;
}

static __attribute__((noinline)) enum tide_status
monotonic_deallocate_plain(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment,
                           tide_stream stream)
{
    struct monotonic *self = (struct monotonic *)resource;
    uint64_t used_bytes;
    bool known;

    (void)alignment;
    (void)stream;
    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    tidei_lock_acquire(&self->lock);
    known = bytes != 0 && monotonic_owns(self, (uintptr_t)pointer, bytes);
    used_bytes = tidei_figure_get(&self->used_bytes);
    if (known && bytes <= used_bytes)
        tidei_figure_add(&self->used_bytes, 0 - (uint64_t)bytes);
    tidei_lock_release(&self->lock);
    if (!known)
        return tide_error_set(TIDE_EPOINTER, "monotonic: %p of %zu B was not handed out", pointer, bytes);
    if (bytes > used_bytes)
        return tide_error_set(TIDE_EMISMATCH, "monotonic: %s given back with %s outstanding", tidei_size_text(bytes),
                              tidei_size_text(used_bytes));
    return TIDE_OK;
}

static enum tide_status
monotonic_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    if (__builtin_expect(((struct monotonic *)resource)->from_upstream.nvtx, 0))
        return tidei_nvtx_deallocate(resource, &monotonic_plain, pointer, bytes, alignment, stream);
    return monotonic_deallocate_plain(resource, pointer, bytes, alignment, stream);
}

/* Take out the last chunk if it is empty; false where there is none, or `keep_bytes` would not stay. */
static bool
monotonic_take_empty(struct monotonic *self, uint64_t keep_bytes, struct monotonic_chunk *out)
{
    bool taken = false;

    tidei_lock_acquire(&self->lock);
    if (self->count > 0) {
        *out = self->chunks[self->count - 1];
        taken = out->filled == 0 && self->reserved_bytes - out->bytes >= keep_bytes;
    }
    if (taken) {
        self->count--;
        self->in_flight++;
        self->reserved_bytes -= out->bytes;
        if (self->current > self->count)
            self->current = self->count;
    }
    tidei_lock_release(&self->lock);
    return taken;
}

/* Return a chunk on stream 0, which waits for all streams, because the chunk's streams may be destroyed. */
static enum tide_status
monotonic_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    struct monotonic *self = (struct monotonic *)resource;
    struct tide_resource *upstream = resource->upstream;
    struct monotonic_chunk chunk;
    enum tide_status status = TIDE_OK;

    while (status == TIDE_OK && monotonic_take_empty(self, keep_bytes, &chunk)) {
        status = upstream->ops->order(upstream, TIDE_STREAM_ALL, 0);
        if (status == TIDE_OK)
            status =
                tidei_chunks_deallocate(&self->from_upstream, (void *)chunk.address, chunk.bytes, chunk.alignment, 0);
        tidei_lock_acquire(&self->lock);
        self->in_flight--;
        if (status != TIDE_OK)
            monotonic_add(self, &chunk);
        tidei_lock_release(&self->lock);
    }
    return status != TIDE_OK ? status : tide_pass_trim(resource, keep_bytes);
}

static enum tide_status
monotonic_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct monotonic *self = (struct monotonic *)resource;

    if (what == TIDE_QUERY_BYTES_USED_HIGH || what == TIDE_QUERY_BYTES_RESERVED_HIGH || tidei_query_is_of_blocks(what))
        return tide_base_query(resource, what, out); /* upstream's figures are about other bytes */
    if (what != TIDE_QUERY_BYTES_USED && what != TIDE_QUERY_BYTES_RESERVED && what != TIDE_QUERY_LARGEST_FREE)
        return tide_pass_query(resource, what, out);
    *out = 0;
    tidei_lock_acquire(&self->lock);
    if (what == TIDE_QUERY_BYTES_USED)
        *out = tidei_figure_get(&self->used_bytes);
    else if (what == TIDE_QUERY_BYTES_RESERVED)
        *out = self->reserved_bytes;
    for (size_t i = self->current; what == TIDE_QUERY_LARGEST_FREE && i < self->count; i++) {
        size_t free_bytes = self->chunks[i].bytes - self->chunks[i].filled;

        *out = free_bytes > *out ? free_bytes : *out;
    }
    tidei_lock_release(&self->lock);
    return TIDE_OK;
}

/* Returns chunks with live blocks, too. Where ordering fails, chunks are leaked, as in `fixed`. */
static void
monotonic_fini(struct tide_resource *resource)
{
    struct monotonic *self = (struct monotonic *)resource;
    struct tide_resource *upstream = resource->upstream;
    bool ordered = self->count == 0 || upstream->ops->order(upstream, TIDE_STREAM_ALL, 0) == TIDE_OK;

    if (!ordered)
        tidei_message(TIDE_WARNING, "monotonic: %zu chunks stay with upstream, not ordered behind their use",
                      self->count);
    for (size_t i = 0; ordered && i < self->count; i++)
        tidei_chunks_deallocate(&self->from_upstream, (void *)self->chunks[i].address, self->chunks[i].bytes,
                                self->chunks[i].alignment, 0);
    tidei_chunks_fini(&self->from_upstream);
    free(self->chunks);
    tidei_lock_fini(&self->lock);
}

static enum tide_status
monotonic_init(struct tide_resource *resource, size_t *fault)
{
    struct monotonic *self = (struct monotonic *)resource;

    (void)fault;
    tidei_chunks_init(&self->from_upstream, "monotonic", resource->upstream);
    self->from_upstream.nvtx = tidei_nvtx_wanted(self->options.nvtx);
    tidei_lock_init(&self->lock);
    return TIDE_OK;
}

static struct tidei_chunks *
monotonic_chunks(struct tide_resource *resource)
{
    return &((struct monotonic *)resource)->from_upstream;
}

static void
monotonic_figures(struct tide_resource *resource, struct tidei_layer_figures *out)
{
    const struct monotonic *self = (const struct monotonic *)resource;

    tidei_chunks_figures(&self->from_upstream, tidei_figure_get(&self->used_bytes), out);
}

static const struct tidei_argument monotonic_arguments[] = {
    TIDEI_ARGUMENT("size", SIZE, struct tide_monotonic_options, chunk_bytes, "a size such as 256MiB",
                   .positional = true, .least = 1, .default_value = UINT64_C(32) << 20),
    TIDEI_NVTX_ARGUMENT(struct tide_monotonic_options),
};

const struct tidei_kind tidei_monotonic_kind = {
    .ops = {
        TIDEI_KIND_OPS("monotonic"),
        .allocate = monotonic_allocate,
        .deallocate = monotonic_deallocate,
        .order = tide_pass_order,
        .trim = monotonic_trim,
        .query = monotonic_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(monotonic_arguments),
    .options_size = offsetof(struct tide_monotonic_options, reserved),
    TIDEI_KIND_STRUCT(struct monotonic),
    .init = monotonic_init,
    .fini = monotonic_fini,
    .chunks = monotonic_chunks,
    .figures = monotonic_figures,
};

enum tide_status
tide_monotonic_create(struct tide_resource *upstream, const struct tide_monotonic_options *options,
                      struct tide_resource **out)
{
    return tidei_kind_create(&tidei_monotonic_kind, upstream, options, out);
}

/* Nobody allocates meanwhile, and frees change no chunk. */
static void
monotonic_tell_reset(struct monotonic *self)
{
    if (self->count > 0)
        tidei_nvtx_wait(&self->base);
    for (size_t i = 0; i < self->count; i++)
        tidei_nvtx_chunk_reset((const void *)self->chunks[i].address, self->chunks[i].bytes);
}

enum tide_status
tide_monotonic_reset(struct tide_resource *monotonic, tide_stream stream)
{
    TIDEI_INSIDE(monotonic);
    struct monotonic *self = (struct monotonic *)monotonic;

    if (monotonic == NULL || monotonic->ops != &tidei_monotonic_kind.ops)
        return tide_error_set(TIDE_EINVAL, "monotonic: not a monotonic resource");
    if (stream == TIDE_STREAM_ALL) {
        struct tide_resource *upstream = monotonic->upstream;
        enum tide_status status = upstream->ops->order(upstream, TIDE_STREAM_ALL, 0);

        if (status != TIDE_OK)
            return status;
        stream = 0;
    }
    if (self->from_upstream.nvtx)
        monotonic_tell_reset(self);
    tidei_lock_acquire(&self->lock);
    for (size_t i = 0; i < self->count; i++) {
        self->chunks[i].filled = 0;
        self->chunks[i].stream = stream;
        self->chunks[i].ordered_count = 0;
    }
    self->current = 0;
    tidei_figure_add(&self->used_bytes, 0 - tidei_figure_get(&self->used_bytes));
    tidei_lock_release(&self->lock);
    return TIDE_OK;
}
