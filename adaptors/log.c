/*
 * log: record all calls that pass through into an SQLite trace.
 *
 * Usage: log(PATH, overwrite=false, clock=auto|tsc|monotonic, overflow=wait|drop, cupti=auto|calls|memory|off,
 * samples=auto|every|off, ring=1MiB, backlog=128MiB, callstack=0, unwind=auto|fp|dwarf). A log below another one may
 * have no path: it records into the trace of the log above, with its own setting of callstack.
 *
 * Example: log(trace.db) | statistics | limit(4GiB) | log | driver
 *
 * In the trace, an allocation lives from the return of its call to the begin of the call that frees it. That is exactly
 * as long as the caller may use it, so two lives of one address never overlap. Over layers that do next to nothing but
 * pass a call on, the end of the driver's one call serves as the end of the event, which saves one reading of the
 * clock.
 *
 * Memory that a pool or another suballocator below has from its upstream is recorded by a log below it. Where there is
 * none, it is recorded with the suballocator's own layer: see log_take_up. What it had before the trace is there, too.
 *
 * A second log of the same path, in this stack or in another one of the process, records into the same trace, with the
 * options with which it was opened.
 *
 * LIMITATIONS
 *  - It records the calls at its place in the stack: above `limit` also the refused requests, below it only those that
 *    reach upstream.
 *  - It must not be called from a signal handler.
 *  - One trace has at most 65,535 layers.
 *  - Memory that was allocated from a base, or through layers that an application brings, before the trace began is not
 *    in it. A freed block that a `guard` below a suballocator still holds is not, either.
 *  - A log that is opened or released over a suballocator that other threads use waits for their requests for chunks,
 *    and they wait for it.
 */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/log.h>
#include <tidemark/stack.h>

#include "src/context/callstack.h"
#include "src/resource/kind.h"
#include "src/suballoc/chunks.h"
#include "src/sync/fork.h"
#include "src/tables/grow.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/producer.h"
#include "src/trace/session/recorder.h"

/* A layer whose figures are sampled after each event. */
struct log_sampled {
    struct log_sampled *next;
    struct tide_resource *layer; /* borrowed: it lies below */
    uint32_t layer_id;
    struct tidei_lock lock; /* guards `high` */
    struct tidei_high high;
};

struct log_tap;

/* A suballocator below the log that opened the trace for it. */
struct log_below {
    struct log_below *next;
    struct tide_resource *resource; /* borrowed */
    struct tidei_chunks *chunks;    /* borrowed: its own */
    struct log_tap *tap;            /* on these; borrowed: it ends with them, or with its last user; NULL: none */
};

#define LOG_CALLS   1u  /* record the driver's calls within the events */
#define LOG_QUICK   2u  /* the event ends when the driver's call ends */
#define LOG_SAMPLES 4u  /* sample the layers in `sampled` */
#define LOG_STACKS  8u  /* record call stacks of allocations */
#define LOG_TAP     16u /* a tap: calls are those of the log above while it records an event */

/* The numbers of the layers of a stack in its trace, sorted by resource. */
struct log_layers {
    size_t count;
    struct log_numbered {
        const struct tide_resource *resource; /* only compared */
        uint32_t id;
    } items[];
};

struct log {
    struct tide_resource base;                 /* first */
    _Atomic(struct tidei_recorder *) recorder; /* holds a reference; NULL until one above has a path */
    uint16_t layer_id;                         /* set before `recorder` */
    _Atomic uint32_t stack_id;                 /* of the stack that it opened the trace for; 0: another log did */
    bool watches;                              /* opened the trace, and started the watch of its bases */
    _Atomic unsigned extras;                   /* extra records for each event: the flags above */
    _Atomic(struct log_sampled *) sampled;     /* owned */
    struct log_below *below;                   /* owned */
    _Atomic(struct log_layers *) layers;       /* owned; NULL until the whole stack has numbers */
    struct tide_log_options options;           /* as given; path is owned */
};

/* The producer of the calling thread; NULL where nothing is recorded. */
static inline struct tidei_producer *
log_producer(struct log *log, enum tidei_record_kind kind)
{
    /* Pairs with the release in log_attach. */
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_producer *producer;

    if (recorder == NULL)
        return NULL;
    producer = tidei_producer_get(&recorder->session);
    if (__builtin_expect(producer == NULL, 0))
        tidei_session_lost(&recorder->session, kind);
    return producer;
}

/* The extra records of an event. Relaxed: it does not matter when another thread sees a change. */
static inline unsigned
log_extras(const struct log *log)
{
    return atomic_load_explicit(&log->extras, memory_order_relaxed);
}

