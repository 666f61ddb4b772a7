/* The entry and exit of every fake driver function: its state, the failures that tests inject, and CUPTI. */
#include "tests/fake-cuda/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_progress = PTHREAD_COND_INITIALIZER;

__thread bool fake_in_stream;

static struct fake_function *call_functions;
static const struct fake_tracer *call_tracer; /* stored with release, loaded with acquire */
static __thread struct fake_call *call_now;

void
fake_function_add(struct fake_function *function)
{
    function->next = call_functions;
    call_functions = function;
}

struct fake_function *
fake_functions(void)
{
    return call_functions;
}

FAKE_EXPORT void
fake_cuda_trace(const struct fake_tracer *tracer)
{
    __atomic_store_n(&call_tracer, tracer, __ATOMIC_RELEASE);
}

/* Behind "NAME:" in a list "NAME:1,NAME:2:3", at or behind `text`; NULL: the function is not there. */
static const char *
call_find(const char *text, const struct fake_function *function)
{
    size_t length = strlen(function->name);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, function->name, length) == 0 && text[length] == ':')
            return text + length + 1;
        text = strchr(text, ',');
        if (text != NULL)
            text++;
    }
    return NULL;
}

/*
 * FAKE_CUDA_FAIL="cuMemPoolCreate:999,cuInit:100:2": the function returns that result; with a third part only its
 * call of that number does, counted from 1.
 */
static CUresult
call_failure(struct fake_function *function)
{
    const char *text = getenv("FAKE_CUDA_FAIL");

    function->calls++;
    while ((text = call_find(text, function)) != NULL) {
        int result = 0;
        int nth = 0;

        if (sscanf(text, "%d:%d", &result, &nth) >= 1 && (nth == 0 || nth == function->calls))
            return (CUresult)result;
    }
    return CUDA_SUCCESS;
}

/* FAKE_CUDA_SLOW="cuMemUnmap:300,cuMemMap:20": each call of the function takes so many us longer, not asleep. */
static void
call_slow(const struct fake_function *function)
{
    const char *text = call_find(getenv("FAKE_CUDA_SLOW"), function);
    struct timespec now;
    int64_t ns, end_ns;

    if (text == NULL)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    for (end_ns = ns + atoi(text) * INT64_C(1000); ns < end_ns; ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

/* From now on all versions of a function wait for so many seconds before they do anything. False: there is none. */
FAKE_EXPORT bool
fake_cuda_wait(const char *name, int seconds)
{
    bool found = false;

    for (struct fake_function *function = call_functions; function != NULL; function = function->next) {
        if (strcmp(function->name, name) == 0) {
            __atomic_store_n(&function->wait_s, seconds, __ATOMIC_RELAXED);
            found = true;
        }
    }
    return found;
}

/* A call inside of another call belongs to the outer one. */
static void
call_trace_begin(struct fake_call *call)
{
    struct fake_function *function = call->function;
    int number;

    call->tracer = call->outer == NULL ? __atomic_load_n(&call_tracer, __ATOMIC_ACQUIRE) : NULL;
    if (call->tracer == NULL)
        return;
    number = __atomic_load_n(&function->number, __ATOMIC_RELAXED);
    if (number == 0) {
        number = call->tracer->number(function->symbol);
        __atomic_store_n(&function->number, number, __ATOMIC_RELAXED);
    }
    call->tracer->begin(number, &call->traced);
}

CUresult
fake_call_begin(struct fake_call *call, struct fake_function *function, enum fake_need need)
{
    int wait_s = __atomic_load_n(&function->wait_s, __ATOMIC_RELAXED);

    call->function = function;
    call->event_count = 0;
    call->outer = call_now;
    call->traced = (struct fake_traced_call){ 0 };
    call_trace_begin(call);
    if (wait_s != 0) /* sleep(0) is 60 us of the system's */
        sleep((unsigned)wait_s);
    pthread_mutex_lock(&fake_lock);
    call_now = call;
    if (fake_in_stream)
        return CUDA_ERROR_NOT_PERMITTED;
    if (need != FAKE_NEEDS_NOTHING && fake.gone)
        return CUDA_ERROR_DEINITIALIZED;
    if (need != FAKE_NEEDS_NOTHING && (!fake.initialized || fake.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    call_slow(function);
    return call_failure(function);
}

CUresult
fake_call_end(struct fake_call *call, CUresult result)
{
    int number = __atomic_load_n(&call->function->number, __ATOMIC_RELAXED);

    call_now = call->outer;
    pthread_mutex_unlock(&fake_lock);
    if (call->tracer == NULL)
        return result;
    for (size_t i = 0; i < call->event_count; i++)
        call->tracer->event(&call->traced, &call->events[i]);
    call->tracer->end(number, &call->traced, (int)result);
    return result;
}

/* A call inside of another one works for the outer one. */
bool
fake_call_is_per_thread(void)
{
    for (const struct fake_call *call = call_now; call != NULL; call = call->outer) {
        if (call->function->per_thread)
            return true;
    }
    return false;
}

void
fake_call_outside(void (*function)(void *), void *argument)
{
    struct fake_call *call = call_now;

    call_now = NULL;
    pthread_mutex_unlock(&fake_lock);
    function(argument);
    pthread_mutex_lock(&fake_lock);
    call_now = call;
}

void
fake_trace(const struct fake_event *event)
{
    struct fake_call *call = call_now;

    if (call != NULL && call->tracer != NULL && call->event_count < sizeof(call->events) / sizeof(call->events[0]))
        call->events[call->event_count++] = *event;
}
