/*
 * aligned: larger alignments than upstream gives.
 *
 * Usage: aligned([ALIGNMENT] [, above=SIZE])
 *     ALIGNMENT  smallest alignment of every request, a power of two; each request's own unless given
 *     above      requests of up to SIZE keep their own alignment
 *
 * Example: requests over 1 MiB are aligned to 2 MiB, the size of large pages:
 *     aligned(2MiB, above=1MiB) | driver
 *
 * Requests that need an alignment of 256 bytes or less go to upstream unchanged. For the others the layer requests as
 * many more bytes as the alignment may cost. A table by address notes how far each address was moved.
 *
 * LIMITATIONS
 *  - Each block takes the extra bytes of its alignment. Over a pool of large blocks these are few.
 *  - A deallocation whose size or alignment asks for another alignment than the allocation's goes to upstream
 *    unchanged. Layers that know their pointers detect it.
 */
#include <tidemark/aligned.h>

#include "src/tables/address-shards.h"
#include "src/resource/kind.h"

struct aligned {
    struct tide_resource base;
    struct tide_aligned_options options;
    struct tidei_address_shards *moved; /* owned; (distance moved / 256) + 1, by address */
};

/* The alignment that this layer must provide; 0 where upstream provides it. */
static inline size_t
aligned_for(const struct aligned *aligned, size_t bytes, size_t alignment)
{
    if (alignment < aligned->options.alignment_bytes &&
        (bytes > aligned->options.above_bytes || aligned->options.above_bytes == 0))
        alignment = aligned->options.alignment_bytes;
    return bytes != 0 && alignment > TIDE_DEFAULT_ALIGNMENT ? alignment : 0;
}

/* The alignment that upstream is asked for: it provides at most TIDE_DEFAULT_ALIGNMENT. */
static inline size_t
aligned_least(const struct aligned *aligned, size_t alignment)
{
    if (alignment < aligned->options.alignment_bytes)
        alignment = aligned->options.alignment_bytes;
    return alignment < TIDE_DEFAULT_ALIGNMENT ? alignment : TIDE_DEFAULT_ALIGNMENT;
}

/* Place the block in upstream's memory; *out is NULL where it does not fit. */
static enum tide_status
aligned_place(struct aligned *aligned, void *given, size_t alignment, void **out)
{
    uintptr_t first = (uintptr_t)given;
    uintptr_t place = (first + alignment - 1) & ~(uintptr_t)(alignment - 1);

    *out = NULL;
    if (given == NULL || first % TIDE_DEFAULT_ALIGNMENT != 0)
        return tidei_refused(&aligned->base,
                             tide_error_set(TIDE_EUPSTREAM, "aligned: upstream gave %p, expected a multiple of %zu",
                                            given, TIDE_DEFAULT_ALIGNMENT));
    if (!tidei_address_shards_put(aligned->moved, (void *)place,
                                  (uint32_t)((place - first) / TIDE_DEFAULT_ALIGNMENT + 1)))
        return tidei_refused(&aligned->base, tide_error_set(TIDE_ENOMEM, "aligned: no host memory to note an address"));
    *out = (void *)place;
    return TIDE_OK;
}

static __attribute__((noinline)) enum tide_status
aligned_allocate_moved(struct aligned *aligned, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tide_resource *upstream = aligned->base.upstream;
    enum tide_status status;
    size_t padded;
    void *given;

    *out = NULL;
    if (alignment > TIDE_ALIGNED_MOST)
        return tidei_refused(&aligned->base,
                             tide_error_set(TIDE_EINVAL, "aligned: alignment of %s, expected at most %s",
                                            tidei_size_text(alignment), tidei_size_text(TIDE_ALIGNED_MOST)));
    if (__builtin_add_overflow(bytes, alignment - TIDE_DEFAULT_ALIGNMENT, &padded))
        return tidei_refused(&aligned->base,
                             tide_error_set(TIDE_EOVERFLOW, "aligned: %zu B request overflows with an alignment of %s",
                                            bytes, tidei_size_text(alignment)));
    status = tidei_allocate(upstream, padded, TIDE_DEFAULT_ALIGNMENT, stream, &given);
    if (status != TIDE_OK)
        return status;
    status = aligned_place(aligned, given, alignment, out);
    if (status != TIDE_OK)
        tidei_deallocate_quietly(upstream, given, padded, TIDE_DEFAULT_ALIGNMENT, stream);
    return status;
}

static enum tide_status
aligned_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct aligned *aligned = (struct aligned *)self;
    size_t needed = aligned_for(aligned, bytes, alignment);

    if (needed != 0)
        return aligned_allocate_moved(aligned, bytes, needed, stream, out);
    return tidei_allocate(self->upstream, bytes, aligned_least(aligned, alignment), stream, out);
}

