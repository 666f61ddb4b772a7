/* Opens the trace of a `log`, and ends it. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/stack.h>

#include "adaptors/log/again.h"
#include "adaptors/log/opening.h"
#include "src/resource/kind.h"
#include "src/resource/upstreams.h"
#include "src/suballoc/chunks.h"
#include "src/tables/grow.h"
#include "src/trace/events/counts.h"

/* Of texts on the heap, since the thread that opens a trace may have a small stack. */
#define LOG_TEXT_BYTES 4096

struct log_tap;

/* A suballocator, or a layer that keeps freed blocks, below the log that opened the trace for it. */
struct tidei_log_below {
    struct tidei_log_below *next;
    struct tide_resource *resource; /* borrowed */
    struct tidei_chunks *chunks;    /* borrowed: its own; NULL: the layer keeps freed blocks */
    struct log_tap *tap;            /* on these; borrowed: it ends with them, or with its last user; NULL: none */
};

static bool
log_has(struct tide_resource *base, enum tide_query what)
{
    uint64_t figure;

    return tide_query(base, what, &figure) == TIDE_OK;
}

/* The chunks of a layer that hands out parts of them; NULL for other layers. */
static struct tidei_chunks *
log_chunks_of(struct tide_resource *resource)
{
    const struct tidei_kind *kind = tidei_kind_of_any(resource);

    return kind != NULL && kind->chunks != NULL ? kind->chunks(resource) : NULL;
}

/* Whether a layer has figures of its own that can be sampled; see the table pool_sample. */
static bool
log_can_watch(struct tide_resource *layer)
{
    struct tidei_layer_figures figures;

    return (layer->upstream == NULL || log_chunks_of(layer) != NULL) && tidei_layer_figures(layer, &figures);
}

/* What a layer does about the freed blocks that it keeps; NULL for other layers. */
static const struct tidei_kept_ops *
log_kept_of(struct tide_resource *resource)
{
    const struct tidei_kind *kind = tidei_kind_of_any(resource);

    return kind != NULL ? kind->kept : NULL;
}

struct log_seen {
    struct tide_resource *resource;
    uint32_t id;
    size_t lower; /* of all that were seen: the place of the one that stands here in an order from lower to upper */
    bool is_new;  /* a log that records into this trace from now on */
};

/* The walk over the resources below a log, which numbers each once. */
struct log_walk {
    struct tidei_log *top;
    struct tidei_recorder *recorder;
    struct log_seen *seen;
    size_t count, capacity;
    size_t ordered;                   /* how many have their `lower` */
    struct tidei_log_numbered *known; /* layers of logs of earlier stacks, which have numbers */
    size_t known_count, known_capacity;
    struct tide_resource *grown;       /* gets `added`, and what is new lies below that; NULL: the stack is new */
    const struct tide_upstream *added; /* borrowed */
    uint32_t stack_id;                 /* of an earlier stack that this one contains whole; 0: none */
    struct tidei_ended_layers *again;  /* owned: the layers have these numbers, and are defined; NULL: they are new */
    bool is_cuda;                      /* a base allocates through the driver */
    enum tide_status status;           /* of the first resource that could not be numbered */
};

static uint64_t log_openings; /* so far; with tidei_upstreams_lock */

/* Two stacks that share a log may be created at once. */
static pthread_mutex_t log_attach_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns whether the log records into the trace from now on, for the log `top` that numbers it. */
static bool
log_attach(struct tidei_log *log, const struct tidei_log *top, struct tidei_recorder *recorder, uint32_t layer_id)
{
    bool is_free;

    pthread_mutex_lock(&log_attach_lock);
    is_free = atomic_load_explicit(&log->recorder, memory_order_relaxed) == NULL;
    if (is_free) {
        log->layer_id = (uint16_t)layer_id;
        log->opening = top->opening;
        /* Pairs with the acquire in record.c, log_producer. */
        atomic_store_explicit(&log->recorder, tidei_recorder_retain(recorder), memory_order_release);
    }
    pthread_mutex_unlock(&log_attach_lock);
    return is_free;
}

/* Record one layer in the trace, after the layers below it have numbers. */
static void
log_define(struct log_walk *walk, struct tide_resource *resource, uint32_t id, uint32_t upstream_id)
{
    char *config = calloc(1, LOG_TEXT_BYTES);
    struct tide_text text = { .data = config, .capacity = config != NULL ? LOG_TEXT_BYTES : 0 };
    uint64_t device;

    if (tide_query(resource, TIDE_QUERY_DEVICE, &device) != TIDE_OK)
        device = UINT64_MAX;
    resource->ops->describe(resource, &text);
    tidei_recorder_define_layer(walk->recorder, id, upstream_id, tide_resource_name(resource),
                                config != NULL ? config : "", (int64_t)device);
    free(config);
}

