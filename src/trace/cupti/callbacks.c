/* Follows driver calls through CUPTI's callbacks, and collects CUPTI's records of memory. */
#include "config.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/cuda/cupti-table.h"
#include "src/resource/resource.h"
#include "src/sync/inside.h"
#include "src/trace/cupti/callbacks.h"
#include "src/trace/ring/capture.h"
#include "src/trace/ring/clock.h"
#include "src/trace/ring/function.h"

/* Attaching, detaching and flushing, one at a time. */
static pthread_mutex_t calls_control = PTHREAD_MUTEX_INITIALIZER;

/* Read by the callback. */
static _Atomic bool calls_memory;       /* a trace wants all calls */
static _Atomic uint64_t calls_imported; /* ticks of the first import of a pointer of another process; 0: none so far */
static _Atomic uint64_t calls_overflown;
static _Atomic uint64_t calls_exited; /* ticks from which on the process exits, and no memory is recorded; 0: none */

#ifdef HAVE_CUPTI_H

/* Numbers of the functions of a domain that are looked up. */
#define CALLS_MOST_CBIDS 1024

/* Events that are put into the queues at once. */
#define CALLS_EVENTS 32

/* The trace's number of a function (function.h) for CUPTI's; 0: not followed. Constant. */
#define CALLS_DRIVER(number, function, frees)  [CUPTI_DRIVER_TRACE_CBID_##function] = (number),
#define CALLS_RUNTIME(number, function, frees) [CUPTI_RUNTIME_TRACE_CBID_##function] = (number),
#define CALLS_NONE(number, function, frees)
static const uint8_t calls_driver_functions[CALLS_MOST_CBIDS] = { TIDEI_FUNCTIONS(CALLS_DRIVER, CALLS_NONE) };
static const uint8_t calls_runtime_functions[CALLS_MOST_CBIDS] = { TIDEI_FUNCTIONS(CALLS_NONE, CALLS_RUNTIME) };

/* Guarded by calls_control, except that calls_pid is also read without it. */
static const struct tidei_cupti *calls_cupti;
static CUpti_SubscriberHandle calls_subscriber;
static unsigned calls_users;
static unsigned calls_memory_users;
static _Atomic pid_t calls_pid; /* the process that uses CUPTI; 0: none yet */
static bool calls_tsc;          /* the clock of all traces */
static bool calls_registered;   /* callbacks are registered once in a process */
static bool calls_ended;        /* the process exits: do not call CUPTI any more */

/* The number of times that CUPTI was switched on. What a thread began in an earlier one never ends. */
static _Atomic unsigned calls_generation;

/* The time of an event of memory, for CUPTI. */
static uint64_t
calls_timestamp(void)
{
    return tidei_clock_ticks(calls_tsc);
}

/* A call has returned: a trace of all memory gets it, whether or not a log records it, too. */
static __attribute__((noinline)) void
calls_queue(struct tidei_call_capture *slot, const struct tidei_call_part *part)
{
    if (slot->os_tid == 0)
        slot->os_tid = (uint32_t)syscall(SYS_gettid);
    tidei_cupti_queue_put_call(slot, part);
}

/* A call that is not the first of an event, or that a trace of all memory gets. */
static __attribute__((noinline)) void
calls_end_otherwise(struct tidei_call_capture *slot, struct tidei_call_part *part, const CUpti_CallbackData *data)
{
    if (atomic_load_explicit(&calls_memory, memory_order_relaxed)) {
        part->correlation = data->correlationId;
        calls_queue(slot, part);
    }
    if (slot->armed != 0 && !tidei_call_capture_add(slot, part))
        atomic_fetch_add_explicit(&calls_overflown, 1, memory_order_relaxed);
}

