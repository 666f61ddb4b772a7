/* Opens the trace of a log: numbers the layers below it, attaches the logs among them, and watches the bases. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>

#include <tidemark/stack.h>

#include "adaptors/log/log.h"
#include "src/tables/grow.h"

/* Whether a base has figures that can be sampled; see the table pool_sample. */
static bool
log_can_watch(struct tide_resource *base)
{
    uint64_t figure;

    return base->upstream == NULL && tide_query(base, TIDE_QUERY_BYTES_USED, &figure) == TIDE_OK &&
           tide_query(base, TIDE_QUERY_BYTES_RESERVED, &figure) == TIDE_OK;
}

struct log_seen {
    struct tide_resource *resource;
    uint32_t id;
};

/* The walk over the resources below a log, which numbers each once. */
struct log_walk {
    struct log *top;
    struct tidei_recorder *recorder;
    struct log_seen *seen;
    size_t count, capacity;
    uint32_t stack_id;       /* of an earlier stack that this one contains whole; 0: none */
    bool is_cuda;            /* a base allocates through the driver */
    enum tide_status status; /* of the first resource that could not be numbered */
};

/* Two stacks that share a log may be created at once. */
static pthread_mutex_t log_attach_lock = PTHREAD_MUTEX_INITIALIZER;

static void
log_attach(struct log *log, struct tidei_recorder *recorder, uint32_t layer_id)
{
    pthread_mutex_lock(&log_attach_lock);
    if (atomic_load_explicit(&log->recorder, memory_order_relaxed) == NULL) {
        log->layer_id = (uint16_t)layer_id;
        /* Pairs with the acquire in log_allocate and log_deallocate. */
        atomic_store_explicit(&log->recorder, tidei_recorder_retain(recorder), memory_order_release);
    }
    pthread_mutex_unlock(&log_attach_lock);
}

/* Record one layer in the trace, after the layers below it have numbers. */
static void
log_define(struct log_walk *walk, struct tide_resource *resource, uint32_t id, uint32_t upstream_id)
{
    char config[4096] = "";
    struct tide_text text = { .data = config, .capacity = sizeof(config) };
    uint64_t device;

    if (tide_query(resource, TIDE_QUERY_DEVICE, &device) != TIDE_OK)
        device = UINT64_MAX;
    resource->ops->describe(resource, &text);
    tidei_recorder_define_layer(walk->recorder, id, upstream_id, tide_resource_name(resource), config, (int64_t)device);
}

/*
 * Handle a log that already records into this trace, from an earlier stack: it and all layers below it have numbers. If
 * it had opened the trace for that stack, this stack's text includes the other's, and replaces it.
 */
static uint32_t
log_known(struct log_walk *walk, struct tide_resource *resource)
{
    struct log *log = (struct log *)resource;

    if (resource->ops != walk->top->base.ops ||
        atomic_load_explicit(&log->recorder, memory_order_acquire) != walk->recorder)
        return 0;
    if (walk->stack_id == 0) /* relaxed: its holder has it alone */
        walk->stack_id = atomic_exchange_explicit(&log->stack_id, 0, memory_order_relaxed);
    return log->layer_id;
}

/* Number a resource and all below it. Returns its number; on failure 0, and walk->status. */
static uint32_t
log_number(struct log_walk *walk, struct tide_resource *resource)
{
    uint32_t upstream_id = 0;
    uint32_t id;
    struct tide_upstream edge;

    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i].resource == resource)
            return walk->seen[i].id;
    }
    id = log_known(walk, resource);
    if (id != 0)
        return id;
    if (!tidei_grow(&walk->seen, &walk->capacity, walk->count, 1)) {
        walk->status = TIDE_ENOMEM;
        return 0;
    }
    id = tidei_recorder_new_layer(walk->recorder);
    if (id > UINT16_MAX) {
        walk->status = TIDE_EINVAL;
        return 0;
    }
    walk->seen[walk->count++] = (struct log_seen){ resource, id };
    if (resource->ops == walk->top->base.ops)
        log_attach((struct log *)resource, walk->recorder, id);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++) {
        uint32_t below = log_number(walk, edge.resource);

        if (i == 0)
            upstream_id = below;
        else
            tidei_recorder_define_bin(walk->recorder, id, edge.limit_bytes, below);
    }
    log_define(walk, resource, id, upstream_id);
    if (walk->top->options.samples == TIDE_SAMPLES_AUTO && log_can_watch(resource))
        tidei_recorder_watch(walk->recorder, resource, id);
    return id;
}

