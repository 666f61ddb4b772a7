/* What programs and objects of tests/run do with the driver, once they have reached its functions in some way. */
#ifndef TESTS_RUN_REACH_H
#define TESTS_RUN_REACH_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>

/* Of tests/run/tool.c: 0, unless it finds itself. */
int start_tool(int depth);

struct reached {
    CUresult (*init)(unsigned int);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
    CUresult (*info)(size_t *, size_t *);
};

/* Initialize the driver on this thread. Returns whether that worked. */
static inline int
reach_begin(const struct reached *cuda)
{
    CUcontext context;

    return cuda->init != NULL && cuda->init(0) == CUDA_SUCCESS && cuda->retain(&context, 0) == CUDA_SUCCESS &&
           cuda->set(context) == CUDA_SUCCESS;
}

/* Print what the driver answers: two allocations, three frees, the memory that is free. */
static inline int
reach_use(const struct reached *cuda, const char *how)
{
    CUdeviceptr pointer = 0, none = 0;
    size_t total = 0;

    if (!reach_begin(cuda)) {
        printf("%s: no driver\n", how);
        return 1;
    }
    printf("%s: %d", how, cuda->alloc(&pointer, 1 << 20));
    printf(" %d", cuda->alloc(&none, 0));
    printf(" %d", cuda->free(pointer));
    printf(" %d", cuda->free(pointer));
    printf(" %d", cuda->free(0));
    printf(" %d", cuda->info(NULL, &total));
    printf(" %zu\n", total);
    return 0;
}

#endif
