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
 * A second log of the same path, in this stack or in another one of the process, records into the same trace, with the
 * options with which it was opened.
 *
 * LIMITATIONS
 *  - It records the calls at its place in the stack: above `limit` also the refused requests, below it only those that
 *    reach upstream.
 *  - It must not be called from a signal handler.
 *  - One trace has at most 65,535 layers.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "adaptors/log/log.h"
#include "src/context/callstack.h"
#include "src/resource/kind.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/producer.h"

static uint8_t
log_log2(size_t alignment)
{
    return (uint8_t)__builtin_ctzll(alignment);
}

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
log_beside(const struct log *log)
{
    return atomic_load_explicit(&log->beside, memory_order_relaxed);
}

static void
log_sample(struct log *log, struct tidei_producer *producer)
{
    /* Pairs with the release in log_watch_each. */
    for (struct log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire); sampled != NULL;
         sampled = sampled->next) {
        struct tidei_error error;
        uint64_t used, reserved;

        tidei_error_save(&error);
        if (tide_query(sampled->base, TIDE_QUERY_BYTES_USED, &used) == TIDE_OK &&
            tide_query(sampled->base, TIDE_QUERY_BYTES_RESERVED, &reserved) == TIDE_OK)
            tidei_producer_sample(producer, sampled->layer_id, used, reserved);
        tidei_error_restore(&error);
    }
}

/* Record an allocation; see tidei_producer_ticks for `plain`. */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_recorded(struct log *log, struct tidei_producer *producer, bool plain, uint32_t callstack, size_t bytes,
                      size_t alignment, tide_stream stream, void **out)
{
    uint64_t begin = tidei_producer_ticks(producer, plain);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);

    tidei_producer_event(producer, begin, (uintptr_t)*out, bytes, stream,
                         tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, (uint8_t)status, log_log2(alignment)),
                         callstack, true, plain);
    return status;
}

/* The same with the driver's calls; see tidei_call_capture_arm for `quick`. */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_followed(struct log *log, struct tidei_producer *producer, bool plain, bool quick, uint32_t callstack,
                      size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_call_capture *slot = tidei_call_capture_arm(producer, quick);
    uint64_t begin = tidei_producer_ticks(producer, plain);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);

    tidei_producer_event_calls(
        producer, begin, (uintptr_t)*out, bytes, stream,
        tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, (uint8_t)status, log_log2(alignment)), callstack, true,
        plain, slot);
    tidei_call_capture_disarm(slot);
    return status;
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
    if (log_beside(log) & LOG_STACKS)
        callstack = tidei_callstack_here(log->options.callstack_depth, log->options.unwind);
    if (log_beside(log) & LOG_CALLS)
        status = log_allocate_followed(log, producer, false, false, callstack, bytes, alignment, stream, out);
    else
        status = log_allocate_recorded(log, producer, false, callstack, bytes, alignment, stream, out);
    log_sample(log, producer);
    return status;
}

static enum tide_status
log_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct log *log = (struct log *)self;
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_ALLOC);
    unsigned beside = log_beside(log);

    if (__builtin_expect(producer == NULL || !producer->plain || beside > (LOG_CALLS | LOG_QUICK), 0))
        return log_allocate_otherwise(log, producer, bytes, alignment, stream, out);
    if (beside & LOG_CALLS)
        return log_allocate_followed(log, producer, true, (beside & LOG_QUICK) != 0, 0, bytes, alignment, stream, out);
    return log_allocate_recorded(log, producer, true, 0, bytes, alignment, stream, out);
}

static inline __attribute__((always_inline)) enum tide_status
log_deallocate_recorded(struct log *log, struct tidei_producer *producer, bool plain, void *pointer, size_t bytes,
                        size_t alignment, tide_stream stream)
{
    uint64_t begin = tidei_producer_ticks_ordered(producer, plain);
    enum tide_status status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);

    tidei_producer_event(producer, begin, (uintptr_t)pointer, bytes, stream,
                         tidei_record_word(log->layer_id, TIDEI_RECORD_FREE, (uint8_t)status, log_log2(alignment)), 0,
                         false, plain);
    return status;
}