/* Make a log sample a base below it after each event. */
static void
log_watch_each(struct log_walk *walk, struct log *log, struct tide_resource *base)
{
    struct log_sampled *sampled = malloc(sizeof(*sampled));

    if (sampled == NULL) {
        walk->status = TIDE_ENOMEM;
        return;
    }
    *sampled = (struct log_sampled){ .base = base, .layer_id = log_number(walk, base) };
    sampled->next = atomic_load_explicit(&log->sampled, memory_order_relaxed);
    /* Pairs with the acquire in log_sample. */
    atomic_store_explicit(&log->sampled, sampled, memory_order_release);
    atomic_fetch_or_explicit(&log->beside, LOG_SAMPLES, memory_order_relaxed);
}

/* Whether a base allocates through the driver: on a device, or pinned host memory, which belongs to a device. */
static bool
log_base_is_cuda(struct tide_resource *base)
{
    uint64_t figure;

    return tide_query(base, TIDE_QUERY_DEVICE, &figure) == TIDE_OK ||
           tide_query(base, TIDE_QUERY_DEVICE_TOTAL, &figure) == TIDE_OK;
}

/* Whether the driver's call takes nearly all the time of an event of this log. */
static bool
log_is_quick(const struct log *log)
{
    for (const struct tide_resource *below = log->base.upstream; below != NULL; below = below->upstream) {
        if (!tidei_resource_is_quick(below))
            return false;
    }
    return true;
}

/* Make a log record the driver's calls. */
static void
log_watch_calls(struct log *log)
{
    atomic_fetch_or_explicit(&log->beside, log_is_quick(log) ? LOG_CALLS | LOG_QUICK : LOG_CALLS, memory_order_relaxed);
}

/*
 * Set up the extra records for each log of this trace that is the last one above a base: the driver's calls and the
 * GPUs, if the base has CUDA memory, and its samples. A log of an earlier stack has them already.
 */
static void
log_watch_bases(struct log_walk *walk, struct tide_resource *resource, struct log *nearest)
{
    struct tide_upstream edge;

    if (resource->ops == walk->top->base.ops &&
        atomic_load_explicit(&((struct log *)resource)->recorder, memory_order_acquire) == walk->recorder)
        nearest = (struct log *)resource;
    if (resource->upstream == NULL && log_base_is_cuda(resource)) {
        walk->is_cuda = true;
        tidei_recorder_define_devices(walk->recorder);
        if (tidei_recorder_watch_calls(walk->recorder))
            log_watch_calls(nearest);
    }
    if (walk->top->options.samples == TIDE_SAMPLES_EVERY && log_can_watch(resource))
        log_watch_each(walk, nearest, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        log_watch_bases(walk, edge.resource, nearest);
}

void
tidei_log_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    struct tide_upstream edge;

    if (resource->upstream == NULL)
        tidei_recorder_unwatch(recorder, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        tidei_log_unwatch(recorder, edge.resource);
}

/* Flush, so that the trace says which CUPTI records are available, even if the process is killed soon. */
static void
log_settle(struct tidei_recorder *recorder)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_recorder_flush(recorder);
    pthread_setcancelstate(cancel, NULL);
}

enum tide_status
tidei_log_open(struct log *log)
{
    struct log_walk walk = { .top = log };
    enum tide_status status;
    char text[4096];
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = tidei_recorder_open(&log->options, &walk.recorder);
    pthread_setcancelstate(cancel, NULL);

    if (status != TIDE_OK)
        return status;
    log->watches = true;
    log_number(&walk, &log->base);
    status = walk.status;
    if (status == TIDE_ENOMEM)
        tide_error_set(status, "log: no host memory");
    else if (status != TIDE_OK)
        tide_error_set(status, "log: no more than %d layers fit into the trace %s", UINT16_MAX, log->options.path);
    else
        log_watch_bases(&walk, &log->base, log);
    if (status == TIDE_OK && tide_describe(&log->base, text, sizeof(text), NULL) == TIDE_OK)
        atomic_store_explicit(&log->stack_id, tidei_recorder_define_stack(walk.recorder, walk.stack_id, text),
                              memory_order_relaxed);
    if (status == TIDE_OK && walk.is_cuda)
        log_settle(walk.recorder);
    free(walk.seen);
    tidei_recorder_release(walk.recorder);
    return status;
}
