/* Wraps the functions that share memory between processes: what comes from another one is marked, and is not ours. */
#include "config.h"

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/process/turn.h"

#ifdef HAVE_CUDA_H

struct imported_call {
    struct tidei_process_call call; /* first */
    CUdeviceptr pointer;
};

/* Of the threads that open and close: the driver counts the opens of a handle, and the account with it. */
static struct tidei_turn imported_turn;

__attribute__((constructor)) static void
imported_load(void)
{
    tidei_lock_init(&imported_turn.lock);
}

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

/* Mark what a pointer of another process leads to. */
static void
imported_mark(CUdeviceptr pointer, const char *function, bool stays)
{
    struct tidei_process_what what = { .kind = TIDEI_PROCESS_IMPORTED, .device = -1, .stays = stays };
    struct imported_call imported = {
        .call = { .make = imported_make, .give = imported_keep, .function = function },
        .pointer = pointer,
    };
    CUdeviceptr base;

    if (TIDEI_REAL(cuMemGetAddressRange_v2) != NULL &&
        TIDEI_REAL(cuMemGetAddressRange_v2)(&base, &imported.call.bytes, pointer) == CUDA_SUCCESS)
        (void)tidei_process_allocate(&imported.call, &what);
}

/* A handle was opened, with this result. A handle that is open in the context gives the same pointer again. */
static CUresult
imported_open(CUresult result, const CUdeviceptr *pointer)
{
    if (result != CUDA_SUCCESS || tidei_process_passes())
        return result;
    tidei_turn_enter(&imported_turn);
    if (!tidei_process_hold(TIDEI_PROCESS_ADDRESSES, *pointer))
        imported_mark(*pointer, "cuIpcOpenMemHandle", false);
    tidei_turn_leave(&imported_turn);
    return result;
}

CUresult CUDAAPI
tidei_process_cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return imported_open(TIDEI_REAL(cuIpcOpenMemHandle)(pointer, handle, flags), pointer);
}

CUresult CUDAAPI
tidei_process_cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return imported_open(TIDEI_REAL(cuIpcOpenMemHandle_v2)(pointer, handle, flags), pointer);
}

CUresult CUDAAPI
tidei_process_cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    CUresult result = TIDEI_REAL(cuMemPoolImportPointer)(pointer, pool, data);
    struct tidei_process_block known;

    if (result == CUDA_SUCCESS && !tidei_process_passes() &&
        !tidei_process_find(TIDEI_PROCESS_ADDRESSES, *pointer, &known))
        imported_mark(*pointer, "cuMemPoolImportPointer", true);
    return result;
}

CUresult CUDAAPI
tidei_process_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct tidei_process_call call = { .give = imported_close, .function = "cuIpcCloseMemHandle" };
    CUresult result;

    if (tidei_process_passes())
        return TIDEI_REAL(cuIpcCloseMemHandle)(pointer);
    tidei_turn_enter(&imported_turn);
    if (tidei_process_drop(TIDEI_PROCESS_ADDRESSES, pointer)) {
        result = TIDEI_REAL(cuIpcCloseMemHandle)(pointer);
        if (result != CUDA_SUCCESS)
            (void)tidei_process_hold(TIDEI_PROCESS_ADDRESSES, pointer);
    } else {
        result = tidei_process_free(&call, TIDEI_PROCESS_ADDRESSES, pointer);
    }
    tidei_turn_leave(&imported_turn);
    return result;
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
        tidei_process_covering(pointer, NULL, &block) && block.redirected &&
        TIDEI_REAL(cuMemGetAddressRange_v2)(&base, &bytes, pointer) == CUDA_SUCCESS && bytes != block.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return TIDEI_REAL(cuIpcGetMemHandle)(handle, pointer);
}

#endif
