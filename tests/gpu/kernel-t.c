/*
 * Tests kernels that read and write the memory of stacks, over every base and from several threads, and measures what a
 * pool saves over cuMemAlloc.
 */
#include "tests/gpu/lock.h"
#include "tests/gpu/work.h"

#include <pthread.h>

#include "tests/gpu/parts.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define BLOCKS       6
#define KERNEL_TESTS 5

static const size_t block_bytes[BLOCKS] = { 4, 4096, 256 * 1024 + 4, MIB, 3 * MIB + 12, 64 * MIB };

/* All blocks are allocated at once, each with words of its own, so that overlapping blocks are found. */
static void
test_words(struct gpu_work *work, const char *text)
{
    struct tide_resource *stack = gpu_stack("%s", text);
    void *blocks[BLOCKS] = { NULL };
    uint32_t wrong = 0;
    uint32_t last = 0;
    bool done = true;

    if (stack == NULL) {
        skip(KERNEL_TESTS, tide_error_text());
        return;
    }
    for (int i = 0; i < BLOCKS; i++)
        done = gpu_allocates(stack, block_bytes[i], work->first, &blocks[i]) && done;
    ok(done, "%s: blocks of 4 B to 64 MiB are allocated", text);
    for (uint32_t i = 0; i < BLOCKS && done; i++)
        done = gpu_fill(&work->kernels, work->first, blocks[i], (uint32_t)(block_bytes[i] / 4), 100 * i) && done;
    for (uint32_t i = 0; i < BLOCKS && done; i++)
        done = gpu_add(&work->kernels, work->first, blocks[i], (uint32_t)(block_bytes[i] / 4), i + 1) && done;
    ok(done, "%s: kernels write and add to all blocks", text);
    for (uint32_t i = 0; i < BLOCKS && done; i++)
        wrong += gpu_count_wrong(&work->kernels, work->first, blocks[i], (uint32_t)(block_bytes[i] / 4), 101 * i + 1);
    is_u64(wrong, 0, "every word of every block is what the kernels left");
    done = done &&
           gpu.memcpy_dtoh_async(&last, (CUdeviceptr)(uintptr_t)blocks[BLOCKS - 1] + block_bytes[BLOCKS - 1] - 4, 4,
                                 work->first) == CUDA_SUCCESS &&
           gpu.stream_synchronize(work->first) == CUDA_SUCCESS;
    ok(all_of(done, last == 101 * (BLOCKS - 1) + 1), "%s: the host reads the last block back", text);
    for (int i = 0; i < BLOCKS; i++)
        done = gpu_frees(stack, blocks[i], block_bytes[i], work->first) && done;
    ok(done, "%s: all blocks are freed", text);
    gpu.stream_synchronize(work->first);
    tide_resource_release(stack);
}

#define THREADS    4
#define ITERATIONS 50

/* A thread with a stream of its own, which outlives the stack, since the stack may name it until its end. */
struct worker {
    pthread_t thread;
    CUstream stream;
    const struct gpu_work *work;
    struct tide_resource *stack;
    uint32_t number;
    CUdeviceptr wrong; /* one word */
    bool done;
};

static bool
worker_iterate(struct worker *worker, uint32_t value)
{
    CUstream stream = worker->stream;
    const struct gpu_kernels *kernels = &worker->work->kernels;
    const uint32_t words = 1000 + 997 * (value % 64);
    void *block;

    return gpu_allocates(worker->stack, words * sizeof(uint32_t), stream, &block) &&
           gpu_fill(kernels, stream, block, words, value) && gpu_add(kernels, stream, block, words, value) &&
           gpu_verify(kernels, stream, block, words, 2 * value, worker->wrong) &&
           gpu_frees(worker->stack, block, words * sizeof(uint32_t), stream);
}

/* Nothing waits for a kernel: the memory is freed while the kernel runs. */
static void *
worker_run(void *context)
{
    struct worker *worker = context;

    worker->done = gpu.context_set(worker->work->context) == CUDA_SUCCESS;
    for (uint32_t i = 0; i < ITERATIONS && worker->done; i++)
        worker->done = worker_iterate(worker, worker->number * 1000 + i);
    worker->done = gpu.stream_synchronize(worker->stream) == CUDA_SUCCESS && worker->done;
    gpu.context_set(NULL);
    return NULL;
}

#define THREADS_TESTS 3

