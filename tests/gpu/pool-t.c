/* Tests the driver's pool: properties, attributes, figures, trims, policies, locations, destruction. */
#include "tests/gpu/work.h"

#include "tests/gpu/lock.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

static bool
trims(struct tide_resource *stack, uint64_t keep_bytes)
{
    enum tide_status status = tide_trim(stack, keep_bytes);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_OK;
}

#define PROPERTIES_TESTS 7

static void
test_properties(struct gpu_work *work)
{
    const char *text = "driver(release_threshold=64MiB, maximum=256MiB, initial=40MiB, handle=posix_fd, "
                       "reuse_opportunistic=false, reuse_internal_dependencies=true)";
    struct tide_resource *driver = gpu_stack("%s", text);
    char described[256] = "";
    void *block = NULL;

    if (driver == NULL) {
        skip(PROPERTIES_TESTS, tide_error_text());
        return;
    }
    tide_describe(driver, described, sizeof(described), NULL);
    is_string(described, text, "a pool with properties of its own is described as it was written");
    is_u64(gpu_figure(driver, TIDE_QUERY_CAPACITY), 256 * MIB, "the capacity of a pool with properties is its maximum");
    ok(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) >= 40 * MIB, "the initial size is reserved");
    gpu.context_synchronize();
    ok(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) >= 40 * MIB,
       "the initial size stays reserved after a synchronize");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED), 0, "the initial size does not count as used");
    ok(all_of(gpu_allocates(driver, MIB, work->first, &block), gpu_fill(&work->kernels, work->first, block, WORDS, 3),
              gpu_count_wrong(&work->kernels, work->first, block, WORDS, 3) == 0),
       "kernels use memory of a pool with properties");
    ok(gpu_frees(driver, block, MIB, work->first), "memory of a pool with properties is freed");
    tide_resource_release(driver);
}

#define FIGURES_TESTS 14

/* 100 MiB are allocated, freed and trimmed, with the figures of the documentation. */
static void
test_figures(struct gpu_work *work)
{
    struct tide_resource *driver = gpu_stack("driver(release_threshold=all)");
    uint64_t reserved;
    void *block = NULL;
    void *small = NULL;

    ok(gpu_allocates(driver, 100 * MIB, work->first, &block),
       "100 MiB are allocated from a pool that keeps its memory");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED), 100 * MIB, "the figures say that 100 MiB are used");
    reserved = gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED);
    ok(all_of(reserved >= 100 * MIB, reserved <= 164 * MIB), "not much more than the 100 MiB is reserved");
    ok(all_of(gpu_frees(driver, block, 100 * MIB, work->first), gpu.stream_synchronize(work->first) == CUDA_SUCCESS),
       "the 100 MiB are freed, and the stream synchronized");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED), 0, "the figures say that nothing is used after the synchronize");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED), reserved, "all memory stays reserved after the synchronize");
    ok(all_of(trims(driver, 50 * MIB), gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) < reserved,
              gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) > 0),
       "a trim to 50 MiB releases a part of the memory");
    diag("reserved %" PRIu64 " MiB, trimmed to 50 MiB %" PRIu64 " MiB", reserved / MIB,
         gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) / MIB);
    ok(all_of(trims(driver, 0), gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED) == 0), "a trim to 0 releases all memory");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED_HIGH), 100 * MIB, "the highest used bytes are kept");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED_HIGH), reserved, "the highest reserved bytes are kept");
    gpu_allocates(driver, 4096, work->first, &small);
    ok(tide_driver_reset_highs(driver) == TIDE_OK, "both highest figures are reset");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED_HIGH), 4096,
           "a reset sets the highest used bytes to the current ones");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED_HIGH), gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED),
           "a reset sets the highest reserved bytes to the current ones");
    trims(driver, 0);
    ok(all_of(gpu_fill(&work->kernels, work->first, small, 1024, 8),
              gpu_count_wrong(&work->kernels, work->first, small, 1024, 8) == 0,
              gpu_frees(driver, small, 4096, work->first)),
       "a trim leaves a block in use alone");
    tide_resource_release(driver);
}

#define DEFAULT_TESTS 4

/* The stack uses the application's pool: each sees the other's bytes. */
static void
test_default(struct gpu_work *work)
{
    struct tide_resource *driver = gpu_stack("driver(default=true)");
    cuuint64_t used = 0;
    CUmemoryPool pool = NULL;
    CUdeviceptr own = 0;
    void *block = NULL;

    gpu.device_get_default_mem_pool(&pool, 0);
    ok(all_of(gpu_allocates(driver, 3 * MIB, work->first, &block),
              gpu.mem_alloc_from_pool_async(&own, 5 * MIB, pool, work->first) == CUDA_SUCCESS),
       "the stack and the application allocate from the default pool");
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    is_u64(used, 8 * MIB, "the driver counts the bytes of the stack and of the application");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED), used,
           "the stack counts the bytes of the stack and of the application");
    ok(all_of(gpu_frees(driver, block, 3 * MIB, work->first), gpu.mem_free_async(own, work->first) == CUDA_SUCCESS),
       "the stack and the application free their blocks of the default pool");
    gpu.stream_synchronize(work->first);
    tide_resource_release(driver);
}

