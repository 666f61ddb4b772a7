/* Makes the streams of a replay where its memory comes from a CUDA device. */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/replay/report.h"
#include "viewer/replay/streams.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>
#include <dlfcn.h>

/* The driver's functions for streams, which the library does not offer: a program makes its streams itself. */
#define STREAMS_ENTRIES(X)                                                                                             \
    X(device_get, "cuDeviceGet", (CUdevice * device, int ordinal))                                                     \
    X(primary_context_retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                      \
    X(primary_context_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                      \
    X(context_push, "cuCtxPushCurrent_v2", (CUcontext context))                                                        \
    X(context_pop, "cuCtxPopCurrent_v2", (CUcontext * context))                                                        \
    X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned int flags))                                        \
    X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))

struct replay_driver {
    void *library;
    CUdevice device;
    CUcontext context;
    bool retained;
    bool entered; /* the thread that made the streams has the context current */
#define ENTRY(slot, name, parameters) CUresult(CUDAAPI *slot) parameters;
    STREAMS_ENTRIES(ENTRY)
#undef ENTRY
};

static int
streams_failed(struct replay_streams *streams, const char *what, int result)
{
    if (result != 0)
        snprintf(streams->failure, sizeof(streams->failure), "no streams on the device: %s: CUDA error %d", what,
                 result);
    else
        snprintf(streams->failure, sizeof(streams->failure), "no streams on the device: %s", what);
    return COMMAND_WRONG;
}

/* Find the functions. The bases have started the driver. Returns the name of one that is missing, or NULL. */
static const char *
streams_load(struct replay_driver *driver)
{
    driver->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver->library == NULL)
        return "libcuda.so.1";
#define ENTRY(slot, name, parameters)                                                                                  \
    *(void **)&driver->slot = dlsym(driver->library, name);                                                            \
    if (driver->slot == NULL)                                                                                          \
        return name;
    STREAMS_ENTRIES(ENTRY)
#undef ENTRY
    return NULL;
}

/* The context of the device is current. */
static int
streams_fill(struct replay_driver *driver, const uint64_t *recorded, struct replay_streams *out)
{
    CUresult result = CUDA_SUCCESS;
    CUstream stream;

    for (size_t i = 0; i < out->count && result == CUDA_SUCCESS; i++) {
        if (recorded[i] == 0)
            continue;
        /* As most programs make them: an order with stream 0 that was not recorded is none of the replay. */
        result = driver->stream_create(&stream, CU_STREAM_NON_BLOCKING);
        if (result == CUDA_SUCCESS)
            out->streams[i] = (tide_stream)stream;
    }
    return result == CUDA_SUCCESS ? COMMAND_FINE : streams_failed(out, "cuStreamCreate", (int)result);
}

static int
streams_create(int ordinal, const uint64_t *recorded, struct replay_streams *out)
{
    struct replay_driver *driver = out->driver;
    const char *missing = streams_load(driver);
    CUresult result;

    if (missing != NULL)
        return streams_failed(out, missing, 0);
    result = driver->device_get(&driver->device, ordinal);
    if (result == CUDA_SUCCESS)
        result = driver->primary_context_retain(&driver->context, driver->device);
    driver->retained = result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = driver->context_push(driver->context);
    if (result != CUDA_SUCCESS)
        return streams_failed(out, "its context", (int)result);
    driver->entered = true;
    return streams_fill(driver, recorded, out);
}

bool
replay_streams_enter(const struct replay_streams *streams)
{
    return streams->driver != NULL && streams->driver->context_push(streams->driver->context) == CUDA_SUCCESS;
}

void
replay_streams_leave(const struct replay_streams *streams)
{
    CUcontext left;

    (void)streams->driver->context_pop(&left);
}

void
replay_streams_finish(struct replay_streams *streams)
{
    struct replay_driver *driver = streams->driver;

    for (size_t i = 0; driver != NULL && i < streams->count; i++) {
        if (streams->streams[i] != 0)
            (void)driver->stream_destroy((CUstream)streams->streams[i]);
    }
    if (driver != NULL && driver->entered)
        replay_streams_leave(streams);
    if (driver != NULL && driver->retained)
        (void)driver->primary_context_release(driver->device);
    if (driver != NULL && driver->library != NULL)
        dlclose(driver->library);
    free(driver);
    free(streams->streams);
}

#else

bool
replay_streams_enter(const struct replay_streams *streams)
{
    (void)streams;
    return false;
}

void
replay_streams_leave(const struct replay_streams *streams)
{
    (void)streams;
}

void
replay_streams_finish(struct replay_streams *streams)
{
    free(streams->streams);
}

#endif

int
replay_streams_make(struct tide_resource *stack, const uint64_t *recorded, size_t count, struct replay_streams *out)
{
    out->streams = calloc(count + 1, sizeof(*out->streams));
    out->count = count;
    if (out->streams == NULL) {
        snprintf(out->failure, sizeof(out->failure), "no memory for the streams");
        return COMMAND_WRONG;
    }
#ifdef HAVE_CUDA_H
    int ordinal;

    if (replay_find_device(stack, &ordinal)) {
        out->driver = calloc(1, sizeof(*out->driver));
        return out->driver != NULL ? streams_create(ordinal, recorded, out) : streams_failed(out, "no memory", 0);
    }
#else
    (void)stack;
#endif
    for (size_t i = 0; i < count; i++)
        out->streams[i] = (tide_stream)recorded[i];
    return COMMAND_FINE;
}
