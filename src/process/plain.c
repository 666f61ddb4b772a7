/* Wraps the functions of plain and managed memory. */
#include "config.h"

#include "src/process/account.h"

#ifdef HAVE_CUDA_H

struct plain_call {
    struct tidei_process_call call; /* first */
    CUdeviceptr *pointer;
    unsigned flags;
};

static CUresult
plain_make(struct tidei_process_call *call, uint64_t *key)
{
    struct plain_call *plain = (struct plain_call *)call;
    CUresult result = TIDEI_REAL(cuMemAlloc_v2)(plain->pointer, call->bytes);

    if (result == CUDA_SUCCESS)
        *key = *plain->pointer;
    return result;
}

static CUresult
managed_make(struct tidei_process_call *call, uint64_t *key)
{
    struct plain_call *plain = (struct plain_call *)call;
    CUresult result = TIDEI_REAL(cuMemAllocManaged)(plain->pointer, call->bytes, plain->flags);

    if (result == CUDA_SUCCESS)
        *key = *plain->pointer;
    return result;
}

static CUresult
plain_give(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    return TIDEI_REAL(cuMemFree_v2)(key);
}

CUresult CUDAAPI
tidei_process_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    struct plain_call plain = {
        .call = { .make = plain_make,
                  .give = plain_give,
                  .function = "cuMemAlloc",
                  .bytes = bytes,
                  .redirected = pointer },
        .pointer = pointer,
    };
    static const struct tidei_process_what what = { .kind = TIDEI_PROCESS_PLAIN, .device = -1 };

    return tidei_process_allocate(&plain.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    struct plain_call plain = {
        .call = { .make = managed_make, .give = plain_give, .function = "cuMemAllocManaged", .bytes = bytes },
        .pointer = pointer,
        .flags = flags,
    };
    static const struct tidei_process_what what = { .kind = TIDEI_PROCESS_MANAGED, .device = -1 };

    return tidei_process_allocate(&plain.call, &what);
}

/* Frees memory of every kind that has addresses. 0 is no block: the driver answers. */
CUresult CUDAAPI
tidei_process_cuMemFree_v2(CUdeviceptr pointer)
{
    struct tidei_process_call call = { .give = plain_give, .function = "cuMemFree", .waits = true };

    return tidei_process_free(&call, TIDEI_PROCESS_ADDRESSES, pointer);
}

#endif
