/*
 * Tests that the first call of a program may come from a thread with a small stack. It sets up the account and opens
 * the trace, which the library does on a stack of its own.
 */
#include "config.h"

#include <pthread.h>
#include <unistd.h>

#include "tests/fake-cuda/account.h"
#include "tests/sanitized.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define BLOCKS 50

/* The least that a thread may have on this machine, and 8 KiB for the thread-local storage of this program. */
static size_t
small_bytes(void)
{
    long least = sysconf(_SC_THREAD_STACK_MIN);

    return (least > 16384 ? (size_t)least : 16384) + 8192;
}

struct scene {
    const char *description;
    struct tide_process_options options;
    bool good;
};

static void *
scene_thread(void *argument)
{
    struct scene *scene = argument;
    CUdeviceptr blocks[BLOCKS];

    scene->good = account_start(&scene->options);
    for (int i = 0; scene->good && i < BLOCKS; i++)
        scene->good = account.w_cuMemAlloc_v2(&blocks[i], 1000) == CUDA_SUCCESS;
    for (int i = 0; scene->good && i < BLOCKS; i++)
        scene->good = account.w_cuMemFree_v2(blocks[i]) == CUDA_SUCCESS;
    return NULL;
}

static int
scene_run(void *argument)
{
    struct scene *scene = argument;
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, small_bytes()) != 0 ||
        pthread_create(&thread, &attributes, scene_thread, scene) != 0)
        return 1;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    return scene->good ? 0 : 2;
}

static struct scene scenes[] = {
    { .description = "the trace is opened by a thread with a small stack" },
    { .description = "the same with a limit", .options.limit = "1GiB" },
    { .description = "the same with a budget", .options.budget = "small-stack-t=1GiB" },
    { .description = "the same with call stacks of addresses", .options.log = "callstack=16" },
    { .description = "the same with call stacks of Python", .options.log = "callstack=python" },
    { .description = "the same with call stacks of both", .options.log = "callstack=mixed" },
    { .description = "the same with a stack that has a base", .options.stack = "log | statistics | pool | cuda" },
};

int
main(void)
{
    if (SANITIZED)
        skip_all("a sanitizer's frames are larger");
    if (!account_find())
        skip_all("there is no fake driver");
    plan(sizeof(scenes) / sizeof(scenes[0]));
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct tide_trace_recovery found = { TIDE_FIGURES(found) };
        const char *path = scratch("small-%zu.db", i);

        scenes[i].options.struct_size = sizeof(scenes[i].options);
        scenes[i].options.trace = path;
        ok(all_of(account_passes_with(scene_run, &scenes[i]), tide_trace_recover(path, &found) == TIDE_OK,
                  sql_number(path, "SELECT count(free_ns) FROM allocation WHERE size = 1000") >= BLOCKS),
           "%s", scenes[i].description);
    }
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
    return done();
}

#endif
