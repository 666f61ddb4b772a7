/*
 * Tests missing or failing parts: a machine without CUPTI, a CUPTI that is too old, a driver whose functions fail,
 * devices without pools. Runs on the fake driver alone, each scene in a child that has not loaded it yet.
 */
#include "config.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUPTI_H

#define MIB ((size_t)1 << 20)

/* What dlopen of CUPTI finds. */
static enum { CUPTI_THERE, CUPTI_MISSING, CUPTI_OLD } cupti_is;

/* Replaces the C library's dlopen, also for the tested library. */
__attribute__((visibility("default"))) void *
dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");

    memcpy(&real, &symbol, sizeof(real));
    if (name != NULL && strstr(name, "libcupti") != NULL && cupti_is != CUPTI_THERE) {
        if (cupti_is == CUPTI_MISSING || strstr(name, "libcupti.so.12") == NULL)
            return NULL;
        name = "libcuda.so.1"; /* a library without CUPTI's functions */
        flags &= ~RTLD_NOLOAD;
    }
    return real(name, flags);
}

/* Record one allocation that stays and two that are freed. Returns 0 if all succeed. */
static int
record_some(const char *path)
{
    struct tide_resource *stack = stack_of("log(%s) | driver", path);
    void *pointers[3];

    for (int i = 0; i < 3; i++)
        pointers[i] = take(stack, MIB);
    for (int i = 1; i < 3; i++)
        give(stack, pointers[i], MIB);
    give(stack, pointers[0], MIB);
    tide_resource_release(stack);
    return 0;
}

static int
scene_missing(void *path)
{
    cupti_is = CUPTI_MISSING;
    return record_some(path);
}

static int
scene_old(void *path)
{
    cupti_is = CUPTI_OLD;
    return record_some(path);
}

#define CUPTI_TESTS 4

static void
test_cupti(const char *name, int (*scene)(void *), const char *words)
{
    char path[256];
    const char *text;

    if (!CHILDREN_MAY_RECORD) {
        skip(CUPTI_TESTS, "ThreadSanitizer does not follow a child that records");
        return;
    }
    snprintf(path, sizeof(path), "%s", scratch("%s.db", name));
    is_i64(in_child(scene, path), 0, "a program records without CUPTI");
    text = sql_text(path, "SELECT value FROM meta WHERE key = 'cupti'");
    ok(all_of(strncmp(text, "off: ", 5) == 0, strstr(text, words) != NULL),
       "the trace without CUPTI says that it is off, and why");
    diag("meta.cupti: %s", text);
    ok(all_of(trace_is_whole(path), sql_number(path, "SELECT count(*) FROM allocation") == 3),
       "the trace without CUPTI is whole");
    is_i64(sql_number(path, "SELECT count(*) FROM driver_call"), 0, "the trace without CUPTI has no driver calls");
}

/* A failing driver, and what the trace says about it. */
struct refusal {
    const char *sentence;
    const char *variable, *value; /* of the fake driver */
    uint64_t maximum_bytes;
    enum tide_status wanted;
    const char *words;
};

static const struct refusal refusals[] = {
    { "no device", "FAKE_CUDA_DEVICES", "0", 0, TIDE_EUNSUPPORTED, "no CUDA device" },
    { "no permission", "FAKE_CUDA_FAIL", "cuInit:800", 0, TIDE_EUNSUPPORTED, "CUDA_ERROR_NOT_PERMITTED" },
    { "a device without pools", "FAKE_CUDA_NO_POOLS", "1", 0, TIDE_EUNSUPPORTED, "no memory pools" },
    { "a driver that ignores a maximum", "FAKE_CUDA_VERSION", "12010", 64 * MIB, TIDE_EUNSUPPORTED, "CUDA 12.2" },
    { "a pool that cannot be made", "FAKE_CUDA_FAIL", "cuMemPoolCreate:2", 0, TIDE_EDRIVER,
      "CUDA_ERROR_OUT_OF_MEMORY" },
    { "a context that cannot be had", "FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain:46", 0, TIDE_EDRIVER,
      "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE" },
};

static int
scene_refusal(void *argument)
{
    const struct refusal *scene = argument;
    struct tide_driver_options options = { TIDE_OPTIONS(options), .maximum_bytes = scene->maximum_bytes };
    struct tide_resource *driver = NULL;
    enum tide_status status;

    setenv(scene->variable, scene->value, 1);
    status = tide_driver_create(&options, &driver);
    if (status == scene->wanted && driver == NULL && strstr(tide_error_text(), scene->words) != NULL)
        return 0;
    diag("%s: %s", tide_status_name(status), tide_error_text());
    return 1;
}

/* The second call of the driver's function fails, and no other. */
static int
scene_failing(void *unused)
{
    struct tide_resource *driver;
    void *first, *second;

    (void)unused;
    setenv("FAKE_CUDA_FAIL", "cuMemAllocFromPoolAsync:719:2", 1);
    driver = stack_of("driver");
    /* A thread without a context tries each call twice: on its own, then in the primary context. */
    if (tide_allocate(driver, MIB, TIDE_DEFAULT_ALIGNMENT, 2, &first) == TIDE_OK)
        return 1;
    if (tide_error_driver() != 719 || strstr(tide_error_text(), "CUDA_ERROR_LAUNCH_FAILED") == NULL)
        return 2;
    second = take(driver, MIB);
    give(driver, second, MIB);
    tide_resource_release(driver);
    return 0;
}

#define REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL || dlsym(library, "fake_cuda_trace") == NULL)
        skip_all("this is not the fake driver: run it by tests/fake-cuda/run");
    plan(2 * CUPTI_TESTS + (int)REFUSALS + 1);
    test_cupti("missing", scene_missing, "no libcupti.so.13");
    test_cupti("old", scene_old, "has no cupti");
    for (size_t i = 0; i < REFUSALS; i++)
        is_i64(in_child(scene_refusal, (void *)(uintptr_t)&refusals[i]), 0, refusals[i].sentence);
    is_i64(in_child(scene_failing, NULL), 0, "a call that fails once fails one request");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUPTI");
}

#endif
