/* Keeps the numbers of layers whose stack has ended for the next stack of the same shape. */
#include "config.h"

#include "adaptors/log/again.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/stack/stack.h"
#include "src/tables/grow.h"

/* As in opening.c. */
#define AGAIN_TEXT_BYTES 4096

/* The walk over the layers that one log numbers, in the order of their numbers. */
struct again_walk {
    const struct tidei_log *top;
    const struct tidei_recorder *recorder;
    struct tide_resource **seen; /* owned */
    size_t count, capacity;
    FILE *shape;
    bool failed;
};

/*
 * Whether another log of the trace has numbered this one and what lies below, as opening.c does not number them again.
 * The opening says it, also of a log without a path; an address might be that of a log which is gone.
 */
static bool
again_is_anothers(const struct again_walk *walk, const struct tide_resource *resource)
{
    const struct tidei_log *log = (const struct tidei_log *)resource;

    return resource != &walk->top->base && resource->ops == walk->top->base.ops &&
           atomic_load_explicit(&log->recorder, memory_order_acquire) == walk->recorder &&
           log->opening != walk->top->opening;
}

/* Append a layer and those below it: what their definitions in the trace say, and how they hang together. */
static void
again_append(struct again_walk *walk, struct tide_resource *resource)
{
    struct tide_text text = { 0 };
    uint64_t device = UINT64_MAX;
    struct tide_upstream edge;

    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i] == resource) {
            fprintf(walk->shape, "^%zu", i);
            return;
        }
    }
    if (again_is_anothers(walk, resource)) {
        fprintf(walk->shape, "#%u", (unsigned)((struct tidei_log *)resource)->layer_id);
        return;
    }
    walk->failed = walk->failed || !tidei_grow(&walk->seen, &walk->capacity, walk->count, 1);
    if (walk->failed)
        return;
    walk->seen[walk->count++] = resource;
    if (tide_query(resource, TIDE_QUERY_DEVICE, &device) != TIDE_OK)
        device = UINT64_MAX;
    text.data = calloc(1, AGAIN_TEXT_BYTES);
    walk->failed = walk->failed || text.data == NULL;
    if (walk->failed)
        return;
    text.capacity = AGAIN_TEXT_BYTES;
    resource->ops->describe(resource, &text);
    fprintf(walk->shape, "%s %zu(%s) %llu{", tide_resource_name(resource), text.length, text.data,
            (unsigned long long)device);
    free(text.data);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++) {
        fprintf(walk->shape, "%llu:", (unsigned long long)edge.limit_bytes);
        again_append(walk, edge.resource);
    }
    fprintf(walk->shape, "}");
}

/* The text that is the same for layers of the same shape (owned by the caller); NULL without host memory. */
static char *
again_shape(struct again_walk *walk)
{
    char *shape = NULL;
    size_t length = 0;

    walk->shape = open_memstream(&shape, &length);
    if (walk->shape == NULL)
        return NULL;
    again_append(walk, (struct tide_resource *)&walk->top->base);
    walk->failed = fclose(walk->shape) != 0 || walk->failed;
    if (!walk->failed)
        return shape;
    free(shape);
    return NULL;
}

void
tidei_log_use_again(struct tide_resource *top)
{
    struct tide_resource *log = tidei_stack_find(top, "log");
    struct tidei_recorder *recorder = NULL;

    if (log != NULL)
        recorder = atomic_load_explicit(&((struct tidei_log *)log)->recorder, memory_order_acquire);
    if (recorder != NULL)
        tidei_recorder_use_again(recorder);
}

struct tidei_ended_layers *
tidei_log_again_take(struct tidei_log *log, struct tidei_recorder *recorder)
{
    struct again_walk walk = { .top = log, .recorder = recorder };
    struct tidei_ended_layers *layers = NULL;
    struct tidei_error error;
    char *shape;

    if (!tidei_recorder_has_ended_layers(recorder))
        return NULL;
    tidei_error_save(&error);
    shape = again_shape(&walk);
    if (shape != NULL)
        layers = tidei_recorder_take_ended_layers(recorder, shape);
    tidei_error_restore(&error);
    free(shape);
    free(walk.seen);
    return layers;
}

void
tidei_log_again_put(struct tidei_log *log, struct tidei_recorder *recorder)
{
    struct again_walk walk = { .top = log, .recorder = recorder };
    struct tidei_ended_layers *layers = NULL;
    struct tidei_error error;
    char *shape;

    if (!tidei_recorder_uses_again(recorder))
        return;
    tidei_error_save(&error);
    shape = again_shape(&walk);
    if (shape != NULL)
        layers = malloc(offsetof(struct tidei_ended_layers, ids) + walk.count * sizeof(layers->ids[0]));
    if (layers != NULL) {
        *layers = (struct tidei_ended_layers){ .shape = shape, .count = walk.count };
        layers->stack_id = atomic_load_explicit(&log->stack_id, memory_order_relaxed);
        for (size_t i = 0; i < walk.count; i++) {
            layers->ids[i] = tidei_log_layer_number(log, walk.seen[i]);
            walk.failed = walk.failed || layers->ids[i] == 0;
        }
    }
    if (layers != NULL && !walk.failed) {
        tidei_recorder_put_ended_layers(recorder, layers);
    } else {
        free(layers);
        free(shape);
    }
    tidei_error_restore(&error);
    free(walk.seen);
}
