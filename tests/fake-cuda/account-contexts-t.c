/*
 * Tests the account of a process where contexts begin and end: the stack of each, green contexts, resets and
 * detachments, on the fake driver.
 */
#include "tests/fake-cuda/account.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/point.h"
#include "tests/sanitized.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define MIB ((size_t)1 << 20)

static int
test_contexts(void *unused)
{
    CUdeviceptr a = 0, b = 0, c = 0, d = 0;
    CUcontext primary, other;
    void *pinned;

    (void)unused;
    if (!account_begin("contexts", NULL, "64MiB"))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 4 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, 2 * MIB, NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemHostAlloc(&pinned, MIB, 0) == CUDA_SUCCESS);
    CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&c, 8 * MIB) == CUDA_SUCCESS);
    CHECK(account_used("plain", 0) == 12 * MIB);
    CHECK(account.w_cuCtxDestroy_v2(other) == CUDA_SUCCESS);
    CHECK(account_used("plain", 0) == 4 * MIB);
    CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
    CHECK(account_used("plain", 0) == 0 && account_used("pinned", 0) == 0);
    CHECK(account_used("async", 0) == 2 * MIB); /* pools outlive contexts */
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account_used("plain", 0) == 0);
    CHECK(account.w_cuMemAlloc_v2(&d, 62 * MIB) == CUDA_SUCCESS); /* the limit has its bytes back */
    CHECK(account.w_cuMemFree_v2(d) == CUDA_SUCCESS);
    CHECK(account.w_cuCtxDestroy_v2(primary) != CUDA_SUCCESS || account_used("plain", 0) == 0);
    account_flush();
    return account_failures;
}

/* A context that ends takes the stack's memory along, of which the stack keeps nothing. */
static int
test_redirected_contexts(void *unused)
{
    CUdeviceptr a = 0, b = 0, c = 0;
    CUcontext primary, other;
    uint64_t none;

    (void)unused;
    if (!account_begin("ends", "log | pool | cuda", "64MiB"))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 4 * MIB) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
        CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
        CHECK(account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE);
        CHECK(account.w_cuMemAlloc_v2(&a, 60 * MIB) == CUDA_SUCCESS); /* the limit has its bytes back */
        CHECK(account.real_free(b) != CUDA_SUCCESS || b == a);
        CHECK(account.w_cuMemAlloc_v2(&b, MIB) == CUDA_SUCCESS);
        CHECK(account.w_cuMemGetAddressRange_v2(NULL, NULL, b) == CUDA_SUCCESS); /* the driver knows its memory */
        CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    }
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&c, 50 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuCtxDestroy_v2(other) == CUDA_SUCCESS);
    CHECK(account.context_set(primary) == CUDA_SUCCESS && account.w_cuMemFree_v2(c) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemAlloc_v2(&c, 60 * MIB) == CUDA_SUCCESS && account.w_cuMemFree_v2(c) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&none, NULL) == CUDA_SUCCESS && none == 64 * MIB);
    account_flush();
    return account_failures;
}

static size_t
heap_bytes(void)
{
    return mallinfo2().uordblks;
}

/* A program makes a context for each piece of its work, while its first one has memory. */
static int
test_redirected_many(void *unused)
{
    CUdeviceptr a = 0, b = 0;
    CUcontext primary, other, owner = NULL;
    size_t before = 0;

    (void)unused;
    if (!account_begin("many", "log | pool | cuda", "64MiB"))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS);
    for (int i = 0; i < 60; i++) {
        if (i == 10)
            before = heap_bytes();
        CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
        CHECK(account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS && b != a);
        CHECK(account.w_cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, b) == CUDA_SUCCESS);
        CHECK(owner == other);
        CHECK(account.w_cuCtxDestroy_v2(other) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
        CHECK(account.w_cuMemFree_v2(b) == CUDA_ERROR_INVALID_VALUE);
        CHECK(account.w_cuMemGetAddressRange_v2(NULL, NULL, a) == CUDA_SUCCESS); /* the first one's memory is there */
    }
    diag("%zu B of host memory for each context that has ended", (heap_bytes() - before) / 50);
    CHECK(SANITIZED_ADDRESS || heap_bytes() - before < (size_t)50 * 32768);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    account_flush();
    return account_failures;
}

