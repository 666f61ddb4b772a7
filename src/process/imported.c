/* Wraps the functions that share memory between processes: what comes from another one is marked, and is not ours. */
#include "config.h"

#include "src/process/account.h"
#include "src/process/devices.h"

#ifdef HAVE_CUDA_H

struct imported_call {
    struct tidei_process_call call; /* first */
    CUdeviceptr pointer;
};

static CUresult
imported_make(struct tidei_process_call *call, uint64_t *key)
{
    *key = ((struct imported_call *)call)->pointer;
    return CUDA_SUCCESS;
}

static CUresult
imported_keep(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    (void)key;
    return CUDA_SUCCESS;
}

static CUresult
imported_close(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    return TIDEI_REAL(cuIpcCloseMemHandle)(key);
}

/* Mark what a pointer of another process leads to, once. The result of the call that gave the pointer is passed on. */
static CUresult
imported_mark(CUresult result, const CUdeviceptr *pointer, bool stays)
{
    struct tidei_process_what what = { .kind = TIDEI_PROCESS_IMPORTED, .device = -1, .stays = stays };
    struct imported_call imported = {
        .call = { .make = imported_make, .give = imported_keep, .function = "cuIpcOpenMemHandle" },
    };
    struct tidei_process_block known;
    CUdeviceptr base;

    if (result != CUDA_SUCCESS || tidei_process_passes() || TIDEI_REAL(cuMemGetAddressRange_v2) == NULL)
        return result;
    imported.pointer = *pointer;
    if (!tidei_process_find(TIDEI_PROCESS_ADDRESSES, *pointer, &known) &&
        TIDEI_REAL(cuMemGetAddressRange_v2)(&base, &imported.call.bytes, *pointer) == CUDA_SUCCESS)
        (void)tidei_process_allocate(&imported.call, &what);
    return result;
}

CUresult CUDAAPI
tidei_process_cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return imported_mark(TIDEI_REAL(cuIpcOpenMemHandle)(pointer, handle, flags), pointer, false);
}

CUresult CUDAAPI
tidei_process_cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return imported_mark(TIDEI_REAL(cuIpcOpenMemHandle_v2)(pointer, handle, flags), pointer, false);
}

CUresult CUDAAPI
tidei_process_cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    return imported_mark(TIDEI_REAL(cuMemPoolImportPointer)(pointer, pool, data), pointer, true);
}

CUresult CUDAAPI
tidei_process_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct tidei_process_call call = { .give = imported_close, .function = "cuIpcCloseMemHandle" };

    return tidei_process_free(&call, TIDEI_PROCESS_ADDRESSES, pointer);
}

/*
 * Another process gets a handle of the whole allocation of the driver's. Where a stack has cut the block out of one,
 * the other would read at the wrong place: better that it gets none.
 */
CUresult CUDAAPI
tidei_process_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct tidei_process_block block;
    CUdeviceptr base = 0;
    size_t bytes = 0;

    if (!tidei_process_passes() && TIDEI_REAL(cuMemGetAddressRange_v2) != NULL &&
        tidei_process_covering(pointer, NULL, &block) && block.stack->base == NULL &&
        TIDEI_REAL(cuMemGetAddressRange_v2)(&base, &bytes, pointer) == CUDA_SUCCESS && bytes != block.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return TIDEI_REAL(cuIpcGetMemHandle)(handle, pointer);
}

#endif
