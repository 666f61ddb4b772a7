/* CUPTI switched on by hand: callbacks that do nothing, or MEMORY2 records and a consumer that counts them. */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "bench/gpu.h"
#include "src/cupti-table.h"

#ifdef HAVE_CUPTI_H

#define CUPTI_BUFFER ((size_t)8 << 20)

static const struct tidei_cupti *cupti_table;
static atomic_ullong cupti_records;

static void CUPTIAPI
cupti_requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(8, CUPTI_BUFFER);
    *bytes = *buffer != NULL ? CUPTI_BUFFER : 0;
    *most_records = 0;
}

static void CUPTIAPI
cupti_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;

    (void)context;
    (void)stream;
    (void)bytes;
    while (cupti_table->activity_get_next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        atomic_fetch_add_explicit(&cupti_records, 1, memory_order_relaxed);
    free(buffer);
}

static void CUPTIAPI
cupti_called(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId function, const void *data)
{
    (void)userdata;
    (void)domain;
    (void)function;
    (void)data;
}

/* The two functions that are measured. */
static const char *
cupti_follow(void)
{
    CUpti_SubscriberHandle subscriber;

    if (cupti_table->subscribe(&subscriber, cupti_called, NULL) != CUPTI_SUCCESS ||
        cupti_table->enable_callback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync) != CUPTI_SUCCESS ||
        cupti_table->enable_callback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync) != CUPTI_SUCCESS)
        return "cupti: callbacks cannot be switched on";
    return NULL;
}

const char *
gpu_cupti_start(enum gpu_cupti what)
{
    if (tidei_cupti_get(&cupti_table) != TIDE_OK)
        return tide_error_text();
    if (what == GPU_CUPTI_CALLBACKS)
        return cupti_follow();
    if (cupti_table->activity_register_callbacks(cupti_requested, cupti_completed) != CUPTI_SUCCESS ||
        cupti_table->activity_enable(CUPTI_ACTIVITY_KIND_MEMORY2) != CUPTI_SUCCESS)
        return "cupti: MEMORY2 records cannot be switched on";
    return NULL;
}

unsigned long long
gpu_cupti_finish(void)
{
    cupti_table->activity_flush_all(1);
    return atomic_load_explicit(&cupti_records, memory_order_relaxed);
}

#else

const char *
gpu_cupti_start(enum gpu_cupti what)
{
    (void)what;
    return "this build has no CUPTI";
}

unsigned long long
gpu_cupti_finish(void)
{
    return 0;
}

#endif