/* The outermost call of this thread has returned. Each field is stored once, in place: see tidei_producer_fill. */
static inline __attribute__((always_inline)) void
calls_end(struct tidei_call_capture *slot, uint8_t function, const CUpti_CallbackData *data, bool memory, bool tsc)
{
    int32_t result = data->functionReturnValue != NULL ? *(const int32_t *)data->functionReturnValue : 0;
    struct tidei_call_part *part = &slot->first;

    if (__builtin_expect(memory || slot->count != 0 || slot->armed != 1, 0)) {
        struct tidei_call_part other = { .start = slot->count == 0 ? part->start : slot->entered,
                                         .end = tidei_clock_ticks(tsc),
                                         .result = result,
                                         .function = function };

        calls_end_otherwise(slot, &other, data);
        return;
    }
    /* Do not open after a failure: layers above may then wait for long, and hold up the merge. */
    part->end = tsc && slot->joined != NULL && result == 0 ? tidei_call_capture_open(slot) : tidei_clock_ticks(tsc);
    part->correlation = 0;
    part->result = result;
    part->function = function;
    slot->count = 1;
}

static inline __attribute__((always_inline)) void
calls_enter(struct tidei_call_capture *slot, bool tsc)
{
    if (slot->count == 0) {
        slot->first.start = tidei_clock_ticks(tsc);
    } else {
        tidei_call_capture_close(slot);
        slot->entered = tidei_clock_ticks(tsc);
    }
}

/*
 * With MEMORY2 on, CUPTI 13.0 crashes when an imported pointer is freed (seen on an H200). So MEMORY2 is switched off
 * for good before the first import.
 */
static __attribute__((noinline)) void
calls_import(uint64_t now)
{
    uint64_t none = 0;

    /*
     * Sequentially consistent, as in calls_enable_memory: one of the two sees the other, and MEMORY2 is off in the end.
     */
    atomic_compare_exchange_strong(&calls_imported, &none, now);
    if (atomic_load(&calls_memory))
        calls_cupti->activity_disable(CUPTI_ACTIVITY_KIND_MEMORY2);
}

/*
 * Called by CUPTI on the calling thread, at the beginning and the end of each call. A runtime function makes driver
 * calls. If both are followed, only the outer one counts: CUPTI's records of memory have its correlation number.
 */
static inline __attribute__((always_inline)) void
calls_called(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const CUpti_CallbackData *data, bool tsc)
{
    const uint8_t *functions = calls_driver_functions;
    bool memory = atomic_load_explicit(&calls_memory, memory_order_relaxed);
    struct tidei_thread *thread = memory ? tidei_thread_get() : tidei_thread;
    struct tidei_call_capture *slot;

    if (domain != CUPTI_CB_DOMAIN_DRIVER_API) {
        if (domain != CUPTI_CB_DOMAIN_RUNTIME_API)
            return; /* not a domain that this file follows */
        functions = calls_runtime_functions;
    } else if (cbid == CUPTI_DRIVER_TRACE_CBID_cuMemPoolImportPointer) {
        calls_import(tidei_clock_ticks(tsc));
        return;
    }
    if (cbid >= CALLS_MOST_CBIDS || functions[cbid] == 0)
        return;
    if (__builtin_expect(thread == NULL, 0)) { /* no host memory */
        atomic_fetch_add_explicit(&calls_overflown, data->callbackSite == CUPTI_API_ENTER, memory_order_relaxed);
        return;
    }
    slot = tidei_call_capture(thread);
    if (slot->armed == 0 && !memory)
        return;
    if (slot->generation != atomic_load_explicit(&calls_generation, memory_order_relaxed)) {
        slot->generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
        slot->depth = 0;
    }
    if (data->callbackSite == CUPTI_API_ENTER) {
        if (slot->depth++ == 0)
            calls_enter(slot, tsc);
    } else if (slot->depth != 0 && --slot->depth == 0) {
        calls_end(slot, functions[cbid], data, memory, tsc);
    }
}

static void
calls_callback_tsc(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
    TIDEI_INSIDE(NULL);

    (void)userdata;
    calls_called(domain, cbid, data, true);
}

static void
calls_callback_monotonic(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
    TIDEI_INSIDE(NULL);

    (void)userdata;
    calls_called(domain, cbid, data, false);
}

