/*
 * cuGetProcAddress, by which nearly all programs find the driver's functions. It is asked for a name without a suffix,
 * a version and a default stream, and knows best which function that is: so the driver is asked, and where its answer
 * is the address of a function that has a stub, the program gets the stub.
 */
#include "src/run/run.h"

#include <string.h>

void *
tidei_run_replace(void *address)
{
    void *stub;

    /* Some sixty comparisons, 30 ns, in 500 to 2200 look-ups that a process makes. */
    for (unsigned index = 0; index < RUN_COUNT; index++) {
        void (*real)(void) = tidei_run_real(index);

        if (real != NULL && memcmp(&real, &address, sizeof(address)) == 0) {
            memcpy(&stub, &tidei_run_stubs[index], sizeof(stub));
            return stub;
        }
    }
    return address;
}

static void
address_answer(CUresult result, void **address)
{
    if (result == CUDA_SUCCESS && address != NULL && *address != NULL && tidei_run_is_on())
        *address = tidei_run_replace(*address);
}

/* Of CUDA 11.3; 12.0 added `how`, which may be NULL. */
RUN_EXPORT CUresult CUDAAPI tidemark_run_cuGetProcAddress(const char *name, void **address, int version,
                                                          cuuint64_t flags);
RUN_EXPORT CUresult CUDAAPI
tidemark_run_cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags)
{
    CUresult(CUDAAPI * real)(const char *, void **, int, cuuint64_t);
    CUresult result;

    real = (CUresult(CUDAAPI *)(const char *, void **, int, cuuint64_t))tidei_run_real(RUN_cuGetProcAddress);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    result = real(name, address, version, flags);
    address_answer(result, address);
    return result;
}

RUN_EXPORT CUresult CUDAAPI tidemark_run_cuGetProcAddress_v2(const char *name, void **address, int version,
                                                             cuuint64_t flags, CUdriverProcAddressQueryResult *how);
RUN_EXPORT CUresult CUDAAPI
tidemark_run_cuGetProcAddress_v2(const char *name, void **address, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *how)
{
    CUresult(CUDAAPI * real)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUresult result;

    real = (CUresult(CUDAAPI *)(const char *, void **, int, cuuint64_t,
                                CUdriverProcAddressQueryResult *))tidei_run_real(RUN_cuGetProcAddress_v2);
    if (real == NULL)
        return CUDA_ERROR_NOT_FOUND;
    result = real(name, address, version, flags, how);
    address_answer(result, address);
    return result;
}

#ifdef TIDEI_RUN_OWN_DLSYM
RUN_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags)
    __attribute__((alias(TIDEI_RUN_STUB "cuGetProcAddress")));
RUN_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **address, int version, cuuint64_t flags,
                                                CUdriverProcAddressQueryResult *how)
    __attribute__((alias(TIDEI_RUN_STUB "cuGetProcAddress_v2")));
#endif
