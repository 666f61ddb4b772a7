/* Tests stacks over the base `driver` on a real GPU: from text, with the contract of every adaptor, across streams. */
#include "tests/gpu/gpu.h"
#include "tests/gpu/lock.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <tidemark/tidemark.h>

#include "tests/contract.h"
#include "tests/gate.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define MIB   ((size_t)1 << 20)
#define WORDS ((uint32_t)1 << 18) /* 1 MiB */

static struct tide_resource *
stack_new(const char *text)
{
    struct tide_resource *stack = NULL;

    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s", tide_error_text());
    return stack;
}

static void
test_text(void)
{
    const char *text = "statistics | limit(256MiB) | driver(release_threshold=64MiB, maximum=1GiB)";
    struct tide_resource *stack = stack_new(text);
    char described[256] = "";
    uint64_t capacity = 0;

    tide_describe(stack, described, sizeof(described), NULL);
    is_string(described, text, "a stack over a driver is described as it was written");
    ok(tide_query(stack, TIDE_QUERY_CAPACITY, &capacity) == TIDE_OK, "a stack over a driver has a capacity");
    tide_resource_release(stack);
    ok(all_of(tide_stack_parse("statistics | driver(device=1000)", &stack) == TIDE_EINVAL, stack == NULL),
       "a device that does not exist is refused");
    has_words(tide_error_text(), "device 1000", "the refusal names the device that does not exist");
    diag("%s", tide_error_text());
    ok(all_of(tide_stack_parse("driver(default=true, maximum=1GiB)", &stack) == TIDE_EINVAL, stack == NULL),
       "a maximum for the default pool is refused");
}

static void
test_figures(void)
{
    struct tide_resource *stack = stack_new("statistics | limit(64MiB) | driver");
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    void *first = NULL;
    void *second = &gpu;

    ok(tide_allocate(stack, 48 * MIB, 256, 0, &first) == TIDE_OK, "48 MiB of a limit of 64 are allocated");
    ok(all_of(tide_allocate(stack, 32 * MIB, 256, 0, &second) == TIDE_ELIMIT, second == NULL),
       "with 48 MiB of a limit of 64 in use, 32 more are refused");
    ok(all_of(tide_allocate(stack, SIZE_MAX, 256, 0, &second) != TIDE_OK, second == NULL), "SIZE_MAX is refused");
    ok(tide_deallocate(stack, first, 48 * MIB, 256, 0) == TIDE_OK, "the 48 MiB are freed");
    ok(all_of(tide_statistics_read(stack, &figures) == TIDE_OK, figures.bytes.current == 0,
              figures.bytes.peak == (int64_t)(48 * MIB), figures.count.total == 1),
       "a refused request is not counted");
    tide_resource_release(stack);
    stack = stack_new("statistics | driver(maximum=64MiB)");
    ok(all_of(tide_allocate(stack, 100 * MIB, 256, 0, &second) == TIDE_ECAPACITY, second == NULL),
       "a refusal of the driver is passed on by the stack");
    ok(all_of(tide_statistics_read(stack, &figures) == TIDE_OK, figures.bytes.current == 0, figures.count.total == 0),
       "a request that the driver refuses is not counted");
    tide_resource_release(stack);
}

#define REUSE_TESTS 5

/*
 * A block is freed on one stream and allocated on another. The second writer waits for the first, which is held, so
 * that its words stay. Without order the held writer would come last.
 */
