/* Tests the bridge on a device, as a framework calls it: graphs, streams, limits, and threads without a context. */
#include "tests/gpu/work.h"

#include "tests/gpu/summary.h"
#include "tests/find.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#include <pthread.h>

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

static const struct tide_torch_pool pool_id = { 1, 0 };

static struct tide_bridge_figures
figures_now(void)
{
    struct tide_bridge_figures figures = { TIDE_FIGURES(figures) };

    if (tide_bridge_read(0, &figures) != TIDE_OK)
        diag("%s", tide_error_text());
    return figures;
}

/* is_u64 for tests that run over several bases. */
static void
same(uint64_t seen, uint64_t wanted, const char *base, const char *sentence)
{
    if (!ok(seen == wanted, "over %s %s", base, sentence))
        diag("seen %" PRIu64 ", wanted %" PRIu64, seen, wanted);
}

static void
use(const char *text)
{
    if (tide_bridge_use(text) != TIDE_OK)
        diag("%s: %s", text, tide_error_text());
}

/* A graph of one stream, with what lies outside of it. */
struct captured {
    CUgraph graph;
    CUgraphExec executable;
    void *outside; /* WORDS words, each launch adds 1 */
    void *dropped; /* freed while the capture goes on */
    void *inside, *again, *beside, *legacy;
    bool worked;
};

/* What PyTorch does from begin to end of a capture, in its order. */
static void
capture(struct captured *captured, struct gpu_work *work)
{
    CUstream stream = work->first;

    tide_torch_begin(0, pool_id, NULL);
    captured->worked = gpu.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS;
    captured->inside = tide_torch_alloc(MIB, 0, stream);
    captured->worked = captured->worked && gpu_fill(&work->kernels, stream, captured->inside, WORDS, 7) &&
                       gpu_add(&work->kernels, stream, captured->outside, WORDS, 1);
    tide_torch_free(captured->dropped, MIB, 0, stream);
    tide_torch_free(captured->inside, MIB, 0, stream);
    captured->again = tide_torch_alloc(MIB, 0, stream);
    captured->beside = tide_torch_alloc(3 * MIB, 0, work->second);
    captured->legacy = tide_torch_alloc(MIB, 0, NULL);
    captured->worked = captured->worked && gpu_add(&work->kernels, stream, captured->again, WORDS, 1) &&
                       gpu.stream_end_capture(stream, &captured->graph) == CUDA_SUCCESS;
    tide_torch_end(0, pool_id);
    captured->worked =
        captured->worked && gpu.graph_instantiate(&captured->executable, captured->graph, 0) == CUDA_SUCCESS;
}

static bool
launch(const struct captured *captured, struct gpu_work *work, int times)
{
    bool done = captured->executable != NULL;

    for (int i = 0; done && i < times; i++)
        done = gpu.graph_launch(captured->executable, work->first) == CUDA_SUCCESS;
    return done && gpu.stream_synchronize(work->first) == CUDA_SUCCESS;
}

#define CAPTURE_TESTS 14

