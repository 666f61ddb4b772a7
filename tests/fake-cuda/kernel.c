/*
 * Kernels of the fake driver: a module is searched for the names of its entries, and a table here has a C function for
 * each kernel of the tests. A kernel's function sees its arguments as the launch copied them.
 *
 * To add one: write the function, and a line in kernel_table with its name and the sizes of its arguments in bytes.
 */
#include "tests/fake-cuda/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL_MOST_ARGUMENTS 8

/* No sanitizer checks kernels: they share memory with the program as they would on a device. */
#define KERNEL __attribute__((no_sanitize("thread"))) static void

struct kernel_launch {
    const struct kernel *kernel;
    uint64_t threads; /* in all */
    uint64_t arguments[KERNEL_MOST_ARGUMENTS];
};

struct kernel {
    const char *name;
    size_t sizes[KERNEL_MOST_ARGUMENTS]; /* up to the first 0 */
    void (*run)(const struct kernel_launch *launch);
};

static uint32_t *
kernel_words(const struct kernel_launch *launch, int argument)
{
    return (uint32_t *)(uintptr_t)launch->arguments[argument];
}

static uint64_t
kernel_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* words, count, value: set the words. */
KERNEL
kernel_fill(const struct kernel_launch *launch)
{
    uint32_t *words = kernel_words(launch, 0); /* once: a call takes longer than a word */
    uint32_t count = (uint32_t)launch->arguments[1], value = (uint32_t)launch->arguments[2];

    for (uint32_t i = 0; i < count; i++)
        words[i] = value;
}

/* words, count, value: add the value to each of the words. */
KERNEL
kernel_add(const struct kernel_launch *launch)
{
    uint32_t *words = kernel_words(launch, 0);
    uint32_t count = (uint32_t)launch->arguments[1], value = (uint32_t)launch->arguments[2];

    for (uint32_t i = 0; i < count; i++)
        words[i] += value;
}

/* words, count, value, wrong: add to *wrong how many of the words are not the value. */
KERNEL
kernel_verify(const struct kernel_launch *launch)
{
    const uint32_t *words = kernel_words(launch, 0);
    uint32_t count = (uint32_t)launch->arguments[1], value = (uint32_t)launch->arguments[2], wrong = 0;

    for (uint32_t i = 0; i < count; i++)
        wrong += words[i] != value;
    *kernel_words(launch, 3) += wrong;
}

/* ns: wait that long. */
KERNEL
kernel_delay(const struct kernel_launch *launch)
{
    struct timespec pause = { .tv_sec = (time_t)(launch->arguments[0] / 1000000000),
                              .tv_nsec = (long)(launch->arguments[0] % 1000000000) };

    nanosleep(&pause, NULL);
}

/* go, words, count, value: wait until *go is not 0, 20 s at most; then set the words. */
KERNEL
kernel_hold_then_fill(const struct kernel_launch *launch)
{
    const volatile uint32_t *go = kernel_words(launch, 0);
    const struct timespec pause = { .tv_nsec = 100000 };
    uint64_t end = kernel_now_ns() + UINT64_C(20000000000);
    uint32_t *words = kernel_words(launch, 1);
    uint32_t count = (uint32_t)launch->arguments[2], value = (uint32_t)launch->arguments[3];

    while (__atomic_load_n(go, __ATOMIC_ACQUIRE) == 0 && kernel_now_ns() < end)
        nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < count; i++)
        words[i] = value;
}

static const struct kernel kernel_table[] = {
    { "fill", { 8, 4, 4 }, kernel_fill },
    { "add", { 8, 4, 4 }, kernel_add },
    { "verify", { 8, 4, 4, 8 }, kernel_verify },
    { "delay", { 8 }, kernel_delay },
    { "hold_then_fill", { 8, 8, 4, 4 }, kernel_hold_then_fill },
};

struct CUmod_st {
    char *image;
    CUcontext context;
    struct CUfunc_st *functions;
};

struct CUfunc_st {
    struct CUfunc_st *next;
    CUmodule module;
    const struct kernel *kernel;
};

static CUresult
do_cuModuleLoadData(CUmodule *out, const void *image)
{
    CUcontext context;
    CUresult result = fake_context_current(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (strstr(image, ".version") == NULL)
        return CUDA_ERROR_INVALID_IMAGE;
    *out = calloc(1, sizeof(**out));
    if (*out == NULL || ((*out)->image = strdup(image)) == NULL)
        abort();
    (*out)->context = context;
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuModuleLoadData, (CUmodule * out, const void *image), (out, image))

static CUresult
do_cuModuleUnload(CUmodule module)
{
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    while (module->functions != NULL) {
        CUfunction next = module->functions->next;

        free(module->functions);
        module->functions = next;
    }
    free(module->image);
    free(module);
    return CUDA_SUCCESS;
}

FAKE_API(2000, cuModuleUnload, (CUmodule module), (module))

/* Whether the PTX text has an entry of that name. */
static bool
kernel_in_image(const char *image, const char *name)
{
    size_t length = strlen(name);

    for (const char *entry = strstr(image, ".entry"); entry != NULL; entry = strstr(entry, ".entry")) {
        entry += strlen(".entry");
        entry += strspn(entry, " \t\n");
        if (strncmp(entry, name, length) == 0 && strchr(" \t\n(", entry[length]) != NULL)
            return true;
    }
    return false;
}

static CUresult
do_cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    if (out == NULL || module == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!kernel_in_image(module->image, name))
        return CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < sizeof(kernel_table) / sizeof(kernel_table[0]); i++) {
        if (strcmp(kernel_table[i].name, name) != 0)
            continue;
        *out = calloc(1, sizeof(**out));
        if (*out == NULL)
            abort();
        **out = (struct CUfunc_st){ .next = module->functions, .module = module, .kernel = &kernel_table[i] };
        module->functions = *out;
        return CUDA_SUCCESS;
    }
    fprintf(stderr, "fake-cuda: kernel.c has no kernel %s\n", name);
    return CUDA_ERROR_NOT_FOUND;
}

FAKE_API(2000, cuModuleGetFunction, (CUfunction * out, CUmodule module, const char *name), (out, module, name))

static void
kernel_do(void *argument)
{
    const struct kernel_launch *launch = argument;

    launch->kernel->run(launch);
}

static CUresult
do_cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                  unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                  CUstream handle, void **arguments, void **extra)
{
    struct kernel_launch launch = { 0 };
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    (void)shared_bytes;
    if (result != CUDA_SUCCESS)
        return result;
    if (function == NULL || function->module->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (extra != NULL || grid_x * grid_y * grid_z == 0 || block_x * block_y * block_z == 0 ||
        block_x * block_y * block_z > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    launch.kernel = function->kernel;
    launch.threads = (uint64_t)grid_x * grid_y * grid_z * block_x * block_y * block_z;
    for (int i = 0; i < KERNEL_MOST_ARGUMENTS && launch.kernel->sizes[i] != 0; i++)
        memcpy(&launch.arguments[i], arguments[i], launch.kernel->sizes[i]);
    return fake_submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, kernel_do, &launch, sizeof(launch));
}

FAKE_API_STREAM(4000, cuLaunchKernel,
                (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                 unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                 CUstream handle, void **arguments, void **extra),
                (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, handle, arguments, extra))

static CUresult
do_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

FAKE_API(11070, cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (mode))