/* Remember the layers of a log of an earlier stack. False without host memory. */
static bool
log_see_known(struct log_walk *walk, struct tidei_log *log)
{
    /* Pairs with the release in log_keep_layers. */
    const struct tidei_log_layers *known = atomic_load_explicit(&log->layers, memory_order_acquire);
    size_t count = known != NULL ? known->count : 0;

    if (!tidei_grow(&walk->known, &walk->known_capacity, walk->known_count, count)) {
        walk->status = TIDE_ENOMEM;
        return false;
    }
    for (size_t i = 0; i < count; i++)
        walk->known[walk->known_count++] = known->items[i];
    return true;
}

/* The numbers of all layers of the walk, those of earlier stacks included; NULL without host memory. */
static struct tidei_log_layers *
log_layers_new(const struct log_walk *walk)
{
    size_t count = walk->count + walk->known_count;
    struct tidei_log_layers *layers =
        malloc(offsetof(struct tidei_log_layers, items) + count * sizeof(layers->items[0]));

    if (layers == NULL)
        return NULL;
    layers->before = NULL;
    layers->count = 0;
    for (size_t i = 0; i < walk->count; i++)
        layers->items[layers->count++] = (struct tidei_log_numbered){ walk->seen[i].resource, walk->seen[i].id };
    for (size_t i = 0; i < walk->known_count; i++)
        layers->items[layers->count++] = walk->known[i];
    qsort(layers->items, layers->count, sizeof(layers->items[0]), tidei_log_by_resource);
    return layers;
}

/* The logs that have the numbers of their layers, in the order in which they got them. With tidei_upstreams_lock. */
static struct tidei_log *log_list;
static struct tidei_log **log_list_end = &log_list;

static void
log_enlist(struct tidei_log *log)
{
    log->link = log_list_end;
    *log_list_end = log;
    log_list_end = &log->next;
}

static void
log_delist(struct tidei_log *log)
{
    tidei_upstreams_lock();
    if (log->link != NULL) {
        *log->link = log->next;
        if (log->next != NULL)
            log->next->link = log->link;
        else
            log_list_end = log->link;
        log->link = NULL;
    }
    tidei_upstreams_unlock();
}

/* Give each log of the walk that has none the numbers of all its layers. Without host memory refusals name no layer. */
static void
log_keep_layers(struct log_walk *walk)
{
    for (size_t i = 0; i < walk->count; i++) {
        struct tidei_log *log = (struct tidei_log *)walk->seen[i].resource;
        struct tidei_log_layers *layers;

        if (log->base.ops != walk->top->base.ops ||
            atomic_load_explicit(&log->recorder, memory_order_acquire) != walk->recorder ||
            atomic_load_explicit(&log->layers, memory_order_relaxed) != NULL)
            continue;
        layers = log_layers_new(walk);
        if (layers == NULL)
            return;
        /* Pairs with the acquire in record.c, tidei_log_layer_number. */
        atomic_store_explicit(&log->layers, layers, memory_order_release);
        log_enlist(log);
    }
}

/*
 * Handle a log that already records into this trace, from an earlier stack: it and all layers below it have numbers. If
 * it had opened the trace for that stack, this stack's text includes the other's, and replaces it.
 */
static uint32_t
log_known(struct log_walk *walk, struct tide_resource *resource)
{
    struct tidei_log *log = (struct tidei_log *)resource;

    if (resource->ops != walk->top->base.ops ||
        atomic_load_explicit(&log->recorder, memory_order_acquire) != walk->recorder)
        return 0;
    if (!log_see_known(walk, log))
        return 0;
    if (walk->grown == NULL && walk->stack_id == 0) /* relaxed: its holder has it alone */
        walk->stack_id = atomic_exchange_explicit(&log->stack_id, 0, memory_order_relaxed);
    return log->layer_id;
}