/* On each base: what is allocated in a capture must be no part of the graph. */
static void
test_capture(struct gpu_work *work, const char *base)
{
    const char *trace = scratch("capture-%s.db", base);
    struct captured captured = { 0 };
    uint64_t frees;
    char text[300];

    snprintf(text, sizeof(text), "log(%s) | limit(1GiB) | pool | %s", trace, base);
    use(text);
    captured.outside = tide_torch_alloc(MIB, 0, work->first);
    captured.dropped = tide_torch_alloc(MIB, 0, work->first);
    gpu_fill(&work->kernels, work->first, captured.outside, WORDS, 100);
    frees = figures_now().frees;
    capture(&captured, work);
    ok(captured.worked, "over %s a graph is captured that allocates, with a free of a block from outside", base);
    ok(all_of(captured.inside != NULL, captured.beside != NULL, captured.legacy != NULL),
       "over %s a capture, a stream beside it and the legacy stream get memory", base);
    ok(captured.inside == captured.again, "over %s a block that a capture has freed serves it again", base);
    same(figures_now().frees, frees + 1, base, "a free within a capture is done at its end");
    ok(launch(&captured, work, 3), "over %s the graph is launched three times", base);
    same(gpu_count_wrong(&work->kernels, work->first, captured.outside, WORDS, 103), 0, base,
         "the graph works on data from outside");
    same(gpu_count_wrong(&work->kernels, work->first, captured.again, WORDS, 8), 0, base,
         "the graph works on its own memory");
    tide_torch_free(captured.again, MIB, 0, work->first);
    {
        void *other = tide_torch_alloc(MIB, 0, work->first);

        ok(other != captured.again, "over %s memory of a graph is given to nobody else while its pool lives", base);
        tide_torch_free(other, MIB, 0, work->first);
    }
    ok(launch(&captured, work, 1), "over %s the graph is launched after the program has freed its memory", base);
    same(gpu_count_wrong(&work->kernels, work->first, captured.outside, WORDS, 104), 0, base, "that launch works, too");
    same(figures_now().live_bytes, 6 * MIB, base, "memory of a graph is outstanding until its pool is released");
    gpu.graph_exec_destroy(captured.executable);
    gpu.graph_destroy(captured.graph);
    tide_torch_release(0, pool_id);
    same(figures_now().live_bytes, 5 * MIB, base, "the release of the pool gives the memory of its graph back");
    tide_torch_free(captured.outside, MIB, 0, work->first);
    tide_torch_free(captured.beside, 3 * MIB, 0, work->second);
    tide_torch_free(captured.legacy, MIB, 0, NULL);
    same(figures_now().live_bytes, 0, base, "nothing is outstanding at the end of a graph's program");
    tide_bridge_end();
    ok(trace_is_whole(trace), "over %s the trace of a program with a graph is whole", base);
}

#define BLOCKING_TESTS 4

/* The capture of a stream that the legacy stream waits for: nothing may be done on the legacy stream meanwhile. */
static void
test_blocking(struct gpu_work *work)
{
    CUgraph graph = NULL;
    CUstream stream;
    void *before, *inside, *legacy;

    if (gpu.stream_create(&stream, CU_STREAM_DEFAULT) != CUDA_SUCCESS)
        abort();
    use("pool | driver");
    before = tide_torch_alloc(MIB, 0, NULL);
    tide_torch_free(tide_torch_alloc(MIB, 0, stream), MIB, 0, stream);
    tide_torch_begin(0, pool_id, NULL);
    gpu.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    inside = tide_torch_alloc(MIB, 0, stream);
    legacy = tide_torch_alloc(MIB, 0, NULL);
    tide_torch_free(before, MIB, 0, NULL);
    tide_torch_reset();
    ok(all_of(inside != NULL, legacy != NULL, gpu_fill(&work->kernels, stream, inside, WORDS, 1)),
       "beside the capture of a blocking stream the legacy stream gets memory");
    ok(all_of(gpu.stream_end_capture(stream, &graph) == CUDA_SUCCESS, graph != NULL),
       "neither an allocation nor a free on the legacy stream spoils that capture, nor does empty_cache");
    tide_torch_end(0, pool_id);
    is_u64(figures_now().live_bytes, 2 * MIB, "the free on the legacy stream is done at the end of the capture");
    if (graph != NULL)
        gpu.graph_destroy(graph);
    tide_torch_free(inside, MIB, 0, stream);
    tide_torch_free(legacy, MIB, 0, NULL);
    tide_torch_release(0, pool_id);
    is_u64(figures_now().live_bytes, 0, "after the capture of a blocking stream nothing is outstanding");
    tide_bridge_end();
    gpu.stream_destroy(stream);
}

#define KEPT_TESTS 5