#define QUERY_TESTS 6

static void
test_queries(void)
{
    struct tide_resource *driver = gpu_stack("statistics | driver");
    uint64_t supported = 2;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    int pools = -1;
    int handles = 0;

    gpu.device_total_mem(&total_bytes, 0);
    gpu.device_get_attribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);
    gpu.device_get_attribute(&handles, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0);
    is_u64(gpu_figure(driver, TIDE_QUERY_DEVICE_TOTAL), total_bytes, "a stack knows its device's memory");
    gpu.mem_get_info(&free_bytes, &total_bytes);
    ok(all_of(gpu_figure(driver, TIDE_QUERY_DEVICE_FREE) > 0,
              gpu_figure(driver, TIDE_QUERY_DEVICE_FREE) <= gpu_figure(driver, TIDE_QUERY_DEVICE_TOTAL)),
       "a stack knows how much of its device's memory is free");
    diag("free %zu MiB of %zu MiB", free_bytes / MIB, total_bytes / MIB);
    is_u64(gpu_figure(driver, TIDE_QUERY_POOLS), (uint64_t)pools, "a stack knows whether its device has pools");
    is_u64(gpu_figure(driver, TIDE_QUERY_IPC), (handles & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,
           "a stack knows whether its device's pools can be shared");
    ok(all_of(tide_device_query(0, TIDE_QUERY_POOLS, &supported) == TIDE_OK, supported == (uint64_t)pools),
       "a device can be asked without a stack");
    ok(all_of(tide_device_query(gpu.devices, TIDE_QUERY_POOLS, &supported) == TIDE_EINVAL, supported == 0),
       "a query of a device that does not exist is refused");
    tide_resource_release(driver);
}

#define LOCATION_TESTS 5

/* Pools in other locations, which the host can read. On a machine without them, both the stack and the query say so. */
static void
test_location(struct gpu_work *work, const char *text, enum tide_query supports)
{
    struct tide_resource *driver = NULL;
    uint64_t supported = 2;
    void *block = NULL;
    uint64_t host = 0;

    ok(all_of(tide_device_query(0, supports, &supported) == TIDE_OK, supported <= 1),
       "%s: the device knows whether it supports the property", text);
    ok((tide_stack_parse(text, &driver) == TIDE_OK) == (supported == 1),
       "%s: a pool is made exactly if the device supports the property", text);
    if (driver == NULL) {
        skip(LOCATION_TESTS - 2, tide_error_text());
        return;
    }
    ok(all_of(gpu_allocates(driver, MIB, work->first, &block), gpu_fill(&work->kernels, work->first, block, WORDS, 21),
              gpu_count_wrong(&work->kernels, work->first, block, WORDS, 21) == 0),
       "%s: a kernel writes and reads its memory", text);
    ok(all_of(tide_query(driver, TIDE_QUERY_HOST_ACCESS, &host) == TIDE_OK, host == 1, block != NULL,
              ((volatile uint32_t *)block)[WORDS - 1] == 21),
       "%s: the host reads what the kernel wrote", text);
    ok(gpu_frees(driver, block, MIB, work->first), "%s: the memory is freed", text);
    gpu.stream_synchronize(work->first);
    tide_resource_release(driver);
}

#define REUSE_BYTES (48 * MIB)

/*
 * A pool of at most 64 MiB, of which 48 MiB were freed on a first stream: whether a second stream gets them depends on
 * the policies. `event`: the second stream waits for an event after the free; `done`: the first stream has no work
 * left, and nobody has waited for it.
 */
static bool
second_gets_it(struct gpu_work *work, const char *policies, bool event, bool done)
{
    struct tide_resource *driver = gpu_stack("driver(maximum=64MiB, %s)", policies);
    struct gpu_hold hold = { 0 };
    CUevent freed = NULL;
    void *block = NULL;
    void *other = NULL;

    if (driver == NULL || !gpu_hold_open(&hold))
        goto out;
    gpu.event_create(&freed, CU_EVENT_DISABLE_TIMING);
    gpu_allocates(driver, REUSE_BYTES, work->first, &block);
    gpu_hold_fill(&hold, work->first, block, WORDS, 1);
    gpu_frees(driver, block, REUSE_BYTES, work->first);
    if (event && gpu.event_record(freed, work->first) == CUDA_SUCCESS)
        gpu.stream_wait_event(work->second, freed, 0);
    if (done) {
        gpu_hold_go(&hold);
        while (gpu.stream_query(work->first) == CUDA_ERROR_NOT_READY)
            ;
    }
    tide_allocate(driver, REUSE_BYTES, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->second, &other);
    gpu_hold_go(&hold);
    if (other != NULL)
        gpu_frees(driver, other, REUSE_BYTES, work->second);
    gpu.context_synchronize();
out:
    gpu.event_destroy(freed);
    gpu_hold_close(&hold);
    tide_resource_release(driver);
    return block != NULL && other == block;
}

