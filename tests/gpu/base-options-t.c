/* Tests the options of the CUDA bases in stack text and in C, contradictions among them, and the bases' figures. */
#include "tests/gpu/work.h"

#include <stdlib.h>
#include <string.h>

#include "tests/gpu/lock.h"
#include "tests/find.h"
#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define KIND_TESTS 14

/* What the three bases have in common. `call` is the name of the driver's function that allocates. */
static void
test_kind(const char *name, const char *call, bool host_access)
{
    struct tide_resource *base = gpu_stack("%s", name);
    CUcontext current = NULL;
    uint64_t figure;
    void *first = NULL;
    void *second = NULL;
    char text[64];

    ok(all_of(gpu_allocates(base, MIB, NULL, &first), gpu_allocates(base, 1, NULL, &second)),
       "%s: a thread without a context allocates", name);
    ok(all_of(gpu.context_get(&current) == CUDA_SUCCESS, current == NULL),
       "%s: the thread has no context after the allocation", name);
    is_u64(gpu_figure(base, TIDE_QUERY_BYTES_USED), MIB + 1, "the bytes in use are counted");
    ok(gpu_frees(base, first, MIB, NULL), "%s: a block of 1 MiB is freed", name);
    is_u64(gpu_figure(base, TIDE_QUERY_BYTES_RESERVED), 1, "the freed bytes are not counted");
    is_u64(gpu_figure(base, TIDE_QUERY_BYTES_USED_HIGH), MIB + 1, "the highest bytes in use are kept");
    ok(tide_deallocate(base, first, MIB, 256, 0) == TIDE_EPOINTER, "%s: a second free is refused", name);
    snprintf(text, sizeof(text), "%s: %p is no live allocation of this base (CUDA_ERROR_INVALID_VALUE", name, first);
    has_words(tide_error_text(), text, "the refusal of a second free names the pointer");
    is_i64(tide_error_driver(), CUDA_ERROR_INVALID_VALUE, "the refusal of a second free keeps the driver's error");
    is_u64(gpu_figure(base, TIDE_QUERY_BYTES_USED), 1, "a refused free leaves the bytes reserved unchanged");
    ok(gpu_frees(base, second, 1, NULL), "%s: a block of 1 byte is freed", name);
    ok(all_of(tide_query(base, TIDE_QUERY_HOST_ACCESS, &figure) == TIDE_OK, figure == host_access),
       "%s: the base says whether the host has access", name);
    ok(all_of(tide_allocate(base, SIZE_MAX - 4096, 256, 0, &first) == TIDE_ECAPACITY, first == NULL),
       "%s: a request near SIZE_MAX is refused", name);
    snprintf(text, sizeof(text), "finds no room: CUDA_ERROR_OUT_OF_MEMORY (device 0");
    has_words(tide_error_text(), text, call);
    tide_resource_release(base);
}

#define DEVICE_TESTS 4

/*
 * cuMemAlloc allocates in the current context: a thread with another device's context still gets memory of the base's
 * device.
 */
static void
test_device(void)
{
    struct tide_resource *base;
    CUcontext other = NULL;
    CUcontext current = NULL;
    int ordinal = -1;
    void *block = NULL;

    if (gpu.devices < 2) {
        skip(DEVICE_TESTS, "this machine has one device");
        return;
    }
    base = gpu_stack("cuda");
    gpu.primary_retain(&other, 1);
    gpu.context_set(other);
    ok(gpu_allocates(base, MIB, NULL, &block), "a thread with the context of another device allocates");
    ok(all_of(gpu.pointer_get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)block) ==
                  CUDA_SUCCESS,
              ordinal == 0),
       "the memory lies on the base's device");
    ok(gpu_frees(base, block, MIB, NULL), "the memory is freed on a thread with the context of another device");
    ok(all_of(gpu.context_get(&current) == CUDA_SUCCESS, current == other),
       "the context of the other device stays current");
    gpu.context_set(NULL);
    gpu.primary_release(1);
    tide_resource_release(base);
}