static atomic_bool many_stop;

static void *
many_allocate(void *context)
{
    CUdeviceptr a = 0;

    if (account.context_set(context) != CUDA_SUCCESS)
        return "no context";
    while (!atomic_load(&many_stop)) {
        size_t free_bytes, total_bytes;

        if (account.w_cuMemAlloc_v2(&a, 100000) != CUDA_SUCCESS ||
            account.w_cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS ||
            account.w_cuMemFree_v2(a) != CUDA_SUCCESS)
            return "a call has failed";
    }
    return NULL;
}

/* The same beside threads that use the first context, whose stack no end of another touches. */
static int
test_redirected_threads(void *unused)
{
    CUcontext primary, other;
    size_t none = 0;
    CUdeviceptr b = 0;
    pthread_t threads[3];
    void *failure;

    (void)unused;
    if (!account_begin("many-threads", "log | pool | cuda", "64MiB"))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, many_allocate, primary);
    for (int i = 0; i < 40; i++) {
        CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
        CHECK(account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS);
        CHECK(account.w_cuCtxDestroy_v2(other) == CUDA_SUCCESS);
    }
    atomic_store(&many_stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failure);
        if (!CHECK(failure == NULL))
            diag("%s", (const char *)failure);
    }
    CHECK(account.context_set(primary) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&none, NULL) == CUDA_SUCCESS && none == 64 * MIB);
    return account_failures;
}

static bool
green_make(CUgreenCtx *green, CUcontext *context)
{
    CUdevResourceDesc descriptor = NULL;
    CUdevResource resource;

    return CHECK(account.device_resource(0, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) &&
           CHECK(account.resource_descriptor(&descriptor, &resource, 1) == CUDA_SUCCESS) &&
           CHECK(account.green_create(green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS) &&
           CHECK(account.green_context(context, *green) == CUDA_SUCCESS);
}

/* What is allocated while a green context is current is the primary context's, and ends with that alone. */
static int
green_memory(const char *name, const char *stack)
{
    CUcontext primary, context = NULL;
    CUgreenCtx green = NULL;
    CUdeviceptr a = 0, b = 0, c = 0;
    size_t free_bytes = 0;
    CUstream stream;

    setenv("FAKE_CUDA_DEVICES", "2", 1);
    if (!account_begin(name, stack, "64MiB") || !green_make(&green, &context))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(context) == CUDA_SUCCESS);
    CHECK(account.green_stream(&stream, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, 3 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAllocAsync(&b, MIB, stream) == CUDA_SUCCESS && account_used("async", 0) == MIB);
    CHECK(account.w_cuMemFreeAsync(b, stream) == CUDA_SUCCESS && account.stream_synchronize(stream) == CUDA_SUCCESS);
    CHECK(account.w_cuGreenCtxDestroy(green) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == 61 * MIB);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(green_make(&green, &context) && account.context_set(context) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, 5 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == 64 * MIB);
    CHECK(account.w_cuMemAlloc_v2(&c, 60 * MIB) == CUDA_SUCCESS && account.w_cuMemFree_v2(c) == CUDA_SUCCESS);
    return account_failures;
}

static int
test_green(void *unused)
{
    (void)unused;
    return green_memory("green", NULL);
}

static int
test_redirected_green(void *unused)
{
    (void)unused;
    return green_memory("green-redirected", "log | pool | cuda");
}

/* A green context is the last that holds the primary context. */
static int
test_green_last(void *unused)
{
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("green-last", NULL, "64MiB") || !green_make(&green, &context))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 3 * MIB) == CUDA_SUCCESS && account.context_set(context) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, 5 * MIB) == CUDA_SUCCESS && account_used("plain", 0) == 8 * MIB);
    CHECK(account.w_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS && account_used("plain", 0) == 8 * MIB);
    CHECK(account.w_cuGreenCtxDestroy(green) == CUDA_SUCCESS && account_used("plain", 0) == 0);
    CHECK(account.w_cuGreenCtxDestroy(green) == CUDA_ERROR_INVALID_CONTEXT);
    return account_failures;
}