/* The same with the driver's calls. */
static inline __attribute__((always_inline)) enum tide_status
log_deallocate_followed(struct log *log, struct tidei_producer *producer, bool plain, bool quick, void *pointer,
                        size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_call_capture *slot = tidei_call_capture_arm(producer, quick);
    uint64_t begin = tidei_producer_ticks_ordered(producer, plain);
    enum tide_status status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);

    tidei_producer_event_calls(
        producer, begin, (uintptr_t)pointer, bytes, stream,
        tidei_record_word(log->layer_id, TIDEI_RECORD_FREE, (uint8_t)status, log_log2(alignment)), 0, false, plain,
        slot);
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
        if (log_beside(log) & LOG_CALLS)
            status = log_deallocate_followed(log, producer, false, false, pointer, bytes, alignment, stream);
        else
            status = log_deallocate_recorded(log, producer, false, pointer, bytes, alignment, stream);
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
    unsigned beside = log_beside(log);

    if (__builtin_expect(producer == NULL || !producer->plain || (beside & LOG_SAMPLES) != 0, 0))
        return log_deallocate_otherwise(log, producer, pointer, bytes, alignment, stream);
    if (beside & LOG_CALLS)
        return log_deallocate_followed(log, producer, true, (beside & LOG_QUICK) != 0, pointer, bytes, alignment,
                                       stream);
    return log_deallocate_recorded(log, producer, true, pointer, bytes, alignment, stream);
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
        if (log->watches)
            tidei_log_unwatch(recorder, self);
        tidei_recorder_release(recorder);
    }
    pthread_setcancelstate(cancel, NULL);
    tidei_error_restore(&error);
    while (sampled != NULL) {
        struct log_sampled *next = sampled->next;

        free(sampled);
        sampled = next;
    }
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
    atomic_init(&log->beside, log->options.callstack_depth != 0 ? LOG_STACKS : 0);
    if (log->options.path == NULL)
        return TIDE_OK;
    log->options.path = strdup(log->options.path);
    if (log->options.path == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    tidei_error_save(&error);
    status = tidei_log_open(log);
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
    { .key = "path",
      .type = TIDEI_ARGUMENT_WORD,
      .positional = true,
      .least = 1,
      .expected = "the path of a trace",
      TIDEI_FIELD(struct tide_log_options, path) },
    TIDEI_FLAG("overwrite", struct tide_log_options, overwrite),
    { .key = "clock",
      .type = TIDEI_ARGUMENT_CHOICE,
      .choices = log_clocks,
      .expected = "auto, tsc or monotonic",
      TIDEI_FIELD(struct tide_log_options, clock) },
    { .key = "overflow",
      .type = TIDEI_ARGUMENT_CHOICE,
      .choices = log_overflows,
      .expected = "wait or drop",
      TIDEI_FIELD(struct tide_log_options, overflow) },
    { .key = "cupti",
      .type = TIDEI_ARGUMENT_CHOICE,
      .choices = log_cuptis,
      .expected = "auto, calls, memory or off",
      TIDEI_FIELD(struct tide_log_options, cupti) },
    { .key = "samples",
      .type = TIDEI_ARGUMENT_CHOICE,
      .choices = log_samples,
      .expected = "auto, every or off",
      TIDEI_FIELD(struct tide_log_options, samples) },
    { .key = "ring",
      .type = TIDEI_ARGUMENT_SIZE,
      .power_of_two = true,
      .least = UINT64_C(4) << 10,
      .most = UINT64_C(1) << 30,
      .default_value = UINT64_C(1) << 20,
      .expected = "a power of two from 4KiB to 1GiB",
      TIDEI_FIELD(struct tide_log_options, ring_bytes) },
    { .key = "backlog",
      .type = TIDEI_ARGUMENT_SIZE,
      .least = UINT64_C(1) << 20,
      .most = UINT64_C(16) << 30,
      .default_value = UINT64_C(128) << 20,
      .expected = "a size from 1MiB to 16GiB",
      TIDEI_FIELD(struct tide_log_options, backlog_bytes) },
    TIDEI_CALLSTACK_ARGUMENTS(struct tide_log_options),
};

const struct tidei_kind tidei_log_kind = {
    .ops = {
        .version = TIDE_RESOURCE_OPS_VERSION,
        .name = "log",
        .allocate = log_allocate,
        .deallocate = log_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = log_describe,
        .upstream_at = tide_pass_upstream_at,
        .destroy = tidei_kind_destroy,
    },
    .arguments = log_arguments,
    .argument_count = TIDEI_COUNT_OF(log_arguments),
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

enum tide_status
tide_log_flush(struct tide_resource *log)
{
    struct tidei_recorder *recorder;
    enum tide_status status;
    int cancel;

    if (log == NULL || log->ops != &tidei_log_kind.ops)
        return tide_error_set(TIDE_EINVAL, "log: not a log");
    recorder = atomic_load_explicit(&((struct log *)log)->recorder, memory_order_acquire);
    if (recorder == NULL)
        return tide_error_set(TIDE_EINVAL, "log: no trace: none above it has a path");
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    status = tidei_recorder_flush(recorder);
    pthread_setcancelstate(cancel, NULL);
    return status;
}