/* Number a resource and all below it. Returns its number; on failure 0, and walk->status. */
static uint32_t
log_number(struct log_walk *walk, struct tide_resource *resource)
{
    uint32_t upstream_id = 0;
    struct tide_upstream edge;
    uint32_t id;
    bool is_again;
    size_t place;

    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i].resource == resource)
            return walk->seen[i].id;
    }
    id = walk->grown != NULL ? tidei_log_layer_number(walk->top, resource) : 0;
    if (id == 0)
        id = log_known(walk, resource);
    if (id != 0 || walk->status != TIDE_OK)
        return id;
    if (!tidei_grow(&walk->seen, &walk->capacity, walk->count, 1)) {
        walk->status = TIDE_ENOMEM;
        return 0;
    }
    /* A layer behind those that have ended is a new one. */
    is_again = walk->again != NULL && walk->count < walk->again->count;
    id = is_again ? walk->again->ids[walk->count] : tidei_recorder_new_layer(walk->recorder);
    if (id > UINT16_MAX) {
        walk->status = TIDE_EINVAL;
        return 0;
    }
    place = walk->count++;
    walk->seen[place] = (struct log_seen){ .resource = resource, .id = id };
    if (resource == &walk->top->base)
        log_attach(walk->top, walk->top, walk->recorder, id);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++) {
        uint32_t below = log_number(walk, edge.resource);

        if (i == 0)
            upstream_id = below;
        else if (!is_again)
            tidei_recorder_define_bin(walk->recorder, id, edge.limit_bytes, below);
    }
    walk->seen[walk->ordered++].lower = place;
    if (!is_again)
        log_define(walk, resource, id, upstream_id);
    if (walk->top->options.samples == TIDE_SAMPLES_AUTO && log_can_watch(resource))
        tidei_recorder_watch(walk->recorder, resource, id);
    if (walk->top->options.samples != TIDE_SAMPLES_OFF && resource->upstream == NULL)
        tidei_recorder_watch_device(walk->recorder, resource);
    if (walk->top->options.samples != TIDE_SAMPLES_OFF)
        tidei_recorder_watch_counts(walk->recorder, resource, id);
    return id;
}

/* Make a log sample a layer below it after each event. */
static void
log_watch_each(struct log_walk *walk, struct tidei_log *log, struct tide_resource *layer)
{
    struct tidei_log_sampled *sampled = malloc(sizeof(*sampled));
    struct tidei_layer_figures figures;

    if (sampled == NULL) {
        walk->status = TIDE_ENOMEM;
        return;
    }
    *sampled = (struct tidei_log_sampled){ .layer = layer, .layer_id = log_number(walk, layer) };
    tidei_lock_init(&sampled->lock);
    if (tidei_layer_figures(layer, &figures))
        tidei_high_begin(&sampled->high, &figures);
    sampled->next = atomic_load_explicit(&log->sampled, memory_order_relaxed);
    /* Pairs with the acquire in record.c, log_sample. */
    atomic_store_explicit(&log->sampled, sampled, memory_order_release);
    atomic_fetch_or_explicit(&log->extras, TIDEI_LOG_SAMPLES, memory_order_relaxed);
}

/* Whether the driver's call takes nearly all the time of an event of this log. */
static bool
log_is_quick(const struct tidei_log *log)
{
    for (const struct tide_resource *below = log->base.upstream; below != NULL; below = below->upstream) {
        if (!tidei_resource_is_quick(below))
            return false;
    }
    return true;
}

/*
 * What layers below have from upstream. The chunks of a suballocator are the allocations of the log below it. Where the
 * trace has no such log on some way down, it puts a tap on the chunks, which records those that passed no log with the
 * suballocator's own number.
 */

/* Ends with the last log of the trace that found the layer below it, or with the layer where that log was its owner. */
struct log_tap {
    struct tidei_chunk_tap tap;  /* first */
    struct tidei_chunks *chunks; /* borrowed */
    uint32_t users;              /* entries of it in lists of logs; written with tidei_upstreams_lock */
    struct tidei_log log;        /* lies in no stack: a log with the layer's number over the layer's upstream */
};

static void
log_tap_end(struct tidei_chunk_tap *ended)
{
    struct log_tap *tap = (struct log_tap *)ended;
    struct tidei_error error;
    int cancel;

    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    /* Relaxed: nobody else is here. */
    tidei_recorder_release(atomic_load_explicit(&tap->log.recorder, memory_order_relaxed));
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    free(tap);
}

/* Put a tap (*is_new) on the chunks of a layer, or use that of the same trace. NULL: another trace has one. */
static struct log_tap *
log_tap_use(struct log_walk *walk, const struct log_seen *seen, struct tidei_chunks *chunks, bool *is_new)
{
    struct log_tap *tap = (struct log_tap *)chunks->tap;

    *is_new = tap == NULL;
    if (*is_new) {
        tap = calloc(1, sizeof(*tap));
        if (tap == NULL) {
            walk->status = TIDE_ENOMEM;
            return NULL;
        }
        tap->tap = (struct tidei_chunk_tap){ &tap->log.base, walk->recorder, log_tap_end };
        tap->chunks = chunks;
        tap->log.base.ops = walk->top->base.ops;
        tap->log.base.upstream = chunks->upstream;
        atomic_init(&tap->log.extras, TIDEI_LOG_TAP);
        log_attach(&tap->log, walk->top, walk->recorder, seen->id);
        chunks->tap = &tap->tap;
    } else if (atomic_load_explicit(&tap->log.recorder, memory_order_relaxed) != walk->recorder) {
        return NULL;
    }
    tap->users++;
    return tap;
}

/* What the walk has numbered for a resource; NULL: nothing, because it had a number or lies elsewhere. */
static const struct log_seen *
log_seen_of(const struct log_walk *walk, const struct tide_resource *resource)
{
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i].resource == resource)
            return &walk->seen[i];
    }
    return NULL;
}

