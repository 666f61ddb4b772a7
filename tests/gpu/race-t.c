/*
 * Tests that no pool hands out a block on a stream before earlier work on it is done, and that this test would notice.
 */
#include "tests/gpu/work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "src/cuda/driver-table.h"
#include "tests/gpu/parts.h"
#include "tests/sanitized.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

/* On the fake driver the planted error is a data race of its threads, which ThreadSanitizer reports. */
#define PLANTS (!SANITIZED_THREAD)

/* Passes everything on except orders of streams: the layers above believe that streams wait, and they do not. */
static enum tide_status
careless_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    (void)self;
    (void)earlier;
    (void)later;
    return TIDE_OK;
}

static void
careless_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
    free(self);
}

static const struct tide_resource_ops careless_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "careless",
    .allocate = tide_pass_allocate,
    .deallocate = tide_pass_deallocate,
    .order = careless_order,
    .trim = tide_pass_trim,
    .query = tide_pass_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = careless_destroy,
};

/* A pool of one chunk over the base. NULL, with a diag, if it cannot be made. */
static struct tide_resource *
race_pool(const char *base_text, uint64_t bytes, bool careless)
{
    struct tide_pool_options options = { TIDE_OPTIONS(options), .maximum_bytes = bytes, .growth_bytes = bytes };
    struct tide_resource *base = gpu_stack("%s", base_text), *above = NULL, *pool = NULL;

    if (base != NULL && careless) {
        above = calloc(1, sizeof(*above));
        if (above != NULL && tide_resource_init(above, &careless_ops, base) != TIDE_OK)
            abort();
    }
    if (base != NULL && tide_pool_create(above != NULL ? above : base, &options, &pool) != TIDE_OK)
        diag("%s", tide_error_text());
    tide_resource_release(above);
    tide_resource_release(base);
    return pool;
}

#define HELD_TESTS 5
#define HELD_WORDS ((uint32_t)(2 * MIB / sizeof(uint32_t)))

/* The first stream frees a block that a held kernel is yet to write; the second stream gets it, and writes to it. */
static void
test_held(struct gpu_work *work, bool careless)
{
    const char *what = careless ? "without order" : "pool";
    struct tide_resource *pool = race_pool("driver", 2 * MIB, careless);
    struct gpu_hold hold = { 0 };
    void *block = NULL, *again = NULL;

    if (pool == NULL || !gpu_hold_open(&hold)) {
        skip(HELD_TESTS, "no pool, or no kernel that waits");
        goto out;
    }
    ok(all_of(gpu_allocates(pool, 2 * MIB, work->first, &block),
              gpu_hold_fill(&hold, work->first, block, HELD_WORDS, 1), gpu_frees(pool, block, 2 * MIB, work->first)),
       "%s: a block is freed while a kernel that will write to it is held", what);
    ok(all_of(gpu_allocates(pool, 2 * MIB, work->second, &again), again == block),
       "%s: another stream gets the freed block", what);
    gpu_fill(&work->kernels, work->second, again, HELD_WORDS, 2);
    if (careless)
        ok(gpu.stream_synchronize(work->second) == CUDA_SUCCESS,
           "%s: without order the other stream writes to it at once", what);
    else
        ok(gpu.stream_query(work->second) == CUDA_ERROR_NOT_READY,
           "%s: with order the other stream waits to write to it", what);
    gpu_hold_go(&hold);
    gpu.stream_synchronize(work->first);
    is_u64(gpu_count_wrong(&work->kernels, work->second, again, HELD_WORDS, 2), careless ? HELD_WORDS : 0,
           careless ? "without order the late kernel has overwritten every word"
                    : "with order the late kernel has overwritten no word");
    ok(gpu_frees(pool, again, 2 * MIB, work->second), "%s: the block is freed by the other stream", what);
    gpu.stream_synchronize(work->second);
out:
    gpu_hold_close(&hold);
    tide_resource_release(pool);
}

