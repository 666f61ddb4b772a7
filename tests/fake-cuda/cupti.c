/* The fake CUPTI: its single subscriber, version and clock, and its answers about errors, contexts and streams. */
#include "tests/fake-cuda/cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t cupti_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_Subscriber_st {
    bool taken;
    char name[64];
} cupti_subscriber; /* guarded by cupti_lock */

static pthread_once_t cupti_once = PTHREAD_ONCE_INIT;
static bool (*cupti_has_context)(void); /* written in cupti_once */
static CUpti_TimestampCallbackFunc cupti_clock;

static void
cupti_find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void (*trace)(const struct fake_tracer *);
    void *symbol = library != NULL ? dlsym(library, FAKE_CUDA_TRACE) : NULL;

    if (symbol == NULL)
        return;
    memcpy(&trace, &symbol, sizeof(trace));
    symbol = dlsym(library, FAKE_CUDA_HAS_CONTEXT);
    memcpy(&cupti_has_context, &symbol, sizeof(symbol));
    trace(&fake_cupti_tracer);
}

bool
fake_cupti_listen(void)
{
    pthread_once(&cupti_once, cupti_find_driver);
    return cupti_has_context != NULL;
}

bool
fake_cupti_has_context(void)
{
    return fake_cupti_listen() && cupti_has_context();
}

uint32_t
fake_cupti_version(void)
{
    const char *text = getenv("FAKE_CUPTI_VERSION");

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : CUPTI_API_VERSION;
}

uint64_t
fake_cupti_now(void)
{
    CUpti_TimestampCallbackFunc clock = __atomic_load_n(&cupti_clock, __ATOMIC_ACQUIRE);
    struct timespec now;

    if (clock != NULL)
        return clock();
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
    if (clock == NULL)
        return CUPTI_ERROR_INVALID_PARAMETER;
    __atomic_store_n(&cupti_clock, clock, __ATOMIC_RELEASE);
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiGetTimestamp(uint64_t *out)
{
    *out = fake_cupti_now();
    return CUPTI_SUCCESS;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiGetVersion(uint32_t *version)
{
    *version = fake_cupti_version();
    return CUPTI_SUCCESS;
}

/* FAKE_CUPTI_SUBSCRIBED=name: another tool of that name has subscribed first. */
FAKE_EXPORT CUptiResult CUPTIAPI
cuptiSubscribe_v2(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *userdata,
                  CUpti_SubscriberParams *parameters)
{
    const char *other = getenv("FAKE_CUPTI_SUBSCRIBED");
    CUptiResult result = CUPTI_SUCCESS;

    if (out == NULL || (parameters != NULL && parameters->structSize == 0))
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!fake_cupti_listen())
        return CUPTI_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&cupti_lock);
    if (other == NULL && cupti_subscriber.taken)
        other = cupti_subscriber.name;
    if (other != NULL) {
        if (parameters != NULL && parameters->oldSubscriberName != NULL)
            snprintf(parameters->oldSubscriberName, parameters->oldSubscriberSize, "CUPTI for %s", other);
        result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    } else {
        cupti_subscriber.taken = true;
        fake_cupti_set_callback(callback, userdata);
        snprintf(cupti_subscriber.name, sizeof(cupti_subscriber.name), "%s",
                 parameters != NULL && parameters->subscriberName != NULL ? parameters->subscriberName : "unknown");
        *out = &cupti_subscriber;
    }
    pthread_mutex_unlock(&cupti_lock);
    return result;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiSubscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *userdata)
{
    return cuptiSubscribe_v2(out, callback, userdata, NULL);
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    CUptiResult result = subscriber == &cupti_subscriber ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;

    pthread_mutex_lock(&cupti_lock);
    if (subscriber == &cupti_subscriber) {
        cupti_subscriber.taken = false;
        fake_cupti_set_callback(NULL, NULL);
    }
    pthread_mutex_unlock(&cupti_lock);
    return result;
}

static const struct {
    CUptiResult result;
    const char *text;
} cupti_results[] = {
    { CUPTI_SUCCESS, "CUPTI_SUCCESS" },
    { CUPTI_ERROR_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER" },
    { CUPTI_ERROR_MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED" },
    { CUPTI_ERROR_NOT_COMPATIBLE, "CUPTI_ERROR_NOT_COMPATIBLE" },
    { CUPTI_ERROR_NOT_INITIALIZED, "CUPTI_ERROR_NOT_INITIALIZED" },
    { CUPTI_ERROR_INVALID_KIND, "CUPTI_ERROR_INVALID_KIND" },
    { CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" },
    { CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" },
    { CUPTI_ERROR_UNKNOWN, "CUPTI_ERROR_UNKNOWN" },
};

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiGetResultString(CUptiResult result, const char **text)
{
    for (size_t i = 0; i < sizeof(cupti_results) / sizeof(cupti_results[0]); i++) {
        if (cupti_results[i].result == result) {
            *text = cupti_results[i].text;
            return CUPTI_SUCCESS;
        }
    }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

FAKE_EXPORT CUptiResult CUPTIAPI
cuptiGetCallbackName(CUpti_CallbackDomain domain, CUpti_CallbackId number, const char **name)
{
    *name = domain == CUPTI_CB_DOMAIN_DRIVER_API ? fake_cupti_symbol(number) : NULL;
    return *name != NULL ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
