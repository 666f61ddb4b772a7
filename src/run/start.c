/*
 * Starts the account of the process: with the first call that allocates once the program has started the driver,
 * libtidemark is loaded and asked for wrappers.
 */
#include "src/run/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/message.h>
#include <tidemark/process.h>

/* The functions with which memory begins; the limited ones take memory of which a limit of the device holds. */
enum { START_BEGINS = 1, START_BEGINS_LIMITED };

static const unsigned char start_begins[RUN_COUNT] = {
    [RUN_cuMemAlloc_v2] = START_BEGINS_LIMITED,
    [RUN_cuMemAllocPitch_v2] = START_BEGINS_LIMITED,
    [RUN_cuMemAllocManaged] = START_BEGINS,
    [RUN_cuMemAllocAsync] = START_BEGINS_LIMITED,
    [RUN_cuMemAllocAsync_ptsz] = START_BEGINS_LIMITED,
    [RUN_cuMemAllocFromPoolAsync] = START_BEGINS_LIMITED,
    [RUN_cuMemAllocFromPoolAsync_ptsz] = START_BEGINS_LIMITED,
    [RUN_cuMemPoolCreate] = START_BEGINS,
    [RUN_cuMemAllocHost_v2] = START_BEGINS,
    [RUN_cuMemHostAlloc] = START_BEGINS,
    [RUN_cuMemHostRegister] = START_BEGINS,
    [RUN_cuMemHostRegister_v2] = START_BEGINS,
    [RUN_cuMemCreate] = START_BEGINS_LIMITED,
    [RUN_cuArrayCreate_v2] = START_BEGINS_LIMITED,
    [RUN_cuArray3DCreate_v2] = START_BEGINS_LIMITED,
    [RUN_cuMipmappedArrayCreate] = START_BEGINS_LIMITED,
    [RUN_cuIpcOpenMemHandle] = START_BEGINS,
    [RUN_cuIpcOpenMemHandle_v2] = START_BEGINS,
    [RUN_cuMemImportFromShareableHandle] = START_BEGINS,
    [RUN_cuMemPoolImportPointer] = START_BEGINS,
};

/* The questions that are answered otherwise under a limit. */
static const bool start_asks[RUN_COUNT] = {
    [RUN_cuMemGetInfo_v2] = true,
    [RUN_cuDeviceTotalMem_v2] = true,
};

/*
 * Before the start; one thread starts; the wrappers are there; there are none. Stored with release after
 * tidei_run_functions, loaded with acquire.
 */
enum { START_BEFORE, START_BEGUN, START_RUNS, START_FAILED };

static _Atomic int start_state;
static _Atomic pid_t start_process; /* which has begun to start: in a child of fork() nobody goes on with it */

/*
 * How long a thread waits for the one that starts. It may come from a constructor, and so have the lock of the dynamic
 * linker, which the other one wants: then its call goes to the driver, and both go on.
 */
#define START_PATIENCE_MS 5000

/* This thread is starting: what libtidemark calls then is the driver. In the static block, so that it costs no call. */
static __attribute__((tls_model("initial-exec"))) _Thread_local bool start_here;

/* This thread has waited long enough for another. */
static __attribute__((tls_model("initial-exec"))) _Thread_local bool start_was_long;

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
        .list = tidei_run_option(RUN_LIST),
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

/* Whether the program is to have a limit. */
static bool
start_has_limit(void)
{
    const char *stack = tidei_run_option(RUN_STACK);

    if (tidei_run_option(RUN_LIMIT) != NULL || tidei_run_option(RUN_BUDGET) != NULL)
        return true;
    /* The layer by its arguments, which it must have: `limit` may also be in the name of a file. */
    for (const char *at = stack; at != NULL && (at = strstr(at, "limit")) != NULL;) {
        at += strlen("limit");
        if (at[strspn(at, " \t\r\n")] == '(')
            return true;
    }
    return false;
}

static void
start(void *library)
{
    const struct tide_process_function *functions = NULL;
    const char *refusal;
    size_t count = 0;

    refusal = library != NULL ? start_ask(library, &functions, &count) : dlerror();
    if (refusal != NULL && start_has_limit())
        tidei_run_say("tidemark: nothing is recorded, and all device memory refused, since no limit holds: %s",
                      refusal);
    else if (refusal != NULL)
        tidei_run_say("tidemark: nothing is recorded: %s", refusal);
    else
        start_take(functions, count);
    atomic_store_explicit(&start_state, refusal == NULL ? START_RUNS : START_FAILED, memory_order_release);
}

/* Wait for the thread that starts. Returns the state then, which is START_BEGUN where it takes too long. */
static int
start_wait(void)
{
    const struct timespec moment = { 0, 1000000 };
    int state = START_BEGUN;

    for (int waited_ms = 0; state == START_BEGUN && !start_was_long; waited_ms++) {
        pid_t process = atomic_load_explicit(&start_process, memory_order_relaxed);

        if (process != 0 && process != getpid())
            atomic_compare_exchange_strong_explicit(&start_state, &state, START_BEFORE, memory_order_relaxed,
                                                    memory_order_relaxed);
        else
            nanosleep(&moment, NULL);
        state = atomic_load_explicit(&start_state, memory_order_acquire);
        start_was_long = waited_ms >= START_PATIENCE_MS;
    }
    return state;
}

/* Have the account started, by this thread or another. Returns the state. */
static int
start_once(void)
{
    int state = START_BEFORE;
    void *library;

    start_here = true;
    /*
     * Under no name that the program could find, so that no symbol of it or of SQLite takes the place of another. Each
     * thread does this first: who has the linker's lock goes on, and who wants it has claimed nothing.
     */
    library = dlopen(tidei_run_option(RUN_LIBRARY), RTLD_NOW | RTLD_LOCAL);
    while (state == START_BEFORE &&
           !atomic_compare_exchange_strong_explicit(&start_state, &state, START_BEGUN, memory_order_acquire,
                                                    memory_order_acquire) &&
           state == START_BEGUN)
        state = start_wait();
    if (state == START_BEFORE) {
        atomic_store_explicit(&start_process, getpid(), memory_order_relaxed);
        start(library);
        state = atomic_load_explicit(&start_state, memory_order_acquire);
    }
    start_here = false;
    return state;
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

/* Where the account has not started, nothing holds a limit that was asked for: better no memory than any amount. */
static CUresult
start_refuses(void)
{
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void (*tidei_run_decide(unsigned index))(void)
{
    void (*function)(void) = NULL;
    int state = atomic_load_explicit(&start_state, memory_order_acquire);
    int error = errno;

    if ((state == START_BEFORE || state == START_BEGUN) && !start_here && tidei_run_is_on() &&
        (start_begins[index] != 0 || (start_asks[index] && start_is_asked())) && tidei_run_driver_runs())
        state = start_once();
    if (state == START_RUNS && !start_here)
        function = atomic_load_explicit(&tidei_run_functions[index], memory_order_acquire);
    else if (state == START_FAILED && start_begins[index] == START_BEGINS_LIMITED && start_has_limit())
        function = (void (*)(void))start_refuses;
    if (function == NULL)
        function = tidei_run_real(index);
    errno = error;
    return function != NULL ? function : (void (*)(void))start_lacks;
}