#define STREAMS     8
#define STEPS       40
#define STORM_BYTES (24 * MIB)
/* Each stream delays its work by this much, so that the work of other streams may overtake it. */
#define STORM_DELAY_NS 20000

struct storm {
    const struct gpu_work *work;
    struct tide_resource *pool;
    CUstream streams[STREAMS]; /* they outlive the pool, which may name them until its end */
    CUevent events[STREAMS];
    CUdeviceptr wrong; /* one word for each stream */
    uint32_t most_words;
    bool trims; /* have the pool give its chunks back now and then */
    _Atomic uint32_t next;
    _Atomic uint32_t failures;
};

/* Allocate, fill, wait, verify and free: on the own stream, or on the next one, ordered behind this one. */
static bool
storm_step(struct storm *storm, uint32_t number, uint32_t step, uint64_t *seed)
{
    const struct gpu_kernels *kernels = &storm->work->kernels;
    CUstream own = storm->streams[number], other = storm->streams[(number + 1) % STREAMS];
    uint32_t value = number << 16 | step;
    uint32_t words;
    size_t bytes;
    void *block;

    *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    words = 1000 + (uint32_t)(*seed >> 33) % (storm->most_words - 1000);
    bytes = words * sizeof(uint32_t);
    if (!gpu_allocates(storm->pool, bytes, own, &block) || !gpu_fill(kernels, own, block, words, value) ||
        !gpu_delay(kernels, own, STORM_DELAY_NS) ||
        !gpu_verify(kernels, own, block, words, value, storm->wrong + number * sizeof(uint32_t)))
        return false;
    if (storm->trims && step % 8 == number && tide_trim(storm->pool, 0) != TIDE_OK)
        return false;
    if (step % 4 != 0)
        return gpu_frees(storm->pool, block, bytes, own);
    return gpu.event_record(storm->events[number], own) == CUDA_SUCCESS &&
           gpu.stream_wait_event(other, storm->events[number], 0) == CUDA_SUCCESS &&
           gpu_frees(storm->pool, block, bytes, other);
}

static void *
storm_run(void *context)
{
    struct storm *storm = context;
    uint32_t number = atomic_fetch_add_explicit(&storm->next, 1, memory_order_relaxed); /* relaxed: a number */
    uint64_t seed = number;
    bool done = gpu.context_set(storm->work->context) == CUDA_SUCCESS;

    for (uint32_t step = 0; step < STEPS && done; step++)
        done = storm_step(storm, number, step, &seed);
    done = gpu.stream_synchronize(storm->streams[number]) == CUDA_SUCCESS && done;
    gpu.context_set(NULL);
    if (!done)
        atomic_fetch_add_explicit(&storm->failures, 1, memory_order_relaxed); /* relaxed: read after the join */
    return NULL;
}

