/* Handles of physical memory, their mappings, and the ranges of addresses of a base `vmm`. */
#include "src/bases/vmm/base.h"

#ifdef HAVE_CUDA_H

#include "src/tables/grow.h"

/* How many arenas a range has at first; see space.h. */
#define PAGES_ARENAS 16u

bool
tidei_vmm_gone(CUresult result)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED;
}

CUstreamCaptureMode
tidei_vmm_captures_begin(const struct vmm *self)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (self->device.cuda->thread_exchange_capture_mode != NULL)
        (void)self->device.cuda->thread_exchange_capture_mode(&mode);
    return mode;
}

void
tidei_vmm_captures_end(const struct vmm *self, CUstreamCaptureMode mode)
{
    if (self->device.cuda->thread_exchange_capture_mode != NULL)
        (void)self->device.cuda->thread_exchange_capture_mode(&mode);
}

enum tide_status
tidei_vmm_range_add(struct vmm *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    uint64_t arena_bytes = self->space.arena_bytes;
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t bytes = 0;

    for (unsigned arenas = PAGES_ARENAS; arenas > 0 && result == CUDA_ERROR_OUT_OF_MEMORY; arenas /= 2) {
        bytes = arenas * arena_bytes;
        result = TIDEI_DRIVER_CALL(cuda, self->device.context,
                                   cuda->mem_address_reserve(&address, (size_t)bytes, (size_t)self->page_bytes, 0, 0));
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        tidei_error_driver_set((int)result);
        return tide_error_set(TIDE_ECAPACITY, "vmm: no %s of addresses are left (cuMemAddressReserve: %s)",
                              tidei_size_text(arena_bytes), tidei_driver_error_name(cuda, result));
    }
    if (result != CUDA_SUCCESS)
        return tidei_device_error(&self->device, result, "cuMemAddressReserve");
    if (tidei_vmm_space_grow(&self->space, (uintptr_t)address, bytes))
        return TIDE_OK;
    cuda->mem_address_free(address, (size_t)bytes);
    return tide_error_set(TIDE_ENOMEM, "vmm: no host memory to know addresses by");
}

CUresult
tidei_vmm_handle_create(struct vmm *self, uint64_t bytes, struct vmm_piece *out)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUmemGenericAllocationHandle handle = 0;
    CUresult result;

    /* Every handle has a place in the cache, so that none is lost where host memory is short. */
    if (!tidei_grow(&self->cache, &self->cache_capacity, (size_t)self->handles, 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result =
        TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_create(&handle, (size_t)bytes, &self->properties, 0));
    if (result != CUDA_SUCCESS)
        return result;
    *out = (struct vmm_piece){ .handle = handle, .bytes = bytes };
    self->handles++;
    tidei_figure_add(&self->created, 1);
    tidei_figure_add(&self->reserved, bytes);
    tidei_figure_raise(&self->reserved_high, tidei_figure_get(&self->reserved));
    return CUDA_SUCCESS;
}

void
tidei_vmm_cache_put(struct vmm *self, const struct vmm_piece *piece)
{
    self->cache[self->cache_count++] = (struct vmm_piece){ .handle = piece->handle, .bytes = piece->bytes };
}

CUresult
tidei_vmm_handle_release(struct vmm *self, const struct vmm_piece *piece)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUresult result = TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_release(piece->handle));

    if (!tidei_vmm_gone(result)) {
        tidei_vmm_cache_put(self, piece);
        return result;
    }
    self->handles--;
    tidei_figure_add(&self->released, 1);
    tidei_figure_add(&self->reserved, -piece->bytes);
    return CUDA_SUCCESS;
}

bool
tidei_vmm_imported_release(struct vmm *self, struct vmm_block *block)
{
    const struct tidei_driver *cuda = self->device.cuda;

    for (size_t i = 0; i < block->piece_count; i++) {
        struct vmm_piece *piece = &block->pieces[i];

        if (!piece->gone)
            piece->gone =
                tidei_vmm_gone(TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_release(piece->handle)));
        if (!piece->gone)
            return false;
    }
    return true;
}

CUresult
tidei_vmm_unmap(struct vmm *self, struct vmm_block *block)
{
    const struct tidei_driver *cuda = self->device.cuda;
    uintptr_t address = block->address;
    CUresult first = CUDA_SUCCESS;

    for (size_t i = 0; i < block->piece_count; i++) {
        struct vmm_piece *piece = &block->pieces[i];
        CUresult result = CUDA_SUCCESS;

        if (piece->mapped)
            result = TIDEI_DRIVER_CALL(cuda, self->device.context,
                                       cuda->mem_unmap((CUdeviceptr)address, (size_t)piece->bytes));
        piece->mapped = piece->mapped && !tidei_vmm_gone(result);
        if (piece->mapped && first == CUDA_SUCCESS)
            first = result;
        address += piece->bytes;
    }
    return first;
}

/* Map the pieces as far as that succeeds. */
static CUresult
pages_map(struct vmm *self, struct vmm_block *block, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    uintptr_t address = block->address;

    *function = "cuMemMap";
    for (size_t i = 0; i < block->piece_count; i++) {
        struct vmm_piece *piece = &block->pieces[i];
        CUresult result = TIDEI_DRIVER_CALL(
            cuda, self->device.context, cuda->mem_map((CUdeviceptr)address, (size_t)piece->bytes, 0, piece->handle, 0));

        if (result != CUDA_SUCCESS)
            return result;
        piece->mapped = true;
        address += piece->bytes;
    }
    *function = "cuMemSetAccess";
    return TIDEI_DRIVER_CALL(
        cuda, self->device.context,
        cuda->mem_set_access((CUdeviceptr)block->address, (size_t)block->bytes, self->accesses, self->access_count));
}

CUresult
tidei_vmm_map(struct vmm *self, struct vmm_block *block, const char **function)
{
    CUresult result = pages_map(self, block, function);

    if (result != CUDA_SUCCESS)
        (void)tidei_vmm_unmap(self, block);
    return result;
}

#endif
