/*
 * Tests bad input to the CUDA bases: each returns a status with a text that names the error, and the stack and its
 * trace stay intact.
 */
#include "tests/gpu/work.h"

#include <unistd.h>

#include "tests/gpu/parts.h"
#include "tests/gpu/summary.h"
#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define WORDS ((uint32_t)(MIB / sizeof(uint32_t)))

/* Stack texts that are refused, and words of the error. */
static const struct {
    const char *text;
    const char *words;
} bad_stacks[] = {
    { "driver(device=99)", "device 99" },
    { "cuda(device=99)", "device 99" },
    { "managed(device=99)", "device 99" },
    { "pinned(device=99)", "device 99" },
    { "driver(device=-1)", "device" },
    { "driver(maximum=101%)", "maximum" },
    { "driver(release_threshold=150%)", "release_threshold" },
    { "driver(initial=200%)", "initial" },
    { "limit(120%) | driver", "limit" },
    { "driver(default=true, maximum=1GiB)", "maximum" },
    { "driver(default=true, handle=posix_fd)", "handle" },
    { "driver(maximum=64MiB, initial=128MiB)", "initial" },
    { "driver(location=host_numa, host_numa=4711)", "4711" },
    { "driver(handle=telepathy)", "telepathy" },
};

#define BAD_STACKS ((int)(sizeof(bad_stacks) / sizeof(bad_stacks[0])))

static void
test_stacks(void)
{
    const char *trace = scratch("none.db");
    char text[256];

    for (int i = 0; i < BAD_STACKS; i++) {
        struct tide_resource *stack = NULL;
        enum tide_status status;

        snprintf(text, sizeof(text), "log(%s) | %s", trace, bad_stacks[i].text);
        status = tide_stack_parse(text, &stack);
        ok(all_of(status != TIDE_OK, stack == NULL, strstr(tide_error_text(), bad_stacks[i].words) != NULL,
                  access(trace, F_OK) != 0),
           "%s is refused, and leaves no trace behind", bad_stacks[i].text);
        diag("%s: %s", tide_status_name(status), tide_error_text());
        tide_resource_release(stack);
    }
}

/* Whether a free is refused with the driver's error. */
static bool
free_refused(struct tide_resource *stack, void *pointer, CUstream stream)
{
    enum tide_status status = tide_deallocate(stack, pointer, MIB, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream);

    diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_EPOINTER && strstr(tide_error_text(), "CUDA_ERROR_INVALID_VALUE") != NULL;
}

#define FREE_TESTS 7

/* Over each base: free an unknown address, an address inside of a block, and a block twice. The block is unharmed. */
static void
test_frees(struct gpu_work *work, const char *base)
{
    const struct gpu_summary wanted = { .allocations = 2, .frees = 2, .total_bytes = 2 * MIB, .peak_bytes = 2 * MIB };
    const char *trace = scratch("%.6s-free.db", base);
    struct tide_resource *stack = gpu_stack("log(%s) | %s", trace, base);
    void *block = NULL;
    void *other = NULL;

    if (stack == NULL) {
        skip(FREE_TESTS, tide_error_text());
        return;
    }
    gpu_allocates(stack, MIB, work->first, &block);
    gpu_allocates(stack, MIB, work->first, &other);
    ok(free_refused(stack, (void *)(uintptr_t)0x1000, work->first),
       "%s: the free of an address that was never allocated is refused", base);
    ok(free_refused(stack, (char *)block + 4096, work->first),
       "%s: the free of an address inside of a block is refused", base);
    ok(all_of(gpu_fill(&work->kernels, work->first, block, WORDS, 5),
              gpu_count_wrong(&work->kernels, work->first, block, WORDS, 5) == 0),
       "%s: refused frees leave the block's memory unchanged", base);
    ok(all_of(gpu_frees(stack, block, MIB, work->first), gpu.stream_synchronize(work->first) == CUDA_SUCCESS,
              free_refused(stack, block, work->first)),
       "%s: a second free of a block is refused", base);
    ok(gpu_frees(stack, other, MIB, work->first), "%s: the stack works after refused frees", base);
    tide_resource_release(stack);
    ok(all_of(trace_is_sound(trace), sql_number(trace, "SELECT count(*) FROM live") == 0),
       "%s: the trace after refused frees is sound", base);
    gpu_summary_is(trace, &wanted, 1, "the summary has two allocations and their frees");
}

#define DESTROYED_TESTS 4

/* The current context has been destroyed: allocations come from the primary context. */
static void
test_destroyed(const char *base)
{
    const char *trace = scratch("%.6s-destroyed.db", base);
    struct tide_resource *stack = gpu_stack("log(%s) | %s", trace, base);
    enum tide_status status;
    CUcontext own = NULL;
    CUcontext popped;
    void *block = NULL;

    if (stack == NULL) {
        skip(DESTROYED_TESTS, tide_error_text());
        return;
    }
    gpu.context_create(&own, 0, 0);
    /* It is twice on the thread's stack, so that it stays current when it is destroyed. */
    gpu.context_push(own);
    ok(gpu.context_destroy(own) == CUDA_SUCCESS, "%s: the application destroys its current context", base);
    status = tide_allocate(stack, MIB, TIDE_DEFAULT_ALIGNMENT, 0, &block);
    diag("%s: %s", tide_status_name(status), status != TIDE_OK ? tide_error_text() : "from the primary context");
    ok(status == TIDE_OK ? block != NULL : block == NULL && strstr(tide_error_text(), "CUDA_ERROR_") != NULL,
       "%s: an allocation comes from the primary context, or is refused with the driver's error", base);
    ok(status != TIDE_OK || gpu_frees(stack, block, MIB, NULL),
       "%s: a block allocated without the current context is freed", base);
    gpu.context_pop(&popped);
    gpu.context_set(NULL);
    tide_resource_release(stack);
    ok(all_of(trace_is_sound(trace), sql_number(trace, "SELECT count(*) FROM live") == 0),
       "%s: the trace after the destroyed context is sound", base);
}