/* A context that is attached to ends with the last detachment. */
static int
detaches(const char *name, const char *stack)
{
    CUcontext primary, other, again = NULL;
    CUdeviceptr a = 0, b = 0;
    size_t free_bytes = 0;

    if (!account_begin(name, stack, "64MiB"))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
        CHECK(account.context_attach(&again, 0) == CUDA_SUCCESS && again == other);
        CHECK(account.w_cuMemAlloc_v2(&b, 60 * MIB) == CUDA_SUCCESS);
        CHECK(account.w_cuCtxDetach(other) == CUDA_SUCCESS);
        CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == 3 * MIB);
        CHECK(account.w_cuCtxDetach(other) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
        CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == 63 * MIB);
        CHECK(account.w_cuMemFree_v2(b) == CUDA_ERROR_INVALID_VALUE);
        CHECK(account.w_cuCtxDetach(primary) != CUDA_SUCCESS);
    }
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    return account_failures;
}

/* Memory of a pool of the driver's does not end with the context, and is given back. */
static int
test_detached_driver(void *unused)
{
    size_t first = 0, free_bytes = 0;
    CUcontext primary, other;
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("detached-driver", "log | pool | driver", NULL))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
        CHECK(account.w_cuMemAlloc_v2(&a, 100 * MIB) == CUDA_SUCCESS);
        CHECK(account.w_cuCtxDetach(other) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
        CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS);
        first = i == 0 ? free_bytes : first;
    }
    CHECK(free_bytes == first);
    return account_failures;
}

static const char *const detached_stacks[] = {
    "log | pool | cuda", "log | pool | driver", "log | pool | vmm",
    "log | vmm",         "log | pool | pinned", "log | pool | monotonic(64MiB) | cuda",
};
#define DETACHED_STACKS ((int)(sizeof(detached_stacks) / sizeof(detached_stacks[0])))

/* Contexts end by a detachment, with blocks and work in them, on a thread that has no other context afterwards. */
static int
detached_last(void *number)
{
    size_t first = 0, free_bytes = 0, total_bytes;
    CUdeviceptr blocks[8];
    CUcontext primary, other;
    char name[32];

    snprintf(name, sizeof(name), "detached-last-%d", *(const int *)number);
    if (!account_begin(name, detached_stacks[*(const int *)number], NULL))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(NULL) == CUDA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
        for (size_t k = 0; k < 8; k++) {
            CHECK(account.w_cuMemAlloc_v2(&blocks[k], 3 * MIB * (k + 1)) == CUDA_SUCCESS);
            CHECK(account.set_bytes(blocks[k], 1, MIB) == CUDA_SUCCESS);
        }
        for (size_t k = 0; k < 8; k += 2)
            CHECK(account.w_cuMemFree_v2(blocks[k]) == CUDA_SUCCESS);
        CHECK(account.w_cuCtxDetach(other) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
        CHECK(account.real_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS);
        first = i == 0 ? free_bytes : first;
        for (size_t k = 0; k < 8; k++)
            CHECK(account.w_cuMemFree_v2(blocks[k]) != CUDA_SUCCESS);
        CHECK(account.context_set(NULL) == CUDA_SUCCESS);
    }
    if (!CHECK(free_bytes == first))
        diag("%zu B of the device are lost", first - free_bytes);
    return account_failures;
}

static bool
all_detach(void)
{
    bool passes = true;

    for (int i = 0; i < DETACHED_STACKS; i++) {
        if (!account_passes_with(detached_last, &i)) {
            diag("%s", detached_stacks[i]);
            passes = false;
        }
    }
    return passes;
}

static void *
detached_work(void *unused)
{
    CUcontext context;
    CUdeviceptr blocks[20];

    (void)unused;
    for (int i = 0; i < 100; i++) {
        if (account.context_create(&context, 0, 0) != CUDA_SUCCESS)
            return "no context";
        for (int k = 0; k < 20; k++) {
            size_t bytes = (size_t)5000 * (k + 1);

            if (account.w_cuMemAlloc_v2(&blocks[k], bytes) != CUDA_SUCCESS ||
                account.set_bytes(blocks[k], 1, bytes) != CUDA_SUCCESS)
                return "no memory";
        }
        for (int k = 0; k < 10; k++) {
            if (account.w_cuMemFree_v2(blocks[k]) != CUDA_SUCCESS)
                return "a free has failed";
        }
        if (account.w_cuCtxDetach(context) != CUDA_SUCCESS)
            return "no detachment";
    }
    return NULL;
}