/* Removes the entry before upstream is called, because another thread may get the address at once. */
static enum tide_status
aligned_deallocate_moved(struct aligned *aligned, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    uint32_t moved = tidei_address_shards_take(aligned->moved, pointer);
    enum tide_status status;

    if (moved == 0)
        return tide_error_set(TIDE_EPOINTER, "aligned: %p given back, which is none of its blocks", pointer);
    status = tidei_deallocate(aligned->base.upstream, (char *)pointer - (moved - 1) * TIDE_DEFAULT_ALIGNMENT,
                              bytes + alignment - TIDE_DEFAULT_ALIGNMENT, TIDE_DEFAULT_ALIGNMENT, stream);
    /* There is room, unless others have taken it meanwhile: then the distance is lost. */
    if (status != TIDE_OK && !tidei_address_shards_put(aligned->moved, pointer, moved))
        tidei_message(TIDE_ERROR, "aligned: no host memory to note an address again that upstream did not take back");
    return status;
}

static enum tide_status
aligned_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct aligned *aligned = (struct aligned *)self;
    size_t needed = aligned_for(aligned, bytes, alignment);

    if (needed != 0)
        return aligned_deallocate_moved(aligned, pointer, bytes, needed, stream);
    return tidei_deallocate(self->upstream, pointer, bytes, aligned_least(aligned, alignment), stream);
}

static struct tide_resource *
aligned_beneath(struct tide_resource *self, struct tidei_place *place)
{
    struct aligned *aligned = (struct aligned *)self;
    size_t needed = aligned_for(aligned, place->bytes, place->alignment);
    uint32_t moved;

    if (needed == 0) {
        place->alignment = aligned_least(aligned, place->alignment);
        return self->upstream;
    }
    moved = tidei_address_shards_take(aligned->moved, place->pointer);
    if (moved == 0 || !tidei_address_shards_put(aligned->moved, place->pointer, moved))
        return NULL;
    place->pointer = (char *)place->pointer - (moved - 1) * TIDE_DEFAULT_ALIGNMENT;
    place->bytes += needed - TIDE_DEFAULT_ALIGNMENT;
    place->alignment = TIDE_DEFAULT_ALIGNMENT;
    return self->upstream;
}

/* Moved blocks have the alignment requested, whatever upstream's is. */
static enum tide_status
aligned_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct aligned *aligned = (const struct aligned *)self;

    if (tidei_query_is_of_blocks(what))
        return tide_base_query(self, what, out); /* upstream's block is larger than what it is handed out as */
    if (what != TIDE_QUERY_ALIGNMENT)
        return tide_pass_query(self, what, out);
    *out = TIDE_DEFAULT_ALIGNMENT;
    if (aligned->options.above_bytes == 0 && aligned->options.alignment_bytes > TIDE_DEFAULT_ALIGNMENT)
        *out = aligned->options.alignment_bytes;
    return TIDE_OK;
}

enum { ALIGNED_ALIGNMENT, ALIGNED_ABOVE };

static enum tide_status
aligned_check(void *options, size_t *fault)
{
    struct tide_aligned_options *wanted = options;

    *fault = ALIGNED_ABOVE;
    if (wanted->above_bytes != 0 && wanted->alignment_bytes == 0)
        return tide_error_set(TIDE_EINVAL, "aligned: no alignment for requests over %s",
                              tidei_size_text(wanted->above_bytes));
    if (wanted->above_bytes == 0 && wanted->alignment_bytes == 1) /* no larger alignment is requested */
        wanted->alignment_bytes = 0;
    return TIDE_OK;
}

static enum tide_status
aligned_init(struct tide_resource *self, size_t *fault)
{
    (void)fault;
    return tidei_address_shards_create("aligned", &((struct aligned *)self)->moved);
}

static void
aligned_fini(struct tide_resource *self)
{
    tidei_address_shards_destroy(((struct aligned *)self)->moved);
}

static const struct tidei_argument aligned_arguments[] = {
    TIDEI_ARGUMENT("alignment", SIZE, struct tide_aligned_options, alignment_bytes,
                   "a power of two up to 1TiB, such as 2MiB", .positional = true, .power_of_two = true,
                   .most = TIDE_ALIGNED_MOST),
    TIDEI_ARGUMENT("above", SIZE, struct tide_aligned_options, above_bytes, "a size such as 1MiB", .least = 1),
};

const struct tidei_kind tidei_aligned_kind = {
    .ops = {
        TIDEI_KIND_OPS("aligned"),
        .allocate = aligned_allocate,
        .deallocate = aligned_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = aligned_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(aligned_arguments),
    .options_size = sizeof(struct tide_aligned_options),
    TIDEI_KIND_STRUCT(struct aligned),
    .beneath = aligned_beneath,
    .check = aligned_check,
    .init = aligned_init,
    .fini = aligned_fini,
};

enum tide_status
tide_aligned_create(struct tide_resource *upstream, const struct tide_aligned_options *options,
                    struct tide_resource **out)
{
    return tidei_kind_create(&tidei_aligned_kind, upstream, options, out);
}