/* LOG_CALLS, if the driver's calls within an event belong to it. `extras` are the log's. */
static unsigned
log_calls(unsigned extras, const struct tidei_producer *producer)
{
    if ((extras & LOG_TAP) != 0 && tidei_call_capture_waits(tidei_call_capture(tidei_thread), producer->session))
        return 0;
    return extras & LOG_CALLS;
}

static void
log_sample(struct log *log, struct tidei_producer *producer)
{
    /* Pairs with the release in log_watch_each. */
    for (struct log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire); sampled != NULL;
         sampled = sampled->next) {
        struct tidei_layer_figures figures;

        if (!tidei_layer_figures(sampled->layer, &figures))
            continue;
        tidei_lock_acquire(&sampled->lock);
        tidei_high_next(&sampled->high, &figures);
        tidei_lock_release(&sampled->lock);
        tidei_producer_sample(producer, sampled->layer_id, &figures);
    }
}

static int
log_by_resource(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)((const struct log_numbered *)left)->resource;
    uintptr_t b = (uintptr_t)((const struct log_numbered *)right)->resource;

    return (a > b) - (a < b);
}

/* The number of a layer of this log's stack; 0: it is none. */
static uint16_t
log_layer_number(struct log *log, const struct tide_resource *resource)
{
    /* Pairs with the release in log_keep_layers. */
    const struct log_layers *layers = atomic_load_explicit(&log->layers, memory_order_acquire);
    const struct log_numbered wanted = { .resource = resource }, *found = NULL;

    if (layers != NULL)
        found = bsearch(&wanted, layers->items, layers->count, sizeof(wanted), log_by_resource);
    return found != NULL ? (uint16_t)found->id : 0;
}

/* Record a failed allocation, with the words of the layer that refused it. The error stays. */
static __attribute__((noinline, cold)) void
log_failed(struct log *log, struct tidei_producer *producer, uint64_t begin, size_t bytes, size_t alignment,
           tide_stream stream, uint32_t callstack, enum tide_status status, struct tidei_call_capture *slot)
{
    const struct tidei_error *error = tidei_error_tell(status, producer->session, begin);
    struct tidei_event_rest rest = { .slot = slot };
    uint64_t word =
        tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, (uint8_t)status, (uint8_t)__builtin_ctzll(alignment));

    if (error != NULL) {
        rest.text = error->text;
        rest.length = tidei_utf8_length(error->text, TIDEI_REFUSAL_BYTES);
        rest.layer = log_layer_number(log, error->refused);
    }
    tidei_producer_event_behind(producer, begin, 0, bytes, stream, word, callstack, true, &rest);
    if (slot != NULL)
        tidei_call_capture_disarm(slot);
}

/*
 * Record an allocation; see tidei_producer_ticks for `plain`. `calls` is 0; or LOG_CALLS, alone or with LOG_QUICK, to
 * record the driver's calls, too.
 */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_recorded(struct log *log, struct tidei_producer *producer, bool plain, unsigned calls, uint32_t callstack,
                      size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_call_capture *slot = calls != 0 ? tidei_call_capture_arm(producer, (calls & LOG_QUICK) != 0) : NULL;
    uint64_t begin = tidei_producer_ticks(producer, plain);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    uint64_t word = tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, TIDE_OK, (uint8_t)__builtin_ctzll(alignment));

    if (__builtin_expect(status != TIDE_OK, 0)) {
        log_failed(log, producer, begin, bytes, alignment, stream, callstack, status, slot);
        return status;
    }
    if (calls == 0) {
        tidei_producer_event(producer, begin, (uintptr_t)*out, bytes, stream, word, callstack, true, plain);
        return TIDE_OK;
    }
    tidei_producer_event_calls(producer, begin, (uintptr_t)*out, bytes, stream, word, callstack, true, plain, slot);
    tidei_call_capture_disarm(slot);
    return TIDE_OK;
}

static __attribute__((noinline)) enum tide_status
log_allocate_otherwise(struct log *log, struct tidei_producer *producer, size_t bytes, size_t alignment,
                       tide_stream stream, void **out)
{
    uint32_t callstack = 0;
    enum tide_status status;

    if (producer == NULL)
        return tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    /* Before the clock is read, because the walk is no part of the recorded call. */
    if (log_extras(log) & LOG_STACKS)
        callstack = tidei_callstack_here(log->options.callstack_depth, log->options.unwind);
    if (log_calls(log_extras(log), producer) != 0)
        status = log_allocate_recorded(log, producer, false, LOG_CALLS, callstack, bytes, alignment, stream, out);
    else
        status = log_allocate_recorded(log, producer, false, 0, callstack, bytes, alignment, stream, out);
    log_sample(log, producer);
    return status;
}

