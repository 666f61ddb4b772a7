/* Collects CUPTI's records of the driver's memory calls. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cupti-table.h"
#include "resource.h"
#include "trace/calls.h"
#include "trace/clock.h"

#ifdef HAVE_CUPTI_H

/* CUPTI asks for a buffer about every 25,000 calls. */
#define CALLS_BUFFER_BYTES ((size_t)1 << 20)
#define CALLS_SPARES       4

/* Numbers of functions that are newer than the headers that this was built with. */
#define CALLS_LATER_CBIDS 256

/* The calls that allocate and free, as cupti_driver_cbid.h numbers them. */
static const struct {
    CUpti_CallbackId cbid;
    const char *function;
} calls_of_interest[] = {
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync_ptsz" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync, "cuMemAllocAsync" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz, "cuMemAllocAsync_ptsz" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync, "cuMemFreeAsync" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz, "cuMemFreeAsync_ptsz" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, "cuMemAlloc_v2" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2, "cuMemAllocPitch_v2" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged, "cuMemAllocManaged" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, "cuMemFree_v2" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2, "cuMemAllocHost_v2" },
    { CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost, "cuMemFreeHost" },
};

#define CALLS_OF_INTEREST (sizeof(calls_of_interest) / sizeof(calls_of_interest[0]))

/* The collector. calls_lock is never held across a call of CUPTI that may call back. */
static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tidei_calls_inbox *calls_inboxes;
static uint8_t *calls_spares[CALLS_SPARES];
static size_t calls_spare_count;

/* Attaching and detaching, one at a time. */
static pthread_mutex_t calls_control = PTHREAD_MUTEX_INITIALIZER;
static const struct tidei_cupti *calls_cupti;
static CUpti_SubscriberHandle calls_subscriber;
static unsigned calls_users;
static pid_t calls_pid;
static bool calls_registered; /* callbacks are registered once in a process */

static uint64_t
calls_timestamp_tsc(void)
{
    return tidei_clock_ticks(true);
}

static uint64_t
calls_timestamp_monotonic(void)
{
    return tidei_clock_ticks(false);
}

/* Nothing is subscribed to: the subscription only keeps others out. */
static void
calls_ignore(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *data)
{
    (void)userdata;
    (void)domain;
    (void)cbid;
    (void)data;
}

static void
calls_buffer_requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = NULL;
    pthread_mutex_lock(&calls_lock);
    if (calls_spare_count > 0)
        *buffer = calls_spares[--calls_spare_count];
    pthread_mutex_unlock(&calls_lock);
    if (*buffer == NULL && posix_memalign((void **)buffer, 64, CALLS_BUFFER_BYTES) == 0)
        memset(*buffer, 0, CALLS_BUFFER_BYTES);
    *bytes = *buffer != NULL ? CALLS_BUFFER_BYTES : 0;
    *most_records = 0;
}