static void
test_reuse(const char *text)
{
    const size_t bytes = WORDS * sizeof(uint32_t);
    struct tide_resource *stack = stack_new(text);
    struct gpu_hold hold = { 0 };
    CUstream first = NULL;
    CUstream second = NULL;
    CUcontext primary;
    uint32_t *seen = NULL;
    void *block = NULL;
    void *again = NULL;
    CUdeviceptr address;

    gpu.primary_retain(&primary, 0);
    gpu.context_set(primary);
    gpu.stream_create(&first, CU_STREAM_NON_BLOCKING);
    gpu.stream_create(&second, CU_STREAM_NON_BLOCKING);
    gpu.host_alloc((void **)&seen, bytes, 0);
    if (!gpu_hold_open(&hold)) {
        skip(REUSE_TESTS, "this device cannot run the test's kernel");
        goto out;
    }
    ok(all_of(tide_allocate(stack, bytes, 256, (tide_stream)first, &block) == TIDE_OK,
              gpu_hold_fill(&hold, first, block, WORDS, 2),
              tide_deallocate(stack, block, bytes, 256, (tide_stream)first) == TIDE_OK),
       "%s: a block is freed on a stream that has yet to write to it", text);
    ok(all_of(tide_allocate(stack, bytes, 256, (tide_stream)second, &again) == TIDE_OK, again == block),
       "%s: another stream gets the freed block", text);
    address = (CUdeviceptr)(uintptr_t)again;
    ok(all_of(gpu.memset_d32_async(address, 3, WORDS, second) == CUDA_SUCCESS,
              gpu.memcpy_dtoh_async(seen, address, bytes, second) == CUDA_SUCCESS,
              gpu.stream_query(second) == CUDA_ERROR_NOT_READY),
       "%s: the other stream's write waits for the first stream", text);
    gpu_hold_go(&hold);
    ok(all_of(gpu.context_synchronize() == CUDA_SUCCESS, seen[0] == 3, seen[WORDS - 1] == 3),
       "%s: the other stream's write comes last", text);
    ok(tide_deallocate(stack, again, bytes, 256, (tide_stream)second) == TIDE_OK,
       "%s: the other stream frees the block", text);
out:
    gpu_hold_close(&hold);
    gpu.host_free(seen);
    /* Before the stack is released, which must not name the streams any more. */
    gpu.stream_destroy(first);
    gpu.stream_destroy(second);
    gpu.context_set(NULL);
    gpu.primary_release(0);
    tide_resource_release(stack);
}

/* Release the held kernels, after the main thread had time to wait for them. */
static void *
let_go(void *hold)
{
    const struct timespec pause = { .tv_nsec = 50000000 };

    nanosleep(&pause, NULL);
    gpu_hold_go(hold);
    return NULL;
}

/* The streams and memory of a scene with destroyed streams. */
struct gone_scene {
    struct gpu_hold hold;
    CUstream first, second;
    pthread_t thread; /* once `held` */
    bool held;
    uint32_t *seen; /* pinned, 1 MiB */
};

static bool
gone_open(struct gone_scene *scene)
{
    CUcontext primary;

    memset(scene, 0, sizeof(*scene));
    gpu.primary_retain(&primary, 0);
    gpu.context_set(primary);
    gpu.stream_create(&scene->first, CU_STREAM_NON_BLOCKING);
    gpu.stream_create(&scene->second, CU_STREAM_NON_BLOCKING);
    gpu.host_alloc((void **)&scene->seen, MIB, 0);
    return gpu_hold_open(&scene->hold);
}

static void
gone_close(struct gone_scene *scene)
{
    gpu_hold_close(&scene->hold);
    gpu.host_free(scene->seen);
    gpu.stream_destroy(scene->second);
    gpu.context_set(NULL);
    gpu.primary_release(0);
}

/* Free a block on `first`, which is held and is to write to it afterwards, and destroy the stream. */
static bool
gone_free(struct gone_scene *scene, struct tide_resource *stack, void *block)
{
    scene->held = gpu_hold_fill(&scene->hold, scene->first, block, WORDS, 2) &&
                  tide_deallocate(stack, block, MIB, 256, (tide_stream)scene->first) == TIDE_OK &&
                  gpu.stream_destroy(scene->first) == CUDA_SUCCESS &&
                  pthread_create(&scene->thread, NULL, let_go, &scene->hold) == 0;
    return scene->held;
}

/* Whether the write of `second` to the block comes after the held one. */
static bool
gone_comes_last(struct gone_scene *scene, void *block)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block;
    /* Write at once: if nobody waited, the first stream is still held. */
    bool written = gpu.memset_d32_async(address, 3, WORDS, scene->second) == CUDA_SUCCESS;

    if (scene->held)
        pthread_join(scene->thread, NULL);
    return scene->held && written && gpu.context_synchronize() == CUDA_SUCCESS &&
           gpu.memcpy_dtoh_async(scene->seen, address, MIB, scene->second) == CUDA_SUCCESS &&
           gpu.stream_synchronize(scene->second) == CUDA_SUCCESS && scene->seen[0] == 3 && scene->seen[WORDS - 1] == 3;
}