/* CUPTI requests a buffer about every 6,000 events of a thread. From 64 KiB to 8 MiB the size made no difference. */
#define BUFFER_BYTES  ((size_t)1 << 20)
#define BUFFER_SPARES 64

/* A lock of their own, so that a thread that allocates never waits for one that reads a buffer. */
static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *buffer_spares[BUFFER_SPARES];
static size_t buffer_count;

/* CUPTI's buffer request, on an application thread. *buffer is NULL without host memory. */
static void
buffer_take(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    TIDEI_INSIDE(NULL);

    *buffer = NULL;
    pthread_mutex_lock(&buffer_lock);
    if (buffer_count > 0)
        *buffer = buffer_spares[--buffer_count];
    pthread_mutex_unlock(&buffer_lock);
    if (*buffer == NULL && posix_memalign((void **)buffer, 64, BUFFER_BYTES) == 0)
        memset(*buffer, 0, BUFFER_BYTES);
    *bytes = *buffer != NULL ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static void
buffer_give_back(uint8_t *buffer)
{
    /* Zeroed here, so that CUPTI need not do it on an application thread. */
    memset(buffer, 0, BUFFER_BYTES);
    pthread_mutex_lock(&buffer_lock);
    if (buffer_count < BUFFER_SPARES) {
        buffer_spares[buffer_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&buffer_lock);
    free(buffer);
}

/* Called by CUPTI's thread, or by the one that flushes. No lock is held while CUPTI is called. */
static void
calls_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    struct tidei_device_event events[CALLS_EVENTS];
    CUpti_Activity *record = NULL;
    size_t count = 0, dropped = 0;

    (void)bytes;
    while (valid > 0 && calls_cupti->activity_get_next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (tidei_activity_parse(record, calls_cupti->version, &events[count]))
            count++;
        if (count == CALLS_EVENTS) {
            tidei_cupti_queue_put_events(events, count, 0);
            count = 0;
        }
    }
    if (calls_cupti->activity_get_dropped(context, stream, &dropped) != CUPTI_SUCCESS)
        dropped = 0;
    tidei_cupti_queue_put_events(events, count, dropped);
    buffer_give_back(buffer);
}

static enum tide_status
calls_error(const char *function, CUptiResult result)
{
    const char *text = "unknown";

    calls_cupti->get_result_string(result, &text);
    return tide_error_set(TIDE_EUNSUPPORTED, "cupti: %s: %s", function, text);
}

/* CUPTI allows one subscriber: if there is another one, make no further call. */
static enum tide_status
calls_subscribe(bool tsc)
{
    CUpti_CallbackFunc callback = tsc ? calls_callback_tsc : calls_callback_monotonic;
    char holder[128] = "";
    CUptiResult result;

    if (calls_cupti->subscribe_v2 != NULL) {
        CUpti_SubscriberParams params = { .structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                          .subscriberName = "tidemark",
                                          .oldSubscriberName = holder,
                                          .oldSubscriberSize = sizeof(holder) };

        result = calls_cupti->subscribe_v2(&calls_subscriber, callback, NULL, &params);
    } else {
        result = calls_cupti->subscribe(&calls_subscriber, callback, NULL);
    }
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return tide_error_set(TIDE_EUNSUPPORTED, "cupti: another tool has it%s%s", holder[0] != '\0' ? ": " : "",
                              holder);
    return result == CUPTI_SUCCESS ? TIDE_OK : calls_error("cuptiSubscribe", result);
}

/* Follow the functions of a domain. An older CUPTI refuses numbers that it does not know, which is harmless. */
static bool
calls_follow(CUpti_CallbackDomain domain, const uint8_t *functions, uint32_t enable)
{
    bool one = false;

    for (CUpti_CallbackId cbid = 1; cbid < CALLS_MOST_CBIDS; cbid++) {
        if (functions[cbid] != 0)
            one |= calls_cupti->enable_callback(enable, calls_subscriber, domain, cbid) == CUPTI_SUCCESS;
    }
    return one;
}

static enum tide_status
calls_enable(void)
{
    atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
    if (!calls_follow(CUPTI_CB_DOMAIN_DRIVER_API, calls_driver_functions, 1))
        return tide_error_set(TIDE_EUNSUPPORTED, "cupti: cuptiEnableCallback follows no function");
    calls_cupti->enable_callback(1, calls_subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                 CUPTI_DRIVER_TRACE_CBID_cuMemPoolImportPointer);
    return TIDE_OK;
}

static void
calls_disable_memory(void)
{
    atomic_store_explicit(&calls_memory, false, memory_order_relaxed);
    calls_follow(CUPTI_CB_DOMAIN_RUNTIME_API, calls_runtime_functions, 0);
    calls_cupti->activity_disable(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
    calls_cupti->activity_disable(CUPTI_ACTIVITY_KIND_MEMORY2);
}

static enum tide_status
calls_enable_memory(void)
{
    uint8_t zeroed = 1;
    size_t bytes = sizeof(zeroed);
    CUptiResult result = calls_cupti->activity_register_timestamp(calls_timestamp);

    if (result != CUPTI_SUCCESS)
        return calls_error("cuptiActivityRegisterTimestampCallback", result);
    if (!calls_registered) {
        calls_cupti->activity_set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &zeroed);
        result = calls_cupti->activity_register_callbacks(buffer_take, calls_buffer_completed);
        if (result != CUPTI_SUCCESS)
            return calls_error("cuptiActivityRegisterCallbacks", result);
        calls_registered = true;
    }
    /* Follow calls before events, so that each event has its call. A call that has already begun never ends. */
    atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
    atomic_store(&calls_memory, true);
    calls_follow(CUPTI_CB_DOMAIN_RUNTIME_API, calls_runtime_functions, 1);
    result = calls_cupti->activity_enable(CUPTI_ACTIVITY_KIND_MEMORY2);
    if (result == CUPTI_SUCCESS)
        result = calls_cupti->activity_enable(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
    if (result == CUPTI_SUCCESS && atomic_load(&calls_imported) == 0)
        return TIDE_OK;
    calls_disable_memory();
    if (result == CUPTI_SUCCESS)
        return tide_error_set(TIDE_EUNSUPPORTED, "cupti: " TIDEI_CALLS_IMPORTED);
    return calls_error("cuptiActivityEnable", result);
}

static void
calls_disable(void)
{
    calls_follow(CUPTI_CB_DOMAIN_DRIVER_API, calls_driver_functions, 0);
    calls_cupti->enable_callback(0, calls_subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                 CUPTI_DRIVER_TRACE_CBID_cuMemPoolImportPointer);
    calls_cupti->unsubscribe(calls_subscriber);
}

/*
 * The process exits with traces open: collect CUPTI's events of memory now. This handler is registered after CUPTI was
 * loaded, so it runs before CUPTI's own. The session completes the traces later. Calls are still followed: CUPTI 13.0
 * calls back until the driver ends (seen on an H200).
 */
static void
calls_at_exit(void)
{
    if (calls_pid != getpid())
        return;
    pthread_mutex_lock(&calls_control);
    if (calls_memory_users > 0) {
        /* Read the clock before the flush: CUPTI then hands over all events up to that time. */
        atomic_store_explicit(&calls_exited, tidei_clock_ticks(calls_tsc), memory_order_release);
        calls_cupti->activity_flush_all(1);
        calls_disable_memory();
    }
    calls_ended = true;
    pthread_mutex_unlock(&calls_control);
}

/* The first user switches CUPTI on. calls_control is held. */
static enum tide_status
calls_begin(bool tsc)
{
    bool is_first = calls_pid == 0;
    enum tide_status status;

    /* Before the first use of CUPTI, so that a child forked from here on leaves CUPTI alone. */
    calls_pid = getpid();
    calls_tsc = tsc;
    status = tidei_cupti_get(&calls_cupti);
    if (status == TIDE_OK)
        status = calls_subscribe(tsc);
    if (status == TIDE_OK) {
        status = calls_enable();
        if (status != TIDE_OK)
            calls_disable();
    }
    if (status == TIDE_OK && is_first)
        atexit(calls_at_exit);
    else if (status != TIDE_OK && is_first)
        calls_pid = 0;
    return status;
}

/* The trace wants events of memory, too. calls_control is held. */
static void
calls_begin_memory(struct tidei_cupti_queue *queue)
{
    queue->memory = calls_memory_users > 0 || calls_enable_memory() == TIDE_OK;
    if (queue->memory)
        calls_memory_users++;
}

static enum tide_status
calls_attach(struct tidei_cupti_queue *queue, bool memory)
{
    enum tide_status status = TIDE_OK;
    sigset_t all, before;

    /* A child of a process that has used CUPTI, or was about to, does not use it. */
    if (calls_pid != 0 && calls_pid != getpid())
        return tide_error_set(TIDE_EUNSUPPORTED, "cupti: not in a child of fork() whose parent has used it");
    /* CUPTI starts threads, which block what this one blocks: the program's signals are not theirs. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&calls_control);
    TIDEI_TEST_POINT("calls.locked");
    if (calls_ended)
        status = tide_error_set(TIDE_EUNSUPPORTED, "cupti: the process exits");
    else if (calls_users > 0 && !tidei_cupti_queue_has_clock(queue->tsc))
        status = tide_error_set(TIDE_EUNSUPPORTED, "cupti: another trace of this process has another clock");
    else if (calls_users == 0)
        status = calls_begin(queue->tsc);
    if (status == TIDE_OK) {
        calls_users++;
        if (memory)
            calls_begin_memory(queue);
        tidei_cupti_queue_open(queue);
    }
    pthread_mutex_unlock(&calls_control);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void
tidei_calls_flush(void)
{
    if (calls_pid != getpid())
        return;
    pthread_mutex_lock(&calls_control);
    if (!calls_ended && calls_memory_users > 0)
        calls_cupti->activity_flush_all(0);
    pthread_mutex_unlock(&calls_control);
}

void
tidei_calls_detach(struct tidei_cupti_queue *queue)
{
    if (calls_pid != getpid())
        return;
    pthread_mutex_lock(&calls_control);
    if (!calls_ended && queue->memory)
        calls_cupti->activity_flush_all(1);
    tidei_cupti_queue_shut(queue);
    calls_users--;
    if (queue->memory && --calls_memory_users == 0 && !calls_ended)
        calls_disable_memory();
    if (calls_users == 0 && !calls_ended)
        calls_disable();
    pthread_mutex_unlock(&calls_control);
}

#else

/* In a build without CUPTI's headers nothing is ever attached. */
static enum tide_status
calls_attach(struct tidei_cupti_queue *queue, bool memory)
{
    (void)queue;
    (void)memory;
    return tide_error_set(TIDE_EUNSUPPORTED, "cupti: this build has none (configure found no cupti.h)");
}

void
tidei_calls_flush(void)
{
}

void
tidei_calls_detach(struct tidei_cupti_queue *queue)
{
    (void)queue;
}

#endif

enum tide_status
tidei_calls_attach(struct tidei_cupti_queue *queue, const struct tidei_session *session, bool tsc, bool memory)
{
    memset(queue, 0, sizeof(*queue));
    pthread_mutex_init(&queue->lock, NULL);
    queue->session = session;
    queue->tsc = tsc;
    return calls_attach(queue, memory);
}

void
tidei_calls_forked(void)
{
    atomic_store_explicit(&calls_memory, false, memory_order_relaxed);
    /*
     * Its holder may not exist in this process. A child takes it only if the parent had not begun to use CUPTI
     * (calls_pid is set first, and is 0): then all that it guards still has its initial values.
     */
    pthread_mutex_init(&calls_control, NULL);
}

uint64_t
tidei_calls_imported(void)
{
    return atomic_load_explicit(&calls_imported, memory_order_relaxed);
}

uint64_t
tidei_calls_exited(void)
{
    return atomic_load_explicit(&calls_exited, memory_order_acquire);
}

uint64_t
tidei_calls_overflown(void)
{
    return atomic_load_explicit(&calls_overflown, memory_order_relaxed);
}