static enum tide_status
log_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct log *log = (struct log *)self;
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_ALLOC);
    unsigned extras = log_extras(log);

    if (__builtin_expect(producer == NULL || !producer->plain || extras > (LOG_CALLS | LOG_QUICK), 0))
        return log_allocate_otherwise(log, producer, bytes, alignment, stream, out);
    if (extras & LOG_CALLS)
        return log_allocate_recorded(log, producer, true, LOG_CALLS | (extras & LOG_QUICK), 0, bytes, alignment, stream,
                                     out);
    return log_allocate_recorded(log, producer, true, 0, 0, bytes, alignment, stream, out);
}

/* Record a free, as above. */
static inline __attribute__((always_inline)) enum tide_status
log_deallocate_recorded(struct log *log, struct tidei_producer *producer, bool plain, unsigned calls, void *pointer,
                        size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_call_capture *slot = calls != 0 ? tidei_call_capture_arm(producer, (calls & LOG_QUICK) != 0) : NULL;
    uint64_t begin = tidei_producer_ticks_ordered(producer, plain);
    enum tide_status status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);
    uint64_t word =
        tidei_record_word(log->layer_id, TIDEI_RECORD_FREE, (uint8_t)status, (uint8_t)__builtin_ctzll(alignment));

    if (calls == 0) {
        tidei_producer_event(producer, begin, (uintptr_t)pointer, bytes, stream, word, 0, false, plain);
        return status;
    }
    tidei_producer_event_calls(producer, begin, (uintptr_t)pointer, bytes, stream, word, 0, false, plain, slot);
    tidei_call_capture_disarm(slot);
    return status;
}

static __attribute__((noinline)) enum tide_status
log_deallocate_otherwise(struct log *log, struct tidei_producer *producer, void *pointer, size_t bytes,
                         size_t alignment, tide_stream stream)
{
    enum tide_status status;

    if (producer != NULL &&
        !(producer->drop && tidei_producer_drops_free(producer, log->layer_id, (uintptr_t)pointer))) {
        if (log_calls(log_extras(log), producer) != 0)
            status = log_deallocate_recorded(log, producer, false, LOG_CALLS, pointer, bytes, alignment, stream);
        else
            status = log_deallocate_recorded(log, producer, false, 0, pointer, bytes, alignment, stream);
        log_sample(log, producer);
        return status;
    }
    status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);
    if (producer != NULL && status != TIDE_OK)
        tidei_producer_drops_again(producer, log->layer_id, (uintptr_t)pointer);
    return status;
}

static enum tide_status
log_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct log *log = (struct log *)self;
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_FREE);
    unsigned extras = log_extras(log);

    if (__builtin_expect(producer == NULL || !producer->plain || (extras & (LOG_SAMPLES | LOG_TAP)) != 0, 0))
        return log_deallocate_otherwise(log, producer, pointer, bytes, alignment, stream);
    if (extras & LOG_CALLS)
        return log_deallocate_recorded(log, producer, true, LOG_CALLS | (extras & LOG_QUICK), pointer, bytes, alignment,
                                       stream);
    return log_deallocate_recorded(log, producer, true, 0, pointer, bytes, alignment, stream);
}

/* What was reserved after the last event, when no event follows soon. */
static void
log_sample_last(struct log *log)
{
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_producer *producer = NULL;

    /* Pairs with the release in log_watch_each. */
    if (atomic_load_explicit(&log->sampled, memory_order_acquire) != NULL)
        producer = tidei_producer_get(&recorder->session);
    if (producer != NULL)
        log_sample(log, producer);
}

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

struct log_seen {
    struct tide_resource *resource;
    uint32_t id;
    size_t lower; /* of all that were seen: the place of the one that stands here in an order from lower to upper */
    bool is_new;  /* a log that records into this trace from now on */
};

/* The walk over the resources below a log, which numbers each once. */
struct log_walk {
    struct log *top;
    struct tidei_recorder *recorder;
    struct log_seen *seen;
    size_t count, capacity;
    size_t ordered;             /* how many have their `lower` */
    struct log_numbered *known; /* layers of logs of earlier stacks, which have numbers */
    size_t known_count, known_capacity;
    uint32_t stack_id;       /* of an earlier stack that this one contains whole; 0: none */
    bool is_cuda;            /* a base allocates through the driver */
    enum tide_status status; /* of the first resource that could not be numbered */
};