/* Contexts that end have had addresses which others have by then. */
static int
test_detached_threads(void *unused)
{
    pthread_t threads[3];
    void *failure;

    (void)unused;
    if (!account_begin("detached-threads", "pool | cuda", NULL))
        return 1;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, detached_work, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failure);
        if (!CHECK(failure == NULL))
            diag("%s", (const char *)failure);
    }
    return account_failures;
}

static _Atomic(CUdeviceptr) freed_blocks[64];
static atomic_bool freed_stop;

static void *
freed_work(void *context)
{
    account.context_set(context);
    while (!atomic_load(&freed_stop)) {
        for (int i = 0; i < 64; i++) {
            CUdeviceptr block = atomic_exchange(&freed_blocks[i], 0);

            if (block != 0)
                (void)account.w_cuMemFree_v2(block); /* or it has gone with its context */
        }
    }
    return NULL;
}

/* Another thread frees the blocks of a context that is destroyed. */
static int
test_freed_meanwhile(void *unused)
{
    CUcontext kept, context;
    CUdeviceptr block;
    pthread_t thread;

    (void)unused;
    if (!account_begin("freed-meanwhile", "pool | cuda", NULL))
        return 1;
    CHECK(account.context_create(&kept, 0, 0) == CUDA_SUCCESS);
    pthread_create(&thread, NULL, freed_work, kept);
    for (int i = 0; i < 1500; i++) {
        CHECK(account.context_create(&context, 0, 0) == CUDA_SUCCESS);
        for (int k = 0; k < 64; k++) {
            CHECK(account.w_cuMemAlloc_v2(&block, 4096) == CUDA_SUCCESS);
            atomic_store(&freed_blocks[k], block);
        }
        CHECK(account.w_cuCtxDestroy_v2(context) == CUDA_SUCCESS);
        for (int k = 0; k < 64; k++)
            atomic_store(&freed_blocks[k], 0);
    }
    atomic_store(&freed_stop, true);
    pthread_join(thread, NULL);
    return account_failures;
}