/* Stack texts, and how their stacks describe themselves; NULL: like the text. */
static const struct {
    const char *text;
    const char *described;
} good[] = {
    { "cuda", NULL },
    { "pinned(portable=true, mapped=true, write_combined=true)", NULL },
    { "pinned(mapped)", "pinned(mapped=true)" },
    { "managed(attach=host)", NULL },
    { "managed(attach=global, read_mostly=false, preferred=none)", "managed" },
    { "driver(release_threshold=all)", NULL },
    { "driver(device=0, fallback=none, handle=none, location=device, host_numa=0)", "driver" },
    { "driver(reuse_event_dependencies=true, reuse_opportunistic=false, reuse_internal_dependencies=false)", NULL },
    { "driver(default=true, reuse_opportunistic=false, fallback=cuda)", NULL },
    { "driver(maximum=96MiB, initial=33MiB)", NULL },
    { "driver(release_threshold=1GiB, initial=1MiB)", NULL },
    { "driver(handle=posix_fd)", NULL },
};

static void
test_good(void)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct tide_resource *stack = gpu_stack("%s", good[i].text);
        char described[256] = "";

        if (stack != NULL)
            tide_describe(stack, described, sizeof(described), NULL);
        is_string(described, good[i].described != NULL ? good[i].described : good[i].text, good[i].text);
        tide_resource_release(stack);
    }
}

/* Stack texts that are refused, and words of the error; the column is that of the argument. */
static const struct {
    const char *text;
    enum tide_status status;
    const char *words;
} bad[] = {
    { "driver(maximum=1GiB, initial=2GiB)", TIDE_EINVAL,
      "stack text, column 30: driver: an initial size of 2 GiB exceeds the maximum of 1 GiB" },
    { "driver(initial=2GiB, release_threshold=1GiB)", TIDE_EINVAL,
      "stack text, column 40: driver: a release threshold of 1 GiB gives an initial size of 2 GiB back at once" },
    { "driver(default=true, maximum=1GiB)", TIDE_EINVAL,
      "stack text, column 30: driver: a maximum is for a pool of its own, not for the default pool" },
    { "driver(default, location=managed)", TIDE_EINVAL, "column 26: driver: a location is for a pool of its own" },
    { "driver(default, handle=fabric)", TIDE_EINVAL, "column 24: driver: handles are for a pool of its own" },
    { "driver(host_numa=1)", TIDE_EINVAL, "column 18: driver: a NUMA node is for a pool on the host" },
    { "driver(location=managed, maximum=1GiB)", TIDE_EINVAL, "column 34: driver: a pool of managed memory takes no" },
    { "driver(location=managed, handle=posix_fd)", TIDE_EINVAL, "column 33: driver: a pool of managed memory has no" },
    { "driver(location=host_numa, host_numa=4711)", TIDE_EINVAL,
      "column 38: driver: no pool on NUMA node 4711 (cuMemPoolCreate: CUDA_ERROR_INVALID_VALUE)" },
    { "driver(device=99)", TIDE_EINVAL, "stack text, column 15: driver: no device 99, this machine has " },
    { "driver(device=99, maximum=5%)", TIDE_EINVAL, "stack text, column 15: device: no device 99, this machine has " },
    { "driver(maximum=101%)", TIDE_ESYNTAX, "column 16: driver: argument 'maximum': '101%' is over 100%" },
    { "driver(maximum=0%)", TIDE_ESYNTAX, "column 16: driver: argument 'maximum': '0%' is too small" },
    { "driver(device=-1)", TIDE_ESYNTAX, "column 15: driver: argument 'device': '-1' is negative" },
    { "driver(handle=win32)", TIDE_ESYNTAX, "'win32' is unknown, expected none, posix_fd, fabric or posix_fd+fabric" },
    { "driver(initial=64PiB)", TIDE_ECAPACITY, "driver: 64 PiB request finds no room in the pool of device 0" },
    { "log(none.db) | cuda(device=99)", TIDE_EINVAL, "column 28: cuda: no device 99, this machine has " },
    { "managed(attach=host, device=99)", TIDE_EINVAL, "column 29: managed: no device 99, this machine has " },
    { "pinned(device=99)", TIDE_EINVAL, "column 15: pinned: no device 99, this machine has " },
    { "driver(device=99, location=host_numa, host_numa=0)", TIDE_EINVAL, "column 15: driver: no device 99, this" },
    { "managed(preferred=gpu)", TIDE_ESYNTAX, "'gpu' is unknown, expected none, device or host" },
};