static bool
log_is_new(const struct log_walk *walk, const struct tide_resource *resource)
{
    const struct log_seen *seen = log_seen_of(walk, resource);

    return seen != NULL && seen->is_new;
}

/*
 * Record a chunk in the logs that its request would pass now, on the way to the next suballocator or base: in those
 * that are new to the trace of `top`; where `walk` is NULL, because the trace itself is new, in all of them. Returns
 * whether there is one of the trace.
 */
static bool
log_hold_below(const struct log_walk *walk, const struct tidei_log *top, struct tide_resource *resource,
               struct tidei_place place)
{
    const struct tidei_recorder *recorder = atomic_load_explicit(&top->recorder, memory_order_acquire);
    bool is_told = false;

    while (resource != NULL && log_chunks_of(resource) == NULL) {
        const struct tidei_kind *kind = tidei_kind_of_any(resource);

        if (kind == NULL || resource->upstream == NULL)
            break; /* a base; or what an application brings, of which nothing is known */
        if (resource->ops == top->base.ops &&
            atomic_load_explicit(&((struct tidei_log *)resource)->recorder, memory_order_acquire) == recorder) {
            is_told = true;
            if (walk == NULL || log_is_new(walk, resource))
                tidei_log_hold((struct tidei_log *)resource, &place);
        }
        resource = kind->beneath != NULL ? kind->beneath(resource, &place) : resource->upstream;
    }
    return is_told;
}

/* Whether a layer is a log of the trace. */
static bool
log_is_of(const struct log_walk *walk, const struct tide_resource *resource)
{
    return resource->ops == walk->top->base.ops && atomic_load_explicit(&((const struct tidei_log *)resource)->recorder,
                                                                        memory_order_acquire) == walk->recorder;
}

/* Whether each way down from here passes a log of the trace before the next suballocator or base. */
static bool
log_is_told(const struct log_walk *walk, struct tide_resource *resource)
{
    struct tide_upstream edge;
    size_t edges = 0;

    if (log_is_of(walk, resource))
        return true;
    if (log_chunks_of(resource) != NULL)
        return false;
    for (; resource->ops->upstream_at(resource, edges, &edge) == TIDE_OK; edges++) {
        if (!log_is_told(walk, edge.resource))
            return false;
    }
    return edges != 0;
}

/* Make the logs of the trace tell a tap above, which are the next ones on the ways down before a suballocator. */
static void
log_make_tell(const struct log_walk *walk, struct tide_resource *resource)
{
    struct tide_upstream edge;

    if (log_is_of(walk, resource)) {
        atomic_fetch_or_explicit(&((struct tidei_log *)resource)->extras, TIDEI_LOG_TELLS, memory_order_relaxed);
        return;
    }
    for (size_t i = 0; log_chunks_of(resource) == NULL && resource->ops->upstream_at(resource, i, &edge) == TIDE_OK;
         i++)
        log_make_tell(walk, edge.resource);
}

/*
 * Record what a suballocator holds now, in the logs below or, where a chunk's way has none, in its tap; `walk` as
 * above. Its chunks do not change. `tap` is NULL where it has none, or one that knows them.
 */
static void
log_hold_all(const struct log_walk *walk, const struct tidei_log *top, struct tidei_chunks *chunks, struct log_tap *tap)
{
    for (uint32_t i = 0; i < chunks->held.capacity; i++) {
        struct tidei_block *block = &chunks->held.blocks[i];
        struct tidei_place place = { (void *)block->address, block->bytes, block->alignment, block->stream };
        bool told;

        if (!block->used)
            continue;
        told = log_hold_below(walk, top, chunks->upstream, place);
        if (tap == NULL)
            continue;
        block->told = told;
        if (!told)
            tidei_log_hold(&tap->log, &place);
    }
}

/* The context of log_hold_kept. */
struct log_keeper {
    const struct log_walk *walk;
    const struct tidei_log *top;
    struct tide_resource *upstream; /* of the layer that keeps the blocks */
};

static void
log_hold_kept(void *context, const struct tidei_place *place)
{
    const struct log_keeper *keeper = context;

    log_hold_below(keeper->walk, keeper->top, keeper->upstream, *place);
}

/* Record the freed blocks that a layer keeps now, in the logs below; `walk` as above. They do not change. */
static void
log_hold_all_kept(const struct log_walk *walk, const struct tidei_log *top, struct tide_resource *resource)
{
    struct log_keeper keeper = { walk, top, resource->upstream };

    log_kept_of(resource)->each(resource, log_hold_kept, &keeper);
}

/*
 * A forked process begins a trace of its own. The suballocators are not paused, because this thread may be in the midst
 * of a request for a chunk.
 */
