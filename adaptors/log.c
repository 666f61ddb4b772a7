/*
 * log: record what passes through into an SQLite trace.
 *
 * Usage: log(PATH, overwrite=false, clock=auto|tsc|monotonic, overflow=wait|drop, cupti=auto|calls|memory|off,
 * samples=auto|every|off, ring=1MiB, backlog=128MiB, callstack=0, unwind=auto|fp|dwarf), or log without a path below
 * another: it records into the trace of the one above, with call stacks or without, as it says itself.
 *
 * Example: log(trace.db) | statistics | limit(4GiB) | log | driver
 *
 * The life of an allocation in the trace begins when its call has returned and ends when the call that frees it
 * begins: exactly as long as the caller may use it, and two lives of one address never overlap. Over layers that do
 * next to nothing but pass a call on, the end of the one call of the driver is that of the event: a reading of the
 * clock less.
 *
 * LIMITATIONS: It records what passes through at its place in the stack: above `limit` the requests that are refused
 * too, below it those that reach upstream. Must not be called from a signal handler. At most 65,535 layers in one
 * trace.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/log.h>
#include <tidemark/stack.h>

#include "callstack.h"
#include "kind.h"
#include "trace/callslot.h"
#include "trace/front.h"
#include "trace/recorder.h"

/* A base that is asked what it holds after each event. */
struct log_sampled {
    struct log_sampled *next;
    struct tide_resource *base; /* borrowed: it lies below */
    uint32_t layer_id;
};

#define LOG_CALLS   1u /* the driver's calls within them */
#define LOG_QUICK   2u /* an event is over when its call is */
#define LOG_SAMPLES 4u /* what `sampled` has */
#define LOG_STACKS  8u /* of an allocation its call stack */

struct log {
    struct tide_resource base;                 /* first */
    _Atomic(struct tidei_recorder *) recorder; /* holds a reference; NULL until one above has a path */
    uint16_t layer_id;                         /* set before `recorder` */
    bool watches;                              /* opened the trace, and has the bases watched */
    _Atomic unsigned beside;                   /* what is recorded beside its events: the flags above */
    _Atomic(struct log_sampled *) sampled;     /* owned */
    struct tide_log_options options;           /* as they were given; path is owned */
};

static const struct tide_resource_ops log_ops;

static uint8_t
log_log2(size_t alignment)
{
    return (uint8_t)__builtin_ctzll(alignment);
}

/* The front of the calling thread; NULL where nothing is recorded. */
static inline struct tidei_front *
log_front(struct log *log, enum tidei_record_kind kind)
{
    /* Pairs with the release in log_attach. */
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_front *front;

    if (recorder == NULL)
        return NULL;
    front = tidei_front_get(recorder);
    if (__builtin_expect(front == NULL, 0))
        tidei_recorder_lost(recorder, kind);
    return front;
}

/* What is recorded beside an event. Relaxed: from when on, on another thread, does not matter. */
static inline unsigned
log_beside(const struct log *log)
{
    return atomic_load_explicit(&log->beside, memory_order_relaxed);
}

static void
log_sample(struct log *log, struct tidei_front *front)
{
    /* Pairs with the release in log_watch_each. */
    for (struct log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire); sampled != NULL;
         sampled = sampled->next) {
        struct tidei_error error;
        uint64_t used, reserved;

        tidei_error_save(&error);
        if (tide_query(sampled->base, TIDE_QUERY_BYTES_USED, &used) == TIDE_OK &&
            tide_query(sampled->base, TIDE_QUERY_BYTES_RESERVED, &reserved) == TIDE_OK)
            tidei_front_sample(front, sampled->layer_id, used, reserved);
        tidei_error_restore(&error);
    }
}

/* An allocation that is recorded; see tidei_front_ticks for `plain`. */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_recorded(struct log *log, struct tidei_front *front, bool plain, uint32_t callstack, size_t bytes,
                      size_t alignment, tide_stream stream, void **out)
{
    uint64_t begin = tidei_front_ticks(front, plain);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);

    tidei_front_event(front, begin, (uintptr_t)*out, bytes, stream,
                      tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, (uint8_t)status, log_log2(alignment)),
                      callstack, true, plain);
    return status;
}

