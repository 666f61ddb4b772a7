/* A layer for tests that stops calls half way through. */
#include "gate.h"

#include <stdlib.h>

static void
gate_call(struct gate *gate, gate_visit *place)
{
    gate_visit visit = *place;

    if (visit == NULL)
        return;
    *place = NULL;
    visit(gate->context);
}

static enum tide_status
gate_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct gate *gate = (struct gate *)self;
    enum tide_status status;

    gate_call(gate, &gate->before_allocate);
    status = tide_pass_allocate(self, bytes, alignment, stream, out);
    gate_call(gate, &gate->after_allocate);
    return status;
}

static enum tide_status
gate_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct gate *gate = (struct gate *)self;
    enum tide_status status = gate->deallocate_status;

    gate_call(gate, &gate->before_deallocate);
    if (status != TIDE_OK) {
        gate->deallocate_status = TIDE_OK;
        return tide_error_set(status, "gate: told to fail");
    }
    status = tide_pass_deallocate(self, pointer, bytes, alignment, stream);
    gate_call(gate, &gate->after_deallocate);
    return status;
}

static enum tide_status
gate_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    struct gate *gate = (struct gate *)self;
    enum tide_status status = earlier == TIDE_STREAM_ALL ? gate->order_all_status : gate->order_status;

    if (earlier == TIDE_STREAM_ALL)
        gate_call(gate, &gate->before_order_all);
    if (status != TIDE_OK)
        return tide_error_set(status, "gate: told to fail");
    return tide_pass_order(self, earlier, later);
}

static void
gate_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops gate_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "gate",
    .allocate = gate_allocate,
    .deallocate = gate_deallocate,
    .order = gate_order,
    .trim = tide_pass_trim,
    .query = tide_pass_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = gate_destroy,
};

struct gate *
gate_create(struct tide_resource *upstream)
{
    struct gate *gate = calloc(1, sizeof(*gate));

    if (gate == NULL || tide_resource_init(&gate->base, &gate_ops, upstream) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return gate;
}