static void
log_hold_again(void *context)
{
    const struct tidei_log *log = context;

    for (const struct tidei_log_below *below = log->below; below != NULL; below = below->next) {
        if (below->chunks == NULL) {
            log_kept_of(below->resource)->pause(below->resource, false);
            log_hold_all_kept(NULL, log, below->resource);
            log_kept_of(below->resource)->resume(below->resource);
            continue;
        }
        tidei_lock_acquire(&below->chunks->lock);
        log_hold_all(NULL, log, below->chunks, below->tap);
        tidei_lock_release(&below->chunks->lock);
    }
}

/* The layer is paused; `chunks`: its own, or NULL. */
static void
log_take_up_layer(struct log_walk *walk, const struct log_seen *seen, struct tidei_chunks *chunks)
{
    struct tidei_log_below *below = malloc(sizeof(*below));
    bool is_new = false;

    if (below == NULL) {
        walk->status = TIDE_ENOMEM;
        return;
    }
    *below = (struct tidei_log_below){ .next = walk->top->below, .resource = seen->resource, .chunks = chunks };
    if (chunks == NULL) {
        walk->top->below = below;
        log_hold_all_kept(walk, walk->top, seen->resource);
        return;
    }
    if (!log_is_told(walk, chunks->upstream))
        below->tap = log_tap_use(walk, seen, chunks, &is_new);
    if (is_new)
        log_make_tell(walk, chunks->upstream);
    walk->top->below = below;
    log_hold_all(walk, walk->top, chunks, is_new ? below->tap : NULL);
}

/*
 * Begin to record at the logs below, and the chunks of suballocators, with those that they have already. No
 * suballocator takes or returns one meanwhile. Upper ones are paused first, so that what they wait for comes to an end.
 */
static void
log_take_up(struct log_walk *walk)
{
    bool had_below = walk->top->below != NULL;
    struct tidei_chunks *chunks;

    for (size_t i = walk->ordered; i-- > 0;) {
        struct tide_resource *layer = walk->seen[walk->seen[i].lower].resource;

        chunks = log_chunks_of(layer);
        if (chunks != NULL)
            tidei_chunks_pause(chunks);
        else if (log_kept_of(layer) != NULL)
            log_kept_of(layer)->pause(layer, true);
    }
    TIDEI_TEST_POINT("log.paused");
    for (size_t i = 0; i < walk->count; i++) {
        struct log_seen *seen = &walk->seen[i];

        if (seen->resource->ops == walk->top->base.ops)
            seen->is_new = log_attach((struct tidei_log *)seen->resource, walk->top, walk->recorder, seen->id);
    }
    for (size_t i = 0; i < walk->count; i++) {
        chunks = log_chunks_of(walk->seen[i].resource);
        if (chunks != NULL || log_kept_of(walk->seen[i].resource) != NULL)
            log_take_up_layer(walk, &walk->seen[i], chunks);
    }
    for (size_t i = 0; i < walk->count; i++) {
        chunks = log_chunks_of(walk->seen[i].resource);
        if (chunks != NULL)
            tidei_chunks_resume(chunks);
        else if (log_kept_of(walk->seen[i].resource) != NULL)
            log_kept_of(walk->seen[i].resource)->resume(walk->seen[i].resource);
    }
    if (walk->top->below != NULL && !had_below)
        tidei_recorder_begin_with(walk->recorder, log_hold_again, walk->top);
}

/* A resource below a log that is destroyed, and the references to it that would be left. */
struct log_left {
    struct tide_resource *resource;
    uint32_t references;
};

struct log_leaving {
    struct log_left *left; /* those that reach 0 references are destroyed with the log */
    size_t count, capacity;
};

/* The log, or a layer below that has no other owner, is destroyed: so is what only it refers to. */
static void
log_leave(struct log_leaving *leaving, struct tide_resource *resource)
{
    struct tide_upstream edge;

    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++) {
        size_t n = 0;

        while (n < leaving->count && leaving->left[n].resource != edge.resource)
            n++;
        if (n == leaving->count) {
            if (!tidei_grow(&leaving->left, &leaving->capacity, leaving->count, 1))
                return;
            leaving->left[leaving->count++] =
                (struct log_left){ edge.resource, tidei_resource_references(edge.resource) };
        }
        if (--leaving->left[n].references == 0)
            log_leave(leaving, edge.resource);
    }
}

static bool
log_leaves(const struct log_leaving *leaving, const struct tide_resource *resource)
{
    for (size_t i = 0; i < leaving->count; i++) {
        if (leaving->left[i].resource == resource)
            return leaving->left[i].references == 0;
    }
    return false;
}

/*
 * The last log of the trace that found the layer is destroyed. A suballocator that `leaves`, because it is destroyed
 * with the log, keeps the tap to its end, as it would a log below; for one that stays the recording ends here.
 */
