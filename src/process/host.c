/* Wraps the functions of page-locked host memory. */
#include "config.h"

#include "src/process/account.h"

#ifdef HAVE_CUDA_H

struct host_call {
    struct tidei_process_call call; /* first */
    void **pointer;
    unsigned flags;
    CUresult(CUDAAPI *host_register)(void *, size_t, unsigned int);
};

static CUresult
host_make(struct tidei_process_call *call, uint64_t *key)
{
    struct host_call *host = (struct host_call *)call;
    CUresult result = TIDEI_REAL(cuMemHostAlloc)(host->pointer, call->bytes, host->flags);

    if (result == CUDA_SUCCESS)
        *key = (uintptr_t)*host->pointer;
    return result;
}

static CUresult
host_make_plain(struct tidei_process_call *call, uint64_t *key)
{
    struct host_call *host = (struct host_call *)call;
    CUresult result = TIDEI_REAL(cuMemAllocHost_v2)(host->pointer, call->bytes);

    if (result == CUDA_SUCCESS)
        *key = (uintptr_t)*host->pointer;
    return result;
}

static CUresult
host_give(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    return TIDEI_REAL(cuMemFreeHost)((void *)(uintptr_t)key);
}

CUresult CUDAAPI
tidei_process_cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    struct host_call host = {
        .call = { .make = host_make, .give = host_give, .function = "cuMemHostAlloc", .bytes = bytes },
        .pointer = pointer,
        .flags = flags,
    };
    static const struct tidei_process_what what = { .kind = TIDEI_PROCESS_PINNED, .device = -1 };

    return tidei_process_allocate(&host.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    struct host_call host = {
        .call = { .make = host_make_plain, .give = host_give, .function = "cuMemAllocHost", .bytes = bytes },
        .pointer = pointer,
    };
    static const struct tidei_process_what what = { .kind = TIDEI_PROCESS_PINNED, .device = -1 };

    return tidei_process_allocate(&host.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemFreeHost(void *pointer)
{
    struct tidei_process_call call = { .give = host_give, .function = "cuMemFreeHost" };

    return tidei_process_free(&call, TIDEI_PROCESS_ADDRESSES, (uintptr_t)pointer);
}

static CUresult
register_make(struct tidei_process_call *call, uint64_t *key)
{
    struct host_call *host = (struct host_call *)call;

    *key = (uintptr_t)host->pointer;
    return host->host_register((void *)host->pointer, call->bytes, host->flags);
}

static CUresult
register_give(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    return TIDEI_REAL(cuMemHostUnregister)((void *)(uintptr_t)key);
}

static CUresult
host_register(void *pointer, size_t bytes, unsigned int flags, CUresult(CUDAAPI *real)(void *, size_t, unsigned int))
{
    struct host_call host = {
        .call = { .make = register_make, .give = register_give, .function = "cuMemHostRegister", .bytes = bytes },
        .pointer = pointer,
        .flags = flags,
        .host_register = real,
    };
    static const struct tidei_process_what what = { .kind = TIDEI_PROCESS_PINNED,
                                                    .names = TIDEI_PROCESS_REGISTERED,
                                                    .device = -1 };

    return tidei_process_allocate(&host.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return host_register(pointer, bytes, flags, TIDEI_REAL(cuMemHostRegister));
}

CUresult CUDAAPI
tidei_process_cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    return host_register(pointer, bytes, flags, TIDEI_REAL(cuMemHostRegister_v2));
}

CUresult CUDAAPI
tidei_process_cuMemHostUnregister(void *pointer)
{
    struct tidei_process_call call = { .give = register_give, .function = "cuMemHostUnregister" };

    return tidei_process_free(&call, TIDEI_PROCESS_REGISTERED, (uintptr_t)pointer);
}

#endif