/* Zeroed here, on CUPTI's thread, and not by CUPTI on the thread that allocates. */
static void
calls_buffer_spare(uint8_t *buffer)
{
    memset(buffer, 0, CALLS_BUFFER_BYTES);
    pthread_mutex_lock(&calls_lock);
    if (calls_spare_count < CALLS_SPARES) {
        calls_spares[calls_spare_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&calls_lock);
    free(buffer);
}

static const char *
calls_function(CUpti_CallbackId cbid)
{
    for (size_t i = 0; i < CALLS_OF_INTEREST; i++) {
        if (calls_of_interest[i].cbid == cbid)
            return calls_of_interest[i].function;
    }
    return NULL;
}

static void
calls_put(struct tidei_calls_inbox *inbox, const struct tidei_call *call)
{
    pthread_mutex_lock(&inbox->lock);
    if (inbox->count == inbox->capacity) {
        size_t larger = inbox->capacity == 0 ? 4096 : inbox->capacity * 2;
        struct tidei_call *moved = realloc(inbox->items, larger * sizeof(*moved));

        if (moved != NULL) {
            inbox->items = moved;
            inbox->capacity = larger;
        }
    }
    if (inbox->count < inbox->capacity)
        inbox->items[inbox->count++] = *call;
    else
        inbox->dropped++;
    pthread_mutex_unlock(&inbox->lock);
}

/* calls_lock is held: no inbox goes while records are handed out. */
static void
calls_hand_out(const CUpti_ActivityAPI *record)
{
    struct tidei_call call = { .start = record->start,
                               .end = record->end,
                               .function = calls_function(record->cbid),
                               .os_tid = record->threadId,
                               .result = (int32_t)record->returnValue };

    if (call.function == NULL || call.start == 0)
        return;
    for (struct tidei_calls_inbox *inbox = calls_inboxes; inbox != NULL; inbox = inbox->next)
        calls_put(inbox, &call);
}

static void
calls_count_dropped(CUcontext context, uint32_t stream)
{
    size_t dropped = 0;

    if (calls_cupti->activity_get_dropped(context, stream, &dropped) != CUPTI_SUCCESS || dropped == 0)
        return;
    pthread_mutex_lock(&calls_lock);
    for (struct tidei_calls_inbox *inbox = calls_inboxes; inbox != NULL; inbox = inbox->next) {
        pthread_mutex_lock(&inbox->lock);
        inbox->dropped += dropped;
        pthread_mutex_unlock(&inbox->lock);
    }
    pthread_mutex_unlock(&calls_lock);
}

static void
calls_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    CUpti_Activity *record = NULL;

    (void)bytes;
    pthread_mutex_lock(&calls_lock);
    while (valid > 0 && calls_cupti->activity_get_next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER)
            calls_hand_out((const CUpti_ActivityAPI *)record);
    }
    pthread_mutex_unlock(&calls_lock);
    calls_count_dropped(context, stream);
    calls_buffer_spare(buffer);
}

static enum tide_status
calls_error(const char *function, CUptiResult result)
{
    const char *text = "unknown";

    calls_cupti->get_result_string(result, &text);
    return tide_error_set(TIDE_EUNSUPPORTED, "cupti: %s: %s", function, text);
}

/* One subscriber only: where there is another, no further call is made. */
static enum tide_status
calls_subscribe(void)
{
    char holder[128] = "";
    CUptiResult result;

    if (calls_cupti->subscribe_v2 != NULL) {
        CUpti_SubscriberParams params = { .structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                          .subscriberName = "tidemark",
                                          .oldSubscriberName = holder,
                                          .oldSubscriberSize = sizeof(holder) };

        result = calls_cupti->subscribe_v2(&calls_subscriber, calls_ignore, NULL, &params);
    } else {
        result = calls_cupti->subscribe(&calls_subscriber, calls_ignore, NULL);
    }
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return tide_error_set(TIDE_EUNSUPPORTED, "cupti: another tool has it%s%s", holder[0] != '\0' ? ": " : "",
                              holder);
    return result == CUPTI_SUCCESS ? TIDE_OK : calls_error("cuptiSubscribe", result);
}

/*
 * All calls of the driver are switched on, then all but ours off again. Switching on ours alone would be shorter, and
 * works only where no context exists yet: with one, CUPTI 13.0 accepts it and delivers nothing (seen on an H200).
 * Numbers that this library does not know are refused, which is fine.
 */
static void
calls_filter(void)
{
    for (CUpti_CallbackId cbid = 1; cbid < CUPTI_DRIVER_TRACE_CBID_SIZE + CALLS_LATER_CBIDS; cbid++) {
        if (calls_function(cbid) == NULL)
            calls_cupti->activity_enable_driver_api(cbid, 0);
    }
}