/* A pool is begun twice and released once; a block outlives its pool; a capture that fails; a use that ends. */
static void
test_pool(struct gpu_work *work)
{
    CUgraph graph = NULL;
    void *block, *waiting;

    use("pool | driver");
    waiting = tide_torch_alloc(MIB, 0, work->first);
    for (int i = 0; i < 2; i++) {
        tide_torch_begin(0, pool_id, NULL);
        gpu.stream_begin_capture(work->first, CU_STREAM_CAPTURE_MODE_GLOBAL);
        if (i == 0)
            block = tide_torch_alloc(MIB, 0, work->first);
        else
            tide_torch_free(waiting, MIB, 0, work->first);
        tide_torch_free(i == 0 ? block : NULL, MIB, 0, work->first);
        gpu.stream_end_capture(work->first, &graph);
        gpu.graph_destroy(graph);
        if (i == 0)
            tide_torch_end(0, pool_id);
    }
    is_u64(figures_now().live_count, 2, "a free waits while a capture has not been ended");
    tide_torch_release(0, pool_id);
    is_u64(figures_now().live_count, 2, "a pool that was begun twice stays after one release");
    tide_torch_release(0, pool_id);
    is_u64(figures_now().live_count, 0, "the last release gives all back, also where a capture was never ended");

    tide_torch_begin(0, pool_id, NULL);
    gpu.stream_begin_capture(work->first, CU_STREAM_CAPTURE_MODE_RELAXED);
    block = tide_torch_alloc(MIB, 0, work->first);
    gpu.stream_end_capture(work->first, &graph);
    gpu.graph_destroy(graph);
    tide_torch_end(0, pool_id);
    tide_torch_release(0, pool_id);
    ok(all_of(figures_now().live_count == 1, tide_bridge_end() == TIDE_OK),
       "a block that the program still has outlives its pool, and its use");
    tide_torch_free(block, MIB, 0, work->first);
    is_u64(figures_now().live_count, 0, "a block that outlived its pool is freed as any other");
}

#define LATE_TESTS 4

/* The end of the pool is told before that of the capture: the free goes on waiting, but not for another capture. */
static void
test_late(struct gpu_work *work)
{
    void *waiting, *block;
    CUgraph graph = NULL;

    use("pool | driver");
    waiting = tide_torch_alloc(MIB, 0, work->first);
    tide_torch_begin(0, pool_id, NULL);
    gpu.stream_begin_capture(work->first, CU_STREAM_CAPTURE_MODE_GLOBAL);
    tide_torch_free(waiting, MIB, 0, work->first);
    tide_torch_end(0, pool_id);
    is_u64(figures_now().live_count, 1, "a free waits while its stream is captured, also after the end of the pool");
    ok(all_of(gpu.stream_end_capture(work->first, &graph) == CUDA_SUCCESS, graph != NULL),
       "that capture is not spoiled");
    gpu.graph_destroy(graph);
    block = tide_torch_alloc(MIB, 0, work->second);
    is_u64(figures_now().live_count, 1, "once the capture has ended the next call of the bridge does the free");
    tide_torch_free(block, MIB, 0, work->second);
    tide_torch_release(0, pool_id);
    is_u64(figures_now().live_count, 0, "nothing is outstanding after a capture whose pool ended before");
    tide_bridge_end();
}

#define RECORD_TESTS 3

/* Without the recorded stream, what the second stream writes late would be seen in the block of the next request. */
static void
test_record(struct gpu_work *work, bool recorded)
{
    struct gpu_hold hold;
    void *block, *next;

    if (!gpu_hold_open(&hold)) {
        skip(recorded ? 1 : RECORD_TESTS - 1, "the device cannot hold a kernel");
        return;
    }
    use("pool | driver");
    block = tide_torch_alloc(MIB, 0, work->first);
    gpu.stream_synchronize(work->first);
    gpu_hold_fill(&hold, work->second, block, WORDS, 9);
    if (recorded)
        tide_torch_record_stream(block, work->second);
    tide_torch_free(block, MIB, 0, work->first);
    next = tide_torch_alloc(MIB, 0, work->first);
    gpu_fill(&work->kernels, work->first, next, WORDS, 3);
    if (!recorded)
        gpu.stream_synchronize(work->first);
    gpu_hold_go(&hold);
    gpu.stream_synchronize(work->second);
    gpu.stream_synchronize(work->first);
    if (!recorded)
        ok(next == block, "the next request gets the block that was freed");
    is_u64(gpu_count_wrong(&work->kernels, work->first, next, WORDS, recorded ? 3 : 9), 0,
           recorded ? "work of a recorded stream is over before its block is used again"
                    : "work of a stream that was not recorded overwrites the next block: the test can see a race");
    tide_torch_free(next, MIB, 0, work->first);
    tide_bridge_end();
    gpu_hold_close(&hold);
}

