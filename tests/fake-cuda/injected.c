/* A library for CUDA_INJECTION64_PATH: notes when it was called, and what the driver answered then. */
#include "tests/fake-cuda/injected.h"

#include "tests/gpu/call.h"

int injected_calls;
CUresult injected_result;

int
InitializeInjection(void)
{
    int count;

    injected_calls++;
    injected_result = CU(cuDeviceGetCount)(&count);
    return 1;
}