#define ONLY_EVENTS        "reuse_event_dependencies=true, reuse_opportunistic=false, reuse_internal_dependencies=false"
#define ONLY_OPPORTUNISTIC "reuse_event_dependencies=false, reuse_opportunistic=true, reuse_internal_dependencies=false"
#define ONLY_INTERNAL      "reuse_event_dependencies=false, reuse_opportunistic=false, reuse_internal_dependencies=true"
#define NONE                                                                                                           \
    "reuse_event_dependencies=false, reuse_opportunistic=false, "                                                      \
    "reuse_internal_dependencies=false"
#define POLICY_TESTS 6

static void
test_policies(struct gpu_work *work)
{
    ok(second_gets_it(work, ONLY_EVENTS, true, false),
       "reuse_event_dependencies gives a stream a block freed before an event that it waits for");
    ok(!second_gets_it(work, NONE, true, false), "without reuse_event_dependencies a stream does not get that block");
    ok(second_gets_it(work, ONLY_OPPORTUNISTIC, false, true),
       "reuse_opportunistic gives a stream a block that another stream has finished with");
    ok(!second_gets_it(work, NONE, false, true), "without reuse_opportunistic a stream does not get that block");
    ok(second_gets_it(work, ONLY_INTERNAL, false, false),
       "reuse_internal_dependencies gives a stream a block that another stream still uses, and makes it wait");
    ok(!second_gets_it(work, NONE, false, false),
       "without reuse_internal_dependencies a stream does not get that block");
}

#define MOST_BLOCKS     64
#define EXHAUSTED_TESTS 7

/* A full pool, and what a program may do then: allocate from the base `cuda`. */
static void
test_exhausted(struct gpu_work *work)
{
    struct tide_resource *pool = gpu_stack("statistics | driver(maximum=64MiB)");
    struct tide_resource *plain = gpu_stack("statistics | cuda");
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    void *blocks[MOST_BLOCKS] = { NULL };
    enum tide_status status = TIDE_OK;
    uint32_t wrong = 0;
    size_t count = 0;
    void *last = &gpu;

    while (count < MOST_BLOCKS && status == TIDE_OK) {
        status = tide_allocate(pool, 4 * MIB, TIDE_DEFAULT_ALIGNMENT, (tide_stream)work->first, &blocks[count]);
        count += status == TIDE_OK;
    }
    is_u64(count, 16, "a pool of at most 64 MiB gives out 16 times 4 MiB");
    is_i64(status, TIDE_ECAPACITY, "a pool of at most 64 MiB refuses the 17th block of 4 MiB");
    has_words(tide_error_text(), "maximum 64 MiB", "the refusal of the 17th block names the maximum");
    is_i64(tide_error_driver(), CUDA_ERROR_OUT_OF_MEMORY, "the refusal of the 17th block keeps the driver's error");
    if (plain == NULL) {
        skip(2, "this build has no base cuda");
    } else {
        ok(gpu_allocates(plain, 4 * MIB, work->first, &last),
           "the base cuda allocates the block that the pool refused");
        for (uint32_t i = 0; i < count; i++)
            gpu_fill(&work->kernels, work->first, blocks[i], 4 * WORDS, i);
        gpu_fill(&work->kernels, work->first, last, 4 * WORDS, 99);
        for (uint32_t i = 0; i < count; i++)
            wrong += gpu_count_wrong(&work->kernels, work->first, blocks[i], 4 * WORDS, i);
        wrong += gpu_count_wrong(&work->kernels, work->first, last, 4 * WORDS, 99);
        is_u64(wrong, 0, "kernels use the blocks of the pool and of the base cuda");
        gpu_frees(plain, last, 4 * MIB, work->first);
    }
    for (size_t i = 0; i < count; i++)
        gpu_frees(pool, blocks[i], 4 * MIB, work->first);
    ok(all_of(gpu_allocates(pool, 4 * MIB, work->first, &last), gpu_frees(pool, last, 4 * MIB, work->first),
              tide_statistics_read(pool, &figures) == TIDE_OK, figures.count.total == 17, figures.bytes.current == 0),
       "after the frees the pool allocates again, and the refused block was not counted");
    tide_resource_release(plain);
    tide_resource_release(pool);
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
    plan(PROPERTIES_TESTS + FIGURES_TESTS + DEFAULT_TESTS + QUERY_TESTS + 2 * LOCATION_TESTS + POLICY_TESTS +
         EXHAUSTED_TESTS);
    gpu_diag();
    test_properties(&work);
    test_figures(&work);
    test_default(&work);
    test_queries();
    test_location(&work, "driver(location=host_numa)", TIDE_QUERY_HOST_POOLS);
    test_location(&work, "driver(location=managed)", TIDE_QUERY_MANAGED_POOLS);
    test_policies(&work);
    test_exhausted(&work);
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
