/* A chunk heap as a resource; see shared-heap.h. */
#include "src/suballoc/shared-heap.h"

#include <stdlib.h>

static enum tide_status
shared_heap_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_shared_heap *shared_heap = (struct tidei_shared_heap *)self;
    struct tidei_piece *piece;
    enum tide_status status = tidei_chunk_heap_allocate(&shared_heap->chunk_heap, bytes, alignment, stream, &piece);

    *out = status == TIDE_OK ? (void *)tidei_piece_address(piece) : NULL;
    return status;
}

static enum tide_status
shared_heap_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return tidei_chunk_heap_deallocate(&((struct tidei_shared_heap *)self)->chunk_heap, pointer, bytes, alignment,
                                       stream);
}

static enum tide_status
shared_heap_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    if (what != TIDE_QUERY_CAPACITY)
        return tide_pass_query(self, what, out);
    *out = ((struct tidei_shared_heap *)self)->capacity_bytes;
    return TIDE_OK;
}

static void
shared_heap_destroy(struct tide_resource *self)
{
    tidei_chunk_heap_fini(&((struct tidei_shared_heap *)self)->chunk_heap);
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops shared_heap_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "arena", /* whose part it is */
    .allocate = shared_heap_allocate,
    .deallocate = shared_heap_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = shared_heap_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = shared_heap_destroy,
};

enum tide_status
tidei_shared_heap_create(struct tide_resource *upstream, const struct tidei_chunk_heap_options *options,
                         uint64_t capacity_bytes, void *context, struct tidei_shared_heap **out)
{
    struct tidei_shared_heap *shared_heap = calloc(1, sizeof(*shared_heap));
    enum tide_status status;

    *out = NULL;
    if (shared_heap == NULL)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory for %zu B", options->name, sizeof(*shared_heap));
    shared_heap->capacity_bytes = capacity_bytes;
    shared_heap->context = context;
    status = tidei_chunk_heap_init(&shared_heap->chunk_heap, upstream, options);
    if (status == TIDE_OK) {
        status = tide_resource_init(&shared_heap->base, &shared_heap_ops, upstream);
        if (status == TIDE_OK)
            *out = shared_heap;
        else
            tidei_chunk_heap_fini(&shared_heap->chunk_heap);
    }
    if (status != TIDE_OK)
        free(shared_heap);
    return status;
}