/* The same with the driver's calls; see tidei_call_slot_arm for `quick`. */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_followed(struct log *log, struct tidei_front *front, bool plain, bool quick, uint32_t callstack,
                      size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_call_slot *slot = tidei_call_slot_arm(front, quick);
    uint64_t begin = tidei_front_ticks(front, plain);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);

    tidei_front_event_calls(front, begin, (uintptr_t)*out, bytes, stream,
                            tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, (uint8_t)status, log_log2(alignment)),
                            callstack, true, plain, slot);
    tidei_call_slot_disarm(slot);
    return status;
}

static __attribute__((noinline)) enum tide_status
log_allocate_otherwise(struct log *log, struct tidei_front *front, size_t bytes, size_t alignment, tide_stream stream,
                       void **out)
{
    uint32_t callstack = 0;
    enum tide_status status;

    if (front == NULL)
        return tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    /* Before the clock is read: it is no part of the call that is recorded. */
    if (log_beside(log) & LOG_STACKS)
        callstack = tidei_callstack_here(log->options.callstack_depth, log->options.unwind);
    if (log_beside(log) & LOG_CALLS)
        status = log_allocate_followed(log, front, false, false, callstack, bytes, alignment, stream, out);
    else
        status = log_allocate_recorded(log, front, false, callstack, bytes, alignment, stream, out);
    log_sample(log, front);
    return status;
}

static enum tide_status
log_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct log *log = (struct log *)self;
    struct tidei_front *front = log_front(log, TIDEI_RECORD_ALLOC);
    unsigned beside = log_beside(log);

    if (__builtin_expect(front == NULL || !front->plain || beside > (LOG_CALLS | LOG_QUICK), 0))
        return log_allocate_otherwise(log, front, bytes, alignment, stream, out);
    if (beside & LOG_CALLS)
        return log_allocate_followed(log, front, true, (beside & LOG_QUICK) != 0, 0, bytes, alignment, stream, out);
    return log_allocate_recorded(log, front, true, 0, bytes, alignment, stream, out);
}

static inline __attribute__((always_inline)) enum tide_status
log_deallocate_recorded(struct log *log, struct tidei_front *front, bool plain, void *pointer, size_t bytes,
                        size_t alignment, tide_stream stream)
{
    uint64_t begin = tidei_front_ticks_settled(front, plain);
    enum tide_status status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);

    tidei_front_event(front, begin, (uintptr_t)pointer, bytes, stream,
                      tidei_record_word(log->layer_id, TIDEI_RECORD_FREE, (uint8_t)status, log_log2(alignment)), 0,
                      false, plain);
    return status;
}

/* The same with the driver's calls. */
static inline __attribute__((always_inline)) enum tide_status
log_deallocate_followed(struct log *log, struct tidei_front *front, bool plain, bool quick, void *pointer, size_t bytes,
                        size_t alignment, tide_stream stream)
{
    struct tidei_call_slot *slot = tidei_call_slot_arm(front, quick);
    uint64_t begin = tidei_front_ticks_settled(front, plain);
    enum tide_status status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);

    tidei_front_event_calls(front, begin, (uintptr_t)pointer, bytes, stream,
                            tidei_record_word(log->layer_id, TIDEI_RECORD_FREE, (uint8_t)status, log_log2(alignment)),
                            0, false, plain, slot);
    tidei_call_slot_disarm(slot);
    return status;
}

static __attribute__((noinline)) enum tide_status
log_deallocate_otherwise(struct log *log, struct tidei_front *front, void *pointer, size_t bytes, size_t alignment,
                         tide_stream stream)
{
    enum tide_status status;

    if (front != NULL && !(front->drop && tidei_front_drops_free(front, log->layer_id, (uintptr_t)pointer))) {
        if (log_beside(log) & LOG_CALLS)
            status = log_deallocate_followed(log, front, false, false, pointer, bytes, alignment, stream);
        else
            status = log_deallocate_recorded(log, front, false, pointer, bytes, alignment, stream);
        log_sample(log, front);
        return status;
    }
    status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);
    if (front != NULL && status != TIDE_OK)
        tidei_front_drops_again(front, log->layer_id, (uintptr_t)pointer);
    return status;
}

static enum tide_status
log_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct log *log = (struct log *)self;
    struct tidei_front *front = log_front(log, TIDEI_RECORD_FREE);
    unsigned beside = log_beside(log);

    if (__builtin_expect(front == NULL || !front->plain || (beside & LOG_SAMPLES) != 0, 0))
        return log_deallocate_otherwise(log, front, pointer, bytes, alignment, stream);
    if (beside & LOG_CALLS)
        return log_deallocate_followed(log, front, true, (beside & LOG_QUICK) != 0, pointer, bytes, alignment, stream);
    return log_deallocate_recorded(log, front, true, pointer, bytes, alignment, stream);
}