/* The stack of one context finds no room. */
static int
test_own_fails(void *unused)
{
    CUcontext first, second;
    size_t free_bytes = 0;
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("own-fails", "log | pool(initial=600MiB) | cuda", "900MiB"))
        return 1;
    CHECK(account.context_create(&first, 0, 0) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.context_create(&second, 0, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(account.w_cuCtxDestroy_v2(first) == CUDA_SUCCESS && account.context_set(second) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuCtxDestroy_v2(second) == CUDA_SUCCESS);
    CHECK(account.context_create(&first, 0, 0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == 900 * MIB);
    CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    return account_failures;
}

/* The same without a limit: the driver gives the memory, which the trace lacks. */
static int
test_passed_by(void *unused)
{
    CUcontext first, second;
    CUdeviceptr a = 0;

    (void)unused;
    if (!account_begin("passed-by", "log | pool(initial=600MiB) | cuda", NULL))
        return 1;
    CHECK(account.context_create(&first, 0, 0) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.context_create(&second, 0, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS && account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, (size_t)1 << 50) == CUDA_ERROR_OUT_OF_MEMORY);
    account_flush();
    return account_failures;
}

/* Work that does not end before it is told to. */
static atomic_bool held_up, may_go_on;

static void CUDA_CB
hold_up(void *unused)
{
    (void)unused;
    atomic_store(&held_up, true);
    while (!atomic_load(&may_go_on))
        usleep(1000);
}

/* A free in the primary context, which waits for that work. */
struct held_up_free {
    CUcontext context;
    bool unknown; /* to the account, as what was there before it */
};

static void *
held_up_free(void *what)
{
    const struct held_up_free *wanted = what;
    CUdeviceptr a = 0;
    CUstream stream = NULL;

    CHECK(account.context_set(wanted->context) == CUDA_SUCCESS && account.stream_create(&stream, 0) == CUDA_SUCCESS);
    if (wanted->unknown)
        CHECK(account.real_alloc(&a, 100000) == CUDA_SUCCESS);
    else
        CHECK(account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS);
    CHECK(account.launch_host(stream, hold_up, NULL) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    return NULL;
}

/* A context ends while the primary one has work that does not, and a thread is within a free there. */
static int
own_calls(const char *name, bool unknown)
{
    struct held_up_free wanted = { .unknown = unknown };
    pthread_t thread;
    CUdeviceptr a = 0;
    CUcontext other;

    alarm(60); /* a wait for that would have no end */
    if (!account_begin(name, "log | pool | cuda", NULL))
        return 1;
    CHECK(account.primary_retain(&wanted.context, 0) == CUDA_SUCCESS);
    CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    (void)point_count("account.frees");
    pthread_create(&thread, NULL, held_up_free, &wanted);
    while (!atomic_load(&held_up) || point_count("account.frees") == 0)
        usleep(1000);
    /* The free does not end before the work may. */
    CHECK(account.w_cuCtxDestroy_v2(other) == CUDA_SUCCESS);
    atomic_store(&may_go_on, true);
    pthread_join(thread, NULL);
    return account_failures;
}

static int
test_own_calls(void *unused)
{
    (void)unused;
    return own_calls("own-calls", false);
}

static int
test_own_calls_unknown(void *unused)
{
    (void)unused;
    return own_calls("own-calls-unknown", true);
}

static atomic_bool reset_stop;
static atomic_int reset_threads;

/* What comes while there is no context fails. */
static void *
reset_work(void *primary)
{
    CUdeviceptr a = 0;

    if (account.context_set(primary) != CUDA_SUCCESS)
        return "no context";
    atomic_fetch_add(&reset_threads, 1);
    while (!atomic_load(&reset_stop)) {
        for (int i = 0; i < 5; i++) {
            if (account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS && i % 2 == 0)
                (void)account.w_cuMemFree_v2(a);
        }
    }
    return NULL;
}

/* The primary context is reset beside threads that allocate in it. */
static int
resets(const char *name, const char *stack)
{
    size_t before = 0, after = 0, total;
    pthread_t threads[3];
    CUcontext primary;
    void *failure;

    if (!account_begin(name, stack, NULL))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS);
    CHECK(account.real_get_info(&before, &total) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, reset_work, primary);
    while (atomic_load(&reset_threads) < 3)
        usleep(100);
    for (int i = 0; i < 100; i++) {
        CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
        usleep(500);
        CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS);
        usleep(2000);
    }
    atomic_store(&reset_stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failure);
        if (!CHECK(failure == NULL))
            diag("%s", (const char *)failure);
    }
    CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
    CHECK(account.real_get_info(&after, &total) == CUDA_SUCCESS);
    if (!CHECK(after == before))
        diag("%s: %zu B of the device are lost", stack, before - after);
    return account_failures;
}

static int
test_reset_driver(void *unused)
{
    (void)unused;
    return resets("reset-driver", "log | pool | driver");
}

static int
test_reset_cuda(void *unused)
{
    (void)unused;
    return resets("reset-cuda", "log | pool | cuda");
}

static int
test_reset_vmm(void *unused)
{
    (void)unused;
    return resets("reset-vmm", "log | pool | vmm");
}

static int
test_detached(void *unused)
{
    (void)unused;
    return detaches("detached", NULL);
}

static int
test_redirected_detached(void *unused)
{
    (void)unused;
    return detaches("detached-redirected", "log | pool | cuda");
}

/* The stack of one device keeps its memory where a context of another device ends, and that one's keeps nothing. */
static int
test_redirected_devices(void *unused)
{
    CUcontext first, second;
    CUdeviceptr a = 0, b = 0;

    (void)unused;
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    if (!account_begin("ends-devices", "log | pool | cuda", NULL))
        return 1;
    CHECK(account.primary_retain(&first, 0) == CUDA_SUCCESS && account.primary_retain(&second, 1) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS && account.context_set(second) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        CHECK(account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS);
        CHECK(account.w_cuMemGetAddressRange_v2(NULL, NULL, b) == CUDA_SUCCESS); /* the driver knows its memory */
        CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
        CHECK(account.w_cuDevicePrimaryCtxReset_v2(1) == CUDA_SUCCESS);
        CHECK(account.primary_retain(&second, 1) == CUDA_SUCCESS && account.context_set(second) == CUDA_SUCCESS);
    }
    CHECK(account.context_set(first) == CUDA_SUCCESS && account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE); /* its pool has the memory on */
    return account_failures;
}

