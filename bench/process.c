/*
 * What a wrapper of the account of a process costs beside the call of the driver that it wraps: pairs of cuMemAlloc and
 * cuMemFree, with and without the wrappers, in turns. The calls themselves do nothing here, so that their difference is
 * all that is seen; the context is asked of the driver that is there, such as the fake one:
 *
 *     LD_LIBRARY_PATH=tests/fake-cuda/.libs bench/process [STACK]    STACK: "limit(1TiB)" unless given; or "log"
 *
 * LIMITATIONS
 *  - cuCtxGetCurrent of the fake driver is a part of the figure; its own line says what it takes.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench/bench.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>

#define PAIRS 2000
#define TURNS 400
#define LIVE  64 /* blocks that are live at a time */

static CUresult(CUDAAPI *wrapped_alloc)(CUdeviceptr *, size_t), (CUDAAPI * wrapped_free)(CUdeviceptr);
static CUresult(CUDAAPI *get_current)(CUcontext *);
static uint64_t nothing_next;

/* In the place of the driver's calls. */
__attribute__((noinline)) static CUresult CUDAAPI
nothing_alloc(CUdeviceptr *pointer, size_t bytes)
{
    (void)bytes;
    *pointer = UINT64_C(0x700000000000) + (nothing_next++ % 4096) * 0x200000;
    return CUDA_SUCCESS;
}

__attribute__((noinline)) static CUresult CUDAAPI
nothing_free(CUdeviceptr pointer)
{
    (void)pointer;
    return CUDA_SUCCESS;
}

/* Processor time: other work on the machine does not count. */
static double
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double
turn(CUresult(CUDAAPI *volatile alloc)(CUdeviceptr *, size_t), CUresult(CUDAAPI *volatile give)(CUdeviceptr))
{
    CUdeviceptr live[LIVE] = { 0 };
    double begin = now_ns();

    for (int i = 0; i < PAIRS; i++) {
        if (live[i % LIVE] != 0)
            give(live[i % LIVE]);
        alloc(&live[i % LIVE], 4096);
    }
    for (int i = 0; i < LIVE; i++)
        give(live[i]);
    return (now_ns() - begin) / PAIRS;
}

static double
turn_context(void)
{
    double begin = now_ns();
    CUcontext context;

    for (int i = 0; i < PAIRS; i++)
        get_current(&context);
    return (now_ns() - begin) / PAIRS;
}

/* Start the account over the functions that do nothing. */
static void
start(const char *stack)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct tide_process_options options = { TIDE_OPTIONS(options), .stack = stack, .trace = "bench-process.db" };
    CUresult (*init)(unsigned), (*retain)(CUcontext *, CUdevice), (*set)(CUcontext);
    const struct tide_process_function *functions;
    CUcontext context;
    size_t count;

    if (library == NULL)
        bench_fail("no CUDA driver: LD_LIBRARY_PATH=tests/fake-cuda/.libs has the fake one");
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(library, "cuCtxSetCurrent");
    *(void **)&get_current = dlsym(library, "cuCtxGetCurrent");
    if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS || set(context) != CUDA_SUCCESS)
        bench_fail("the driver does not start");
    if (tide_process_start(&options, &functions, &count) != TIDE_OK)
        bench_fail(tide_error_text());
    for (size_t i = 0; i < count; i++) {
        if (strcmp(functions[i].name, "cuMemAlloc_v2") == 0) {
            *functions[i].real = (void (*)(void))nothing_alloc;
            memcpy(&wrapped_alloc, &functions[i].wrapper, sizeof(wrapped_alloc));
        } else if (strcmp(functions[i].name, "cuMemFree_v2") == 0) {
            *functions[i].real = (void (*)(void))nothing_free;
            memcpy(&wrapped_free, &functions[i].wrapper, sizeof(wrapped_free));
        }
    }
}

static void
keep_least(double *least, double figure)
{
    if (*least == 0 || figure < *least)
        *least = figure;
}

int
main(int count, char **arguments)
{
    double floor = 0, wrapped = 0, context = 0;

    unlink("bench-process.db");
    bench_begin("process: a pair of cuMemAlloc and cuMemFree through their wrappers");
    start(count > 1 ? arguments[1] : "limit(1TiB)");
    for (int i = 0; i < TURNS; i++) {
        keep_least(&floor, turn(nothing_alloc, nothing_free));
        keep_least(&wrapped, turn(wrapped_alloc, wrapped_free));
        keep_least(&context, turn_context());
    }
    bench_report("calls that do nothing", 1, floor, "ns/pair", 0, NULL);
    bench_report("the same through wrappers", 1, wrapped, "ns/pair", floor, "calls that do nothing");
    bench_report("a wrapper above its call", 1, (wrapped - floor) / 2, "ns/call", 0, NULL);
    bench_report("of that: cuCtxGetCurrent, in each pair", 1, context, "ns/pair", 0, NULL);
    bench_end(NULL);
    unlink("bench-process.db");
    return 0;
}

#else

int
main(void)
{
    bench_fail("this build has no CUDA");
}

#endif