static const char *const log_clocks[] = { "auto", "tsc", "monotonic", NULL };
static const char *const log_cuptis[] = { "auto", "calls", "off", "memory", NULL };
static const char *const log_overflows[] = { "wait", "drop", NULL };
static const char *const log_samples[] = { "auto", "every", "off", NULL };

/* `any`: behind others. A layer that records into the trace of another has these alone. */
static void
log_describe_callstack(const struct tide_log_options *options, struct tide_text *text, bool any)
{
    if (options->callstack_depth == 0)
        return;
    tide_text_format(text, "%scallstack=%u", any ? ", " : "", (unsigned)options->callstack_depth);
    if (options->unwind != TIDE_UNWIND_AUTO)
        tide_text_format(text, ", unwind=%s", tidei_unwind_words[options->unwind]);
}

static void
log_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct tide_log_options *options = &((struct log *)self)->options;

    if (options->path == NULL) {
        log_describe_callstack(options, text, false);
        return;
    }
    tide_text_word(text, options->path);
    if (options->overwrite)
        tide_text_format(text, ", overwrite=true");
    if (options->clock != TIDE_CLOCK_AUTO)
        tide_text_format(text, ", clock=%s", log_clocks[options->clock]);
    if (options->overflow != TIDE_OVERFLOW_WAIT)
        tide_text_format(text, ", overflow=%s", log_overflows[options->overflow]);
    if (options->cupti != TIDE_CUPTI_AUTO)
        tide_text_format(text, ", cupti=%s", log_cuptis[options->cupti]);
    if (options->samples != TIDE_SAMPLES_AUTO)
        tide_text_format(text, ", samples=%s", log_samples[options->samples]);
    if (options->ring_bytes != 0) {
        tide_text_format(text, ", ring=");
        tide_text_size(text, options->ring_bytes);
    }
    if (options->backlog_bytes != 0) {
        tide_text_format(text, ", backlog=");
        tide_text_size(text, options->backlog_bytes);
    }
    log_describe_callstack(options, text, true);
}

/* A base that can say what it holds is asked now and then; see the table pool_sample. */
static bool
log_can_watch(struct tide_resource *base)
{
    uint64_t figure;

    return base->upstream == NULL && tide_query(base, TIDE_QUERY_BYTES_USED, &figure) == TIDE_OK &&
           tide_query(base, TIDE_QUERY_BYTES_RESERVED, &figure) == TIDE_OK;
}

/* The resources below a log, each once: the walk numbers them as it comes to them. */
struct log_walk {
    struct log *top;
    struct tidei_recorder *recorder;
    struct tide_resource **seen;
    uint32_t *ids;
    size_t count;
    bool is_cuda;            /* a base has the driver allocate */
    enum tide_status status; /* of the first resource that got no number */
};

/* Two stacks that share a log may both be made at once. */
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

/* Tell the trace of one layer, once those below it have their numbers. */
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

/* A log that records into this trace already, from a stack of before: it and all below it have their numbers. */
static uint32_t
log_known(const struct log_walk *walk, struct tide_resource *resource)
{
    struct log *log = (struct log *)resource;

    if (resource->ops != &log_ops || atomic_load_explicit(&log->recorder, memory_order_acquire) != walk->recorder)
        return 0;
    return log->layer_id;
}