#define LIMIT_TESTS 5

static void
test_limit(void)
{
    uint64_t failures = figures_now().failures;
    void *block;

    use("limit(2MiB) | pool | driver");
    ok(all_of(tide_bridge_allocate(0, 3 * MIB, 0, &block) == TIDE_ELIMIT, block == NULL,
              strstr(tide_error_text(), "2 MiB limit") != NULL),
       "a limit of the stack refuses through the bridge, and says why");
    ok(tide_torch_segment_alloc(3 * MIB, 0, NULL) == NULL, "a refused segment is NULL");
    block = tide_torch_segment_alloc(MIB, 0, NULL);
    ok(block != NULL, "after a refusal a smaller segment is there");
    tide_torch_segment_free(block, MIB, 0, NULL);
    is_u64(figures_now().failures, failures + 2, "the refused requests are counted");
    ok(all_of(tide_bridge_fraction(0, 0) == TIDE_OK, tide_bridge_allocate(0, 1, 0, &block) == TIDE_ELIMIT,
              tide_bridge_fraction(0, 1) == TIDE_OK, tide_bridge_allocate(0, 1, 0, &block) == TIDE_OK),
       "a memory fraction of 0 refuses all, and one of 1 nothing");
    tide_torch_free(block, 1, 0, NULL);
    tide_bridge_end();
}

/* Autograd's threads have no context. */
static void *
without_context(void *stream)
{
    void *block = tide_torch_alloc(MIB, 0, stream);
    bool mine = block != NULL && gpu.memset_d32_async((CUdeviceptr)(uintptr_t)block, 1, WORDS, stream) == CUDA_SUCCESS;

    tide_torch_record_stream(block, NULL);
    tide_torch_free(block, MIB, 0, stream);
    tide_torch_reset();
    return mine ? stream : NULL;
}

#define THREAD_TESTS 4

static void
test_thread(struct gpu_work *work)
{
    static const char *const texts[] = { "pool | driver", "pool | vmm", "driver", "cuda" };

    for (int i = 0; i < THREAD_TESTS; i++) {
        void *result = NULL;
        pthread_t thread;

        use(texts[i]);
        pthread_create(&thread, NULL, without_context, work->first);
        pthread_join(thread, &result);
        ok(all_of(result != NULL, figures_now().live_bytes == 0),
           "over %s a thread without a context allocates, records a stream, frees and trims", texts[i]);
        tide_bridge_end();
    }
}

#define FORK_TESTS 2

/* DataLoader's workers have copies of tensors, which they drop when they end. */
static int
child_of_fork(void *block)
{
    void *own = block;
    bool refused = tide_bridge_allocate(0, MIB, 0, &own) == TIDE_EUNSUPPORTED && own == NULL &&
                   strstr(tide_error_text(), "fork()") != NULL;

    tide_bridge_record_stream(block, 0);
    return refused && tide_bridge_deallocate(block, 0) == TIDE_OK && figures_now().live_bytes == 0 ? 0 : 1;
}

