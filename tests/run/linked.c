/* A program that is linked with the driver, bound when it starts or with the first call; or compiled with -fno-plt. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include "reach.h"

static void *
by_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* Addresses that the program's data have; where it is no PIE, they are those of its own PLT, which it then has. */
#ifndef LINKED_WITHOUT_DATA
static const struct reached by_data = {
    cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent, cuMemAlloc_v2, cuMemFree_v2, cuMemGetInfo_v2,
};
#endif

int
main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    CUdeviceptr pointer = 0;
    CUcontext context;

    if (strcmp(way, "tool") == 0)
        return printf("%d\n", start_tool(0)) < 0;
#ifndef LINKED_WITHOUT_DATA
    if (strcmp(way, "data") == 0)
        return reach_use(&by_data, way);
#endif
    if (strcmp(way, "next") == 0) {
        const struct reached cuda = { by_next("cuInit"),          by_next("cuDevicePrimaryCtxRetain"),
                                      by_next("cuCtxSetCurrent"), by_next("cuMemAlloc_v2"),
                                      by_next("cuMemFree_v2"),    by_next("cuMemGetInfo_v2") };

        return reach_use(&cuda, way);
    }
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        return 1;
    cuCtxSetCurrent(context);
    printf("%d", cuMemAlloc_v2(&pointer, 4096));
    printf(" %d\n", cuMemFree_v2(pointer));
    return 0;
}