/* Number a resource and all below it. Returns its number; 0, and walk->status, where that cannot be. */
static uint32_t
log_number(struct log_walk *walk, struct tide_resource *resource)
{
    uint32_t upstream_id = 0;
    uint32_t id;
    struct tide_upstream edge;

    for (size_t i = 0; i < walk->count; i++) {
        if (walk->seen[i] == resource)
            return walk->ids[i];
    }
    id = log_known(walk, resource);
    if (id != 0)
        return id;
    if (walk->count % 16 == 0) {
        void *seen = realloc(walk->seen, (walk->count + 16) * sizeof(*walk->seen));
        void *ids = realloc(walk->ids, (walk->count + 16) * sizeof(*walk->ids));

        walk->seen = seen != NULL ? seen : walk->seen;
        walk->ids = ids != NULL ? ids : walk->ids;
        if (seen == NULL || ids == NULL) {
            walk->status = TIDE_ENOMEM;
            return 0;
        }
    }
    id = tidei_recorder_new_layer(walk->recorder);
    if (id > UINT16_MAX) {
        walk->status = TIDE_EINVAL;
        return 0;
    }
    walk->seen[walk->count] = resource;
    walk->ids[walk->count++] = id;
    if (resource->ops == &log_ops)
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

/* Have a log ask a base below it after each event. */
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

/* Whether a base has the driver allocate: on a device, or pinned memory of the host, which has one behind it. */
static bool
log_base_is_cuda(struct tide_resource *base)
{
    uint64_t figure;

    return tide_query(base, TIDE_QUERY_DEVICE, &figure) == TIDE_OK ||
           tide_query(base, TIDE_QUERY_DEVICE_TOTAL, &figure) == TIDE_OK;
}

/* Whether all that takes time in an event of this log is the call of the driver that it makes. */
static bool
log_is_quick(const struct log *log)
{
    for (const struct tide_resource *below = log->base.upstream; below != NULL; below = below->upstream) {
        if (!tidei_resource_is_quick(below))
            return false;
    }
    return true;
}

/* Have a log record the driver's calls. */
static void
log_watch_calls(struct log *log)
{
    atomic_fetch_or_explicit(&log->beside, log_is_quick(log) ? LOG_CALLS | LOG_QUICK : LOG_CALLS, memory_order_relaxed);
}

/*
 * What is recorded beside the events, for each log of this trace that is the last one above a base: the driver's calls
 * and the GPUs, where it is one of CUDA's memory, and its figures. A log of a stack of before has them already.
 */
static void
log_watch_bases(struct log_walk *walk, struct tide_resource *resource, struct log *nearest)
{
    struct tide_upstream edge;

    if (resource->ops == &log_ops &&
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

static void
log_unwatch(struct tidei_recorder *recorder, struct tide_resource *resource)
{
    struct tide_upstream edge;

    if (resource->upstream == NULL)
        tidei_recorder_unwatch(recorder, resource);
    for (size_t i = 0; resource->ops->upstream_at(resource, i, &edge) == TIDE_OK; i++)
        log_unwatch(recorder, edge.resource);
}

/* However soon the process is killed, its trace says what was to be had of CUPTI. Where that fails, it says so itself. */
static void
log_settle(struct tidei_recorder *recorder)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    tidei_recorder_flush(recorder);
    pthread_setcancelstate(cancel, NULL);
}

/* Open the trace, number the layers, have the logs below join. */
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
    else
        log_watch_bases(&walk, &log->base, log);
    if (status == TIDE_OK && tide_describe(&log->base, text, sizeof(text), NULL) == TIDE_OK)
        tidei_recorder_define_stack(walk.recorder, text);
    if (status == TIDE_OK && walk.is_cuda)
        log_settle(walk.recorder);
    free(walk.seen);
    free(walk.ids);
    tidei_recorder_release(walk.recorder);
    return status;
}

static void
log_destroy(struct tide_resource *self)
{
    struct log *log = (struct log *)self;
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire);
    struct tidei_error error;
    int cancel;

    tidei_error_save(&error);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (recorder != NULL) {
        if (log->watches)
            log_unwatch(recorder, self);
        tidei_recorder_release(recorder);
    }
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    tide_resource_fini(self);
    while (sampled != NULL) {
        struct log_sampled *next = sampled->next;

        free(sampled);
        sampled = next;
    }
    free((char *)log->options.path);
    free(log);
}

static const struct tide_resource_ops log_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "log",
    .allocate = log_allocate,
    .deallocate = log_deallocate,
    .order = tide_pass_order,
    .trim = tide_pass_trim,
    .query = tide_pass_query,
    .describe = log_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = log_destroy,
};

/* As tide_log_create, but that the trace is not kept yet. */
static enum tide_status
log_make(struct tide_resource *upstream, const struct tide_log_options *options, struct tide_resource **out)
{
    struct tide_log_options given;
    struct tidei_error error;
    enum tide_status status;
    struct log *log;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "log: no place for the resource");
    *out = NULL;
    if (upstream == NULL)
        return tide_error_set(TIDE_EINVAL, "log: upstream is NULL");
    status = tidei_options_copy("log", options, &given, sizeof(given));
    if (status != TIDE_OK)
        return status;
    status = tidei_callstack_options("log", given.callstack_depth, given.unwind);
    if (status != TIDE_OK)
        return status;
    log = calloc(1, sizeof(*log));
    if (log == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    log->options = given;
    atomic_init(&log->beside, given.callstack_depth != 0 ? LOG_STACKS : 0);
    if (given.path != NULL && (log->options.path = strdup(given.path)) == NULL)
        status = tide_error_set(TIDE_ENOMEM, "log: no host memory");
    if (status == TIDE_OK)
        status = tide_resource_init(&log->base, &log_ops, upstream);
    if (status != TIDE_OK) {
        free((char *)log->options.path);
        free(log);
        return status;
    }
    tidei_error_save(&error);
    if (log->options.path != NULL)
        status = log_open(log);
    if (status != TIDE_OK) {
        log_destroy(&log->base);
        return status;
    }
    tidei_error_restore(&error);
    *out = &log->base;
    return TIDE_OK;
}

