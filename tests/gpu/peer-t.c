/*
 * Tests a pool's memory on another device: refused until access is granted, usable then, refused again after it is
 * revoked; with a trace of both devices.
 */
#include "tests/gpu/work.h"

#include "tests/gpu/parts.h"
#include "tests/gpu/summary.h"
#include "tests/find.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

static enum tide_driver_access
access_of(struct tide_resource *driver, int device)
{
    enum tide_driver_access access = (enum tide_driver_access)99;

    if (tide_driver_access_get(driver, device, &access) != TIDE_OK)
        diag("%s", tide_error_text());
    return access;
}

static bool
access_set(struct tide_resource *driver, int device, enum tide_driver_access access, enum tide_driver_access *former)
{
    enum tide_status status = tide_driver_access_set(driver, device, access, former);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_OK;
}

#define ALONE_TESTS 6

/* Tests that one device is enough for. */
static void
test_alone(void)
{
    struct tide_resource *stack = gpu_stack("statistics | driver");
    struct tide_resource *driver = find_layer(stack, "driver");
    enum tide_driver_access former = TIDE_DRIVER_READ;

    is_i64(access_of(driver, 0), TIDE_DRIVER_READ_WRITE, "a device has access to its own pool");
    ok(tide_driver_access_set(driver, 0, TIDE_DRIVER_NO_ACCESS, &former) != TIDE_OK,
       "the access of the pool's own device cannot be taken away");
    is_i64(access_of(driver, 0), TIDE_DRIVER_READ_WRITE, "the pool's own device still has access");
    ok(all_of(tide_driver_access_set(driver, gpu.devices, TIDE_DRIVER_READ_WRITE, &former) == TIDE_EINVAL,
              former == TIDE_DRIVER_NO_ACCESS),
       "access for a device past the last is refused");
    diag("%s", tide_error_text());
    ok(tide_driver_access_set(driver, -1, TIDE_DRIVER_READ_WRITE, NULL) == TIDE_EINVAL,
       "access for device -1 is refused");
    ok(tide_driver_access_set(stack, 0, TIDE_DRIVER_READ_WRITE, NULL) == TIDE_EINVAL,
       "access to the memory of an adaptor is refused");
    tide_resource_release(stack);
}

/* The driver's result for work of the current context's device, the other one, on the memory. */
static CUresult
touch(struct gpu_work *work, void *block)
{
    CUresult result;

    gpu.context_set(work->context);
    result = gpu.memset_d32_async((CUdeviceptr)(uintptr_t)block, 9, WORDS, work->first);
    return result != CUDA_SUCCESS ? result : gpu.stream_synchronize(work->first);
}

#define PEER_TESTS 13

static void
test_peer(struct gpu_work *near, struct gpu_work *far)
{
    struct tide_resource *driver = gpu_stack("driver(device=0)");
    enum tide_driver_access former = TIDE_DRIVER_READ_WRITE;
    void *block = NULL;
    void *second = NULL;

    gpu.context_set(near->context);
    ok(all_of(gpu_allocates(driver, MIB, near->first, &block), gpu_fill(&near->kernels, near->first, block, WORDS, 1),
              gpu.stream_synchronize(near->first) == CUDA_SUCCESS),
       "device 0 fills memory of its pool");
    is_i64(access_of(driver, 1), TIDE_DRIVER_NO_ACCESS, "device 1 has no access to the pool of device 0");
    ok(touch(far, block) != CUDA_SUCCESS, "a kernel of device 1 that touches memory of device 0 fails");
    ok(all_of(access_set(driver, 1, TIDE_DRIVER_READ_WRITE, &former), former == TIDE_DRIVER_NO_ACCESS),
       "device 1 is given access, and had none before");
    is_i64(access_of(driver, 1), TIDE_DRIVER_READ_WRITE, "device 1 has access to the pool");
    gpu.context_set(far->context);
    ok(gpu_add(&far->kernels, far->first, block, WORDS, 4), "a kernel on device 1 adds to the memory");
    is_u64(gpu_count_wrong(&far->kernels, far->first, block, WORDS, 5), 0, "device 1 reads what both have written");
    gpu.context_set(near->context);
    is_u64(gpu_count_wrong(&near->kernels, near->first, block, WORDS, 5), 0, "device 0 reads what both have written");
    gpu.context_set(far->context);
    ok(all_of(gpu_allocates(driver, MIB, far->first, &second), gpu_fill(&far->kernels, far->first, second, WORDS, 6),
              gpu_count_wrong(&far->kernels, far->first, second, WORDS, 6) == 0),
       "device 1 allocates from that pool on a stream of its own, and writes");
    ok(gpu_frees(driver, second, MIB, far->first), "device 1 frees what it has allocated from the pool");
    gpu.stream_synchronize(far->first);
    ok(all_of(access_set(driver, 1, former, NULL), access_of(driver, 1) == TIDE_DRIVER_NO_ACCESS),
       "the access of device 1 is taken back");
    ok(touch(far, block) != CUDA_SUCCESS, "after that a kernel of device 1 that touches the memory fails");
    gpu.context_set(near->context);
    ok(gpu_frees(driver, block, MIB, near->first), "the memory is freed");
    tide_resource_release(driver);
}

