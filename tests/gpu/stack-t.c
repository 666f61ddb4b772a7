/* Stacks over the base `driver` on a real GPU: from text, through the contract of every adaptor, across streams. */
#include "tests/gpu/gpu.h"

#include <tidemark/tidemark.h>

#include "tests/contract.h"
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
    ok(tide_query(stack, TIDE_QUERY_CAPACITY, &capacity) == TIDE_OK, "it knows its capacity");
    tide_resource_release(stack);
    ok(tide_stack_parse("statistics | driver(device=1000)", &stack) == TIDE_EINVAL && stack == NULL,
       "a device that is not there is refused");
    has_words(tide_error_text(), "device 1000", "the text names it");
    diag("%s", tide_error_text());
    ok(tide_stack_parse("driver(default=true, maximum=1GiB)", &stack) == TIDE_EINVAL && stack == NULL,
       "a maximum for the default pool is refused");
}

static void
test_figures(void)
{
    struct tide_resource *stack = stack_new("statistics | limit(64MiB) | driver");
    struct tide_statistics figures;
    void *first = NULL;
    void *second = &gpu;

    ok(tide_allocate(stack, 48 * MIB, 256, 0, &first) == TIDE_OK, "48 MiB of a limit of 64 are allocated");
    ok(tide_allocate(stack, 32 * MIB, 256, 0, &second) == TIDE_ELIMIT && second == NULL, "32 more are refused");
    ok(tide_allocate(stack, SIZE_MAX, 256, 0, &second) != TIDE_OK && second == NULL, "SIZE_MAX is refused");
    ok(tide_deallocate(stack, first, 48 * MIB, 256, 0) == TIDE_OK, "they are freed");
    ok(tide_statistics_read(stack, &figures) == TIDE_OK && figures.bytes.current == 0 &&
           figures.bytes.peak == (int64_t)(48 * MIB) && figures.count.total == 1,
       "what was refused is not counted");
    tide_resource_release(stack);
    stack = stack_new("statistics | driver(maximum=64MiB)");
    ok(tide_allocate(stack, 100 * MIB, 256, 0, &second) == TIDE_ECAPACITY && second == NULL,
       "what the driver refuses is told through the stack");
    ok(tide_statistics_read(stack, &figures) == TIDE_OK && figures.bytes.current == 0 && figures.count.total == 0,
       "and not counted");
    tide_resource_release(stack);
}

#define REUSE_TESTS 5

/*
 * A block that is freed on one stream and taken on another: the second writer waits for the first, which is held, so
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
    ok(tide_allocate(stack, bytes, 256, (tide_stream)first, &block) == TIDE_OK &&
           gpu_hold_fill(&hold, first, block, WORDS, 2) &&
           tide_deallocate(stack, block, bytes, 256, (tide_stream)first) == TIDE_OK,
       "%s: a block is freed on the stream that is to write it", text);
    ok(tide_allocate(stack, bytes, 256, (tide_stream)second, &again) == TIDE_OK && again == block,
       "%s: another stream gets that block", text);
    address = (CUdeviceptr)(uintptr_t)again;
    ok(gpu.memset_d32_async(address, 3, WORDS, second) == CUDA_SUCCESS &&
           gpu.memcpy_dtoh_async(seen, address, bytes, second) == CUDA_SUCCESS &&
           gpu.stream_query(second) == CUDA_ERROR_NOT_READY,
       "%s: what it writes waits for the first", text);
    gpu_hold_go(&hold);
    ok(gpu.context_synchronize() == CUDA_SUCCESS && seen[0] == 3 && seen[WORDS - 1] == 3, "%s: and comes last", text);
    ok(tide_deallocate(stack, again, bytes, 256, (tide_stream)second) == TIDE_OK, "%s: it is freed", text);
out:
    gpu_hold_close(&hold);
    gpu.host_free(seen);
    gpu.stream_destroy(first);
    gpu.stream_destroy(second);
    gpu.context_set(NULL);
    gpu.primary_release(0);
    tide_resource_release(stack);
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
    const char *reason = gpu_open();

    if (reason != NULL)
        skip_all(reason);
    plan(12 + 2 * REUSE_TESTS + CONTRACTS * CONTRACT_TESTS);
    gpu_diag();
    test_text();
    test_figures();
    test_reuse("fixed(1MiB) | driver");
    test_reuse("binning(64KiB..4MiB) | driver");
    check_contract("statistics", "statistics | driver");
    check_contract("limit", "limit(8GiB) | driver(release_threshold=1GiB)");
    check_contract("fixed", "fixed(1MiB) | driver");
    /* Bins that keep no blocks: what those of a range keep stays in use below. */
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
