/* Records the calls of a `log`. */
#include "config.h"

#include <stdlib.h>

#include "adaptors/log/record.h"
#include "src/context/callstack.h"
#include "src/stack/stack.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/producer.h"

/* The producer of the calling thread; NULL where nothing is recorded. */
static inline struct tidei_producer *
log_producer(struct tidei_log *log, enum tidei_record_kind kind)
{
    /* Pairs with the release in opening.c, log_attach. */
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_producer *producer;

    if (recorder == NULL)
        return NULL;
    producer = tidei_producer_get(&recorder->session);
    if (__builtin_expect(producer == NULL, 0))
        tidei_session_lost(&recorder->session, kind, TIDEI_LOST_NO_RING);
    return producer;
}

/* The extra records of an event. Relaxed: it does not matter when another thread sees a change. */
static inline unsigned
log_extras(const struct tidei_log *log)
{
    return atomic_load_explicit(&log->extras, memory_order_relaxed);
}

/* TIDEI_LOG_CALLS, if the driver's calls within an event belong to it. `extras` are the log's. */
static unsigned
log_calls(unsigned extras, const struct tidei_producer *producer)
{
    if ((extras & TIDEI_LOG_TAP) != 0 && tidei_call_capture_waits(tidei_call_capture(tidei_thread), producer->session))
        return 0;
    return extras & TIDEI_LOG_CALLS;
}

static void
log_sample(struct tidei_log *log, struct tidei_producer *producer)
{
    /* Pairs with the release in log_watch_each. */
    for (struct tidei_log_sampled *sampled = atomic_load_explicit(&log->sampled, memory_order_acquire); sampled != NULL;
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

int
tidei_log_by_resource(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)((const struct tidei_log_numbered *)left)->resource;
    uintptr_t b = (uintptr_t)((const struct tidei_log_numbered *)right)->resource;

    return (a > b) - (a < b);
}

uint16_t
tidei_log_layer_number(struct tidei_log *log, const struct tide_resource *resource)
{
    /* Pairs with the release in log_keep_layers. */
    const struct tidei_log_layers *layers = atomic_load_explicit(&log->layers, memory_order_acquire);
    const struct tidei_log_numbered wanted = { .resource = resource }, *found = NULL;

    if (layers != NULL)
        found = bsearch(&wanted, layers->items, layers->count, sizeof(wanted), tidei_log_by_resource);
    return found != NULL ? (uint16_t)found->id : 0;
}

/* Record a failed allocation, with the words of the layer that refused it. The error stays. */
static __attribute__((noinline, cold)) void
log_failed(struct tidei_log *log, struct tidei_producer *producer, uint64_t begin, size_t bytes, size_t alignment,
           tide_stream stream, uint32_t callstack, enum tide_status status, struct tidei_call_capture *slot)
{
    const struct tidei_error *error = tidei_error_tell(status, producer->session, begin);
    struct tidei_event_rest rest = { .slot = slot };
    uint64_t word =
        tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, (uint8_t)status, (uint8_t)__builtin_ctzll(alignment));

    if (error != NULL) {
        rest.text = error->text;
        rest.length = tidei_utf8_length(error->text, TIDEI_REFUSAL_BYTES);
        rest.layer = tidei_log_layer_number(log, error->refused);
    }
    tidei_producer_event_behind(producer, begin, 0, bytes, stream, word, callstack, true, &rest);
    if (slot != NULL)
        tidei_call_capture_disarm(slot);
}

/* Of a tap: whether a log of its trace below has recorded the chunk that this thread requests. See chunks.h. */
static bool
log_is_told(struct tidei_log *tap)
{
    return tidei_thread->untold != atomic_load_explicit(&tap->recorder, memory_order_acquire);
}

/* Tell the tap above, if there is one of this trace, that the chunk which this thread requests is recorded. */
static void
log_tell(struct tidei_log *log)
{
    if (tidei_thread->untold != NULL && !log_is_told(log))
        tidei_thread->untold = NULL;
}

/*
 * Record an allocation; see tidei_producer_ticks for `plain`. `extras` has no more than TIDEI_LOG_CALLS, alone or with
 * TIDEI_LOG_QUICK, to record the driver's calls, too, and TIDEI_LOG_TAP.
 */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_recorded(struct tidei_log *log, struct tidei_producer *producer, bool plain, unsigned extras,
                      uint32_t callstack, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    unsigned calls = extras & TIDEI_LOG_CALLS;
    struct tidei_call_capture *slot =
        calls != 0 ? tidei_call_capture_arm(producer, (extras & TIDEI_LOG_QUICK) != 0) : NULL;
    uint64_t begin = tidei_producer_ticks(producer, plain);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    uint64_t word = tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, TIDE_OK, (uint8_t)__builtin_ctzll(alignment));

    if (__builtin_expect(status != TIDE_OK, 0)) {
        log_failed(log, producer, begin, bytes, alignment, stream, callstack, status, slot);
        return status;
    }
    if (calls == 0 && !((extras & TIDEI_LOG_TAP) != 0 && log_is_told(log)))
        tidei_producer_event(producer, begin, (uintptr_t)*out, bytes, stream, word, callstack, true, plain);
    if (calls == 0)
        return TIDE_OK;
    if (!((extras & TIDEI_LOG_TAP) != 0 && log_is_told(log)))
        tidei_producer_event_calls(producer, begin, (uintptr_t)*out, bytes, stream, word, callstack, true, plain, slot);
    tidei_call_capture_disarm(slot);
    return TIDE_OK;
}