#define SCOPE_TESTS 3

/* Access for a scope nests: the inner scope restores the access of the outer one. */
static void
test_scope(struct gpu_work *near, struct gpu_work *far)
{
    struct tide_resource *driver = gpu_stack("driver(device=1)");
    enum tide_driver_access outer = TIDE_DRIVER_READ;
    enum tide_driver_access inner = TIDE_DRIVER_READ;

    (void)near;
    (void)far;
    access_set(driver, 0, TIDE_DRIVER_READ_WRITE, &outer);
    access_set(driver, 0, TIDE_DRIVER_READ_WRITE, &inner);
    ok(all_of(outer == TIDE_DRIVER_NO_ACCESS, inner == TIDE_DRIVER_READ_WRITE),
       "each of two nested scopes gets the access that was set before it");
    ok(all_of(access_set(driver, 0, inner, NULL), access_of(driver, 0) == TIDE_DRIVER_READ_WRITE),
       "the end of the inner scope keeps the access");
    ok(all_of(access_set(driver, 0, outer, NULL), access_of(driver, 0) == TIDE_DRIVER_NO_ACCESS),
       "the end of the outer scope takes the access back");
    tide_resource_release(driver);
}

#define DEVICES_TESTS 6

/* One trace of two stacks, each on a device of its own. */
static void
test_devices(struct gpu_work *near, struct gpu_work *far)
{
    /* In the order of their layers in the trace. */
    const struct gpu_summary wanted[] = {
        { .allocations = 3, .frees = 3, .total_bytes = 6 * MIB, .peak_bytes = 6 * MIB },
        { .allocations = 2, .frees = 1, .total_bytes = 24 * MIB, .peak_bytes = 24 * MIB, .live_bytes = 8 * MIB },
    };
    const char *trace = scratch("devices.db");
    struct tide_resource *first = gpu_stack("log(%s) | driver(device=0)", trace);
    struct tide_resource *second = gpu_stack("log(%s) | driver(device=1)", trace);
    void *blocks[3] = { NULL };
    void *others[2] = { NULL };
    bool done = first != NULL && second != NULL;

    gpu.context_set(near->context);
    for (size_t i = 0; i < 3; i++)
        done = done && gpu_allocates(first, (i + 1) * MIB, NULL, &blocks[i]);
    gpu.context_set(far->context);
    for (size_t i = 0; i < 2; i++)
        done = done && gpu_allocates(second, (i + 1) * 8 * MIB, NULL, &others[i]);
    ok(done, "two stacks on two devices record into one trace");
    ok(all_of(gpu_figure(first, TIDE_QUERY_DEVICE) == 0, gpu_figure(second, TIDE_QUERY_DEVICE) == 1),
       "each of the two stacks is on its own device");
    gpu.context_set(near->context);
    for (size_t i = 0; i < 3; i++)
        done = done && gpu_frees(first, blocks[i], (i + 1) * MIB, NULL);
    gpu.context_set(far->context);
    ok(all_of(done, gpu_frees(second, others[1], 16 * MIB, NULL)), "all blocks of the two stacks are freed but one");
    gpu.context_synchronize();
    tide_resource_release(first);
    tide_resource_release(second);
    ok(trace_is_whole(trace), "the trace of two devices is whole");
    is_i64(sql_number(trace,
                      "SELECT count(*) FROM allocation JOIN stream ON stream_id = alloc_stream_id"
                      " JOIN layer USING (layer_id)"
                      " WHERE stream.device = layer.device AND stream.device = (size >= %zu)",
                      8 * MIB),
           5, "stream 0 of each device is a stream of its own");
    gpu_summary_is(trace, wanted, 2, "the summary has the figures of both devices");
}

