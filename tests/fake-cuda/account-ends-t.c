/*
 * Tests the end of contexts beside threads that allocate in them and in others, in one process, so that ThreadSanitizer
 * sees it: who ends a context waits for the calls that are within its stack, and for no others.
 */
#include "tests/fake-cuda/account.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/point.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define THREADS  3
#define CONTEXTS 400

static atomic_bool ends_stop;

/* A block for each of the threads, which they take from each other and free. */
static _Atomic(CUdeviceptr) ends_blocks[16];

/* Allocates in a context that lives, and frees what is there: also blocks of contexts that are ending. */
static void *
ends_work(void *context)
{
    unsigned next = 0;

    if (account.context_set(context) != CUDA_SUCCESS)
        return "no context";
    while (!atomic_load(&ends_stop)) {
        CUdeviceptr own = 0, other = atomic_exchange(&ends_blocks[next++ % 16], 0);

        if (other != 0)
            (void)account.w_cuMemFree_v2(other); /* or it has gone with its context */
        if (account.w_cuMemAlloc_v2(&own, 50000) != CUDA_SUCCESS)
            return "an allocation has failed";
        if (account.w_cuMemFree_v2(own) != CUDA_SUCCESS)
            return "a free has failed";
    }
    return NULL;
}

/* Contexts that begin and end meanwhile. */
static bool
ends_contexts(CUcontext kept)
{
    for (int i = 0; i < CONTEXTS; i++) {
        CUdeviceptr block = 0;
        CUcontext context;

        if (!CHECK(account.context_create(&context, 0, 0) == CUDA_SUCCESS))
            return false;
        for (int k = 0; k < 16; k++) {
            if (!CHECK(account.w_cuMemAlloc_v2(&block, 4096) == CUDA_SUCCESS))
                return false;
            atomic_store(&ends_blocks[k], block);
        }
        if (!CHECK(account.w_cuCtxDestroy_v2(context) == CUDA_SUCCESS))
            return false;
        for (int k = 0; k < 16; k++)
            atomic_store(&ends_blocks[k], 0);
    }
    return CHECK(account.context_set(kept) == CUDA_SUCCESS);
}

static bool
ends_beside_threads(CUcontext kept)
{
    pthread_t threads[THREADS];
    CUdeviceptr first = 0;
    bool passes;

    /*
     * The stack of the context that stays is made now, with its addresses. Later it could get those of a context that
     * has ended, whose blocks threads still free.
     */
    if (!CHECK(account.w_cuMemAlloc_v2(&first, 50000) == CUDA_SUCCESS))
        return false;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ends_work, kept);
    passes = ends_contexts(kept);
    atomic_store(&ends_stop, true);
    for (int i = 0; i < THREADS; i++) {
        void *failure;

        pthread_join(threads[i], &failure);
        if (failure != NULL)
            diag("%s", (const char *)failure);
        passes = passes && failure == NULL;
    }
    return CHECK(account.w_cuMemFree_v2(first) == CUDA_SUCCESS) && passes;
}

/* Is stopped within its call, in the stack of its context. */
static void *
ends_held_up(void *context)
{
    CUdeviceptr a = 0;

    if (account.context_set(context) != CUDA_SUCCESS || account.w_cuMemAlloc_v2(&a, 50000) != CUDA_SUCCESS)
        return "no memory";
    point_arm("account.frees", NULL);
    return account.w_cuMemFree_v2(a) == CUDA_SUCCESS ? NULL : "a free has failed";
}

static atomic_bool ended;

static void *
ends_other(void *context)
{
    CUresult result = account.w_cuCtxDestroy_v2(context);

    atomic_store(&ended, true);
    return result == CUDA_SUCCESS ? NULL : "the end has failed";
}

/* A thread is within a free in one context, and the other one and then that one end. */
static bool
ends_wait(CUcontext kept)
{
    CUcontext busy, idle;
    CUdeviceptr a = 0;
    pthread_t held_up, other;
    void *failures[2];

    if (!CHECK(account.context_create(&busy, 0, 0) == CUDA_SUCCESS) ||
        !CHECK(account.context_create(&idle, 0, 0) == CUDA_SUCCESS) ||
        !CHECK(account.w_cuMemAlloc_v2(&a, 50000) == CUDA_SUCCESS) || !CHECK(account.context_set(kept) == CUDA_SUCCESS))
        return false;
    pthread_create(&held_up, NULL, ends_held_up, busy);
    point_wait();
    /* An end that waited for the call in the other context would have no end. */
    CHECK(account.w_cuCtxDestroy_v2(idle) == CUDA_SUCCESS);
    (void)point_count("presence.waits");
    pthread_create(&other, NULL, ends_other, busy);
    while (!atomic_load(&ended) && point_count("presence.waits") == 0) /* until it has ended, or waits */
        usleep(100);
    CHECK(!atomic_load(&ended));
    point_release();
    pthread_join(held_up, &failures[0]);
    pthread_join(other, &failures[1]);
    for (int i = 0; i < 2; i++) {
        if (!CHECK(failures[i] == NULL))
            diag("%s", (const char *)failures[i]);
    }
    return account_failures == 0;
}

int
main(void)
{
    const struct tide_process_options options = { TIDE_OPTIONS(options), .stack = "pool | cuda", .limit = "256MiB" };
    size_t free_bytes = 0;
    CUcontext primary;

    if (!account_find())
        skip_all("there is no fake driver");
    plan(3);
    alarm(240); /* a wait for what does not end would have no end */
    if (!account_start(&options) || account.primary_retain(&primary, 0) != CUDA_SUCCESS)
        return 1;
    ok(ends_wait(primary), "the end of a context waits for a call in its stack, and for none in another context's");
    ok(ends_beside_threads(primary), "contexts end beside threads that free their blocks and allocate elsewhere");
    ok(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == (size_t)256 << 20,
       "nothing of the contexts that have ended is counted any more");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