/* Two stacks that share a log may be created at once. */
static pthread_mutex_t log_attach_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns whether the log records into the trace from now on. */
static bool
log_attach(struct log *log, struct tidei_recorder *recorder, uint32_t layer_id)
{
    bool is_free;

    pthread_mutex_lock(&log_attach_lock);
    is_free = atomic_load_explicit(&log->recorder, memory_order_relaxed) == NULL;
    if (is_free) {
        log->layer_id = (uint16_t)layer_id;
        /* Pairs with the acquire in log_allocate and log_deallocate. */
        atomic_store_explicit(&log->recorder, tidei_recorder_retain(recorder), memory_order_release);
    }
    pthread_mutex_unlock(&log_attach_lock);
    return is_free;
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

/* Remember the layers of a log of an earlier stack. False without host memory. */
static bool
log_see_known(struct log_walk *walk, struct log *log)
{
    /* Pairs with the release in log_keep_layers. */
    const struct log_layers *known = atomic_load_explicit(&log->layers, memory_order_acquire);
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
static struct log_layers *
log_layers_new(const struct log_walk *walk)
{
    size_t count = walk->count + walk->known_count;
    struct log_layers *layers = malloc(offsetof(struct log_layers, items) + count * sizeof(layers->items[0]));

    if (layers == NULL)
        return NULL;
    layers->count = 0;
    for (size_t i = 0; i < walk->count; i++)
        layers->items[layers->count++] = (struct log_numbered){ walk->seen[i].resource, walk->seen[i].id };
    for (size_t i = 0; i < walk->known_count; i++)
        layers->items[layers->count++] = walk->known[i];
    qsort(layers->items, layers->count, sizeof(layers->items[0]), log_by_resource);
    return layers;
}

/* Give each log of the walk that has none the numbers of all its layers. Without host memory refusals name no layer. */
static void
log_keep_layers(struct log_walk *walk)
{
    for (size_t i = 0; i < walk->count; i++) {
        struct log *log = (struct log *)walk->seen[i].resource;
        struct log_layers *layers, *none = NULL;

        if (log->base.ops != walk->top->base.ops ||
            atomic_load_explicit(&log->recorder, memory_order_acquire) != walk->recorder ||
            atomic_load_explicit(&log->layers, memory_order_relaxed) != NULL)
            continue;
        layers = log_layers_new(walk);
        if (layers == NULL)
            return;
        /* Pairs with the acquire in log_layer_number. Another thread may create a stack over the same log. */
        if (!atomic_compare_exchange_strong_explicit(&log->layers, &none, layers, memory_order_release,
                                                     memory_order_relaxed))
            free(layers);
    }
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
    if (!log_see_known(walk, log))
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
    struct tide_upstream edge;
    uint32_t id;
    size_t place;

    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i].resource == resource)
            return walk->seen[i].id;
    }
    id = log_known(walk, resource);
    if (id != 0 || walk->status != TIDE_OK)
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
    place = walk->count++;
    walk->seen[place] = (struct log_seen){ .resource = resource, .id = id };
    if (resource == &walk->top->base)
        log_attach(walk->top, walk->recorder, id);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++) {
        uint32_t below = log_number(walk, edge.resource);

        if (i == 0)
            upstream_id = below;
        else
            tidei_recorder_define_bin(walk->recorder, id, edge.limit_bytes, below);
    }
    walk->seen[walk->ordered++].lower = place;
    log_define(walk, resource, id, upstream_id);
    if (walk->top->options.samples == TIDE_SAMPLES_AUTO && log_can_watch(resource))
        tidei_recorder_watch(walk->recorder, resource, id);
    if (walk->top->options.samples != TIDE_SAMPLES_OFF && resource->upstream == NULL)
        tidei_recorder_watch_device(walk->recorder, resource);
    return id;
}

