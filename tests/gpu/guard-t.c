/* Tests the adaptors that touch memory on a GPU: guard over device memory, prefetch over managed memory. */
#include "tests/gpu/work.h"

#include "tests/contract.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

static struct tide_guard_damage damage;
static int damage_count;

static void
see(void *context, const struct tide_guard_damage *seen)
{
    (void)context;
    damage = *seen;
    damage_count++;
}

static struct tide_resource *
guard_over(const char *text)
{
    struct tide_guard_options options = { TIDE_OPTIONS(options), .function = see };
    struct tide_resource *base = gpu_stack("%s", text), *guard = NULL;

    if (base != NULL && tide_guard_create(base, &options, &guard) != TIDE_OK)
        diag("%s", tide_error_text());
    tide_resource_release(base);
    damage_count = 0;
    return guard;
}

#define GUARD_TESTS 11

/* Kernels write to a block, past its end, and into it after it was freed. */
static void
test_guard(struct gpu_work *work, const char *text)
{
    struct tide_resource *guard = guard_over(text);
    void *block = NULL;
    uint64_t found = 9;

    if (!ok(guard != NULL, "guard over %s", text)) {
        skip(GUARD_TESTS - 1, "there is none");
        return;
    }
    ok(gpu_allocates(guard, MIB, work->first, &block), "a block is allocated between canaries");
    gpu_fill(&work->kernels, work->first, block, WORDS, 7);
    gpu.stream_synchronize(work->first);
    ok(all_of(tide_guard_check(guard, &found) == TIDE_OK, found == 0), "a kernel may write to the whole block");
    gpu_fill(&work->kernels, work->first, block, WORDS + 1, 8);
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, found == 1, damage.place == TIDE_GUARD_AFTER,
              damage.offset == (int64_t)MIB, damage.changed_bytes == 4, damage.seen[0] == 8),
       "a word that a kernel writes behind the block is found, once the device is done");
    gpu_fill(&work->kernels, work->first, (char *)block - 4, 1, 9);
    damage_count = 0;
    ok(all_of(tide_deallocate(guard, block, MIB, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->first) == TIDE_EDAMAGED,
              damage_count == 2),
       "a word that a kernel writes before the block is found by a free on the kernel's stream");
    ok(gpu_frees(guard, block, MIB, work->first), "a damaged block is freed at the second attempt");
    ok(all_of(tide_guard_check(guard, &found) == TIDE_OK, found == 0), "a block that is held shows no damage");
    gpu_fill(&work->kernels, work->second, (char *)block + 400, 1, 1);
    ok(all_of(tide_guard_check(guard, &found) == TIDE_EDAMAGED, damage.place == TIDE_GUARD_FREED, damage.offset == 400),
       "a kernel's write to a held block is found");
    damage_count = 0;
    ok(all_of(tide_trim(guard, 0) == TIDE_OK, damage_count == 1),
       "a kernel's write to a held block is also found when the block is released");
    ok(all_of(gpu_figure(guard, TIDE_QUERY_BYTES_USED) == 0, tide_guard_check(guard, &found) == TIDE_OK),
       "after all frees nothing is in use and no damage is found");
    ok(all_of(tide_allocate(guard, 100, 256, (tide_stream)work->second, &block) == TIDE_OK,
              tide_deallocate(guard, block, 100, 256, (tide_stream)work->second) == TIDE_OK),
       "a block may be freed on another stream");
    tide_resource_release(guard);
}

#define CAPTURE_TESTS 5