static void
test_bad(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tide_resource *stack = NULL;
        enum tide_status status = tide_stack_parse(bad[i].text, &stack);

        ok(all_of(status == bad[i].status, stack == NULL), "refused with %s: %s", tide_status_name(bad[i].status),
           bad[i].text);
        has_words(tide_error_text(), bad[i].words, bad[i].words);
        tide_resource_release(stack);
    }
}

#define OPTIONS_TESTS 9

/* Options that stack text cannot express. */
static void
test_options(void)
{
    const struct tide_driver_options wrong[] = {
        { TIDE_OPTIONS(wrong[0]), .device = -1 },
        { TIDE_OPTIONS(wrong[0]), .handles = 4 },
        { TIDE_OPTIONS(wrong[0]), .location = (enum tide_driver_location)3 },
        { TIDE_OPTIONS(wrong[0]), .location = TIDE_DRIVER_ON_HOST_NUMA, .host_numa = -1 },
        { TIDE_OPTIONS(wrong[0]), .reuse_internal_dependencies = (enum tide_driver_reuse)3 },
    };
    struct tide_managed_options managed = { TIDE_OPTIONS(managed), .preferred = (enum tide_managed_preferred)3 };
    struct tide_resource *base = NULL;
    enum tide_driver_access access;
    int fd;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ok(all_of(tide_driver_create(&wrong[i], &base) == TIDE_EINVAL, base == NULL), "refused: %s", tide_error_text());
        tide_resource_release(base);
    }
    ok(all_of(tide_managed_create(&managed, &base) == TIDE_EINVAL, base == NULL), "refused: %s", tide_error_text());
    base = gpu_stack("limit(1GiB) | driver");
    ok(all_of(tide_driver_reset_highs(base) == TIDE_EINVAL, tide_driver_export(base, &fd) == TIDE_EINVAL, fd == -1,
              tide_driver_access_get(base, 0, &access) == TIDE_EINVAL, tide_driver_reset_highs(NULL) == TIDE_EINVAL),
       "resetting the highs of an adaptor or of NULL is refused");
    has_words(tide_error_text(), "driver: 'NULL' is none", "the refusal to reset the highs names what is no driver");
    ok(tide_driver_reset_highs(find_layer(base, "driver")) == TIDE_OK,
       "resetting the highs of the driver below an adaptor succeeds");
    tide_resource_release(base);
}

#define SHARE_TESTS 3

static void
test_shares(void)
{
    struct tide_resource *stack = gpu_stack("limit(50%%) | driver(maximum=25%%, initial=1%%, release_threshold=2%%)");
    uint64_t total_bytes = gpu_figure(stack, TIDE_QUERY_DEVICE_TOTAL);
    uint64_t capacity_bytes = gpu_figure(stack, TIDE_QUERY_CAPACITY);
    uint64_t reserved_bytes = gpu_figure(stack, TIDE_QUERY_BYTES_RESERVED);

    ok(all_of(total_bytes > 0, gpu_figure(find_layer(stack, "driver"), TIDE_QUERY_CAPACITY) == total_bytes / 4),
       "a maximum in percent is a share of the device's memory");
    ok(capacity_bytes == total_bytes / 8 || capacity_bytes == total_bytes / 4,
       "a limit in percent is a share of the driver's maximum");
    ok(all_of(reserved_bytes >= total_bytes / 100, reserved_bytes < total_bytes / 100 + 64 * MIB),
       "an initial size in percent is reserved");
    tide_resource_release(stack);
}

#define FALLBACK_TESTS 8