/* Make a log sample a layer below it after each event. */
static void
log_watch_each(struct log_walk *walk, struct log *log, struct tide_resource *layer)
{
    struct log_sampled *sampled = malloc(sizeof(*sampled));
    struct tidei_layer_figures figures;

    if (sampled == NULL) {
        walk->status = TIDE_ENOMEM;
        return;
    }
    *sampled = (struct log_sampled){ .layer = layer, .layer_id = log_number(walk, layer) };
    tidei_lock_init(&sampled->lock);
    if (tidei_layer_figures(layer, &figures))
        tidei_high_begin(&sampled->high, &figures);
    sampled->next = atomic_load_explicit(&log->sampled, memory_order_relaxed);
    /* Pairs with the acquire in log_sample. */
    atomic_store_explicit(&log->sampled, sampled, memory_order_release);
    atomic_fetch_or_explicit(&log->extras, LOG_SAMPLES, memory_order_relaxed);
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

/*
 * What layers below have from upstream. The chunks of a suballocator are the allocations of the log below it. Where the
 * trace has no such log, it puts a tap on the chunks, which records them with the suballocator's own number.
 */

/* Ends with the last log of the trace that found the layer below it, or with the layer where that log was its owner. */
struct log_tap {
    struct tidei_chunk_tap tap;  /* first */
    struct tidei_chunks *chunks; /* borrowed */
    uint32_t users;              /* entries of it in lists of logs; written by the thread that has log_begin_change */
    struct log log;              /* lies in no stack: a log with the layer's number over the layer's upstream */
};

/* Other than 0: a thread of this process changes taps; 1 more than its tidei_fork_generation, as it may not exist. */
static _Atomic uint64_t log_changing;

static void
log_begin_change(void)
{
    uint64_t mine = (uint64_t)tidei_fork_generation() + 1;
    unsigned looks = 0;

    for (;;) {
        uint64_t other = 0;

        /* Acquire: pairs with the release in log_end_change. */
        if (atomic_compare_exchange_strong_explicit(&log_changing, &other, mine, memory_order_acquire,
                                                    memory_order_relaxed))
            return;
        /* A thread of the parent had it. */
        if (other != mine && atomic_compare_exchange_strong_explicit(&log_changing, &other, mine, memory_order_acquire,
                                                                     memory_order_relaxed))
            return;
        tidei_lock_pause(&looks);
    }
}

static void
log_end_change(void)
{
    atomic_store_explicit(&log_changing, 0, memory_order_release);
}

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
        tap->tap = (struct tidei_chunk_tap){ &tap->log.base, log_tap_end };
        tap->chunks = chunks;
        tap->log.base.ops = walk->top->base.ops;
        tap->log.base.upstream = chunks->upstream;
        atomic_init(&tap->log.extras, LOG_TAP);
        log_attach(&tap->log, walk->recorder, seen->id);
        chunks->tap = &tap->tap;
    } else if (atomic_load_explicit(&tap->log.recorder, memory_order_relaxed) != walk->recorder) {
        return NULL;
    }
    tap->users++;
    return tap;
}

/* Record a block that was allocated before the log recorded. */
static void
log_hold(struct log *log, const struct tidei_place *place)
{
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_ALLOC);

    if (producer != NULL && !tidei_producer_held(producer, log->layer_id, place))
        tidei_session_lost(producer->session, TIDEI_RECORD_ALLOC);
}

static bool
log_is_new(const struct log_walk *walk, const struct tide_resource *resource)
{
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i].resource == resource)
            return walk->seen[i].is_new;
    }
    return false;
}

/*
 * Record a chunk in the logs that its request would pass now, on the way to the next suballocator or base: in those
 * that are new to the trace of `top`; where `walk` is NULL, because the trace itself is new, in all of them.
 */
static void
log_hold_below(const struct log_walk *walk, const struct log *top, struct tide_resource *resource,
               struct tidei_place place)
{
    const struct tidei_recorder *recorder = atomic_load_explicit(&top->recorder, memory_order_acquire);

    while (resource != NULL && log_chunks_of(resource) == NULL) {
        const struct tidei_kind *kind = tidei_kind_of_any(resource);

        if (kind == NULL || resource->upstream == NULL)
            return; /* a base; or what an application brings, of which nothing is known */
        if (resource->ops == top->base.ops &&
            atomic_load_explicit(&((struct log *)resource)->recorder, memory_order_acquire) == recorder &&
            (walk == NULL || log_is_new(walk, resource)))
            log_hold((struct log *)resource, &place);
        resource = kind->beneath != NULL ? kind->beneath(resource, &place) : resource->upstream;
    }
}

/* Whether each way down from here passes a log of the trace before the next suballocator or base. */
static bool
log_is_told(const struct log_walk *walk, struct tide_resource *resource)
{
    struct tide_upstream edge;
    size_t edges = 0;

    if (resource->ops == walk->top->base.ops &&
        atomic_load_explicit(&((struct log *)resource)->recorder, memory_order_acquire) == walk->recorder)
        return true;
    if (log_chunks_of(resource) != NULL)
        return false;
    for (; resource->ops->upstream_at(resource, edges, &edge) == TIDE_OK; edges++) {
        if (!log_is_told(walk, edge.resource))
            return false;
    }
    return edges != 0;
}

