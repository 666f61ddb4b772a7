/* The callbacks of the fake CUPTI: it calls the tool's function at the begin and the end of subscribed calls. */
#include "tests/fake-cuda/cupti.h"

#include <stdlib.h>

#define CALLBACK_NUMBERS CUPTI_DRIVER_TRACE_CBID_SIZE

static CUpti_CallbackFunc callback_function; /* stored with release, loaded with acquire; NULL: no subscriber */
static void *callback_userdata;              /* written before the function */
static _Atomic uint8_t callback_wanted[CALLBACK_NUMBERS];

void
fake_cupti_set_callback(CUpti_CallbackFunc function, void *userdata)
{
    callback_userdata = userdata;
    __atomic_store_n(&callback_function, function, __ATOMIC_RELEASE);
}

bool
fake_cupti_calls_back(int number)
{
    return number > 0 && number < (int)CALLBACK_NUMBERS && callback_wanted[number] != 0;
}

void
fake_cupti_call_back(int number, CUpti_ApiCallbackSite site, uint32_t correlation, int *result)
{
    CUpti_CallbackFunc function = __atomic_load_n(&callback_function, __ATOMIC_ACQUIRE);
    uint64_t data = 0;
    CUpti_CallbackData info = { .callbackSite = site,
                                .functionName = fake_cupti_symbol((CUpti_CallbackId)number),
                                .functionReturnValue = result,
                                .correlationId = correlation,
                                .correlationData = &data };

    if (function == NULL)
        return;
    if (site == CUPTI_API_ENTER && getenv("FAKE_CUPTI_OTHER_DOMAIN") != NULL)
        function(callback_userdata, CUPTI_CB_DOMAIN_RESOURCE, (CUpti_CallbackId)number, &info);
    function(callback_userdata, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)number, &info);
}

/* Callbacks of the runtime API are never called. */
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                    CUpti_CallbackId number)
{
    if (subscriber == NULL || (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API))
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
        return CUPTI_SUCCESS;
    if (number == 0 || number >= CALLBACK_NUMBERS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    callback_wanted[number] = enable != 0;
    return CUPTI_SUCCESS;
}