/* Run a test with two devices, whether or not the second can reach the first's memory. */
static void
with_two_devices(void (*test)(struct gpu_work *near, struct gpu_work *far), int tests, bool wants_peers)
{
    struct gpu_work near = { 0 };
    struct gpu_work far = { 0 };
    int can = 0;

    if (gpu.devices < 2) {
        skip(tests, "this machine has one device");
        return;
    }
    if (wants_peers && gpu.device_can_access_peer(&can, 1, 0) == CUDA_SUCCESS && can == 0)
        skip(tests, "these devices do not reach each other's memory");
    else if (!gpu_work_open(&far, 1) || !gpu_work_open(&near, 0))
        skip(tests, "a device cannot run the tests' kernels");
    else
        test(&near, &far);
    gpu_work_close(&near);
    gpu_work_close(&far);
}

#define REACH_TESTS 1

static void
test_reach(void)
{
    uint64_t peers = 0;
    int can = 0;

    if (gpu.devices < 2) {
        skip(REACH_TESTS, "this machine has one device");
        return;
    }
    gpu.device_can_access_peer(&can, 1, 0);
    ok(all_of(tide_device_query(1, TIDE_QUERY_PEERS, &peers) == TIDE_OK, (peers & 1) == (uint64_t)can),
       "a device knows whether it reaches the other");
}

#define UNREACHED_TESTS 6

/* Two devices that do not reach each other, which the fake driver can simulate. */
static void
test_unreached(void)
{
    const char *trace = scratch("unreached.db");
    enum tide_driver_access former = TIDE_DRIVER_READ;
    struct tide_resource *stack;
    struct tide_resource *driver;
    void *block = NULL;
    int can = 1;

    if (gpu_is_fake())
        setenv("FAKE_CUDA_NO_PEERS", "1", 1);
    if (gpu.devices < 2 || gpu.device_can_access_peer(&can, 1, 0) != CUDA_SUCCESS || can != 0) {
        skip(UNREACHED_TESTS, "this machine has no two devices that do not reach each other's memory");
        return;
    }
    stack = gpu_stack("log(%s) | driver(device=0)", trace);
    driver = find_layer(stack, "driver");
    gpu_allocates(stack, MIB, NULL, &block);
    ok(all_of(tide_driver_access_set(driver, 1, TIDE_DRIVER_READ_WRITE, &former) == TIDE_EUNSUPPORTED,
              former == TIDE_DRIVER_NO_ACCESS),
       "access between devices that do not reach each other is unsupported");
    has_words(tide_error_text(),
              "driver: device 1 cannot reach the memory of device 0 (cuMemPoolSetAccess: CUDA_ERROR_",
              "the refusal names both devices and the driver's error");
    ok(tide_error_driver() != CUDA_SUCCESS, "the refusal keeps the driver's error");
    is_i64(access_of(driver, 1), TIDE_DRIVER_NO_ACCESS, "a refused access changes nothing");
    ok(gpu_frees(stack, block, MIB, NULL), "a block of the pool is freed after a refused access");
    tide_resource_release(stack);
    ok(trace_is_whole(trace), "the trace of the pool with a refused access is whole");
}

static void
part_alone(void)
{
    gpu_diag();
    test_alone();
}

static void
part_devices(void)
{
    with_two_devices(test_devices, DEVICES_TESTS, false);
}

static void
part_peer(void)
{
    with_two_devices(test_peer, PEER_TESTS, true);
}

static void
part_scope(void)
{
    with_two_devices(test_scope, SCOPE_TESTS, true);
}

static const struct gpu_part parts[] = {
    { "alone", ALONE_TESTS, part_alone },
    { "reach", REACH_TESTS, test_reach },
    { "unreached", UNREACHED_TESTS, test_unreached },
    { "devices", DEVICES_TESTS, part_devices },
    { "peer", PEER_TESTS, part_peer },
    { "scope", SCOPE_TESTS, part_scope },
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