#define RESET_TESTS 4

/*
 * The application resets the device under a stack that holds its primary context: calls succeed or fail, and nothing
 * breaks.
 */
static void
test_reset(void)
{
    const char *trace = scratch("reset.db");
    struct tide_resource *stack = gpu_stack("log(%s) | statistics | driver", trace);
    enum tide_status status;
    void *before = NULL;
    void *after = &gpu;

    gpu_allocates(stack, MIB, NULL, &before);
    ok(gpu.primary_reset(0) == CUDA_SUCCESS, "the application resets the device");
    status = tide_allocate(stack, MIB, TIDE_DEFAULT_ALIGNMENT, 0, &after);
    diag("allocation after it: %s: %s", tide_status_name(status), status != TIDE_OK ? tide_error_text() : "");
    ok(status == TIDE_OK ? after != NULL : after == NULL && strstr(tide_error_text(), "CUDA_ERROR_") != NULL,
       "after the reset an allocation succeeds, or is refused with the driver's error");
    if (status == TIDE_OK)
        tide_deallocate(stack, after, MIB, TIDE_DEFAULT_ALIGNMENT, 0);
    status = tide_deallocate(stack, before, MIB, TIDE_DEFAULT_ALIGNMENT, 0);
    diag("free of memory from before: %s: %s", tide_status_name(status), status != TIDE_OK ? tide_error_text() : "");
    ok(status == TIDE_OK || strstr(tide_error_text(), "CUDA_ERROR_") != NULL,
       "after the reset the free of an earlier block succeeds, or is refused with the driver's error");
    tide_resource_release(stack);
    ok(trace_is_sound(trace), "the trace after the reset is sound");
}

/* Invalid fabric handles. */
static void
test_no_fabric(void)
{
    struct tide_driver_fabric handle;
    struct tide_resource *imported = NULL;

    memset(&handle, 0xa5, sizeof(handle));
    ok(all_of(tide_driver_import_fabric(&handle, NULL, &imported) != TIDE_OK, imported == NULL,
              strstr(tide_error_text(), "CUDA_ERROR_") != NULL),
       "an invalid fabric handle is refused with the driver's error");
    diag("%s", tide_error_text());
}

#define PERMISSION_TESTS 3

/* Few machines have a fabric, and it needs a permission: elsewhere the driver returns CUDA_ERROR_NOT_PERMITTED. */
static void
test_permission(void)
{
    struct tide_driver_fabric handle;
    struct tide_resource *stack = NULL;
    enum tide_status status = tide_stack_parse("driver(handle=fabric)", &stack);
    void *block = NULL;

    if (status == TIDE_OK) {
        ok(tide_driver_export_fabric(stack, &handle) == TIDE_OK, "a pool with a fabric handle exports it");
        skip(1, "this process has the permission");
    } else {
        ok(all_of(status == TIDE_EUNSUPPORTED, stack == NULL),
           "a pool with a fabric handle is refused without permission");
        has_words(tide_error_text(), "CUDA_ERROR_",
                  "the refusal of a pool with a fabric handle has the driver's error");
        diag("%s: %s", tide_status_name(status), tide_error_text());
    }
    tide_resource_release(stack);
    stack = gpu_stack("driver");
    ok(all_of(gpu_allocates(stack, MIB, NULL, &block), gpu_frees(stack, block, MIB, NULL)),
       "a pool without a fabric handle works without that permission");
    tide_resource_release(stack);
}

static void
part_stacks(void)
{
    gpu_diag();
    test_stacks();
}

static void
frees_of_driver(struct gpu_work *work)
{
    test_frees(work, "driver");
}

static void
frees_of_cuda(struct gpu_work *work)
{
    test_frees(work, "cuda");
}

static void
part_frees(void)
{
    gpu_with_work(frees_of_driver, FREE_TESTS);
    gpu_with_work(frees_of_cuda, FREE_TESTS);
}

static void
part_destroyed_driver(void)
{
    test_destroyed("driver");
}

static void
part_destroyed_cuda(void)
{
    test_destroyed("cuda");
}

static const struct gpu_part parts[] = {
    { "stacks", BAD_STACKS, part_stacks },
    { "frees", 2 * FREE_TESTS, part_frees },
    { "no-fabric", 1, test_no_fabric },
    { "permission", PERMISSION_TESTS, test_permission },
    { "destroyed-driver", DESTROYED_TESTS, part_destroyed_driver },
    { "destroyed-cuda", DESTROYED_TESTS, part_destroyed_cuda },
    { "reset", RESET_TESTS, test_reset },
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