/* Stacks whose layers keep memory, each in a way of its own. */
static const char *const ended_stacks[] = {
    "log | pool | cuda",
    "log | pool | vmm",
    "log | pool | driver",
    "log | arena | vmm",
    "log | arena | driver",
    "log | monotonic(4MiB) | cuda",
    "log | monotonic(4MiB) | pool | vmm",
    "log | fixed(4MiB) | vmm",
    "log | binning(256KiB={fixed(256KiB)}) | pool | vmm",
    "log | binning(256KiB={monotonic(8MiB)}) | driver",
    "log | guard | pool | vmm",
    "log | fallback({pool(maximum=8MiB)|vmm}) | pool | cuda",
    "log | pool | monotonic(64MiB) | cuda",
    "log | pool | log | monotonic(64MiB) | vmm",
    "log | fixed(4MiB) | monotonic(64MiB) | cuda",
    "log | track | pool | track | monotonic(64MiB) | cuda",
    "log | pool | monotonic(64MiB) | pool | monotonic(256MiB) | vmm",
    "log | vmm",
    "log | driver",
};
#define ENDED_STACKS ((int)(sizeof(ended_stacks) / sizeof(ended_stacks[0])))

/* Contexts end in which some blocks are freed, and some are not. */
static int
ended_contexts(void *number)
{
    CUdeviceptr blocks[8];
    CUcontext other;
    char name[32];

    snprintf(name, sizeof(name), "ended-%d", *(const int *)number);
    if (!account_begin(name, ended_stacks[*(const int *)number], NULL))
        return 1;
    for (int i = 0; i < 2; i++) {
        CHECK(account.context_create(&other, 0, 0) == CUDA_SUCCESS);
        for (size_t k = 0; k < 8; k++)
            CHECK(account.w_cuMemAlloc_v2(&blocks[k], 200000 * (k + 1)) == CUDA_SUCCESS);
        for (size_t k = 0; k < 8; k += 2)
            CHECK(account.w_cuMemFree_v2(blocks[k]) == CUDA_SUCCESS);
        account_flush(); /* with a sample */
        CHECK(account.w_cuCtxDestroy_v2(other) == CUDA_SUCCESS);
    }
    account_flush();
    return account_failures;
}

/* What layers hold of the device by the last sample of each, in a trace. */
static bool
ended_with_nothing(int number)
{
    const char *trace;
    char name[32];

    snprintf(name, sizeof(name), "ended-%d", number);
    account_recover(name);
    trace = account_trace(name);
    if (sql_number(trace, "SELECT count(*) FROM pool_sample WHERE used_bytes > 0 AND reserved_bytes > 0") > 0 &&
        sql_number(trace, "SELECT coalesce(sum(max(used_bytes, reserved_bytes)), 0) FROM pool_sample AS s "
                          "WHERE ns = (SELECT max(ns) FROM pool_sample AS o WHERE o.layer_id = s.layer_id)") == 0)
        return true;
    diag("%s: %s", ended_stacks[number],
         sql_text(trace,
                  "SELECT group_concat(kind || ' ' || used_bytes || ' ' || reserved_bytes) FROM pool_sample AS s "
                  "JOIN layer USING (layer_id) WHERE ns = (SELECT max(ns) FROM pool_sample AS o "
                  "WHERE o.layer_id = s.layer_id)"));
    return false;
}

static bool
leave_nothing(void)
{
    bool nothing = true;

    for (int i = 0; i < ENDED_STACKS; i++) {
        bool passes = account_passes_with(ended_contexts, &i);

        nothing = ended_with_nothing(i) && passes && nothing;
    }
    return nothing;
}

#define LIVE_CONTEXTS 400

