/* What the GPU tests work with: a context, two streams and the kernels. */
#include "tests/gpu/work.h"

#ifdef HAVE_CUDA_H

#include <stdarg.h>
#include <time.h>

#include "tests/tap.h"

bool
gpu_work_open(struct gpu_work *work, int device)
{
    memset(work, 0, sizeof(*work));
    work->device = device;
    if (gpu.primary_retain(&work->context, device) != CUDA_SUCCESS || gpu.context_set(work->context) != CUDA_SUCCESS ||
        gpu.stream_create(&work->first, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        gpu.stream_create(&work->second, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        diag("device %d: no context with two streams", device);
        return false;
    }
    return gpu_kernels_open(&work->kernels);
}

void
gpu_work_close(struct gpu_work *work)
{
    if (work->context == NULL)
        return;
    gpu.context_set(work->context);
    gpu_kernels_close(&work->kernels);
    if (work->first != NULL)
        gpu.stream_destroy(work->first);
    if (work->second != NULL)
        gpu.stream_destroy(work->second);
    gpu.context_set(NULL);
    gpu.primary_release(work->device);
    memset(work, 0, sizeof(*work));
}

void
gpu_with_work(void (*test)(struct gpu_work *work), int tests)
{
    struct gpu_work work;

    if (gpu_work_open(&work, 0))
        test(&work);
    else
        skip(tests, "this device cannot run the tests' kernels");
    gpu_work_close(&work);
}

struct tide_resource *
gpu_stack(const char *format, ...)
{
    struct tide_resource *stack = NULL;
    va_list arguments;
    char text[512];

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (tide_stack_parse(text, &stack) != TIDE_OK)
        diag("%s: %s", text, tide_error_text());
    return stack;
}

bool
gpu_allocates(struct tide_resource *stack, size_t bytes, CUstream stream, void **out)
{
    enum tide_status status = tide_allocate(stack, bytes, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream, out);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_OK;
}

bool
gpu_frees(struct tide_resource *stack, void *pointer, size_t bytes, CUstream stream)
{
    enum tide_status status = tide_deallocate(stack, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, (tide_stream)stream);

    if (status != TIDE_OK)
        diag("%s: %s", tide_status_name(status), tide_error_text());
    return status == TIDE_OK;
}

uint64_t
gpu_figure(struct tide_resource *stack, enum tide_query what)
{
    uint64_t value = 0;

    if (tide_query(stack, what, &value) != TIDE_OK)
        diag("%s", tide_error_text());
    return value;
}

uint64_t
gpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
