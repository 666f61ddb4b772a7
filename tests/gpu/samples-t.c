/*
 * Tests the origin of memory in traces: pool_sample has the used and reserved bytes of the driver's pool after each
 * change, and meta.devices has the GPUs.
 */
#include "tests/gpu/work.h"

#include "tests/gpu/lock.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define BLOCKS      10
#define BLOCK_BYTES (8 * MIB)

/* Allocate BLOCKS blocks, free them all, and trim. `flush`: flush after each change. */
static void
samples_traffic(struct gpu_work *work, struct tide_resource *stack, bool flush)
{
    void *blocks[BLOCKS] = { NULL };

    for (int i = 0; i < BLOCKS; i++) {
        gpu_allocates(stack, BLOCK_BYTES, work->first, &blocks[i]);
        if (flush)
            tide_log_flush(stack);
    }
    for (int i = BLOCKS - 1; i >= 0; i--) {
        gpu_frees(stack, blocks[i], BLOCK_BYTES, work->first);
        if (flush)
            tide_log_flush(stack);
    }
    gpu.stream_synchronize(work->first);
}

#define COMMON_TESTS 3

/* What holds for any number of samples, here one after each change. */
static void
samples_are_right(const char *path, const char *how)
{
    ok(all_of(sql_number(path, "SELECT count(DISTINCT used_bytes) FROM pool_sample WHERE used_bytes %% %zu = 0",
                         BLOCK_BYTES) == BLOCKS + 1,
              sql_number(path, "SELECT max(used_bytes) FROM pool_sample") == (int64_t)(BLOCKS * BLOCK_BYTES)),
       "%s: every number of used bytes on the way up, 0 included, has a sample", how);
    is_i64(sql_number(path, "SELECT count(*) FROM pool_sample WHERE reserved_bytes < used_bytes"), 0,
           "in no sample are more bytes used than reserved");
    is_i64(sql_number(path, "SELECT count(*) FROM (SELECT used_bytes = lag(used_bytes) OVER each AND reserved_bytes = "
                            "lag(reserved_bytes) OVER each AS same FROM pool_sample WINDOW each AS (ORDER BY ns)) "
                            "WHERE same"),
           0, "no sample repeats the one before");
}

#define AUTO_TESTS (COMMON_TESTS + 2)

/* The recorder takes the samples; a flush makes it take one at once. */
static void
test_auto(struct gpu_work *work)
{
    const char *path = scratch("auto.db");
    struct tide_resource *stack = gpu_stack("log(%s, cupti=off) | driver", path);

    samples_traffic(work, stack, true);
    tide_resource_release(stack);
    samples_are_right(path, "samples=auto");
    ok(sql_number(path, "SELECT count(*) FROM pool_sample") >= 2 * BLOCKS, "each change has a sample: %d",
       (int)sql_number(path, "SELECT count(*) FROM pool_sample"));
    is_i64(sql_number(path, "SELECT used_bytes + reserved_bytes FROM pool_sample ORDER BY ns DESC LIMIT 1"), 0,
           "in the last sample nothing is used or reserved");
}

#define EVERY_TESTS (COMMON_TESTS + 1)

/* The calling thread takes the samples, after each event. */
static void
test_every(struct gpu_work *work)
{
    const char *path = scratch("every.db");
    struct tide_resource *stack = gpu_stack("log(%s, cupti=off, samples=every) | driver", path);

    samples_traffic(work, stack, false);
    tide_resource_release(stack);
    samples_are_right(path, "samples=every");
    /* The driver's pool gives memory back when the stream is waited for. */
    ok(sql_number(path, "SELECT count(*) FROM pool_sample") - 2 * BLOCKS <= 1 &&
           sql_number(path, "SELECT count(*) FROM pool_sample") >= 2 * BLOCKS,
       "each event has a sample, and the end where it differs: %d",
       (int)sql_number(path, "SELECT count(*) FROM pool_sample"));
}

#define HIGH_TESTS 2

/* What the driver's pool counts itself, between two samples and beyond a reset of the program. */
static void
test_high(struct gpu_work *work)
{
    const char *path = scratch("high.db");
    struct tide_resource *stack = gpu_stack("log(%s, cupti=off) | driver", path);
    uint64_t high_bytes;
    void *block = NULL;

    samples_traffic(work, stack, false);
    tide_log_flush(stack);
    high_bytes = gpu_figure(stack, TIDE_QUERY_BYTES_RESERVED_HIGH);
    ok(all_of(high_bytes >= BLOCKS * BLOCK_BYTES,
              sql_number(path, "SELECT max(reserved_high_bytes) FROM pool_sample") == (int64_t)high_bytes),
       "the most that the driver's pool had reserved is in the trace");
    tide_driver_reset_highs(stack->upstream);
    gpu_allocates(stack, 4096, work->first, &block);
    tide_log_flush(stack);
    gpu_frees(stack, block, 4096, work->first);
    tide_resource_release(stack);
    is_i64(sql_number(path, "SELECT reserved_high_bytes FROM pool_sample ORDER BY rowid DESC LIMIT 1"),
           (int64_t)high_bytes, "a reset by the program does not take it back");
}