/* Many contexts that live at once have stacks of their own: no call looks through all of them. */
static int
test_live(void *unused)
{
    static CUcontext contexts[LIVE_CONTEXTS];
    static CUdeviceptr blocks[LIVE_CONTEXTS];
    size_t free_bytes = 0;
    CUcontext primary;
    unsigned looks;

    (void)unused;
    setenv("FAKE_CUDA_MEMORY", "64G", 1);
    if (!account_begin("live", "log | pool | cuda", "32GiB"))
        return 1;
    (void)point_count("stacks.looks");
    for (int i = 0; i < LIVE_CONTEXTS; i++) {
        CHECK(account.context_create(&contexts[i], 0, 0) == CUDA_SUCCESS);
        CHECK(account.w_cuMemAlloc_v2(&blocks[i], 100000) == CUDA_SUCCESS);
        CHECK(account.context_pop(NULL) == CUDA_SUCCESS);
    }
    for (int i = 0; i < 2 * LIVE_CONTEXTS; i++) {
        int k = i * 7 % LIVE_CONTEXTS;

        CHECK(account.context_set(contexts[k]) == CUDA_SUCCESS && account.w_cuMemFree_v2(blocks[k]) == CUDA_SUCCESS);
        CHECK(account.w_cuMemAlloc_v2(&blocks[k], 100000) == CUDA_SUCCESS);
    }
    looks = point_count("stacks.looks");
    diag("%u other stacks looked at in %d allocations", looks, 3 * LIVE_CONTEXTS);
    CHECK(looks < 8 * LIVE_CONTEXTS);
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
    for (int i = 0; i < LIVE_CONTEXTS; i++)
        CHECK(account.w_cuCtxDestroy_v2(contexts[i * 7 % LIVE_CONTEXTS]) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetInfo_v2(&free_bytes, NULL) == CUDA_SUCCESS && free_bytes == (size_t)32 << 30);
    CHECK(account.w_cuMemAlloc_v2(&blocks[0], 100000) == CUDA_SUCCESS);
    account_flush();
    return account_failures;
}

/*
 * The base of a redirected stack holds the primary context: after the program's last release it is there still, with
 * what is in it, and says so. A reset ends all of it. Without a base of its own the account holds nothing.
 */
static int
releases(const char *name, const char *stack, int still)
{
    unsigned flags = 0;
    int active = -1;
    CUdeviceptr a = 0;

    if (!account_begin(name, stack, "64MiB"))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 8 * MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
    CHECK(account.primary_state(0, &flags, &active) == CUDA_SUCCESS && active == still);
    CHECK((account.w_cuMemFree_v2(a) == CUDA_SUCCESS) == (still == 1));
    CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
    CHECK(account.primary_state(0, &flags, &active) == CUDA_SUCCESS && active == 0);
    return account_failures;
}

static int
test_released(void *unused)
{
    (void)unused;
    return releases("released", NULL, 0);
}

static int
test_redirected_released(void *unused)
{
    (void)unused;
    return releases("released-redirected", "log | pool | cuda", 1);
}

/* The driver refuses to destroy a primary context, and what is in it stays. */
static int
test_primary_stays(void *unused)
{
    CUdeviceptr a = 0, b = 0;
    CUcontext primary;

    (void)unused;
    if (!account_begin("primary", "log | pool | cuda", NULL))
        return 1;
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&a, MIB) == CUDA_SUCCESS);
    CHECK(account.w_cuCtxDestroy_v2(primary) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(account.w_cuMemGetAddressRange_v2(NULL, NULL, a) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&b, MIB) == CUDA_SUCCESS && a != b);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS && account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    return account_failures;
}

