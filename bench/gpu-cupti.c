/* Enables CUPTI directly: with empty callbacks, or with MEMORY2 records that nobody reads. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "bench/gpu.h"
#include "src/cuda/cupti-table.h"

#ifdef HAVE_CUPTI_H

/*
 * The least that records cost an allocating thread: buffers are allocated, zeroed and resident before the first call,
 * and zeroed again on CUPTI's own thread, which does not read the records. The clock is the cheapest one.
 */
#define CUPTI_BUFFER  ((size_t)1 << 20)
#define CUPTI_BUFFERS 64

static const struct tidei_cupti *cupti_table;
static CUpti_SubscriberHandle cupti_subscriber;
static atomic_ullong cupti_bytes;
static pthread_mutex_t cupti_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *cupti_spares[CUPTI_BUFFERS];
static unsigned cupti_spare_count;
static atomic_uint cupti_fresh; /* buffers that had to be allocated during the measurement */

static uint8_t *
cupti_buffer_new(void)
{
    uint8_t *buffer = aligned_alloc(64, CUPTI_BUFFER);

    if (buffer != NULL)
        memset(buffer, 0, CUPTI_BUFFER);
    return buffer;
}

static void CUPTIAPI
cupti_requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = NULL;
    pthread_mutex_lock(&cupti_lock);
    if (cupti_spare_count > 0)
        *buffer = cupti_spares[--cupti_spare_count];
    pthread_mutex_unlock(&cupti_lock);
    if (*buffer == NULL) {
        atomic_fetch_add_explicit(&cupti_fresh, 1, memory_order_relaxed); /* relaxed: only a figure, like the bytes */
        *buffer = cupti_buffer_new();
    }
    *bytes = *buffer != NULL ? CUPTI_BUFFER : 0;
    *most_records = 0;
}

static void CUPTIAPI
cupti_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
    (void)context;
    (void)stream;
    (void)bytes;
    atomic_fetch_add_explicit(&cupti_bytes, valid_bytes, memory_order_relaxed);
    memset(buffer, 0, valid_bytes);
    pthread_mutex_lock(&cupti_lock);
    if (cupti_spare_count < CUPTI_BUFFERS) {
        cupti_spares[cupti_spare_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&cupti_lock);
    free(buffer);
}

#if defined(__x86_64__)
static uint64_t CUPTIAPI
cupti_ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#endif

static void CUPTIAPI
cupti_called(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId function, const void *data)
{
    (void)userdata;
    (void)domain;
    (void)function;
    (void)data;
}

/* Switch the callbacks of the two measured functions on or off. */
static bool
cupti_follow(uint32_t enable)
{
    return cupti_table->enable_callback(enable, cupti_subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync) == CUPTI_SUCCESS &&
           cupti_table->enable_callback(enable, cupti_subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync) == CUPTI_SUCCESS;
}

static const char *
cupti_call_back(void)
{
    if (cupti_subscriber == NULL && cupti_table->subscribe(&cupti_subscriber, cupti_called, NULL) != CUPTI_SUCCESS)
        return "cupti: another tool has it";
    return cupti_follow(1) ? NULL : "cupti: callbacks cannot be switched on";
}

static const char *
cupti_record(void)
{
    uint8_t zeroed = 1;
    size_t bytes = sizeof(zeroed);

    while (cupti_spare_count < CUPTI_BUFFERS && (cupti_spares[cupti_spare_count] = cupti_buffer_new()) != NULL)
        cupti_spare_count++;
#if defined(__x86_64__)
    cupti_table->activity_register_timestamp(cupti_ticks);
#endif
    cupti_table->activity_set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &zeroed);
    if (cupti_table->activity_register_callbacks(cupti_requested, cupti_completed) != CUPTI_SUCCESS ||
        cupti_table->activity_enable(CUPTI_ACTIVITY_KIND_MEMORY2) != CUPTI_SUCCESS)
        return "cupti: MEMORY2 records cannot be switched on";
    return NULL;
}

const char *
gpu_cupti_start(enum gpu_cupti what)
{
    if (tidei_cupti_get(&cupti_table) != TIDE_OK)
        return tide_error_text();
    return what == GPU_CUPTI_CALLBACKS ? cupti_call_back() : cupti_record();
}

void
gpu_cupti_stop(void)
{
    cupti_follow(0);
}

unsigned long long
gpu_cupti_finish(unsigned *fresh)
{
    cupti_table->activity_flush_all(1);
    *fresh = atomic_load_explicit(&cupti_fresh, memory_order_relaxed);
    return atomic_load_explicit(&cupti_bytes, memory_order_relaxed);
}

#else

const char *
gpu_cupti_start(enum gpu_cupti what)
{
    (void)what;
    return "this build has no CUPTI";
}

void
gpu_cupti_stop(void)
{
}

unsigned long long
gpu_cupti_finish(unsigned *fresh)
{
    *fresh = 0;
    return 0;
}

#endif
