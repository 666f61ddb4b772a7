/*
 * The driver's functions by name, for tests of the driver itself: the behaviour that the library relies on, and that
 * the fake driver of tests/fake-cuda has to share.
 */
#ifndef TESTS_GPU_CALL_H
#define TESTS_GPU_CALL_H

#include "config.h"

#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#include <cuda.h>
#include <dlfcn.h>

#define CALL_TEXT_OF(name) #name
#define CALL_TEXT(name)    CALL_TEXT_OF(name)

/* CU(cuMemAlloc)(&address, bytes): cuda.h decides which version of the function is called. */
#define CU(function) ((__typeof__(&(function)))call_symbol(CALL_TEXT(function)))

static inline void *
call_symbol(const char *symbol)
{
    static void *library;
    void *address;

    if (library == NULL)
        library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    address = library != NULL ? dlsym(library, symbol) : NULL;
    if (address == NULL) {
        printf("Bail out! the driver has no %s\n", symbol);
        exit(99);
    }
    return address;
}

/* One test: a call returns the expected result. */
static inline bool
is_result(CUresult seen, CUresult wanted, const char *sentence)
{
    bool passed = ok(seen == wanted, "%s", sentence);

    if (!passed)
        diag("seen CUresult %d, wanted %d", (int)seen, (int)wanted);
    return passed;
}

/* A call that the test needs to succeed, and does not test. */
static inline void
must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("Bail out! %s: CUresult %d\n", what, (int)result);
    exit(99);
}

#define MUST(function, ...) must(CU(function)(__VA_ARGS__), #function)

#endif
#endif