/* A base that frees its memory as cuMemAlloc's, by whatever name. */
static int
keeps_nothing(const char *name, const char *stack)
{
    CUdeviceptr a = 0, b = 0;
    CUcontext primary;

    if (!account_begin(name, stack, NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 100000) == CUDA_SUCCESS && account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS && account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemGetAddressRange_v2(NULL, NULL, b) == CUDA_SUCCESS);
    CHECK(account.w_cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
    CHECK(account.primary_retain(&primary, 0) == CUDA_SUCCESS && account.context_set(primary) == CUDA_SUCCESS);
    CHECK(account.w_cuMemAlloc_v2(&b, 100000) == CUDA_SUCCESS);
    CHECK(account.w_cuMemGetAddressRange_v2(NULL, NULL, b) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(b) == CUDA_SUCCESS);
    return account_failures;
}

static int
test_without_vmm(void *unused)
{
    (void)unused;
    setenv("FAKE_CUDA_NO_VMM", "1", 1);
    return keeps_nothing("no-vmm", "log | pool | vmm(fallback=cuda)");
}

static int
test_pinned_base(void *unused)
{
    (void)unused;
    return keeps_nothing("pinned-base", "log | pool | pinned");
}

int
main(void)
{
    if (!account_find())
        skip_all("there is no fake driver");
    if (!CHILDREN_MAY_RECORD)
        skip_all("children record nothing here");
    plan(32);
    (void)scratch("here"); /* the folder is made before the first child */
    ok(account_passes(test_contexts),
       "a context that ends takes its blocks along, and the limit gets their bytes back");
    ok(account_passes(test_redirected_contexts),
       "a context that ends with redirected memory leaves nothing of it in the pool");
    ok(account_passes(test_redirected_many),
       "each context has a stack of its own, of which nothing is left after its end");
    account_recover("many");
    ok(sql_number(account_trace("many"),
                  "SELECT count(*) FROM layer AS l WHERE kind = 'pool' AND (SELECT reserved_bytes "
                  "FROM pool_sample AS s WHERE s.layer_id = l.layer_id ORDER BY ns DESC LIMIT 1) > 0") == 1,
       "a stack that has ended has no bytes in the trace");
    ok(sql_number(account_trace("many"), "SELECT count(*) FROM layer") == 12 &&
           sql_number(account_trace("many"), "SELECT count(*) FROM meta WHERE key LIKE 'stack%%'") == 3,
       "contexts that follow each other have the same layers in the trace");
    ok(sql_number(account_trace("many"), "SELECT sum(value) FROM layer_count WHERE name = 'grown'") == 61 &&
           trace_is_sound(account_trace("many")),
       "what layers count goes on from one context to the next");
    ok(account_passes(test_redirected_threads), "a context ends beside threads that allocate in another one");
    ok(account_passes(test_green), "memory of a green context is the primary context's, and ends with that");
    ok(account_passes(test_redirected_green), "redirected memory of a green context is the primary context's, too");
    ok(account_passes(test_green_last), "memory ends where a green context was the last to hold the primary one");
    ok(account_passes(test_detached), "a context that is detached from for the last time takes its blocks along");
    ok(account_passes(test_redirected_detached), "a context that is detached from takes its redirected blocks along");
    ok(account_passes(test_detached_driver),
       "a context that is detached from leaves nothing in a pool of the driver's");
    ok(all_detach(),
       "no base loses memory with a context that ends by a detachment, on a thread that has no other one");
    ok(account_passes(test_detached_threads), "a context that ends frees no memory of another one at the same address");
    ok(account_passes(test_freed_meanwhile), "a context is destroyed while another thread frees its blocks");
    ok(account_passes(test_own_fails), "where the stack of one context cannot be made, others get theirs");
    ok(account_passes(test_reset_cuda), "a reset beside threads that allocate loses no memory of cuda");
    ok(account_passes(test_reset_driver), "a reset beside threads that allocate loses no memory of driver");
    ok(account_passes(test_reset_vmm), "a reset beside threads that allocate loses no memory of vmm");
    ok(account_passes(test_own_calls), "a context that ends waits for no call in another one, nor for its work");
    ok(account_passes(test_own_calls_unknown),
       "a context that ends waits for no free of a block that the account does not know");
    ok(account_passes(test_passed_by),
       "without a limit a context for whose stack there is no room has the driver's memory");
    account_recover("passed-by");
    ok(sql_number(account_trace("passed-by"), "SELECT sum(events) FROM loss WHERE reason = 'allocation without an "
                                              "account'") == 3 &&
           sql_number(account_trace("passed-by"), "SELECT value FROM meta WHERE key = 'complete'") == 0,
       "what passed without an account is a loss in the trace, also of a process that is killed");
    ok(account_passes(test_redirected_devices), "a context that ends takes nothing of another device's stack");
    ok(leave_nothing(), "by its last sample no layer of a context that has ended has memory");
    ok(account_passes(test_live), "no call looks through the stacks of all contexts that live at once");
    ok(account_passes(test_primary_stays),
       "a primary context that the driver does not destroy keeps its redirected memory");
    ok(account_passes(test_released), "the last release of the primary context ends it, and the memory in it");
    ok(account_passes(test_redirected_released), "where the base of a stack holds the primary context it is active "
                                                 "after the last release, and ends with a reset");
    ok(account_passes(test_without_vmm), "a stack on vmm that falls back to cuda is treated as one on cuda");
    ok(account_passes(test_pinned_base), "a stack on pinned memory keeps nothing of a context that has ended");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