static void
log_end_tap(struct log_tap *tap, bool leaves)
{
    bool ends;

    tidei_upstreams_lock();
    ends = --tap->users == 0 && !leaves;
    if (ends) {
        tidei_chunks_pause(tap->chunks);
        tap->chunks->tap = NULL;
        tidei_chunks_resume(tap->chunks);
    }
    tidei_upstreams_unlock();
    if (ends)
        log_tap_end(&tap->tap);
}

static void
log_end_below(struct tidei_log *log, struct tidei_recorder *recorder, const struct log_leaving *leaving)
{
    if (log->below == NULL)
        return;
    tidei_recorder_begin_without(recorder, log);
    while (log->below != NULL) {
        struct tidei_log_below *below = log->below;

        if (below->tap != NULL)
            log_end_tap(below->tap, log_leaves(leaving, below->resource));
        log->below = below->next;
        free(below);
    }
}

/* Whether all below goes with the log. */
static bool
log_leaves_all(const struct log_leaving *leaving)
{
    for (size_t i = 0; i < leaving->count; i++) {
        if (leaving->left[i].references != 0)
            return false;
    }
    return true;
}

/*
 * Set up the extra records for each log of this trace that is the last one above a base: the driver's calls and the
 * GPUs, if the base has CUDA memory, and its samples. A log of an earlier stack has them already. `tap` is the lowest
 * one below `nearest`, and records calls while that log does not, as when the pool is destroyed.
 */
static void
log_watch_bases(struct log_walk *walk, struct tide_resource *resource, struct tidei_log *nearest, struct log_tap *tap)
{
    bool is_new = walk->grown == NULL || log_seen_of(walk, resource) != NULL;
    struct tide_upstream edge;

    if (resource->ops == walk->top->base.ops &&
        atomic_load_explicit(&((struct tidei_log *)resource)->recorder, memory_order_acquire) == walk->recorder) {
        nearest = (struct tidei_log *)resource;
        tap = NULL;
    }
    for (const struct tidei_log_below *below = walk->top->below; below != NULL; below = below->next)
        tap = below->resource == resource && below->chunks != NULL ? below->tap : tap;
    /* A base that allocates through the driver: on a device, or pinned host memory, which belongs to a device. */
    if (resource->upstream == NULL &&
        (log_has(resource, TIDE_QUERY_DEVICE) || log_has(resource, TIDE_QUERY_DEVICE_TOTAL))) {
        walk->is_cuda = true;
        tidei_recorder_define_devices(walk->recorder);
        if (tidei_recorder_watch_calls(walk->recorder)) {
            atomic_fetch_or_explicit(&nearest->extras,
                                     log_is_quick(nearest) ? TIDEI_LOG_CALLS | TIDEI_LOG_QUICK : TIDEI_LOG_CALLS,
                                     memory_order_relaxed);
            if (tap != NULL)
                atomic_fetch_or_explicit(&tap->log.extras, TIDEI_LOG_CALLS, memory_order_relaxed);
        }
    }
    if (walk->top->options.samples == TIDE_SAMPLES_EVERY && is_new && log_can_watch(resource))
        log_watch_each(walk, nearest, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        log_watch_bases(walk, edge.resource, nearest, tap);
    if (resource == walk->grown)
        log_watch_bases(walk, walk->added->resource, nearest, tap);
}

/*
 * Layers that get another upstream while they are recorded. What is new below it is numbered, taken up and watched,
 * once in each trace, before the first request reaches it.
 */

/* Whether another log of the trace, which is earlier in the list, has done so. */
static bool
log_has_grown(const struct tidei_log *log, struct tide_resource *grown, uint16_t id)
{
    const struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);

    for (struct tidei_log *earlier = log_list; earlier != log; earlier = earlier->next) {
        if (earlier->watches && atomic_load_explicit(&earlier->recorder, memory_order_acquire) == recorder &&
            tidei_log_layer_number(earlier, grown) == id)
            return true;
    }
    return false;
}

/* Give a log that has numbers those of the walk, too. Its readers keep the former ones until it ends. */
static bool
log_keep_more(const struct log_walk *walk, struct tidei_log *log)
{
    /* Relaxed: only the holder of the lock writes it. */
    struct tidei_log_layers *before = atomic_load_explicit(&log->layers, memory_order_relaxed);
    size_t count = before->count + walk->count;
    struct tidei_log_layers *layers =
        malloc(offsetof(struct tidei_log_layers, items) + count * sizeof(layers->items[0]));

    if (layers == NULL)
        return false;
    layers->before = before;
    layers->count = before->count;
    memcpy(layers->items, before->items, before->count * sizeof(layers->items[0]));
    for (size_t i = 0; i < walk->count; i++) {
        if (tidei_log_layer_number(log, walk->seen[i].resource) == 0)
            layers->items[layers->count++] = (struct tidei_log_numbered){ walk->seen[i].resource, walk->seen[i].id };
    }
    qsort(layers->items, layers->count, sizeof(layers->items[0]), tidei_log_by_resource);
    /* Pairs with the acquire in record.c, tidei_log_layer_number. */
    atomic_store_explicit(&log->layers, layers, memory_order_release);
    return true;
}

