/*
 * An object that a program of tests/run opens. It reaches the driver by its PLT and by dlsym(), and has names that
 * begin as the driver's do, as libraries above CUDA have.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "reach.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int module_use(const char *how);
EXPORT int module_default(const char *how);
EXPORT int cudnnCreate(void **handle);
EXPORT int cuMemAllocator(int value);

static void *
find(void *handle, const char *name)
{
    return dlsym(handle, name);
}

/* By name, with the handle. */
EXPORT int
module_default(const char *how)
{
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);
    const struct reached cuda = {
        find(handle, "cuInit"),          find(handle, "cuDevicePrimaryCtxRetain"),
        find(handle, "cuCtxSetCurrent"), find(handle, "cuMemAlloc_v2"),
        find(handle, "cuMemFree_v2"),    find(handle, "cuMemGetInfo_v2"),
    };

    return reach_use(&cuda, how);
}

/* By the PLT: each in a call of its own. */
EXPORT int
module_use(const char *how)
{
    CUdeviceptr pointer = 0;
    CUcontext context;
    CUresult result = cuInit(0);

    if (result != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        return 1;
    cuCtxSetCurrent(context);
    result = cuMemAlloc_v2(&pointer, 4096);
    printf("%s: %d", how, result);
    printf(" %d\n", cuMemFree_v2(pointer));
    return 0;
}

EXPORT int
cudnnCreate(void **handle)
{
    *handle = handle;
    return 42;
}

EXPORT int
cuMemAllocator(int value)
{
    return value + 1;
}

/* With RUN_CONSTRUCTOR it allocates while it is opened, and waits before that, as another thread does. */
__attribute__((constructor)) static void
construct(void)
{
    const char *asked = getenv("RUN_CONSTRUCTOR");

    if (asked == NULL)
        return;
    usleep(200000);
    module_use("constructor");
}