#define GONE_TESTS 4

/* The application destroys a stream after it has ordered all streams. */
static void
test_gone(void)
{
    struct tide_resource *stack = stack_new("binning(1MiB={fixed(1MiB)}) | driver");
    struct gone_scene scene;
    void *block = NULL;
    void *again = NULL;

    if (!gone_open(&scene)) {
        skip(GONE_TESTS, "this device cannot run the test's kernel");
        goto out;
    }
    tide_allocate(stack, MIB, 256, (tide_stream)scene.first, &block);
    ok(all_of(block != NULL, gone_free(&scene, stack, block)),
       "a stream is destroyed while it has yet to write to a freed block");
    ok(tide_order(stack, TIDE_STREAM_ALL, 0) == TIDE_OK, "stream 0 is ordered behind all streams");
    ok(all_of(tide_allocate(stack, MIB, 256, (tide_stream)scene.second, &again) == TIDE_OK, again == block),
       "another stream gets the block of the destroyed stream");
    ok(gone_comes_last(&scene, again), "the write of the other stream comes after that of the destroyed stream");
    tide_deallocate(stack, again, MIB, 256, (tide_stream)scene.second);
out:
    gone_close(&scene);
    tide_resource_release(stack);
}

#define MOST_BLOCKS        256
#define GONE_PRESSED_TESTS 4

/* A full pool whose streams cannot be ordered: the block has to go back, although its stream was destroyed. */
static void
test_gone_pressed(void)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = MIB };
    struct gate *gate = gate_create(stack_new("driver(maximum=64MiB)"));
    struct tide_resource *stack = NULL;
    struct gone_scene scene;
    void *blocks[MOST_BLOCKS] = { NULL };
    void *again = NULL;
    size_t count = 0;

    gate->order_status = TIDE_EDRIVER;
    tide_fixed_create(&gate->base, &options, &stack);
    if (!gone_open(&scene)) {
        skip(GONE_PRESSED_TESTS, "this device cannot run the test's kernel");
        goto out;
    }
    while (count < MOST_BLOCKS && tide_allocate(stack, MIB, 256, (tide_stream)scene.first, &blocks[count]) == TIDE_OK)
        count++;
    diag("%zu blocks of 1 MiB fill a pool of 64 MiB", count);
    ok(all_of(count > 0, count < MOST_BLOCKS), "a pool is filled with blocks");
    ok(gone_free(&scene, stack, blocks[0]),
       "a block of the full pool is freed on a stream that is destroyed before it has written to it");
    ok(tide_allocate(stack, MIB, 256, (tide_stream)scene.second, &again) == TIDE_OK,
       "a stream that cannot be ordered gets the block from the pool, to which it has gone back");
    ok(gone_comes_last(&scene, again), "the write to the block from the pool comes last");
out:
    gone_close(&scene);
    /* A block that is still allocated goes back, too, although its stream was destroyed. */
    tide_resource_release(stack);
    tide_resource_release(&gate->base);
}

static struct tide_resource *
contract_create(void *context)
{
    return stack_new(context);
}

static void
check_contract(const char *name, const char *text)
{
    struct contract contract = {
        .name = name, .create = contract_create, .context = (void *)(uintptr_t)text, .largest_bytes = MIB
    };

    contract_check(&contract);
}

#define CONTRACTS 4

int
main(void)
{
    const char *reason;

    gpu_lock(true);
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    plan(12 + 2 * REUSE_TESTS + GONE_TESTS + GONE_PRESSED_TESTS + CONTRACTS * CONTRACT_TESTS);
    gpu_diag();
    test_text();
    test_figures();
    test_reuse("fixed(1MiB) | driver");
    test_reuse("binning(64KiB..4MiB) | driver");
    test_gone();
    test_gone_pressed();
    check_contract("statistics", "statistics | driver");
    check_contract("limit", "limit(8GiB) | driver(release_threshold=1GiB)");
    check_contract("fixed", "fixed(1MiB) | driver");
    /* Bins that keep no blocks: blocks that a range keeps count as used below. */
    check_contract("binning", "binning(4KiB={statistics}, 64KiB={limit(8GiB)}) | driver");
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
