/* A supply as a resource; see source.h. */
#include "src/suballoc/shared-heap.h"

#include <stdlib.h>

static enum tide_status
source_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_source *source = (struct tidei_source *)self;
    struct tidei_piece *piece;
    enum tide_status status = tidei_supply_allocate(&source->supply, bytes, alignment, stream, &piece);

    *out = status == TIDE_OK ? (void *)tidei_piece_address(piece) : NULL;
    return status;
}

static enum tide_status
source_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return tidei_supply_deallocate(&((struct tidei_source *)self)->supply, pointer, bytes, alignment, stream);
}

static enum tide_status
source_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    if (what != TIDE_QUERY_CAPACITY)
        return tide_pass_query(self, what, out);
    *out = ((struct tidei_source *)self)->capacity_bytes;
    return TIDE_OK;
}

static void
source_destroy(struct tide_resource *self)
{
    tidei_supply_fini(&((struct tidei_source *)self)->supply);
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops source_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "arena", /* whose part it is */
    .allocate = source_allocate,
    .deallocate = source_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = source_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = source_destroy,
};

enum tide_status
tidei_source_create(struct tide_resource *upstream, const struct tidei_supply_options *options, uint64_t capacity_bytes,
                    void *context, struct tidei_source **out)
{
    struct tidei_source *source = calloc(1, sizeof(*source));
    enum tide_status status;

    *out = NULL;
    if (source == NULL)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory for %zu B", options->name, sizeof(*source));
    source->capacity_bytes = capacity_bytes;
    source->context = context;
    status = tidei_supply_init(&source->supply, upstream, options);
    if (status == TIDE_OK) {
        status = tide_resource_init(&source->base, &source_ops, upstream);
        if (status == TIDE_OK)
            *out = source;
        else
            tidei_supply_fini(&source->supply);
    }
    if (status != TIDE_OK)
        free(source);
    return status;
}