static void
test_fork(struct gpu_work *work)
{
    void *block;

    use("pool | driver");
    block = tide_torch_alloc(MIB, 0, work->first);
    gpu_fill(&work->kernels, work->first, block, WORDS, 5);
    if (CHILDREN_MAY_RECORD)
        ok(in_child(child_of_fork, block) == 0,
           "a child of fork() is refused by name, and forgets its parent's blocks without a call of the driver");
    else
        skip(1, "ThreadSanitizer follows no child");
    is_u64(gpu_count_wrong(&work->kernels, work->first, block, WORDS, 5), 0, "the parent's block is as it was");
    tide_torch_free(block, MIB, 0, work->first);
    tide_bridge_end();
}

#define DEVICE_TESTS 4

/* One text, a stack for each device. */
static void
test_devices(void)
{
    struct tide_bridge_block found = { TIDE_FIGURES(found) };
    struct tide_resource *stack = NULL;
    char text[4096] = "";
    void *block;
    int ordinal = -1;

    if (gpu.devices < 2) {
        skip(DEVICE_TESTS, "this machine has one device");
        return;
    }
    use("fallback({limit(4KiB) | vmm(device=0)}) | pool | driver");
    tide_bridge_stack(1, &stack);
    tide_describe(stack, text, sizeof(text), NULL);
    tide_resource_release(stack);
    ok(all_of(strstr(text, "driver(device=1)") != NULL, strstr(text, "vmm(device=1)") == NULL),
       "a base lies on the device that is asked for, unless its text says another");
    diag("%s", text);
    block = tide_torch_alloc(MIB, 1, NULL);
    gpu.pointer_get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)block);
    is_i64(ordinal, 1, "memory of device 1 is device 1's");
    ok(all_of(tide_bridge_find((char *)block + 5, &found) == TIDE_OK, found.device == 1, found.base == block),
       "a block knows its device");
    tide_torch_free(block, MIB, 1, NULL);
    ok(figures_now().live_bytes == 0, "each device has figures of its own");
    tide_bridge_end();
}

#define DEFAULT_TESTS 4

static void
test_default(void)
{
    struct tide_resource *stack;
    char chosen[64], text[4096];
    void *block, *segment;

    tide_stack_default(0, chosen, sizeof(chosen), NULL);
    ok(tide_bridge_stack(0, &stack) == TIDE_OK, "without a use there is a stack");
    tide_describe(stack, text, sizeof(text), NULL);
    tide_resource_release(stack);
    is_string(text, chosen, "without a use the stack is the default of the device");
    segment = tide_torch_segment_alloc(2 * MIB, 0, NULL);
    block = tide_torch_alloc(MIB, 0, NULL);
    ok(all_of(segment != NULL, block != NULL), "without a use there are segments and blocks");
    tide_torch_segment_free(segment, 2 * MIB, 0, NULL);
    tide_torch_free(block, MIB, 0, NULL);
    ok(all_of(tide_bridge_stack(7, &stack) == TIDE_EINVAL, stack == NULL,
              strstr(tide_error_text(), "device 7") != NULL),
       "a device that the machine has not is refused by its number");
    diag("%s", tide_error_text());
}

int
main(void)
{
    const char *reason = gpu_open();
    struct gpu_work work = { 0 };

    unsetenv("TIDEMARK_STACK");
    if (reason != NULL)
        skip_all(reason);
    if (!gpu_work_open(&work, 0))
        skip_all("this device cannot run the tests' kernels");
    plan(3 * CAPTURE_TESTS + BLOCKING_TESTS + KEPT_TESTS + LATE_TESTS + RECORD_TESTS + LIMIT_TESTS + THREAD_TESTS +
         FORK_TESTS + DEVICE_TESTS + DEFAULT_TESTS);
    gpu_diag();
    test_capture(&work, "driver");
    test_capture(&work, "vmm");
    test_capture(&work, "cuda");
    test_blocking(&work);
    test_pool(&work);
    test_late(&work);
    test_record(&work, false);
    test_record(&work, true);
    test_limit();
    test_thread(&work);
    test_fork(&work);
    test_devices();
    test_default();
    gpu_work_close(&work);
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
