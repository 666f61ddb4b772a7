/* CUPTI's entry points, loaded at run time; nothing else in the code calls CUPTI. */
#ifndef TIDEI_CUDA_CUPTI_TABLE_H
#define TIDEI_CUDA_CUPTI_TABLE_H

#include "config.h"

#include <tidemark/status.h>

#ifdef HAVE_CUPTI_H

#include <cupti.h>

/* Optional entry points are NULL with an older CUPTI; all others are set. CUPTI requires subscribe to come first. */
struct tidei_cupti {
    uint32_t version; /* CUPTI_API_VERSION of the library */
    CUptiResult (*subscribe)(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userdata);
    CUptiResult (*subscribe_v2)(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userdata,
                                CUpti_SubscriberParams *params); /* optional: 13.0 */
    CUptiResult (*unsubscribe)(CUpti_SubscriberHandle subscriber);
    CUptiResult (*enable_callback)(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                   CUpti_CallbackId cbid);
    CUptiResult (*get_result_string)(CUptiResult result, const char **text);
    CUptiResult (*get_version)(uint32_t *version);
    CUptiResult (*activity_register_callbacks)(CUpti_BuffersCallbackRequestFunc requested,
                                               CUpti_BuffersCallbackCompleteFunc completed);
    CUptiResult (*activity_register_timestamp)(CUpti_TimestampCallbackFunc timestamp);
    CUptiResult (*activity_enable)(CUpti_ActivityKind kind);
    CUptiResult (*activity_disable)(CUpti_ActivityKind kind);
    CUptiResult (*activity_get_next_record)(uint8_t *buffer, size_t bytes, CUpti_Activity **record);
    CUptiResult (*activity_get_dropped)(CUcontext context, uint32_t stream, size_t *dropped);
    CUptiResult (*activity_set_attribute)(CUpti_ActivityAttribute attribute, size_t *bytes, void *value);
    CUptiResult (*activity_flush_all)(uint32_t flag);
};

/*
 * The table, loaded by the first call. A CUPTI that the process has loaded already is used; a second one is never
 * loaded. Errors: TIDE_EUNSUPPORTED (no library, or one older than 12.0); the text says which. Thread safety: any
 * thread.
 */
enum tide_status tidei_cupti_get(const struct tidei_cupti **out);

#endif
#endif