/* Record what a suballocator holds now, in its tap and in the logs below; `walk` as above. Its chunks do not change. */
static void
log_hold_all(const struct log_walk *walk, const struct log *top, const struct tidei_chunks *chunks, struct log_tap *tap)
{
    for (uint32_t i = 0; i < chunks->held.capacity; i++) {
        const struct tidei_block *block = &chunks->held.blocks[i];
        struct tidei_place place = { (void *)block->address, block->bytes, block->alignment, block->stream };

        if (!block->used)
            continue;
        if (tap != NULL)
            log_hold(&tap->log, &place);
        log_hold_below(walk, top, chunks->upstream, place);
    }
}

/*
 * A forked process begins a trace of its own. The suballocators are not paused, because this thread may be in the midst
 * of a request for a chunk.
 */
static void
log_hold_again(void *context)
{
    const struct log *log = context;

    for (const struct log_below *below = log->below; below != NULL; below = below->next) {
        tidei_lock_acquire(&below->chunks->lock);
        log_hold_all(NULL, log, below->chunks, below->tap);
        tidei_lock_release(&below->chunks->lock);
    }
}

/* The chunks are paused. */
static void
log_take_up_chunks(struct log_walk *walk, const struct log_seen *seen, struct tidei_chunks *chunks)
{
    struct log_below *below = malloc(sizeof(*below));
    bool is_new = false;

    if (below == NULL) {
        walk->status = TIDE_ENOMEM;
        return;
    }
    *below = (struct log_below){ .next = walk->top->below, .resource = seen->resource, .chunks = chunks };
    if (!log_is_told(walk, chunks->upstream))
        below->tap = log_tap_use(walk, seen, chunks, &is_new);
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
    struct tidei_chunks *chunks;

    log_begin_change();
    for (size_t i = walk->ordered; i-- > 0;) {
        chunks = log_chunks_of(walk->seen[walk->seen[i].lower].resource);
        if (chunks != NULL)
            tidei_chunks_pause(chunks);
    }
    TIDEI_TEST_POINT("log.paused");
    for (size_t i = 0; i < walk->count; i++) {
        struct log_seen *seen = &walk->seen[i];

        if (seen->resource->ops == walk->top->base.ops)
            seen->is_new = log_attach((struct log *)seen->resource, walk->recorder, seen->id);
    }
    for (size_t i = 0; i < walk->count; i++) {
        chunks = log_chunks_of(walk->seen[i].resource);
        if (chunks != NULL)
            log_take_up_chunks(walk, &walk->seen[i], chunks);
    }
    for (size_t i = 0; i < walk->count; i++) {
        chunks = log_chunks_of(walk->seen[i].resource);
        if (chunks != NULL)
            tidei_chunks_resume(chunks);
    }
    log_end_change();
    if (walk->top->below != NULL)
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

    log_begin_change();
    ends = --tap->users == 0 && !leaves;
    if (ends) {
        tidei_chunks_pause(tap->chunks);
        tap->chunks->tap = NULL;
        tidei_chunks_resume(tap->chunks);
    }
    log_end_change();
    if (ends)
        log_tap_end(&tap->tap);
}

static void
log_end_below(struct log *log, struct tidei_recorder *recorder)
{
    struct log_leaving leaving = { 0 };

    if (log->below == NULL)
        return;
    tidei_recorder_begin_without(recorder, log);
    log_leave(&leaving, &log->base);
    while (log->below != NULL) {
        struct log_below *below = log->below;

        if (below->tap != NULL)
            log_end_tap(below->tap, log_leaves(&leaving, below->resource));
        log->below = below->next;
        free(below);
    }
    free(leaving.left);
}

/*
 * Set up the extra records for each log of this trace that is the last one above a base: the driver's calls and the
 * GPUs, if the base has CUDA memory, and its samples. A log of an earlier stack has them already. `tap` is the lowest
 * one below `nearest`, and records calls while that log does not, as when the pool is destroyed.
 */
