/* Tests that the fake driver loads the library of CUDA_INJECTION64_PATH as the real one does, and has no tables. */
#include "tests/gpu/gpu.h"

#include <stdlib.h>

#include "tests/gpu/call.h"

#ifdef HAVE_CUDA_H

int
main(void)
{
    const CUuuid table = { { 0 } };
    const void *export = &table;
    void *library;
    int *calls;
    CUresult *result;

    plan(6);
    setenv("CUDA_INJECTION64_PATH", INJECTION_BUILD "/tests/fake-cuda/.libs/libinjected.so", 1);
    is_result(CU(cuDeviceGetCount)(&(int){ 0 }), CUDA_ERROR_NOT_INITIALIZED, "before cuInit the driver has no devices");
    library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    ok(library == NULL, "before cuInit the library is not loaded");
    MUST(cuInit, 0);
    MUST(cuInit, 0);
    library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    ok(library != NULL, "cuInit loads the library");
    calls = library != NULL ? dlsym(library, "injected_calls") : NULL;
    result = library != NULL ? dlsym(library, "injected_result") : NULL;
    ok(calls != NULL && *calls == 1, "InitializeInjection is called once");
    ok(result != NULL && *result == CUDA_ERROR_NOT_INITIALIZED,
       "while InitializeInjection runs the driver is not initialized");
    ok(all_of(CU(cuGetExportTable)(&export, &table) != CUDA_SUCCESS, export == NULL), "no export table is found");
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