static __attribute__((noinline)) enum tide_status
log_allocate_otherwise(struct tidei_log *log, struct tidei_producer *producer, size_t bytes, size_t alignment,
                       tide_stream stream, void **out)
{
    unsigned extras = log_extras(log), tap = extras & TIDEI_LOG_TAP;
    uint32_t callstack = 0;
    enum tide_status status;

    if (producer == NULL)
        return tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    /* Before the clock is read, because the walk is no part of the recorded call. */
    if (extras & TIDEI_LOG_STACKS)
        callstack = tidei_callstack_here(log->options.callstack_depth, log->options.unwind);
    if (log_calls(extras, producer) != 0)
        status = log_allocate_recorded(log, producer, false, TIDEI_LOG_CALLS | tap, callstack, bytes, alignment, stream,
                                       out);
    else
        status = log_allocate_recorded(log, producer, false, tap, callstack, bytes, alignment, stream, out);
    if ((extras & TIDEI_LOG_TELLS) != 0 && status == TIDE_OK)
        log_tell(log);
    log_sample(log, producer);
    return status;
}

enum tide_status
tidei_log_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_log *log = (struct tidei_log *)self;
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_ALLOC);
    unsigned extras = log_extras(log);

    if (__builtin_expect(producer == NULL || !producer->plain || extras > (TIDEI_LOG_CALLS | TIDEI_LOG_QUICK), 0))
        return log_allocate_otherwise(log, producer, bytes, alignment, stream, out);
    if (extras & TIDEI_LOG_CALLS)
        return log_allocate_recorded(log, producer, true, TIDEI_LOG_CALLS | (extras & TIDEI_LOG_QUICK), 0, bytes,
                                     alignment, stream, out);
    return log_allocate_recorded(log, producer, true, 0, 0, bytes, alignment, stream, out);
}

/* Record a free, as above. */
static inline __attribute__((always_inline)) enum tide_status
log_deallocate_recorded(struct tidei_log *log, struct tidei_producer *producer, bool plain, unsigned calls,
                        void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_call_capture *slot =
        calls != 0 ? tidei_call_capture_arm(producer, (calls & TIDEI_LOG_QUICK) != 0) : NULL;
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
log_deallocate_otherwise(struct tidei_log *log, struct tidei_producer *producer, void *pointer, size_t bytes,
                         size_t alignment, tide_stream stream)
{
    enum tide_status status;

    if (producer != NULL &&
        !(producer->drop && tidei_producer_drops_free(producer, log->layer_id, (uintptr_t)pointer))) {
        if (log_calls(log_extras(log), producer) != 0)
            status = log_deallocate_recorded(log, producer, false, TIDEI_LOG_CALLS, pointer, bytes, alignment, stream);
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

enum tide_status
tidei_log_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_log *log = (struct tidei_log *)self;
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_FREE);
    unsigned extras = log_extras(log);

    if (__builtin_expect(producer == NULL || !producer->plain || (extras & (TIDEI_LOG_SAMPLES | TIDEI_LOG_TAP)) != 0,
                         0))
        return log_deallocate_otherwise(log, producer, pointer, bytes, alignment, stream);
    if (extras & TIDEI_LOG_CALLS)
        return log_deallocate_recorded(log, producer, true, TIDEI_LOG_CALLS | (extras & TIDEI_LOG_QUICK), pointer,
                                       bytes, alignment, stream);
    return log_deallocate_recorded(log, producer, true, 0, pointer, bytes, alignment, stream);
}

void
tidei_log_sample_last(struct tidei_log *log)
{
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_producer *producer = NULL;

    /* Pairs with the release in log_watch_each. */
    if (atomic_load_explicit(&log->sampled, memory_order_acquire) != NULL)
        producer = tidei_producer_get(&recorder->session);
    if (producer != NULL)
        log_sample(log, producer);
}

void
tidei_log_passed_by(struct tide_resource *top)
{
    struct tide_resource *log = tidei_stack_find(top, "log");
    struct tidei_recorder *recorder = NULL;

    if (log != NULL)
        recorder = atomic_load_explicit(&((struct tidei_log *)log)->recorder, memory_order_acquire);
    if (recorder != NULL)
        tidei_session_lost(&recorder->session, TIDEI_RECORD_ALLOC, TIDEI_LOST_PASSED);
}

void
tidei_log_hold(struct tidei_log *log, const struct tidei_place *place)
{
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_ALLOC);

    if (producer != NULL && !tidei_producer_held(producer, log->layer_id, place))
        tidei_session_lost(producer->session, TIDEI_RECORD_ALLOC, TIDEI_LOST_STALLED);
}
