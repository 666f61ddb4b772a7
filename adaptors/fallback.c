/*
 * fallback: try a second resource where the first one cannot serve a request.
 *
 * Usage: fallback({STACK} [, any])
 *     STACK  the first resource; it has a base of its own, or ends in the layer that follows
 *     any    fall back after any failure, not only for lack of memory
 *
 * Example: use device memory while there is some, then managed memory, which may exceed it:
 *     fallback({driver(maximum=60GiB)}) | managed
 *
 * The second resource is the layer that follows. Tables by ranges of addresses note the blocks that it has served. A
 * deallocation costs one read of a counter where none of these blocks is in its range.
 *
 * LIMITATIONS
 *  - Two resources that hand out the same addresses, such as two `sim` bases, cannot be told apart.
 *  - A device that is out of memory may take long to refuse, each time. A `limit` in STACK refuses at once.
 *  - Figures: see include/tidemark/fallback.h.
 */
#include <tidemark/fallback.h>

#include "src/tables/address-shards.h"
#include "src/stack/stack.h"
#include "src/resource/kind.h"
#include "src/resource/resource.h"
#include "src/sync/inside.h"

struct fallback {
    struct tide_resource base;   /* its upstream is the second resource */
    struct tide_resource *first; /* holds a reference */
    bool joined;                 /* the first resource ends in the second */
    struct tide_fallback_options options;
    struct tidei_address_shards *noted; /* owned; addresses of the second resource's blocks */
    _Atomic uint64_t served;            /* allocations of the second resource so far */
};

static bool
fallback_wanted(const struct fallback *fallback, enum tide_status status)
{
    return fallback->options.any || status == TIDE_ECAPACITY || status == TIDE_ELIMIT;
}

/* The first resource has failed, and set the error text. */
static __attribute__((noinline)) enum tide_status
fallback_allocate_second(struct fallback *fallback, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tide_resource *second = fallback->base.upstream;
    struct tidei_error error, then;
    enum tide_status status;

    tidei_error_save(&error);
    status = tidei_allocate(second, bytes, alignment, stream, out);
    if (status != TIDE_OK) {
        *out = NULL;
        tidei_error_save(&then);
        return tidei_error_pass_on(&then, status, "fallback: %s; then %s", error.text, then.text);
    }
    /* Before the block can be freed. */
    if (tidei_address_shards_put(fallback->noted, *out, 1)) {
        atomic_fetch_add_explicit(&fallback->served, 1, memory_order_relaxed); /* a figure: orders nothing */
        return TIDE_OK;
    }
    tidei_deallocate(second, *out, bytes, alignment, stream);
    *out = NULL;
    return tidei_refused(&fallback->base, tide_error_set(TIDE_ENOMEM, "fallback: no host memory to note an address"));
}

static enum tide_status
fallback_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct fallback *fallback = (struct fallback *)self;
    enum tide_status status = tidei_allocate(fallback->first, bytes, alignment, stream, out);

    if (__builtin_expect(status == TIDE_OK, 1) || !fallback_wanted(fallback, status))
        return status;
    return fallback_allocate_second(fallback, bytes, alignment, stream, out);
}

static __attribute__((noinline)) enum tide_status
fallback_deallocate_second(struct fallback *fallback, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    enum tide_status status = tidei_deallocate(fallback->base.upstream, pointer, bytes, alignment, stream);

    if (status != TIDE_OK && !tidei_address_shards_put(fallback->noted, pointer, 1))
        tidei_message(TIDE_ERROR, "fallback: no host memory to note an address again that was not taken back");
    return status;
}

/* Removes the address before the second resource is called, because either resource may hand it out again at once. */
static enum tide_status
fallback_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct fallback *fallback = (struct fallback *)self;

    if (__builtin_expect(tidei_address_shards_take(fallback->noted, pointer) != 0, 0))
        return fallback_deallocate_second(fallback, pointer, bytes, alignment, stream);
    return tidei_deallocate(fallback->first, pointer, bytes, alignment, stream);
}

static struct tide_resource *
fallback_beneath(struct tide_resource *self, struct tidei_place *place)
{
    struct fallback *fallback = (struct fallback *)self;

    if (tidei_address_shards_take(fallback->noted, place->pointer) == 0)
        return fallback->first;
    return tidei_address_shards_put(fallback->noted, place->pointer, 1) ? self->upstream : NULL;
}

/* Orders both resources even where one fails, and returns the failure. */
static enum tide_status
fallback_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    struct fallback *fallback = (struct fallback *)self;
    enum tide_status status = TIDE_OK, second;

    if (!fallback->joined || earlier == TIDE_STREAM_ALL)
        status = fallback->first->ops->order(fallback->first, earlier, later);
    second = tide_pass_order(self, earlier, later);
    return status != TIDE_OK ? status : second;
}

/* The second resource comes last, because the first may return memory to it. */
static enum tide_status
fallback_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct fallback *fallback = (struct fallback *)self;
    enum tide_status status = fallback->first->ops->trim(fallback->first, keep_bytes);
    enum tide_status second = tide_pass_trim(self, keep_bytes);

    return status != TIDE_OK ? status : second;
}

/* Combine the figures of both resources; false where a query cannot be combined. */
static bool
fallback_join(enum tide_query what, uint64_t first, uint64_t second, uint64_t *out)
{
    *out = first < second ? first : second;
    switch (what) {
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
    case TIDE_QUERY_BYTES_CACHED:
    case TIDE_QUERY_FREE_BLOCKS:
    case TIDE_QUERY_CAPACITY:
        *out = first > UINT64_MAX - second ? UINT64_MAX : first + second;
        return true;
    case TIDE_QUERY_LARGEST_FREE:
    case TIDE_QUERY_LARGEST_REQUEST:
        *out = first > second ? first : second;
        return true;
    case TIDE_QUERY_HOST_ACCESS:
    case TIDE_QUERY_STREAM_ORDERED:
    case TIDE_QUERY_ALIGNMENT:
        return true; /* the smaller of both */
    case TIDE_QUERY_DEVICE:
        return first == second;
    default:
        return false;
    }
}

