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

/* Record an allocation that is not prepared. `slot` has the driver's calls; NULL: they are not recorded. */
static void
log_allocated(struct tidei_log *log, struct tidei_producer *producer, uint64_t begin, uint32_t callstack, size_t bytes,
              size_t alignment, tide_stream stream, void *pointer, struct tidei_call_capture *slot)
{
    uint64_t word = tidei_record_word(log->layer_id, TIDEI_RECORD_ALLOC, TIDE_OK, (uint8_t)__builtin_ctzll(alignment));

    if (slot != NULL)
        tidei_producer_event_calls(producer, begin, (uintptr_t)pointer, bytes, stream, word, callstack, true, slot);
    else
        tidei_producer_event(producer, begin, (uintptr_t)pointer, bytes, stream, word, callstack, true);
}

/* Make an allocation and record it. `extras`: TIDEI_LOG_CALLS, to record the driver's calls, too, and TIDEI_LOG_TAP. */
static inline enum tide_status
log_allocate_recorded(struct tidei_log *log, struct tidei_producer *producer, unsigned extras, uint32_t callstack,
                      size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_call_capture *slot = (extras & TIDEI_LOG_CALLS) != 0 ? tidei_call_capture_arm(producer, false) : NULL;
    uint64_t begin = tidei_producer_ticks(producer, false);
    enum tide_status status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);

    if (__builtin_expect(status != TIDE_OK, 0)) {
        log_failed(log, producer, begin, bytes, alignment, stream, callstack, status, slot);
        return status;
    }
    if (!((extras & TIDEI_LOG_TAP) != 0 && log_is_told(log)))
        log_allocated(log, producer, begin, callstack, bytes, alignment, stream, *out, slot);
    if (slot != NULL)
        tidei_call_capture_disarm(slot);
    return TIDE_OK;
}

static __attribute__((noinline)) enum tide_status
log_allocate_otherwise(struct tidei_log *log, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_ALLOC);
    unsigned extras = log_extras(log), tap = extras & TIDEI_LOG_TAP;
    uint32_t callstack = 0;
    enum tide_status status;

    if (producer == NULL)
        return tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    /* Before the clock is read, because the walk is no part of the recorded call. */
    if (extras & TIDEI_LOG_STACKS)
        callstack = tidei_callstack_here(log->options.callstack_depth, log->options.unwind);
    status = log_allocate_recorded(log, producer, log_calls(extras, producer) | tap, callstack, bytes, alignment,
                                   stream, out);
    if ((extras & TIDEI_LOG_TELLS) != 0 && status == TIDE_OK)
        log_tell(log);
    log_sample(log, producer);
    return status;
}

/*
 * What is needed of a prepared call only where its event cannot end as prepared. In memory: in registers it would have
 * to be saved and restored in each call, and as arguments it would be loaded again in each.
 */
struct log_call {
    struct tidei_log *log;
    uint64_t begin;
    size_t bytes, alignment;
    tide_stream stream;
};

/* Whether a call has recorded nothing itself. Test its status before this: the other way round it would be kept. */
static inline bool
log_is_as_prepared(const struct tidei_producer *producer, const void *call)
{
    return __builtin_expect(producer->prepared == call, 1);
}

/* Fill in again what the call has recorded over. The ring has room. */
static __attribute__((noinline)) struct tidei_prepared
log_prepare_again(const struct log_call *call, struct tidei_producer *producer, enum tidei_record_kind kind)
{
    uint64_t word = tidei_record_event_word(call->log->layer_id, (uint8_t)kind, call->alignment);

    return tidei_producer_prepare(producer, call, call->bytes, call->stream, word);
}

/* TIDE_OK, made here: the compiler would take a 0 from a register that it then saves for that. */
static inline enum tide_status
log_done(void)
{
    enum tide_status status = TIDE_OK;

    __asm__("" : "+r"(status));
    return status;
}

/* The end of an allocation that was prepared, but cannot be recorded so. */
static __attribute__((noinline)) enum tide_status
log_allocated_otherwise(const struct log_call *call, struct tidei_producer *producer, void *pointer,
                        enum tide_status status, struct tidei_call_capture *slot)
{
    if (status != TIDE_OK) {
        log_failed(call->log, producer, call->begin, call->bytes, call->alignment, call->stream, 0, status, slot);
        return status;
    }
    log_allocated(call->log, producer, call->begin, 0, call->bytes, call->alignment, call->stream, pointer, slot);
    if (slot != NULL)
        tidei_call_capture_disarm(slot);
    return TIDE_OK;
}