static void
test_threads(struct gpu_work *work, const char *text)
{
    struct tide_resource *stack = gpu_stack("%s", text);
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct worker workers[THREADS];
    uint32_t wrong[THREADS] = { 1, 1, 1, 1 };
    CUdeviceptr counters = 0;
    bool done = stack != NULL && gpu.mem_alloc(&counters, sizeof(wrong)) == CUDA_SUCCESS &&
                gpu.memset_d32_async(counters, 0, THREADS, work->first) == CUDA_SUCCESS &&
                gpu.stream_synchronize(work->first) == CUDA_SUCCESS;

    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){ .work = work, .stack = stack, .number = i + 1, .wrong = counters + i * sizeof(uint32_t) };
        gpu.stream_create(&workers[i].stream, CU_STREAM_NON_BLOCKING);
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        done = workers[i].done && done;
    }
    ok(done, "%s: four threads allocate, run kernels and free, each on its stream", text);
    ok(all_of(gpu.memcpy_dtoh_async(wrong, counters, sizeof(wrong), work->first) == CUDA_SUCCESS,
              gpu.stream_synchronize(work->first) == CUDA_SUCCESS, wrong[0] + wrong[1] + wrong[2] + wrong[3] == 0),
       "%s: no thread has seen a word of another", text);
    ok(all_of(tide_statistics_read(stack, &figures) == TIDE_OK, figures.bytes.current == 0,
              figures.count.total == THREADS * ITERATIONS),
       "%s: every allocation of the threads is counted, and nothing is left in use", text);
    gpu.mem_free(counters);
    tide_resource_release(stack);
    for (uint32_t i = 0; i < THREADS; i++)
        gpu.stream_destroy(workers[i].stream);
}

/* Nanoseconds for each of 100 iterations: allocate, have a kernel fill the block, free it. 0 if a call fails. */
static uint64_t
iterations_ns(struct gpu_work *work, struct tide_resource *stack, uint32_t *wrong)
{
    const uint32_t words = (uint32_t)(MIB / sizeof(uint32_t));
    uint64_t start, spent = 0;
    void *block;

    for (uint32_t i = 0; i < 101; i++) {
        start = gpu_now_ns();
        if (!gpu_allocates(stack, MIB, work->first, &block) || !gpu_fill(&work->kernels, work->first, block, words, i))
            return 0;
        /* The first iteration, which sets up, and the last are checked; no other is waited for. */
        if (i == 0 || i == 100)
            *wrong += gpu_count_wrong(&work->kernels, work->first, block, words, i);
        if (!gpu_frees(stack, block, MIB, work->first))
            return 0;
        if (i != 0 && i != 100)
            spent += gpu_now_ns() - start;
    }
    return spent / 99;
}

static void
test_speed(struct gpu_work *work)
{
    struct tide_resource *cuda = gpu_stack("cuda");
    struct tide_resource *driver = gpu_stack("driver");
    uint64_t cuda_ns = 0;
    uint64_t driver_ns;
    uint32_t wrong = 0;

    driver_ns = iterations_ns(work, driver, &wrong);
    ok(all_of(driver_ns != 0, wrong == 0), "100 times: allocate from the driver's pool, run a kernel, free");
    if (cuda != NULL)
        cuda_ns = iterations_ns(work, cuda, &wrong);
    if (cuda == NULL)
        skip(1, "this build has no base cuda");
    else
        ok(all_of(cuda_ns != 0, wrong == 0), "100 times: allocate by cuMemAlloc, run a kernel, free by cuMemFree");
    diag("allocate, kernel, free of 1 MiB: cuMemAlloc %" PRIu64 " ns, the driver's pool %" PRIu64
         " ns: %.1f times as fast",
         cuda_ns, driver_ns, driver_ns != 0 ? (double)cuda_ns / (double)driver_ns : 0);
    tide_resource_release(cuda);
    tide_resource_release(driver);
}

static const char *const kernel_stacks[] = {
    "driver",
    "driver(default=true)",
    "statistics | limit(1GiB) | driver(release_threshold=1GiB)",
    "binning(64KiB..4MiB) | driver",
    "cuda",
    "managed",
    "pinned(mapped=true)",
    "pool | driver",
    "arena | driver",
    "fallback({driver(maximum=32MiB)}) | cuda",
};

#define KERNEL_STACKS ((int)(sizeof(kernel_stacks) / sizeof(kernel_stacks[0])))

static void
all_stacks(struct gpu_work *work)
{
    gpu_diag();
    for (int i = 0; i < KERNEL_STACKS; i++)
        test_words(work, kernel_stacks[i]);
}

static void
all_threads(struct gpu_work *work)
{
    test_threads(work, "statistics | driver");
    test_threads(work, "statistics | limit(1GiB) | driver(release_threshold=1GiB)");
    test_threads(work, "statistics | binning(4KiB..1MiB) | driver");
    test_threads(work, "statistics | pool | driver");
}

#define STACKS_TESTS (KERNEL_STACKS * KERNEL_TESTS)
#define SPEED_TESTS  2

static void
part_stacks(void)
{
    gpu_with_work(all_stacks, STACKS_TESTS);
}

static void
part_threads(void)
{
    gpu_with_work(all_threads, 4 * THREADS_TESTS);
}

static void
part_speed(void)
{
    gpu_with_work(test_speed, SPEED_TESTS);
}

static const struct gpu_part parts[] = {
    { "stacks", STACKS_TESTS, part_stacks },
    { "threads", 4 * THREADS_TESTS, part_threads },
    { "speed", SPEED_TESTS, part_speed },
};

int
main(int argc, char **argv)
{
    gpu_lock(true);
    return gpu_parts_main(argc, argv, parts, sizeof(parts) / sizeof(parts[0]));
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