static void
test_fallback(void)
{
    struct tide_resource *stack = NULL;
    void *block = NULL;

    if (!gpu_is_fake()) {
        skip(FALLBACK_TESTS, "this device has pools");
        return;
    }
    setenv("FAKE_CUDA_NO_POOLS", "1", 1);
    ok(all_of(tide_stack_parse("limit(1GiB) | driver", &stack) == TIDE_EUNSUPPORTED, stack == NULL),
       "a driver over a device without pools is unsupported");
    is_string(tide_error_text(),
              "stack text, column 15: driver: device 0 has no memory pools: use the base cuda, or "
              "driver(fallback=cuda)",
              "the refusal of a device without pools names the fallback");
    stack = gpu_stack("limit(1GiB) | driver(fallback=cuda, release_threshold=all)");
    ok(find_layer(stack, "cuda") != NULL, "driver(fallback=cuda) makes the base cuda if the device has no pools");
    ok(all_of(stack != NULL, gpu_allocates(stack, MIB, NULL, &block), gpu_frees(stack, block, MIB, NULL)),
       "memory of the fallback is allocated and freed");
    tide_resource_release(stack);
    ok(tide_stack_parse("driver(fallback=cuda, maximum=1GiB)", &stack) == TIDE_EUNSUPPORTED,
       "driver(fallback=cuda) is unsupported with a maximum if the device has no pools");
    has_words(tide_error_text(), "has no memory pools, and the base cuda no maximum",
              "the refusal names the maximum as what the base cuda lacks");
    unsetenv("FAKE_CUDA_NO_POOLS");
    stack = gpu_stack("driver(fallback=cuda)");
    ok(find_layer(stack, "driver") != NULL, "driver(fallback=cuda) makes the base driver if the device has pools");
    tide_resource_release(stack);
    setenv("FAKE_CUDA_FAIL", "cuMemPoolCreate:800", 1);
    tide_stack_parse("driver", &stack);
    is_string(tide_error_text(), "stack text, column 1: driver: cuMemPoolCreate: CUDA_ERROR_NOT_PERMITTED (800)",
              "a pool that is not permitted is refused with the name of the driver's error");
    unsetenv("FAKE_CUDA_FAIL");
}

#define KEPT_TESTS 4

/* The default pool is shared with the application: it is restored. */
static void
test_kept(void)
{
    struct tide_resource *stack;
    CUmemoryPool pool = NULL;
    cuuint64_t threshold = 0;
    int policy = -1;

    gpu.device_get_default_mem_pool(&pool, 0);
    stack = gpu_stack("driver(default=true, release_threshold=7MiB, reuse_opportunistic=false)");
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &policy);
    is_u64(threshold, 7 * MIB, "the default pool gets the threshold");
    is_i64(policy, 0, "the default pool gets the policy");
    tide_resource_release(stack);
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    gpu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &policy);
    is_u64(threshold, 0, "destroying the driver restores the default pool's threshold");
    is_i64(policy, 1, "destroying the driver restores the default pool's policy");
}

#define INITIAL_TESTS 3

static void
test_initial(void)
{
    struct tide_resource *driver = gpu_stack("driver(initial=33MiB)");
    CUcontext primary = NULL;

    gpu.primary_retain(&primary, 0);
    gpu.context_set(primary);
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED), 64 * MIB,
           "an initial size of 33 MiB reserves two steps of 32 MiB");
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_USED_HIGH), 0, "the initial size does not count as used");
    gpu.context_synchronize();
    is_u64(gpu_figure(driver, TIDE_QUERY_BYTES_RESERVED), 64 * MIB,
           "a synchronize keeps both steps of the initial size");
    gpu.context_set(NULL);
    gpu.primary_release(0);
    tide_resource_release(driver);
}

int
main(void)
{
    const char *reason;

    gpu_lock(true);
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    plan(3 * KIND_TESTS + DEVICE_TESTS + (int)(sizeof(good) / sizeof(good[0])) +
         2 * (int)(sizeof(bad) / sizeof(bad[0])) + OPTIONS_TESTS + SHARE_TESTS + FALLBACK_TESTS + KEPT_TESTS +
         INITIAL_TESTS);
    gpu_diag();
    test_kind("cuda", "cuMemAlloc has no more", false);
    test_kind("managed", "cuMemAllocManaged has no more", true);
    test_kind("pinned", "cuMemHostAlloc has no more", true);
    test_device();
    test_good();
    test_bad();
    test_options();
    test_shares();
    test_fallback();
    test_kept();
    test_initial();
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