static void
log_complete(struct tide_resource *self)
{
    struct log *log = (struct log *)self;

    if (log->watches)
        tidei_recorder_keep(atomic_load_explicit(&log->recorder, memory_order_acquire));
}

enum tide_status
tide_log_create(struct tide_resource *upstream, const struct tide_log_options *options, struct tide_resource **out)
{
    enum tide_status status = log_make(upstream, options, out);

    if (status == TIDE_OK)
        log_complete(*out);
    return status;
}

enum tide_status
tide_log_flush(struct tide_resource *log)
{
    struct tidei_recorder *recorder;
    enum tide_status status;
    int cancel;

    if (log == NULL || log->ops != &log_ops)
        return tide_error_set(TIDE_EINVAL, "log: not a log");
    recorder = atomic_load_explicit(&((struct log *)log)->recorder, memory_order_acquire);
    if (recorder == NULL)
        return tide_error_set(TIDE_EINVAL, "log: no trace: none above it has a path");
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = tidei_recorder_flush(recorder);
    pthread_setcancelstate(cancel, NULL);
    return status;
}

static const struct tidei_argument log_arguments[] = {
    { .key = "path", .type = TIDEI_ARGUMENT_WORD, .positional = true, .least = 1, .expected = "the path of a trace" },
    { .key = "overwrite", .type = TIDEI_ARGUMENT_FLAG, .expected = "true or false" },
    { .key = "clock", .type = TIDEI_ARGUMENT_CHOICE, .choices = log_clocks, .expected = "auto, tsc or monotonic" },
    { .key = "overflow", .type = TIDEI_ARGUMENT_CHOICE, .choices = log_overflows, .expected = "wait or drop" },
    { .key = "cupti", .type = TIDEI_ARGUMENT_CHOICE, .choices = log_cuptis, .expected = "auto, calls, memory or off" },
    { .key = "samples", .type = TIDEI_ARGUMENT_CHOICE, .choices = log_samples, .expected = "auto, every or off" },
    { .key = "ring",
      .type = TIDEI_ARGUMENT_SIZE,
      .power_of_two = true,
      .least = UINT64_C(4) << 10,
      .most = UINT64_C(1) << 30,
      .expected = "a power of two from 4KiB to 1GiB" },
    { .key = "backlog",
      .type = TIDEI_ARGUMENT_SIZE,
      .least = UINT64_C(1) << 20,
      .most = UINT64_C(16) << 30,
      .expected = "a size from 1MiB to 16GiB" },
    TIDEI_CALLSTACK_ARGUMENTS,
};

static enum tide_status
log_create(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *values = arguments->values;
    struct tide_log_options options = { TIDE_OPTIONS(options) };

    options.path = values[0].given ? values[0].word : NULL;
    options.overwrite = values[1].given && values[1].number != 0;
    options.clock = values[2].given ? (enum tide_clock)values[2].number : TIDE_CLOCK_AUTO;
    options.overflow = values[3].given ? (enum tide_overflow)values[3].number : TIDE_OVERFLOW_WAIT;
    options.cupti = values[4].given ? (enum tide_cupti)values[4].number : TIDE_CUPTI_AUTO;
    options.samples = values[5].given ? (enum tide_samples)values[5].number : TIDE_SAMPLES_AUTO;
    options.ring_bytes = values[6].given ? values[6].number : 0;
    options.backlog_bytes = values[7].given ? values[7].number : 0;
    options.callstack_depth = values[8].given ? (uint32_t)values[8].number : 0;
    options.unwind = values[9].given ? (enum tide_unwind)values[9].number : TIDE_UNWIND_AUTO;
    return log_make(upstream, &options, out);
}

const struct tidei_kind tidei_log_kind = {
    .name = "log",
    .arguments = log_arguments,
    .argument_count = TIDEI_COUNT_OF(log_arguments),
    .inherits = "path",
    .create = log_create,
    .complete = log_complete,
};
