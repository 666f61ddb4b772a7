/* Tests allocation during stream capture: the graph is launched twice, and the trace has the allocation once. */
#include "tests/gpu/work.h"

#include "tests/gpu/summary.h"
#include "tests/find.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

/* The summary of a single allocation of 1 MiB, freed. */
static const struct gpu_summary once = { .allocations = 1, .frees = 1, .total_bytes = MIB, .peak_bytes = MIB };

/* A graph of one captured stream, and what its kernels work with. */
struct captured {
    CUgraph graph;
    CUgraphExec executable;
    uint32_t *seen;    /* pinned: the first word of the graph's own memory, as read back within it */
    CUdeviceptr total; /* WORDS words that stay; each launch adds 7 */
    CUdeviceptr wrong; /* one word: how many of the graph's own were not 7 */
};

static bool
captured_open(struct captured *captured, struct gpu_work *work)
{
    memset(captured, 0, sizeof(*captured));
    return gpu.host_alloc((void **)&captured->seen, sizeof(uint32_t), 0) == CUDA_SUCCESS &&
           gpu.mem_alloc(&captured->total, MIB) == CUDA_SUCCESS &&
           gpu.mem_alloc(&captured->wrong, sizeof(uint32_t)) == CUDA_SUCCESS &&
           gpu.memset_d32_async(captured->total, 100, WORDS, work->first) == CUDA_SUCCESS &&
           gpu.memset_d32_async(captured->wrong, 0, 1, work->first) == CUDA_SUCCESS &&
           gpu.stream_synchronize(work->first) == CUDA_SUCCESS;
}

static void
captured_close(struct captured *captured)
{
    if (captured->executable != NULL)
        gpu.graph_exec_destroy(captured->executable);
    if (captured->graph != NULL)
        gpu.graph_destroy(captured->graph);
    gpu.mem_free(captured->total);
    gpu.mem_free(captured->wrong);
    gpu.host_free(captured->seen);
    gpu.device_graph_mem_trim(0);
}

static bool
captured_work(struct captured *captured, struct gpu_work *work, void *block)
{
    const void *total = (const void *)(uintptr_t)captured->total;

    return gpu_fill(&work->kernels, work->first, block, WORDS, 7) &&
           gpu_verify(&work->kernels, work->first, block, WORDS, 7, captured->wrong) &&
           gpu_add(&work->kernels, work->first, total, WORDS, 7) &&
           gpu.memcpy_dtoh_async(captured->seen, (CUdeviceptr)(uintptr_t)block, sizeof(uint32_t), work->first) ==
               CUDA_SUCCESS;
}

/* Capture a stream. False, with a diag, if that fails. `free_within`: the graph itself frees the block. */
static bool
captured_capture(struct captured *captured, struct gpu_work *work, struct tide_resource *stack, bool free_within,
                 void **block)
{
    CUresult result = gpu.stream_begin_capture(work->first, CU_STREAM_CAPTURE_MODE_RELAXED);
    bool done = result == CUDA_SUCCESS && gpu_allocates(stack, MIB, work->first, block) &&
                captured_work(captured, work, *block) && (!free_within || gpu_frees(stack, *block, MIB, work->first));

    result = gpu.stream_end_capture(work->first, &captured->graph);
    if (result == CUDA_SUCCESS)
        result = gpu.graph_instantiate(&captured->executable, captured->graph, 0);
    if (result != CUDA_SUCCESS)
        diag("capture: CUresult %d", (int)result);
    return done && result == CUDA_SUCCESS;
}

#define CAPTURE_TESTS 10