static void
log_watch_bases(struct log_walk *walk, struct tide_resource *resource, struct log *nearest, struct log_tap *tap)
{
    struct tide_upstream edge;

    if (resource->ops == walk->top->base.ops &&
        atomic_load_explicit(&((struct log *)resource)->recorder, memory_order_acquire) == walk->recorder) {
        nearest = (struct log *)resource;
        tap = NULL;
    }
    for (const struct log_below *below = walk->top->below; below != NULL; below = below->next)
        tap = below->resource == resource ? below->tap : tap;
    /* A base that allocates through the driver: on a device, or pinned host memory, which belongs to a device. */
    if (resource->upstream == NULL &&
        (log_has(resource, TIDE_QUERY_DEVICE) || log_has(resource, TIDE_QUERY_DEVICE_TOTAL))) {
        walk->is_cuda = true;
        tidei_recorder_define_devices(walk->recorder);
        if (tidei_recorder_watch_calls(walk->recorder)) {
            atomic_fetch_or_explicit(&nearest->extras, log_is_quick(nearest) ? LOG_CALLS | LOG_QUICK : LOG_CALLS,
                                     memory_order_relaxed);
            if (tap != NULL)
                atomic_fetch_or_explicit(&tap->log.extras, LOG_CALLS, memory_order_relaxed);
        }
    }
    if (walk->top->options.samples == TIDE_SAMPLES_EVERY && log_can_watch(resource))
        log_watch_each(walk, nearest, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        log_watch_bases(walk, edge.resource, nearest, tap);
}

/* The log that opened the trace is destroyed: stop watching the resources below it. */
static void
log_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    struct tide_upstream edge;

    if (resource->upstream == NULL || log_chunks_of(resource) != NULL)
        tidei_recorder_unwatch(recorder, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        log_unwatch(recorder, edge.resource);
}

static enum tide_status
log_flush(struct tidei_recorder *recorder)
{
    enum tide_status status;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = tidei_recorder_flush(recorder);
    pthread_setcancelstate(cancel, NULL);
    return status;
}

/* Open the trace that the options name, number the layers, and attach the logs below. Errors: as tide_log_create. */
static enum tide_status
log_open(struct log *log)
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
    if (status == TIDE_OK)
        log_take_up(&walk);
    if (status == TIDE_OK)
        status = walk.status == TIDE_OK ? TIDE_OK : tide_error_set(walk.status, "log: no host memory");
    if (status == TIDE_OK)
        log_watch_bases(&walk, &log->base, log, NULL);
    if (status == TIDE_OK)
        log_keep_layers(&walk);
    if (status == TIDE_OK && tide_describe(&log->base, text, sizeof(text), NULL) == TIDE_OK)
        atomic_store_explicit(&log->stack_id, tidei_recorder_define_stack(walk.recorder, walk.stack_id, text),
                              memory_order_relaxed);
    /* So that the trace says which CUPTI records are available, even if the process is killed soon. */
    if (status == TIDE_OK && walk.is_cuda)
        log_flush(walk.recorder);
    free(walk.seen);
    free(walk.known);
    tidei_recorder_release(walk.recorder);
    return status;
}

static void
log_fini(struct tide_resource *self)
{
    struct log *log = (struct log *)self;
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire);
    struct tidei_error error;
    int cancel;

    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (recorder != NULL) {
        log_sample_last(log);
        if (log->watches)
            log_unwatch(recorder, self);
        log_end_below(log, recorder);
        tidei_recorder_release(recorder);
    }
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    while (sampled != NULL) {
        struct log_sampled *next = sampled->next;

        tidei_lock_fini(&sampled->lock);
        free(sampled);
        sampled = next;
    }
    free(atomic_load_explicit(&log->layers, memory_order_acquire));
    free((char *)log->options.path);
}

static const char *const log_clocks[] = { "auto", "tsc", "monotonic", NULL };
static const char *const log_cuptis[] = { "auto", "calls", "off", "memory", NULL };
static const char *const log_overflows[] = { "wait", "drop", NULL };
static const char *const log_samples[] = { "auto", "every", "off", NULL };

/* A layer that records into another's trace has options only for call stacks. */
static void
log_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct tide_log_options *options = &((struct log *)self)->options;
    const struct tide_log_options own = { .callstack_depth = options->callstack_depth, .unwind = options->unwind };

    tidei_kind_describe_options(tidei_kind_of(self), options->path != NULL ? options : &own, "", text);
}

static enum tide_status
log_check(void *options, size_t *fault)
{
    struct tide_log_options *wanted = options;
    enum tide_status status = tidei_callstack_options("log", wanted->callstack_depth, wanted->unwind);

    (void)fault;
    if (wanted->callstack_depth == 0)
        wanted->unwind = TIDE_UNWIND_AUTO;
    return status;
}

