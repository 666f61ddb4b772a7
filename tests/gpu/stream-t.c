/* Tests memory across streams: shared through an event, freed on another stream, reused in each iteration. */
#include "tests/gpu/work.h"

#include "tests/gpu/lock.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

#define SHARE_TESTS 5

/* The second stream adds to what the first, held one is yet to write. Only an event orders the two. */
static void
test_share(struct gpu_work *work, const char *text)
{
    struct tide_resource *stack = gpu_stack("%s", text);
    struct gpu_hold hold = { 0 };
    CUevent written = NULL;
    CUevent added = NULL;
    void *block = NULL;

    if (stack == NULL || !gpu_hold_open(&hold)) {
        skip(SHARE_TESTS, "no stack, or no kernel that waits");
        goto out;
    }
    gpu.event_create(&written, CU_EVENT_DISABLE_TIMING);
    gpu.event_create(&added, CU_EVENT_DISABLE_TIMING);
    ok(all_of(gpu_allocates(stack, MIB, work->first, &block), gpu_hold_fill(&hold, work->first, block, WORDS, 40),
              gpu.event_record(written, work->first) == CUDA_SUCCESS),
       "%s: one stream allocates, is held, then writes and records an event", text);
    ok(all_of(gpu.stream_wait_event(work->second, written, 0) == CUDA_SUCCESS,
              gpu_add(&work->kernels, work->second, block, WORDS, 2),
              gpu.event_record(added, work->second) == CUDA_SUCCESS),
       "%s: a second stream waits for the event and adds", text);
    ok(gpu.stream_query(work->second) == CUDA_ERROR_NOT_READY, "%s: the second stream waits while the first is held",
       text);
    gpu_hold_go(&hold);
    is_u64(gpu_count_wrong(&work->kernels, work->second, block, WORDS, 42), 0,
           "the second stream has added to what the first wrote");
    ok(all_of(gpu.stream_wait_event(work->first, added, 0) == CUDA_SUCCESS, gpu_frees(stack, block, MIB, work->first)),
       "%s: the first stream waits for the second, and frees", text);
out:
    gpu_hold_close(&hold);
    gpu.event_destroy(written);
    gpu.event_destroy(added);
    tide_resource_release(stack);
}

#define ELSEWHERE_TESTS 4

/*
 * A block is freed on a stream that was ordered behind its last use: the next owner of the block on that stream writes
 * after that use.
 */
static void
test_free_elsewhere(struct gpu_work *work, const char *text)
{
    struct tide_resource *stack = gpu_stack("%s", text);
    struct gpu_hold hold = { 0 };
    void *block = NULL;
    void *again = NULL;

    if (stack == NULL || !gpu_hold_open(&hold)) {
        skip(ELSEWHERE_TESTS, "no stack, or no kernel that waits");
        goto out;
    }
    ok(all_of(gpu_allocates(stack, MIB, work->first, &block), gpu_hold_fill(&hold, work->first, block, WORDS, 1)),
       "%s: a stream allocates, is held, then writes", text);
    ok(all_of(tide_order(stack, (tide_stream)work->first, (tide_stream)work->second) == TIDE_OK,
              gpu_frees(stack, block, MIB, work->second)),
       "%s: a second stream is ordered behind the first, and frees", text);
    ok(all_of(gpu_allocates(stack, MIB, work->second, &again), gpu_fill(&work->kernels, work->second, again, WORDS, 7)),
       "%s: the second stream allocates again and writes", text);
    diag("%s: it got %s block", text, again == block ? "the same" : "another");
    gpu_hold_go(&hold);
    is_u64(gpu_count_wrong(&work->kernels, work->second, again, WORDS, 7), 0,
           "the write of the second stream comes last");
    gpu_frees(stack, again, MIB, work->second);
out:
    gpu_hold_close(&hold);
    tide_resource_release(stack);
}