/* Make an allocation and record it, prepared. `calls`: TIDEI_LOG_CALLS, alone or with TIDEI_LOG_QUICK, or 0. */
static inline __attribute__((always_inline)) enum tide_status
log_allocate_prepared(struct tidei_log *log, struct tidei_producer *producer, unsigned calls, size_t bytes,
                      size_t alignment, tide_stream stream, void **out)
{
    uint64_t word = tidei_record_event_word(log->layer_id, TIDEI_RECORD_ALLOC, alignment);
    struct tidei_call_capture *slot =
        calls != 0 ? tidei_call_capture_arm(producer, (calls & TIDEI_LOG_QUICK) != 0) : NULL;
    struct log_call call = { log, 0, bytes, alignment, stream };
    struct tidei_prepared event;
    enum tide_status status;

    event = tidei_producer_prepare(producer, __builtin_frame_address(0), bytes, stream, word);
    call.begin = tidei_producer_ticks(producer, true);
    status = tidei_allocate(log->base.upstream, bytes, alignment, stream, out);
    if (__builtin_expect(status != TIDE_OK, 0))
        return log_allocated_otherwise(&call, producer, NULL, status, slot);
    if (!log_is_as_prepared(producer, __builtin_frame_address(0))) {
        if (!tidei_producer_can_prepare(producer))
            return log_allocated_otherwise(&call, producer, *out, TIDE_OK, slot);
        event = log_prepare_again(&call, producer, TIDEI_RECORD_ALLOC);
    }
    if (calls != 0 && !tidei_call_capture_fits(slot, call.begin, (uintptr_t)*out))
        return log_allocated_otherwise(&call, producer, *out, TIDE_OK, slot);
    tidei_producer_add_address(&event, (uintptr_t)*out);
    if (calls == 0) {
        tidei_producer_finish(producer, event, call.begin, true);
        return log_done();
    }
    tidei_producer_finish_calls(producer, event, call.begin, true, slot);
    tidei_call_capture_disarm(slot);
    return TIDE_OK;
}

/* An allocation from a plain producer with room, of a log with extras. */
static __attribute__((noinline)) enum tide_status
log_allocate_extra(struct tidei_log *log, struct tidei_producer *producer, size_t bytes, size_t alignment,
                   tide_stream stream, void **out)
{
    unsigned extras = log_extras(log);

    if (extras > (TIDEI_LOG_CALLS | TIDEI_LOG_QUICK))
        return log_allocate_otherwise(log, bytes, alignment, stream, out);
    return log_allocate_prepared(log, producer, TIDEI_LOG_CALLS | (extras & TIDEI_LOG_QUICK), bytes, alignment, stream,
                                 out);
}

enum tide_status
tidei_log_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_log *log = (struct tidei_log *)self;
    /* Pairs with the release in opening.c, log_attach. */
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_producer *producer;

    if (__builtin_expect(recorder == NULL, 0))
        return log_allocate_otherwise(log, bytes, alignment, stream, out);
    producer = tidei_producer_known(&recorder->session);
    if (__builtin_expect(producer == NULL || !tidei_producer_can_prepare(producer), 0))
        return log_allocate_otherwise(log, bytes, alignment, stream, out);
    if (log_extras(log) != 0)
        return log_allocate_extra(log, producer, bytes, alignment, stream, out);
    return log_allocate_prepared(log, producer, 0, bytes, alignment, stream, out);
}

/* Record a free that is not prepared, as log_allocated does. */
static void
log_deallocated(struct tidei_log *log, struct tidei_producer *producer, uint64_t begin, enum tide_status status,
                void *pointer, size_t bytes, size_t alignment, tide_stream stream, struct tidei_call_capture *slot)
{
    uint64_t word =
        tidei_record_word(log->layer_id, TIDEI_RECORD_FREE, (uint8_t)status, (uint8_t)__builtin_ctzll(alignment));

    if (slot == NULL) {
        tidei_producer_event(producer, begin, (uintptr_t)pointer, bytes, stream, word, 0, false);
        return;
    }
    tidei_producer_event_calls(producer, begin, (uintptr_t)pointer, bytes, stream, word, 0, false, slot);
    tidei_call_capture_disarm(slot);
}

/* Make a free and record it. */
static inline enum tide_status
log_deallocate_recorded(struct tidei_log *log, struct tidei_producer *producer, unsigned calls, void *pointer,
                        size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_call_capture *slot = calls != 0 ? tidei_call_capture_arm(producer, false) : NULL;
    uint64_t begin = tidei_producer_ticks_ordered(producer, false);
    enum tide_status status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);

    log_deallocated(log, producer, begin, status, pointer, bytes, alignment, stream, slot);
    return status;
}

static __attribute__((noinline)) enum tide_status
log_deallocate_otherwise(struct tidei_log *log, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_producer *producer = log_producer(log, TIDEI_RECORD_FREE);
    enum tide_status status;

    if (producer != NULL &&
        !(producer->drop && tidei_producer_drops_free(producer, log->layer_id, (uintptr_t)pointer))) {
        status = log_deallocate_recorded(log, producer, log_calls(log_extras(log), producer), pointer, bytes, alignment,
                                         stream);
        log_sample(log, producer);
        return status;
    }
    status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);
    if (producer != NULL && status != TIDE_OK)
        tidei_producer_drops_again(producer, log->layer_id, (uintptr_t)pointer);
    return status;
}