static enum tide_status
log_init(struct tide_resource *self, size_t *fault)
{
    struct log *log = (struct log *)self;
    enum tide_status status = TIDE_OK;
    struct tidei_error error;

    (void)fault;
    atomic_init(&log->extras, log->options.callstack_depth != 0 ? LOG_STACKS : 0);
    if (log->options.path == NULL)
        return TIDE_OK;
    log->options.path = strdup(log->options.path);
    if (log->options.path == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    tidei_error_save(&error);
    status = log_open(log);
    if (status == TIDE_OK)
        tidei_error_restore(&error);
    else
        log_fini(self);
    return status;
}

static void
log_complete(struct tide_resource *self)
{
    struct log *log = (struct log *)self;

    if (log->watches)
        tidei_recorder_keep(atomic_load_explicit(&log->recorder, memory_order_acquire));
}

static const struct tidei_argument log_arguments[] = {
    TIDEI_ARGUMENT("path", WORD, struct tide_log_options, path, "the path of a trace", .positional = true, .least = 1),
    TIDEI_FLAG("overwrite", struct tide_log_options, overwrite),
    TIDEI_ARGUMENT("clock", CHOICE, struct tide_log_options, clock, "auto, tsc or monotonic", .choices = log_clocks),
    TIDEI_ARGUMENT("overflow", CHOICE, struct tide_log_options, overflow, "wait or drop", .choices = log_overflows),
    TIDEI_ARGUMENT("cupti", CHOICE, struct tide_log_options, cupti, "auto, calls, memory or off",
                   .choices = log_cuptis),
    TIDEI_ARGUMENT("samples", CHOICE, struct tide_log_options, samples, "auto, every or off", .choices = log_samples),
    TIDEI_ARGUMENT("ring", SIZE, struct tide_log_options, ring_bytes, "a power of two from 4KiB to 1GiB",
                   .power_of_two = true, .least = UINT64_C(4) << 10, .most = UINT64_C(1) << 30,
                   .default_value = UINT64_C(1) << 20),
    TIDEI_ARGUMENT("backlog", SIZE, struct tide_log_options, backlog_bytes, "a size from 1MiB to 16GiB",
                   .least = UINT64_C(1) << 20, .most = UINT64_C(16) << 30, .default_value = UINT64_C(128) << 20),
    TIDEI_CALLSTACK_ARGUMENTS(struct tide_log_options),
};

const struct tidei_kind tidei_log_kind = {
    .ops = {
        TIDEI_KIND_OPS("log"),
        .allocate = log_allocate,
        .deallocate = log_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = log_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(log_arguments),
    .options_size = offsetof(struct tide_log_options, reserved),
    TIDEI_KIND_STRUCT(struct log),
    .keeps_unset = true,
    .inherits = "path",
    .check = log_check,
    .init = log_init,
    .fini = log_fini,
    .complete = log_complete,
};

enum tide_status
tide_log_create(struct tide_resource *upstream, const struct tide_log_options *options, struct tide_resource **out)
{
    enum tide_status status = tidei_kind_create(&tidei_log_kind, upstream, options, out);

    if (status == TIDE_OK)
        log_complete(*out);
    return status;
}

/* The recorder of a log resource; NULL with the error set. */
static struct tidei_recorder *
log_recorder(struct tide_resource *log)
{
    struct tidei_recorder *recorder = NULL;

    if (log == NULL || log->ops != &tidei_log_kind.ops) {
        tide_error_set(TIDE_EINVAL, "log: not a log");
        return NULL;
    }
    recorder = atomic_load_explicit(&((struct log *)log)->recorder, memory_order_acquire);
    if (recorder == NULL)
        tide_error_set(TIDE_EINVAL, "log: no trace: none above it has a path");
    return recorder;
}

enum tide_status
tide_log_flush(struct tide_resource *log)
{
    struct tidei_recorder *recorder = log_recorder(log);

    if (recorder == NULL)
        return TIDE_EINVAL;
    log_sample_last((struct log *)log);
    return log_flush(recorder);
}

enum tide_status
tide_log_path(struct tide_resource *log, char *path, size_t capacity, size_t *needed)
{
    struct tidei_recorder *recorder;

    if (needed != NULL)
        *needed = 0;
    if (path == NULL && capacity != 0)
        return tide_error_set(TIDE_EINVAL, "log: NULL in place of the path");
    recorder = log_recorder(log);
    if (recorder == NULL)
        return TIDE_EINVAL;
    if (capacity != 0)
        snprintf(path, capacity, "%s", recorder->path);
    if (needed != NULL)
        *needed = strlen(recorder->path);
    return TIDE_OK;
}
