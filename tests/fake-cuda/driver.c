/* Initializes the fake driver and names errors. */
#include "tests/fake-cuda/fake.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct fake_state fake;

/* A size in bytes, or in MiB or GiB if M or G follows. */
uint64_t
fake_environment_bytes(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    uint64_t value;

    if (text == NULL)
        return otherwise;
    value = strtoull(text, &end, 10);
    if (*end == 'M')
        value <<= 20;
    else if (*end == 'G')
        value <<= 30;
    return value;
}

/*
 * Runs before the handlers that the program registered earlier, and before all destructors, as with the real driver.
 * Afterwards every call fails.
 */
static void
driver_gone(void)
{
    pthread_mutex_lock(&fake_lock);
    fake.gone = true;
    pthread_mutex_unlock(&fake_lock);
}

/*
 * A child of fork() has none of the driver's threads, and each of its calls fails, as with the real driver, once the
 * parent has called cuInit. Another thread may hold the lock at the time of the fork; the child has nobody who would
 * release it. Nothing is locked before the fork: a handler that waits for this lock could wait for a thread which waits
 * for a lock of the library's that another handler holds.
 */
static void
driver_forked(void)
{
    pthread_mutex_init(&fake_lock, NULL);
    pthread_cond_init(&fake_progress, NULL);
    fake.forked = fake.initialized;
}

__attribute__((constructor)) static void
driver_watch_forks(void)
{
    pthread_atfork(NULL, NULL, driver_forked);
}

static void
driver_call_injection(void *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "InitializeInjection") : NULL;
    int (*initialize)(void);

    if (symbol == NULL)
        return;
    memcpy(&initialize, &symbol, sizeof(initialize));
    initialize();
}

/* As observed: on the thread that calls cuInit, once, before the driver can be called. */
static void
driver_inject(void)
{
    static bool done;
    char *path = getenv("CUDA_INJECTION64_PATH");

    if (path == NULL || done)
        return;
    done = true;
    fake_call_outside(driver_call_injection, path);
}

static CUresult
do_cuInit(unsigned int flags)
{
    if (fake.gone)
        return CUDA_ERROR_DEINITIALIZED;
    if (fake.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake.initialized)
        return CUDA_SUCCESS;
    driver_inject();
    fake.device_count = (int)fake_environment_bytes("FAKE_CUDA_DEVICES", 2);
    if (fake.device_count > FAKE_MOST_DEVICES)
        fake.device_count = FAKE_MOST_DEVICES;
    if (fake.device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    for (int i = 0; i < fake.device_count; i++) {
        fake.devices[i].total_bytes = fake_environment_bytes("FAKE_CUDA_MEMORY", 1024 * FAKE_MIB);
        fake.devices[i].others_bytes = fake_environment_bytes("FAKE_CUDA_OTHERS", 0);
        fake.devices[i].clear_ns_per_mib = fake_environment_bytes("FAKE_CUDA_CLEAR", 0);
        fake.devices[i].clear_misses = fake_environment_bytes("FAKE_CUDA_CLEAR_MISSES", 0);
    }
    atexit(driver_gone);
    fake.initialized = true;
    return CUDA_SUCCESS;
}

FAKE_API_EARLY(2000, cuInit, (unsigned int flags), (flags))

int
fake_driver_version(void)
{
    return (int)fake_environment_bytes("FAKE_CUDA_VERSION", 13000);
}

static CUresult
do_cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = fake_driver_version();
    return CUDA_SUCCESS;
}

FAKE_API_EARLY(2020, cuDriverGetVersion, (int *version), (version))

#define DRIVER_ERROR(name, words)                                                                                      \
    {                                                                                                                  \
        name, #name, words                                                                                             \
    }

static const struct driver_error {
    CUresult result;
    const char *name;
    const char *words;
} driver_errors[] = {
    DRIVER_ERROR(CUDA_SUCCESS, "no error"),
    DRIVER_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    DRIVER_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    DRIVER_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    DRIVER_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    DRIVER_ERROR(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    DRIVER_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    DRIVER_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    DRIVER_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    DRIVER_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    DRIVER_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    DRIVER_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    DRIVER_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    DRIVER_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    DRIVER_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    DRIVER_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    DRIVER_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    DRIVER_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    DRIVER_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    DRIVER_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    DRIVER_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    DRIVER_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    DRIVER_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    DRIVER_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    DRIVER_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    DRIVER_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capture"),
    DRIVER_ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    DRIVER_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to end a capture from another thread"),
    DRIVER_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const struct driver_error *
driver_error(CUresult result)
{
    for (size_t i = 0; i < sizeof(driver_errors) / sizeof(driver_errors[0]); i++) {
        if (driver_errors[i].result == result)
            return &driver_errors[i];
    }
    return NULL;
}

static CUresult
do_cuGetErrorName(CUresult error, const char **name)
{
    const struct driver_error *found = driver_error(error);

    if (name != NULL)
        *name = found != NULL ? found->name : NULL;
    return found != NULL && name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API_EARLY(6000, cuGetErrorName, (CUresult error, const char **name), (error, name))

static CUresult
do_cuGetErrorString(CUresult error, const char **words)
{
    const struct driver_error *found = driver_error(error);

    if (words != NULL)
        *words = found != NULL ? found->words : NULL;
    return found != NULL && words != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API_EARLY(6000, cuGetErrorString, (CUresult error, const char **words), (error, words))