#define DEVICE_TESTS 4
#define BESIDE_BYTES (32 * MIB)

/* What the device says, beside what passes through the stack: here an allocation of the program's own. */
static void
test_device(struct gpu_work *work)
{
    const char *path = scratch("device.db");
    const char *off = scratch("device-off.db");
    struct tide_resource *stack = gpu_stack("log(%s, cupti=off, samples=every) | driver", path);
    CUdeviceptr beside = 0;
    int64_t before, after;
    void *block = NULL;

    gpu_allocates(stack, BLOCK_BYTES, work->first, &block);
    tide_log_flush(stack);
    before = sql_number(path, "SELECT total_bytes - free_bytes FROM device_sample ORDER BY rowid DESC LIMIT 1");
    gpu.mem_alloc(&beside, BESIDE_BYTES);
    tide_log_flush(stack);
    after = sql_number(path, "SELECT total_bytes - free_bytes FROM device_sample ORDER BY rowid DESC LIMIT 1");
    gpu.mem_free(beside);
    gpu_frees(stack, block, BLOCK_BYTES, work->first);
    tide_resource_release(stack);
    ok(before >= (int64_t)BLOCK_BYTES, "the device has in use what the base holds at least: %lld bytes",
       (long long)before);
    is_i64(after - before, BESIDE_BYTES, "what another allocator takes shows in the samples of the device");
    is_i64(sql_number(path, "SELECT count(*) FROM device_sample WHERE device <> 0 OR total_bytes <> "
                            "(SELECT json_extract(value, '$[0].total_bytes') FROM meta WHERE key = 'devices')"),
           0, "the samples are of the base's device, with its total");
    stack = gpu_stack("log(%s, cupti=off, samples=off) | driver", off);
    gpu_allocates(stack, BLOCK_BYTES, work->first, &block);
    gpu_frees(stack, block, BLOCK_BYTES, work->first);
    tide_resource_release(stack);
    is_i64(sql_number(off, "SELECT count(*) FROM device_sample"), 0, "samples=off does not ask the device");
}

#define DEVICES_TESTS 4

static void
test_devices(struct gpu_work *work)
{
    const char *path = scratch("devices.db");
    const char *other = scratch("host.db");
    struct tide_resource *stack = gpu_stack("log(%s, cupti=off) | pinned", path);
    uint64_t total_bytes = 0;
    char name[256] = "";
    void *block = NULL;

    tide_device_name(0, name, sizeof(name));
    tide_device_query(0, TIDE_QUERY_DEVICE_TOTAL, &total_bytes);
    gpu_allocates(stack, 4096, work->first, &block);
    gpu_frees(stack, block, 4096, work->first);
    tide_resource_release(stack);
    is_string(sql_text(path, "SELECT json_extract(value, '$[0].name') FROM meta WHERE key = 'devices'"), name,
              "the trace has the name of the GPU");
    is_i64(sql_number(path, "SELECT json_extract(value, '$[0].total_bytes') FROM meta WHERE key = 'devices'"),
           (int64_t)total_bytes, "the trace has the memory of the GPU");
    is_i64(sql_number(path, "SELECT json_array_length(value) FROM meta WHERE key = 'devices'"), gpu.devices,
           "the trace lists all GPUs of the machine");
    stack = gpu_stack("log(%s) | host", other);
    gpu_allocates(stack, 4096, work->first, &block);
    gpu_frees(stack, block, 4096, work->first);
    tide_resource_release(stack);
    is_string(sql_text(other, "SELECT value FROM meta WHERE key = 'devices'"), "",
              "a trace of host memory lists no GPUs");
}

int
main(void)
{
    const char *reason;

    gpu_lock(true); /* what the device has in use must be of this test alone */
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    plan(AUTO_TESTS + EVERY_TESTS + HIGH_TESTS + DEVICE_TESTS + DEVICES_TESTS);
    gpu_diag();
    gpu_with_work(test_auto, AUTO_TESTS);
    gpu_with_work(test_every, EVERY_TESTS);
    gpu_with_work(test_high, HIGH_TESTS);
    gpu_with_work(test_device, DEVICE_TESTS);
    gpu_with_work(test_devices, DEVICES_TESTS);
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