static enum tide_status
fallback_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    const struct fallback *fallback = (const struct fallback *)self;
    uint64_t first, second;
    enum tide_status status;

    if (tidei_query_is_of_blocks(what))
        return tide_base_query(self, what, out); /* blocks come from two upstreams */
    if (fallback->joined)
        return tide_pass_query(self, what, out);
    if ((what >= TIDE_QUERY_DEVICE_FREE && what <= TIDE_QUERY_HOST_POOLS) || what == TIDE_QUERY_VIRTUAL_MEMORY)
        return fallback->first->ops->query(fallback->first, what, out);
    status = fallback->first->ops->query(fallback->first, what, &first);
    if (status == TIDE_OK)
        status = tide_pass_query(self, what, &second);
    if (status == TIDE_OK && fallback_join(what, first, second, out))
        return TIDE_OK;
    return status == TIDE_OK ? tide_base_query(self, what, out) : status;
}

static void
fallback_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct fallback *fallback = (const struct fallback *)self;

    tide_text_format(text, "{");
    tidei_describe_until(fallback->first, self->upstream, text);
    tide_text_format(text, "}");
    tidei_kind_describe_options(tidei_kind_of(self), &fallback->options, ", ", text);
}

static enum tide_status
fallback_upstream_at(struct tide_resource *self, size_t index, struct tide_upstream *out)
{
    if (index != 1)
        return tide_pass_upstream_at(self, index, out);
    *out = (struct tide_upstream){ ((const struct fallback *)self)->first, UINT64_MAX };
    return TIDE_OK;
}

static void
fallback_fini(struct tide_resource *self)
{
    struct fallback *fallback = (struct fallback *)self;

    tide_resource_release(fallback->first);
    tidei_address_shards_destroy(fallback->noted);
}

static enum tide_status
fallback_init(struct tide_resource *self, size_t *fault)
{
    (void)fault;
    return tidei_address_shards_create("fallback", &((struct fallback *)self)->noted);
}

extern const struct tidei_kind tidei_fallback_kind;

static enum tide_status
fallback_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_fallback_options options;

    tidei_kind_read_text(&tidei_fallback_kind, arguments, &options);
    return tide_fallback_create(arguments->bins[0].resource, upstream, &options, out);
}

static const struct tidei_argument fallback_arguments[] = {
    { .key = "first",
      .type = TIDEI_ARGUMENT_STACK,
      .positional = true,
      .required = true,
      .expected = "layers in braces such as {limit(4GiB)}" },
    TIDEI_FLAG("any", struct tide_fallback_options, any),
};

static const struct tidei_count fallback_counts[] = { TIDEI_COUNT("served", struct fallback, served) };

const struct tidei_kind tidei_fallback_kind = {
    .ops = {
        TIDEI_KIND_OPS("fallback"),
        .allocate = fallback_allocate,
        .deallocate = fallback_deallocate,
        .order = fallback_order,
        .trim = fallback_trim,
        .query = fallback_query,
        .describe = fallback_describe,
        .upstream_at = fallback_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(fallback_arguments),
    .beneath = fallback_beneath,
    .options_size = offsetof(struct tide_fallback_options, reserved),
    TIDEI_KIND_STRUCT(struct fallback),
    TIDEI_KIND_COUNTS(fallback_counts),
    .init = fallback_init,
    .fini = fallback_fini,
    .create_text = fallback_from_text,
};

/* Whether `second` stands below `first`, along the upstreams of index 0. */
static bool
fallback_reaches(struct tide_resource *first, const struct tide_resource *second)
{
    struct tide_upstream edge = { .resource = first };

    while (edge.resource != NULL && edge.resource != second) {
        struct tide_resource *resource = edge.resource;

        if (resource->ops->upstream_at(resource, 0, &edge) != TIDE_OK)
            return false;
    }
    return edge.resource == second;
}

enum tide_status
tide_fallback_create(struct tide_resource *first, struct tide_resource *second,
                     const struct tide_fallback_options *options, struct tide_resource **out)
{
    TIDEI_INSIDE(second);
    struct fallback *fallback;
    enum tide_status status;

    if (out != NULL)
        *out = NULL;
    if (first == NULL || second == NULL)
        return tide_error_set(TIDE_EINVAL, "fallback: no %s resource", first == NULL ? "first" : "second");
    if (first == second)
        return tide_error_set(TIDE_EINVAL, "fallback: the second resource is the first");
    status = tidei_kind_create(&tidei_fallback_kind, second, options, out);
    if (status != TIDE_OK)
        return status;
    fallback = (struct fallback *)*out;
    fallback->first = tide_resource_retain(first);
    fallback->joined = fallback_reaches(first, second);
    return TIDE_OK;
}

enum tide_status
tide_fallback_read(struct tide_resource *resource, struct tide_fallback_figures *out)
{
    TIDEI_INSIDE(resource);
    const struct fallback *fallback = (const struct fallback *)resource;
    enum tide_status status = tidei_kind_check_figures(&tidei_fallback_kind, resource, out);
    struct tide_fallback_figures figures;

    if (status != TIDE_OK)
        return status;
    figures.served = tidei_figure_get(&fallback->served);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}
