/* CUPTI's MEMORY2 records switched on by hand, with a consumer that counts them and does nothing else. */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "bench/gpu.h"
#include "src/cupti-table.h"

#ifdef HAVE_CUPTI_H

#define MEMORY2_BUFFER ((size_t)8 << 20)

static const struct tidei_cupti *memory2_cupti;
static atomic_ullong memory2_records;

static void CUPTIAPI
memory2_requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(8, MEMORY2_BUFFER);
    *bytes = *buffer != NULL ? MEMORY2_BUFFER : 0;
    *most_records = 0;
}

static void CUPTIAPI
memory2_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;

    (void)context;
    (void)stream;
    (void)bytes;
    while (memory2_cupti->activity_get_next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        atomic_fetch_add_explicit(&memory2_records, 1, memory_order_relaxed);
    free(buffer);
}

const char *
gpu_memory2_start(void)
{
    if (tidei_cupti_get(&memory2_cupti) != TIDE_OK)
        return tide_error_text();
    if (memory2_cupti->activity_register_callbacks(memory2_requested, memory2_completed) != CUPTI_SUCCESS ||
        memory2_cupti->activity_enable(CUPTI_ACTIVITY_KIND_MEMORY2) != CUPTI_SUCCESS)
        return "cupti: MEMORY2 records cannot be switched on";
    return NULL;
}

unsigned long long
gpu_memory2_finish(void)
{
    memory2_cupti->activity_flush_all(1);
    return atomic_load_explicit(&memory2_records, memory_order_relaxed);
}

#else

const char *
gpu_memory2_start(void)
{
    return "this build has no CUPTI";
}

unsigned long long
gpu_memory2_finish(void)
{
    return 0;
}

#endif