/* The guard cannot wait for a stream during its capture. */
static void
test_capture(struct gpu_work *work)
{
    struct tide_resource *guard = guard_over("driver");
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    void *block = NULL;

    ok(all_of(guard != NULL, gpu.stream_begin_capture(work->first, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS),
       "a stream is captured while the guard is in use");
    ok(gpu_allocates(guard, MIB, work->first, &block), "in a capture a block gets its canaries");
    ok(gpu_frees(guard, block, MIB, work->first), "in a capture a block is freed without a check");
    ok(all_of(gpu.stream_end_capture(work->first, &graph) == CUDA_SUCCESS, graph != NULL),
       "the capture ends with a graph");
    ok(all_of(gpu.graph_instantiate(&exec, graph, 0) == CUDA_SUCCESS,
              gpu.graph_launch(exec, work->first) == CUDA_SUCCESS, gpu.stream_synchronize(work->first) == CUDA_SUCCESS,
              damage_count == 0),
       "the graph with canaries is launched without damage");
    gpu.graph_exec_destroy(exec);
    gpu.graph_destroy(graph);
    tide_resource_release(guard);
}

#define PREFETCH_TESTS 8

static void
test_prefetch(struct gpu_work *work)
{
    struct tide_resource *stack = gpu_stack("prefetch(above=64KiB) | managed");
    volatile uint32_t *words;
    uint32_t right = 0;
    void *block = NULL, *small = NULL;

    if (stack == NULL) {
        skip(PREFETCH_TESTS - 3, tide_error_text());
    } else {
        ok(all_of(gpu_allocates(stack, MIB, work->first, &block), gpu_allocates(stack, 100, work->first, &small)),
           "prefetch moves blocks of managed memory to the device");
        words = block;
        gpu_fill(&work->kernels, work->first, block, WORDS, 5);
        gpu.stream_synchronize(work->first);
        for (uint32_t i = 0; i < WORDS; i++)
            right += words[i] == 5;
        is_u64(right, WORDS, "a kernel writes to the moved block, and the host reads it");
        ok(all_of(gpu_frees(stack, block, MIB, work->first), gpu_frees(stack, small, 100, work->first)),
           "blocks that a kernel wrote and the host read are freed");
        tide_resource_release(stack);
        stack = gpu_stack("prefetch(to=host) | managed(preferred=host)");
        ok(all_of(stack != NULL, gpu_allocates(stack, MIB, work->first, &block),
                  gpu_frees(stack, block, MIB, work->first)),
           "prefetch can move managed memory to the host");
        tide_resource_release(stack);
        stack = gpu_stack("prefetch | pinned");
        ok(stack == NULL, "prefetch over pinned memory is refused");
        tide_resource_release(stack);
    }
    stack = NULL;
    ok(all_of(tide_stack_parse("prefetch | driver", &stack) == TIDE_EUNSUPPORTED, stack == NULL),
       "prefetch over the device's memory is refused");
    ok(tide_stack_parse("prefetch | sim", &stack) == TIDE_EUNSUPPORTED, "prefetch over addresses alone is refused");
    is_string(tide_error_text(), "stack text, column 1: prefetch: the layers below have no managed memory",
              "the refusal of prefetch names the missing memory");
}

static struct tide_resource *
contract_create(void *context)
{
    return gpu_stack("%s", (const char *)context);
}

static void
check_contract(const char *name, const char *text, bool knows_pointers)
{
    struct tide_resource *stack = gpu_stack("%s", text);
    struct contract contract = { .name = name,
                                 .create = contract_create,
                                 .context = (void *)(uintptr_t)text,
                                 .largest_bytes = MIB / 16,
                                 .knows_pointers = knows_pointers };

    if (stack != NULL)
        contract_check(&contract);
    else
        skip(CONTRACT_TESTS, tide_error_text());
    tide_resource_release(stack);
}

static void
test_all(struct gpu_work *work)
{
    test_guard(work, "driver");
    test_guard(work, "cuda");
    test_guard(work, "managed");
    test_capture(work);
    test_prefetch(work);
}

int
main(void)
{
    const char *reason = gpu_open();

    if (reason != NULL)
        skip_all(reason);
    plan(3 * GUARD_TESTS + CAPTURE_TESTS + PREFETCH_TESTS + 2 * CONTRACT_TESTS);
    gpu_diag();
    gpu_with_work(test_all, 3 * GUARD_TESTS + CAPTURE_TESTS + PREFETCH_TESTS);
    check_contract("guard", "guard(hold=256KiB) | driver", true);
    check_contract("prefetch", "prefetch | managed", false);
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
