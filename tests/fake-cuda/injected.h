/* What the library for CUDA_INJECTION64_PATH leaves. */
#ifndef TESTS_FAKE_CUDA_INJECTED_H
#define TESTS_FAKE_CUDA_INJECTED_H

#include <cuda.h>

#pragma GCC visibility push(default)

extern int injected_calls;
extern CUresult injected_result;
int InitializeInjection(void);

#pragma GCC visibility pop

#endif
