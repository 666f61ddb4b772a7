/*
 * Starts the account of the process: with the first call that allocates, libtidemark is loaded and asked for wrappers.
 */
#include "src/run/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <tidemark/message.h>
#include <tidemark/process.h>

/* The functions with which memory begins. */
static const bool start_begins[RUN_COUNT] = {
    [RUN_cuMemAlloc_v2] = true,
    [RUN_cuMemAllocPitch_v2] = true,
    [RUN_cuMemAllocManaged] = true,
    [RUN_cuMemAllocAsync] = true,
    [RUN_cuMemAllocAsync_ptsz] = true,
    [RUN_cuMemAllocFromPoolAsync] = true,
    [RUN_cuMemAllocFromPoolAsync_ptsz] = true,
    [RUN_cuMemPoolCreate] = true,
    [RUN_cuMemAllocHost_v2] = true,
    [RUN_cuMemHostAlloc] = true,
    [RUN_cuMemHostRegister] = true,
    [RUN_cuMemHostRegister_v2] = true,
    [RUN_cuMemCreate] = true,
    [RUN_cuArrayCreate_v2] = true,
    [RUN_cuArray3DCreate_v2] = true,
    [RUN_cuMipmappedArrayCreate] = true,
    [RUN_cuIpcOpenMemHandle] = true,
    [RUN_cuIpcOpenMemHandle_v2] = true,
    [RUN_cuMemImportFromShareableHandle] = true,
    [RUN_cuMemPoolImportPointer] = true,
};

/* The questions that are answered otherwise under a limit. */
static const bool start_asks[RUN_COUNT] = {
    [RUN_cuMemGetInfo_v2] = true,
    [RUN_cuDeviceTotalMem_v2] = true,
};

enum { START_BEFORE, START_RUNS, START_FAILED };

static _Atomic int start_state; /* stored with release after tidei_run_functions, loaded with acquire */

/* This thread is starting: what libtidemark calls then is the driver. In the static block, so that it costs no call. */
static __attribute__((tls_model("initial-exec"))) _Thread_local bool start_here;

typedef enum tide_status start_function(const struct tide_process_options *, const struct tide_process_function **,
                                        size_t *);

static void
start_message(void *context, enum tide_severity severity, const char *text)
{
    (void)context;
    tidei_run_say("tidemark: %s%s", severity == TIDE_WARNING ? "warning: " : "", text);
}

/* The address of a function of the library, as `size` bytes of *out. Returns false after a message. */
static bool
start_find(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);

    memcpy(out, &address, sizeof(address));
    return address != NULL;
}

/* Ask the loaded library for its wrappers. Returns NULL, or why it has none. */
static const char *
start_ask(void *library, const struct tide_process_function **functions, size_t *count)
{
    const struct tide_process_options options = {
        .struct_size = sizeof(options),
        .stack = tidei_run_option(RUN_STACK),
        .trace = tidei_run_option(RUN_TRACE),
        .limit = tidei_run_option(RUN_LIMIT),
        .budget = tidei_run_option(RUN_BUDGET),
        .log = tidei_run_option(RUN_LOG),
    };
    void (*set_sink)(tide_message_function, void *);
    const char *(*error_text)(void);
    start_function *start;

    if (!start_find(library, "tide_process_start", &start) || !start_find(library, "tide_error_text", &error_text) ||
        !start_find(library, "tide_message_sink_set", &set_sink))
        return dlerror();
    set_sink(start_message, NULL);
    return start(&options, functions, count) == TIDE_OK ? NULL : error_text();
}

/* Have the stubs jump to the wrappers. */
static void
start_take(const struct tide_process_function *functions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned index = tidei_run_index(functions[i].name);

        *functions[i].real = index < RUN_COUNT ? tidei_run_real(index) : NULL;
    }
    /* A wrapper may call any of the functions: all were stored before. */
    for (size_t i = 0; i < count; i++) {
        unsigned index = tidei_run_index(functions[i].name);

        if (index < RUN_COUNT && *functions[i].real != NULL)
            atomic_store_explicit(&tidei_run_functions[index], functions[i].wrapper, memory_order_release);
    }
}

/*
 * No lock is held meanwhile, as a thread that comes from a constructor has that of the dynamic linker. Threads that
 * start at one time get the same wrappers from tide_process_start.
 */
static void
start(void)
{
    const struct tide_process_function *functions = NULL;
    const char *path = tidei_run_option(RUN_LIBRARY), *refusal;
    int before = START_BEFORE;
    size_t count = 0;
    void *library;

    /* Under no name that the program could find, so that no symbol of it or of SQLite takes the place of another. */
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    refusal = library != NULL ? start_ask(library, &functions, &count) : dlerror();
    start_take(functions, count);
    if (atomic_compare_exchange_strong_explicit(&start_state, &before, refusal == NULL ? START_RUNS : START_FAILED,
                                                memory_order_release, memory_order_relaxed) &&
        refusal != NULL)
        tidei_run_say("tidemark: nothing is recorded: %s", refusal);
}

static bool
start_is_asked(void)
{
    return tidei_run_option(RUN_LIMIT) != NULL || tidei_run_option(RUN_BUDGET) != NULL ||
           tidei_run_option(RUN_STACK) != NULL;
}

/* A function that is not there is called through no address that the driver gave. */
static CUresult
start_lacks(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

void (*tidei_run_decide(unsigned index))(void)
{
    void (*function)(void) = NULL;
    int state = atomic_load_explicit(&start_state, memory_order_acquire);
    int error = errno;

    if (state == START_BEFORE && !start_here && tidei_run_is_on() &&
        (start_begins[index] || (start_asks[index] && start_is_asked()))) {
        start_here = true;
        start();
        start_here = false;
        state = atomic_load_explicit(&start_state, memory_order_acquire);
    }
    if (state == START_RUNS && !start_here)
        function = atomic_load_explicit(&tidei_run_functions[index], memory_order_acquire);
    if (function == NULL)
        function = tidei_run_real(index);
    errno = error;
    return function != NULL ? function : (void (*)(void))start_lacks;
}