static void
test_capture(struct gpu_work *work)
{
    const char *trace = scratch("capture.db");
    struct tide_resource *stack = gpu_stack("log(%s) | statistics | limit(1GiB) | driver", trace);
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct captured captured;
    void *block = NULL;
    bool ready = captured_open(&captured, work);

    ok(all_of(ready, captured_capture(&captured, work, stack, true, &block)),
       "a captured stream allocates, runs kernels and frees");
    is_u64(gpu_figure(stack, TIDE_QUERY_BYTES_USED), 0, "nothing is in use after the capture");
    ok(all_of(gpu.graph_launch(captured.executable, work->first) == CUDA_SUCCESS,
              gpu.graph_launch(captured.executable, work->first) == CUDA_SUCCESS,
              gpu.stream_synchronize(work->first) == CUDA_SUCCESS),
       "the captured graph is launched twice");
    ok(all_of(captured.seen != NULL, *captured.seen == 7),
       "the value that the graph wrote into its memory is read back");
    is_u64(gpu_count_wrong(&work->kernels, work->first, (void *)(uintptr_t)captured.total, WORDS, 114), 0,
           "the graph's kernels ran twice");
    is_u64(gpu_count_wrong(&work->kernels, work->first, (void *)(uintptr_t)captured.wrong, 1, 0), 0,
           "the graph's kernels saw the expected words in all of the memory");
    ok(all_of(tide_statistics_read(find_layer(stack, "statistics"), &figures) == TIDE_OK, figures.count.total == 1,
              figures.bytes.peak == (int64_t)MIB),
       "the stack has counted one allocation for two launches");
    captured_close(&captured);
    tide_resource_release(stack);
    ok(trace_is_whole(trace), "the trace of a captured allocation and free is whole");
    is_i64(sql_number(trace, "SELECT count(*) FROM allocation WHERE size = %zu AND status = 0 AND free_ns IS NOT NULL",
                      MIB),
           1, "the trace has the captured allocation once, with its free");
    gpu_summary_is(trace, &once, 1, "the summary has the captured allocation once, with its free");
}

#define LATER_TESTS 7

/* A block that a graph allocates and does not free stays allocated after the launch, and is freed through the stack. */
static void
test_free_later(struct gpu_work *work)
{
    const char *trace = scratch("later.db");
    struct tide_resource *stack = gpu_stack("log(%s) | statistics | driver", trace);
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    struct captured captured;
    void *block = NULL;
    bool ready = captured_open(&captured, work);

    ok(all_of(ready, captured_capture(&captured, work, stack, false, &block)),
       "a captured stream allocates and does not free");
    ok(all_of(tide_statistics_read(find_layer(stack, "statistics"), &figures) == TIDE_OK,
              figures.bytes.current == (int64_t)MIB),
       "a captured allocation without a free is in use");
    ok(all_of(gpu.graph_launch(captured.executable, work->first) == CUDA_SUCCESS,
              gpu_count_wrong(&work->kernels, work->first, block, WORDS, 7) == 0),
       "after the launch the memory holds what the graph wrote");
    ok(gpu_frees(stack, block, MIB, work->first), "memory of the graph is freed through the stack");
    gpu.stream_synchronize(work->first);
    captured_close(&captured);
    tide_resource_release(stack);
    ok(trace_is_whole(trace), "the trace of a captured allocation freed outside is whole");
    is_i64(sql_number(trace, "SELECT count(*) FROM live"), 0,
           "nothing is live in the trace of a captured allocation freed outside");
    gpu_summary_is(trace, &once, 1, "the summary has one allocation and its free");
}

#define REFUSED_TESTS 4

/* A capture cannot free memory from before it: the driver refuses, and nothing is lost. */
static void
test_refused(struct gpu_work *work)
{
    const char *trace = scratch("refused.db");
    struct tide_resource *stack = gpu_stack("log(%s) | statistics | driver", trace);
    enum tide_status status = TIDE_OK;
    CUgraph graph = NULL;
    void *block = NULL;

    gpu_allocates(stack, MIB, work->first, &block);
    gpu.stream_begin_capture(work->first, CU_STREAM_CAPTURE_MODE_RELAXED);
    status = tide_deallocate(stack, block, MIB, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->first);
    ok(all_of(status != TIDE_OK, strstr(tide_error_text(), "CUDA_ERROR_") != NULL),
       "memory from before a capture is not freed within it, and the error is the driver's");
    diag("%s: %s", tide_status_name(status), tide_error_text());
    gpu.stream_end_capture(work->first, &graph);
    gpu.graph_destroy(graph);
    is_u64(gpu_figure(stack, TIDE_QUERY_BYTES_USED), MIB, "memory that a capture could not free is still in use");
    ok(gpu_frees(stack, block, MIB, work->first), "memory that a capture could not free is freed after it");
    tide_resource_release(stack);
    is_i64(sql_number(trace, "SELECT count(*) FROM live"), 0, "the trace has the free after the capture");
}

int
main(void)
{
    const char *reason = gpu_open();
    struct gpu_work work = { 0 };

    if (reason != NULL)
        skip_all(reason);
    if (!gpu_work_open(&work, 0))
        skip_all("this device cannot run the tests' kernels");
    plan(CAPTURE_TESTS + LATER_TESTS + REFUSED_TESTS);
    gpu_diag();
    test_capture(&work);
    test_free_later(&work);
    test_refused(&work);
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