#define REUSE_ITERATIONS 100
#define REUSE_BYTES      (48 * MIB)
#define REUSE_TESTS      5

/* The results of 100 iterations, each with a synchronize at its end. */
struct reuse {
    bool done;
    uint32_t wrong;
    unsigned kept;     /* iterations after which the pool held memory */
    unsigned same;     /* iterations that got the address of the one before */
    uint64_t reserved; /* the highest after a synchronize */
    uint64_t ns;       /* an iteration */
};

static struct reuse
reuse_run(struct gpu_work *work, struct tide_resource *driver)
{
    const uint32_t words = (uint32_t)(REUSE_BYTES / sizeof(uint32_t));
    struct reuse reuse = { .done = driver != NULL };
    uint64_t start = gpu_now_ns();
    uint64_t reserved;
    void *before = NULL;
    void *block;

    for (uint32_t i = 0; i < REUSE_ITERATIONS && reuse.done; i++) {
        reuse.done = gpu_allocates(driver, REUSE_BYTES, work->first, &block) &&
                     gpu_fill(&work->kernels, work->first, block, words, i);
        if (reuse.done && i % 10 == 9)
            reuse.wrong += gpu_count_wrong(&work->kernels, work->first, block, words, i);
        reuse.done = reuse.done && gpu_frees(driver, block, REUSE_BYTES, work->first) &&
                     gpu.stream_synchronize(work->first) == CUDA_SUCCESS;
        reserved = reuse.done ? gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) : 0;
        reuse.kept += reserved >= REUSE_BYTES;
        reuse.same += block == before;
        reuse.reserved = reserved > reuse.reserved ? reserved : reuse.reserved;
        before = block;
    }
    reuse.ns = (gpu_now_ns() - start) / REUSE_ITERATIONS;
    return reuse;
}

static void
test_reuse(struct gpu_work *work)
{
    struct tide_resource *zero = gpu_stack("driver(release_threshold=0)");
    struct tide_resource *gib = gpu_stack("driver(release_threshold=1GiB)");
    struct reuse without = reuse_run(work, zero);
    struct reuse with = reuse_run(work, gib);

    ok(all_of(without.done, with.done),
       "100 iterations of 48 MiB, a kernel and a synchronize, with threshold 0 and with 1 GiB");
    is_u64(without.wrong + with.wrong, 0, "every word is right with both thresholds");
    is_u64(without.kept, 0, "with threshold 0 every synchronize gives the memory back");
    is_u64(with.kept, REUSE_ITERATIONS, "with threshold 1 GiB no synchronize gives the memory back");
    ok(all_of(with.same == REUSE_ITERATIONS - 1, with.reserved < 2 * REUSE_BYTES),
       "with threshold 1 GiB every iteration gets the memory of the one before");
    diag("an iteration: threshold 0 %" PRIu64 " ns, 1 GiB %" PRIu64 " ns: %.1f times as fast; reserved %" PRIu64 " MiB",
         without.ns, with.ns, with.ns != 0 ? (double)without.ns / (double)with.ns : 0, with.reserved / MIB);
    tide_resource_release(zero);
    tide_resource_release(gib);
}

int
main(void)
{
    const char *reason;
    struct gpu_work work = { 0 };

    gpu_lock(true);
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    if (!gpu_work_open(&work, 0))
        skip_all("this device cannot run the tests' kernels");
    plan(4 * SHARE_TESTS + 3 * ELSEWHERE_TESTS + REUSE_TESTS);
    gpu_diag();
    test_share(&work, "driver");
    test_share(&work, "statistics | limit(1GiB) | driver");
    test_share(&work, "fixed(1MiB) | driver");
    test_share(&work, "pool | driver");
    test_free_elsewhere(&work, "driver");
    test_free_elsewhere(&work, "fixed(1MiB) | driver");
    test_free_elsewhere(&work, "pool | driver");
    test_reuse(&work);
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