/* The end of a free that was prepared, but cannot be recorded so. */
static __attribute__((noinline)) enum tide_status
log_deallocated_otherwise(const struct log_call *call, struct tidei_producer *producer, void *pointer,
                          enum tide_status status, struct tidei_call_capture *slot)
{
    log_deallocated(call->log, producer, call->begin, status, pointer, call->bytes, call->alignment, call->stream,
                    slot);
    return status;
}

/* Make a free and record it, prepared, as log_allocate_prepared. */
static inline __attribute__((always_inline)) enum tide_status
log_deallocate_prepared(struct tidei_log *log, struct tidei_producer *producer, uint64_t begin, unsigned calls,
                        void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    uint64_t word = tidei_record_event_word(log->layer_id, TIDEI_RECORD_FREE, alignment);
    struct tidei_call_capture *slot =
        calls != 0 ? tidei_call_capture_arm(producer, (calls & TIDEI_LOG_QUICK) != 0) : NULL;
    struct log_call call = { log, begin, bytes, alignment, stream };
    struct tidei_prepared event;
    enum tide_status status;

    event = tidei_producer_prepare(producer, __builtin_frame_address(0), bytes, stream, word);
    tidei_producer_add_address(&event, (uintptr_t)pointer);
    status = tidei_deallocate(log->base.upstream, pointer, bytes, alignment, stream);
    if (__builtin_expect(status != TIDE_OK, 0))
        return log_deallocated_otherwise(&call, producer, pointer, status, slot);
    if (!log_is_as_prepared(producer, __builtin_frame_address(0))) {
        if (!tidei_producer_can_prepare(producer))
            return log_deallocated_otherwise(&call, producer, pointer, TIDE_OK, slot);
        event = log_prepare_again(&call, producer, TIDEI_RECORD_FREE);
        tidei_producer_add_address(&event, (uintptr_t)pointer);
    }
    if (calls != 0 && !tidei_call_capture_fits(slot, begin, (uintptr_t)pointer))
        return log_deallocated_otherwise(&call, producer, pointer, TIDE_OK, slot);
    if (calls == 0) {
        tidei_producer_finish(producer, event, begin, false);
        return log_done();
    }
    tidei_producer_finish_calls(producer, event, begin, false, slot);
    tidei_call_capture_disarm(slot);
    return TIDE_OK;
}

/* A free, as log_allocate_extra. */
static __attribute__((noinline)) enum tide_status
log_deallocate_extra(struct tidei_log *log, struct tidei_producer *producer, uint64_t begin, void *pointer,
                     size_t bytes, size_t alignment, tide_stream stream)
{
    unsigned extras = log_extras(log);

    if ((extras & (TIDEI_LOG_SAMPLES | TIDEI_LOG_TAP)) != 0)
        return log_deallocate_otherwise(log, pointer, bytes, alignment, stream);
    return log_deallocate_prepared(log, producer, begin, TIDEI_LOG_CALLS | (extras & TIDEI_LOG_QUICK), pointer, bytes,
                                   alignment, stream);
}

/*
 * The clock is read before all that does not decide how: where it is read in order, the thread waits for what it has
 * done until then, but not for what comes after, which it does while it reads. A slow path reads the clock again.
 */
enum tide_status
tidei_log_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_log *log = (struct tidei_log *)self;
    /* Pairs with the release in opening.c, log_attach. */
    struct tidei_recorder *recorder = atomic_load_explicit(&log->recorder, memory_order_acquire);
    struct tidei_producer *producer;
    uint64_t begin;

    /* Relaxed: as `many`, it counts only if the thread's producer turns out to be of this recording. */
    if (__builtin_expect(recorder == NULL || !atomic_load_explicit(&recorder->session.plain, memory_order_relaxed), 0))
        return log_deallocate_otherwise(log, pointer, bytes, alignment, stream);
    begin = tidei_session_ticks_ordered(&recorder->session, true);
    producer = tidei_producer_known(&recorder->session);
    if (__builtin_expect(producer == NULL || !tidei_producer_can_prepare(producer), 0))
        return log_deallocate_otherwise(log, pointer, bytes, alignment, stream);
    if (log_extras(log) & (TIDEI_LOG_CALLS | TIDEI_LOG_SAMPLES | TIDEI_LOG_TAP))
        return log_deallocate_extra(log, producer, begin, pointer, bytes, alignment, stream);
    return log_deallocate_prepared(log, producer, begin, 0, pointer, bytes, alignment, stream);
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