static enum tide_status
calls_enable(bool tsc)
{
    uint8_t zeroed = 1;
    size_t bytes = sizeof(zeroed);
    CUptiResult result;

    result = calls_cupti->activity_register_timestamp(tsc ? calls_timestamp_tsc : calls_timestamp_monotonic);
    if (result != CUPTI_SUCCESS)
        return calls_error("cuptiActivityRegisterTimestampCallback", result);
    result = calls_cupti->set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    if (result != CUPTI_SUCCESS)
        return calls_error("cuptiSetThreadIdType", result);
    if (!calls_registered) {
        calls_cupti->activity_set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &zeroed);
        result = calls_cupti->activity_register_callbacks(calls_buffer_requested, calls_buffer_completed);
        if (result != CUPTI_SUCCESS)
            return calls_error("cuptiActivityRegisterCallbacks", result);
        calls_registered = true;
    }
    result = calls_cupti->activity_enable(CUPTI_ACTIVITY_KIND_DRIVER);
    if (result != CUPTI_SUCCESS)
        return calls_error("cuptiActivityEnable", result);
    calls_filter();
    return TIDE_OK;
}

static void
calls_disable(void)
{
    calls_cupti->activity_disable(CUPTI_ACTIVITY_KIND_DRIVER);
    calls_cupti->unsubscribe(calls_subscriber);
}

/* The first user switches CUPTI on. calls_control is held. */
static enum tide_status
calls_begin(bool tsc)
{
    enum tide_status status = tidei_cupti_get(&calls_cupti);

    if (status == TIDE_OK)
        status = calls_subscribe();
    if (status != TIDE_OK)
        return status;
    status = calls_enable(tsc);
    if (status != TIDE_OK)
        calls_disable();
    else
        calls_pid = getpid();
    return status;
}

enum tide_status
tidei_calls_attach(struct tidei_calls_inbox *inbox, bool tsc)
{
    enum tide_status status = TIDE_OK;

    memset(inbox, 0, sizeof(*inbox));
    pthread_mutex_init(&inbox->lock, NULL);
    inbox->tsc = tsc;
    pthread_mutex_lock(&calls_control);
    if (calls_pid != 0 && calls_pid != getpid())
        status = tide_error_set(TIDE_EUNSUPPORTED, "cupti: not in a child of fork() whose parent has used it");
    else if (calls_users > 0 && calls_inboxes->tsc != tsc)
        status = tide_error_set(TIDE_EUNSUPPORTED, "cupti: another trace of this process has another clock");
    else if (calls_users == 0)
        status = calls_begin(tsc);
    if (status == TIDE_OK) {
        calls_users++;
        pthread_mutex_lock(&calls_lock);
        inbox->next = calls_inboxes;
        calls_inboxes = inbox;
        pthread_mutex_unlock(&calls_lock);
    }
    pthread_mutex_unlock(&calls_control);
    return status;
}

void
tidei_calls_flush(void)
{
    if (calls_pid == getpid())
        calls_cupti->activity_flush_all(0);
}

void
tidei_calls_detach(struct tidei_calls_inbox *inbox)
{
    struct tidei_calls_inbox **link = &calls_inboxes;

    pthread_mutex_lock(&calls_control);
    if (calls_pid == getpid())
        calls_cupti->activity_flush_all(1);
    pthread_mutex_lock(&calls_lock);
    while (*link != inbox)
        link = &(*link)->next;
    *link = inbox->next;
    pthread_mutex_unlock(&calls_lock);
    if (--calls_users == 0 && calls_pid == getpid())
        calls_disable();
    pthread_mutex_unlock(&calls_control);
}

#else

enum tide_status
tidei_calls_attach(struct tidei_calls_inbox *inbox, bool tsc)
{
    memset(inbox, 0, sizeof(*inbox));
    pthread_mutex_init(&inbox->lock, NULL);
    inbox->tsc = tsc;
    return tide_error_set(TIDE_EUNSUPPORTED, "cupti: this build has none (configure found no cupti.h)");
}

void
tidei_calls_detach(struct tidei_calls_inbox *inbox)
{
    (void)inbox;
}

void
tidei_calls_flush(void)
{
}

#endif