/* `pool` is the storm's from here on. */
static bool
storm_open(struct storm *storm, const struct gpu_work *work, struct tide_resource *pool)
{
    bool done = true;

    *storm = (struct storm){ .work = work, .pool = pool, .most_words = 2 * MIB / sizeof(uint32_t) };
    for (int i = 0; i < STREAMS; i++)
        done = gpu.stream_create(&storm->streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
               gpu.event_create(&storm->events[i], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS && done;
    return done && storm->pool != NULL && gpu.mem_alloc(&storm->wrong, STREAMS * sizeof(uint32_t)) == CUDA_SUCCESS &&
           gpu.memset_d32_async(storm->wrong, 0, STREAMS, work->first) == CUDA_SUCCESS &&
           gpu.stream_synchronize(work->first) == CUDA_SUCCESS;
}

static void
storm_close(struct storm *storm)
{
    tide_resource_release(storm->pool);
    for (int i = 0; i < STREAMS; i++) {
        gpu.event_destroy(storm->events[i]);
        gpu.stream_destroy(storm->streams[i]);
    }
    gpu.mem_free(storm->wrong);
}

/* The number of words that were not what their stream had written, over all streams. UINT64_MAX if a call failed. */
static uint64_t
storm_wrong(struct storm *storm)
{
    uint32_t wrong[STREAMS] = { 0 };
    pthread_t threads[STREAMS];
    uint64_t sum = 0;

    storm->next = 0;
    for (int i = 0; i < STREAMS; i++)
        pthread_create(&threads[i], NULL, storm_run, storm);
    for (int i = 0; i < STREAMS; i++)
        pthread_join(threads[i], NULL);
    if (storm->failures != 0 ||
        gpu.memcpy_dtoh_async(wrong, storm->wrong, sizeof(wrong), storm->work->first) != CUDA_SUCCESS ||
        gpu.stream_synchronize(storm->work->first) != CUDA_SUCCESS)
        return UINT64_MAX;
    for (int i = 0; i < STREAMS; i++)
        sum += wrong[i];
    return sum;
}

#define STORM_TESTS 3

static void
test_storm(struct gpu_work *work)
{
    struct tide_pool_figures figures = { TIDE_FIGURES(figures) };
    struct storm storm;

    if (!storm_open(&storm, work, race_pool("driver", STORM_BYTES, false))) {
        skip(STORM_TESTS, "no pool, or no streams");
    } else {
        is_u64(storm_wrong(&storm), 0,
               "eight streams fill and verify blocks that others free, and see no word of others");
        tide_pool_read(storm.pool, &figures);
        diag("%" PRIu64 " blocks taken over with %" PRIu64 " waits", figures.taken_over, figures.orders);
        ok(figures.taken_over > 0, "in the storm of eight streams some blocks changed their stream");
        is_u64(figures.used_bytes, 0, "after the storm of eight streams nothing is in use");
    }
    storm_close(&storm);
}

#define PLANTED_TESTS  1
#define PLANTED_ROUNDS 30

/* Run the storm without orders: if no wrong word is found then, the storm with orders proves nothing. */
static void
test_planted(struct gpu_work *work)
{
    uint64_t wrong = 0;
    struct storm storm;

    if (!storm_open(&storm, work, race_pool("driver", STORM_BYTES, true))) {
        skip(PLANTED_TESTS, "no pool, or no streams");
    } else {
        for (int i = 0; i < PLANTED_ROUNDS && wrong == 0; i++)
            wrong = storm_wrong(&storm);
        ok(all_of(wrong > 0, wrong != UINT64_MAX), "without order the eight streams see words of others");
    }
    for (int i = 0; i < STREAMS; i++)
        gpu.stream_synchronize(storm.streams[i]);
    storm_close(&storm);
}

#define PAGES_TESTS  3
#define PAGES_ROUNDS 20

/*
 * The storm over pages that get other addresses all the time. Where threads happen to run one after the other, a storm
 * moves none: then it blows again.
 */
static void
test_pages(struct gpu_work *work, const char *text)
{
    struct tide_resource *stack = gpu_stack("%s", text), *vmm = NULL;
    struct tide_vmm_figures figures = { TIDE_FIGURES(figures) };
    struct storm storm;
    uint64_t wrong = 0;
    bool trimmed = true;

    if (stack == NULL || tide_stack_find(stack, "vmm", &vmm) != TIDE_OK || !storm_open(&storm, work, stack)) {
        skip(PAGES_TESTS, "no pages, or no streams");
        tide_resource_release(stack);
        return;
    }
    storm.most_words = 6 * MIB / sizeof(uint32_t);
    storm.trims = vmm != stack;
    for (int i = 0; i < PAGES_ROUNDS && wrong == 0 && figures.remapped == 0; i++) {
        wrong = storm_wrong(&storm);
        tide_vmm_read(vmm, &figures);
    }
    is_u64(wrong, 0, "eight streams over remapped pages see no word of others");
    diag("%s: %" PRIu64 " remapped, %" PRIu64 " orders, %" PRIu64 " waits, %" PRIu64 " created", text, figures.remapped,
         figures.orders, figures.waits, figures.created);
    ok(figures.remapped > 0, "%s: pages got other addresses in the storm", text);
    for (int i = 0; i < 2; i++) /* the chunks of a pool, and then their memory */
        trimmed = tide_order(stack, TIDE_STREAM_ALL, 0) == TIDE_OK && tide_trim(stack, 0) == TIDE_OK && trimmed;
    ok(all_of(figures.used_bytes == 0 || vmm != stack, trimmed, gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0,
              vmm != stack || gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED_HIGH) <= STREAMS * 6 * MIB),
       "%s: after the storm all pages are given back, and no more was held than was in use", text);
    storm_close(&storm);
}

static void
all_pages(struct gpu_work *work)
{
    test_pages(work, "vmm(stress=true)");
    test_pages(work, "vmm");
    test_pages(work, "pool(growth=2MiB) | vmm(stress=true)");
}

#define UNMAPPED_TESTS 3

/* The work before every event is said to be done. */
static CUresult CUDAAPI
lying_query(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

/* A base that ends mappings before the work on them is done: the device faults, and so this test would notice it. */
static void
test_unmapped(struct gpu_work *work)
{
    struct tide_resource *vmm = gpu_stack("vmm");
    const struct tidei_driver *table = NULL;
    struct gpu_hold hold = { 0 };
    void *block = NULL;

    if (vmm == NULL || !gpu_hold_open(&hold) || tidei_driver_get("race", &table) != TIDE_OK) {
        skip(UNMAPPED_TESTS, "no pages, or no kernel that waits");
        tide_resource_release(vmm);
        return;
    }
    /* The library never changes its table, but it is not const: this process is alone with what it plants. */
    ((struct tidei_driver *)(uintptr_t)table)->event_query = lying_query;
    ok(all_of(gpu_allocates(vmm, 2 * MIB, work->first, &block), gpu_hold_fill(&hold, work->first, block, HELD_WORDS, 1),
              gpu_frees(vmm, block, 2 * MIB, work->first)),
       "a block is freed while a kernel that will write to it is held");
    ok(all_of(tide_trim(vmm, 0) == TIDE_OK, gpu_figure(vmm, TIDE_QUERY_BYTES_RESERVED) == 0),
       "a base to which every event lies unmaps the block at once");
    gpu_hold_go(&hold);
    ok(gpu.stream_synchronize(work->first) != CUDA_SUCCESS,
       "the kernel that writes to the unmapped block fails, and its stream with it");
    /* The context is of no use any more: what the driver still has of it goes with the process. */
    gpu_hold_close(&hold);
}

static void
all_held(struct gpu_work *work)
{
    gpu_diag();
    test_held(work, false);
    if (PLANTS)
        test_held(work, true);
    else
        skip(HELD_TESTS, "ThreadSanitizer would see the race that is planted");
}

static void
part_held(void)
{
    gpu_with_work(all_held, 2 * HELD_TESTS);
}

static void
part_storm(void)
{
    gpu_with_work(test_storm, STORM_TESTS);
}

static void
part_planted(void)
{
    if (PLANTS)
        gpu_with_work(test_planted, PLANTED_TESTS);
    else
        skip(PLANTED_TESTS, "ThreadSanitizer would see the race that is planted");
}

/* Under compute-sanitizer the planted error would be the run's. */
static void
part_unmapped(void)
{
    if (gpu_is_sanitized())
        skip(UNMAPPED_TESTS, "compute-sanitizer would report the error that is planted");
    else
        gpu_with_work(test_unmapped, UNMAPPED_TESTS);
}

static void
part_pages(void)
{
    gpu_with_work(all_pages, 3 * PAGES_TESTS);
}

static const struct gpu_part parts[] = {
    { "held", 2 * HELD_TESTS, part_held },         { "storm", STORM_TESTS, part_storm },
    { "pages", 3 * PAGES_TESTS, part_pages },      { "planted", PLANTED_TESTS, part_planted },
    { "unmapped", UNMAPPED_TESTS, part_unmapped },
};

int
main(int argc, char **argv)
{
    return gpu_parts_main(argc, argv, parts, sizeof(parts) / sizeof(parts[0]));
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