/* Give the numbers of the walk to all logs of the trace that know the layer by the number `id`, and to new ones. */
static void
log_keep_all(struct log_walk *walk, uint16_t id)
{
    log_see_known(walk, walk->top);
    for (struct tidei_log *log = log_list; log != NULL; log = log->next) {
        if (atomic_load_explicit(&log->recorder, memory_order_acquire) == walk->recorder &&
            tidei_log_layer_number(log, walk->grown) == id && !log_keep_more(walk, log))
            walk->status = TIDE_ENOMEM;
    }
    log_keep_layers(walk);
}

/* Whether a way down from here leads to the layer that grows, past no log of the trace and no suballocator. */
static bool
log_leads_to_grown(const struct log_walk *walk, struct tide_resource *resource)
{
    struct tide_upstream edge;
    bool leads = resource == walk->grown;

    if (log_is_of(walk, resource) || log_chunks_of(resource) != NULL)
        return false;
    for (size_t i = 0; !leads && resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        leads = log_leads_to_grown(walk, edge.resource);
    return leads;
}

/* Put a tap on a suballocator above, whose chunks logs have said so far; their returns are those logs', too. */
static void
log_tap_later(struct log_walk *walk, struct tidei_log_below *above)
{
    const struct log_seen seen = { .resource = above->resource,
                                   .id = tidei_log_layer_number(walk->top, above->resource) };
    bool is_new = false;

    tidei_chunks_pause(above->chunks);
    above->tap = log_tap_use(walk, &seen, above->chunks, &is_new);
    for (uint32_t i = 0; is_new && i < above->chunks->held.capacity; i++)
        above->chunks->held.blocks[i].told = true;
    if (is_new)
        log_make_tell(walk, above->chunks->upstream);
    tidei_chunks_resume(above->chunks);
}

/* Suballocators above the layer that grows have another way down: with a log, or without one. */
static void
log_tap_above(struct log_walk *walk)
{
    for (struct tidei_log_below *above = walk->top->below; above != NULL; above = above->next) {
        if (above->chunks == NULL || !log_leads_to_grown(walk, above->chunks->upstream))
            continue;
        if (above->tap == NULL && !log_is_told(walk, walk->added->resource))
            log_tap_later(walk, above);
        if (above->tap != NULL)
            log_make_tell(walk, walk->added->resource);
    }
}

/* Number and watch in the trace of `log` what lies below an upstream that a layer gets. */
static void
log_grow(struct tidei_log *log, struct tide_resource *grown, const struct tide_upstream *added)
{
    struct log_walk walk = { .top = log, .grown = grown, .added = added };
    uint16_t id = tidei_log_layer_number(log, grown);
    uint32_t below;

    walk.recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    below = log_number(&walk, added->resource);
    if (walk.status == TIDE_OK)
        tidei_recorder_define_bin(walk.recorder, id, added->limit_bytes, below);
    if (walk.status == TIDE_OK)
        log_take_up(&walk);
    if (walk.status == TIDE_OK)
        log_tap_above(&walk);
    if (walk.status == TIDE_OK)
        log_watch_bases(&walk, &log->base, log, NULL);
    if (walk.status == TIDE_OK)
        log_keep_all(&walk, id);
    if (walk.status != TIDE_OK)
        tidei_message(TIDE_WARNING, "log: the trace %s lacks a part of an upstream that a %s gets: %s",
                      walk.recorder->path, tide_resource_name(grown), tide_status_text(walk.status));
    free(walk.seen);
    free(walk.known);
}

static void
log_growth_begins(struct tide_resource *grown, const struct tide_upstream *added)
{
    for (struct tidei_log *log = log_list; log != NULL; log = log->next) {
        uint16_t id = log->watches ? tidei_log_layer_number(log, grown) : 0;

        if (id != 0 && !log_has_grown(log, grown, id))
            log_grow(log, grown, added);
    }
}

/* What the trace says of a log's stack, owned by the caller; NULL: it cannot be said. */
static char *
log_text(struct tidei_log *log)
{
    char *text = malloc(LOG_TEXT_BYTES);

    if (text != NULL && tide_describe(&log->base, text, LOG_TEXT_BYTES, NULL) == TIDE_OK)
        return text;
    free(text);
    return NULL;
}

/* The texts of the stacks have the upstream, too. */
static void
log_growth_ended(struct tide_resource *grown)
{
    for (struct tidei_log *log = log_list; log != NULL; log = log->next) {
        uint32_t stack_id = atomic_load_explicit(&log->stack_id, memory_order_relaxed);
        char *text = stack_id != 0 && tidei_log_layer_number(log, grown) != 0 ? log_text(log) : NULL;

        if (text != NULL)
            tidei_recorder_define_stack(atomic_load_explicit(&log->recorder, memory_order_acquire), stack_id, text);
        free(text);
    }
}

static const struct tidei_upstreams_listener log_growth = { .begins = log_growth_begins, .ended = log_growth_ended };

/* The log that opened the trace is destroyed: stop watching the resources below it. */
static void
log_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    struct tide_upstream edge;

    if (resource->upstream == NULL || log_chunks_of(resource) != NULL || tidei_counts_has(resource))
        tidei_recorder_unwatch(recorder, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        log_unwatch(recorder, edge.resource);
}

enum tide_status
tidei_log_flush(struct tidei_recorder *recorder)
{
    enum tide_status status;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = tidei_recorder_flush(recorder);
    pthread_setcancelstate(cancel, NULL);
    return status;
}

enum tide_status
tidei_log_open(struct tidei_log *log)
{
    struct log_walk walk = { .top = log };
    enum tide_status status;
    char *text = NULL;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = tidei_recorder_open(&log->options, &walk.recorder);
    pthread_setcancelstate(cancel, NULL);

    if (status != TIDE_OK)
        return status;
    log->watches = true;
    tidei_upstreams_lock();
    log->opening = ++log_openings;
    tidei_upstreams_listen(&log_growth);
    walk.again = tidei_log_again_take(log, walk.recorder);
    log_number(&walk, &log->base);
    status = walk.status;
    if (status == TIDE_ENOMEM)
        tide_error_set(status, "log: no host memory");
    else if (status != TIDE_OK)
        tide_error_set(status, "log: no more than %d layers fit into the trace %s", UINT16_MAX, log->options.path);
    if (status == TIDE_OK)
        log_take_up(&walk);
    if (status == TIDE_OK)
        status = walk.status == TIDE_OK ? TIDE_OK : tide_error_set(walk.status, "log: no host memory");
    if (status == TIDE_OK)
        log_watch_bases(&walk, &log->base, log, NULL);
    if (status == TIDE_OK)
        log_keep_layers(&walk);
    tidei_upstreams_unlock();
    if (status == TIDE_OK && walk.again != NULL)
        atomic_store_explicit(&log->stack_id, walk.stack_id != 0 ? walk.stack_id : walk.again->stack_id,
                              memory_order_relaxed);
    else if (status == TIDE_OK && (text = log_text(log)) != NULL)
        atomic_store_explicit(&log->stack_id, tidei_recorder_define_stack(walk.recorder, walk.stack_id, text),
                              memory_order_relaxed);
    /* So that the trace says which CUPTI records are available, even if the process is killed soon. */
    if (status == TIDE_OK && walk.is_cuda && walk.again == NULL)
        tidei_log_flush(walk.recorder);
    tidei_ended_layers_free(walk.again);
    free(text);
    free(walk.seen);
    free(walk.known);
    tidei_recorder_release(walk.recorder);
    return status;
}

/* What the log has set up below it ends, once. `destroyed`: the log is, and what it alone holds; else all stay. */
static void
log_finish(struct tidei_log *log, struct tidei_recorder *recorder, bool destroyed)
{
    struct log_leaving leaving = { 0 };

    if (log->ended)
        return;
    log->ended = true;
    log_delist(log);
    tidei_log_sample_last(log);
    if (log->watches)
        log_unwatch(recorder, &log->base);
    if (destroyed)
        log_leave(&leaving, &log->base);
    log_end_below(log, recorder, &leaving);
    if (destroyed && log->watches && log_leaves_all(&leaving))
        tidei_log_again_put(log, recorder);
    free(leaving.left);
}

void
tidei_log_end(struct tidei_log *log)
{
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_error error;
    bool first;
    int cancel;

    if (recorder == NULL)
        return;
    pthread_mutex_lock(&log_attach_lock);
    first = !log->leaving;
    log->leaving = true;
    pthread_mutex_unlock(&log_attach_lock);
    if (!first)
        return;
    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    log_finish(log, recorder, false);
    tidei_recorder_leave(recorder);
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
}

void
tidei_log_close(struct tidei_log *log)
{
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire);
    struct tidei_log_layers *layers = atomic_load_explicit(&log->layers, memory_order_acquire);
    struct tidei_error error;
    int cancel;

    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (recorder != NULL) {
        bool left = log->ended;

        log_finish(log, recorder, true);
        tidei_recorder_release_as(recorder, left);
    }
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    while (sampled != NULL) {
        struct tidei_log_sampled *next = sampled->next;

        tidei_lock_fini(&sampled->lock);
        free(sampled);
        sampled = next;
    }
    while (layers != NULL) {
        struct tidei_log_layers *before = layers->before;

        free(layers);
        layers = before;
    }
}
