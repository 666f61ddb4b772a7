/* Lets other processes use a block of a base `vmm`, and this one a block of another process. */
#include "src/bases/vmm/base.h"
#include "src/sync/inside.h"

#ifdef HAVE_CUDA_H

#include "src/tables/grow.h"

enum tide_status
tide_vmm_find_block(struct tide_resource *vmm, const void *pointer, void **block, uint64_t *bytes)
{
    struct vmm *self = tidei_vmm_of(vmm);
    const struct vmm_block *found;
    enum tide_status status = TIDE_OK;
    bool inside;

    if (block != NULL)
        *block = NULL;
    if (bytes != NULL)
        *bytes = 0;
    if (block == NULL || bytes == NULL)
        return tide_error_set(TIDE_EINVAL, "vmm: NULL in place of an address for the block or its bytes");
    if (self == NULL)
        return TIDE_EINVAL;
    tidei_lock_acquire(&self->lock);
    found = tidei_vmm_space_overlap(&self->space, (uintptr_t)pointer, 1, &inside);
    if (found != NULL && found->state == VMM_LIVE) {
        *block = (void *)found->address;
        *bytes = found->requested_bytes;
    } else {
        status = tide_error_set(TIDE_EPOINTER, "vmm: %p is in no live allocation of this base", pointer);
    }
    tidei_lock_release(&self->lock);
    return status;
}

enum tide_status
tide_vmm_export(struct tide_resource *vmm, void *pointer, int *fd)
{
    TIDEI_INSIDE(vmm);
    struct vmm *self = tidei_vmm_of(vmm);
    const struct vmm_block *block;
    enum tide_status status;
    CUresult result;
    int made = -1;

    if (fd == NULL)
        return tide_error_set(TIDE_EINVAL, "vmm: NULL in place of an address for the descriptor");
    *fd = -1;
    if (self == NULL)
        return TIDE_EINVAL;
    if (!self->options.shareable)
        return tide_error_set(TIDE_EINVAL, "vmm: the base was created without shareable=true");
    status = tidei_vmm_usable(self);
    if (status != TIDE_OK)
        return status;
    tidei_lock_acquire(&self->lock);
    block = tidei_vmm_space_find(&self->space, (uintptr_t)pointer);
    if (block != NULL && block->state == VMM_LIVE && !block->imported) {
        result = self->device.cuda->mem_export_handle(&made, block->pieces[0].handle,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        status = tidei_device_error(&self->device, result, "cuMemExportToShareableHandle");
    } else {
        status = tide_error_set(TIDE_EPOINTER, "vmm: %p is no live allocation of this base", pointer);
    }
    tidei_lock_release(&self->lock);
    if (status == TIDE_OK)
        *fd = made;
    return status;
}

/* Map the handle of a block, which is the block's from here on, in a place of its own. On failure there is no block. */
static enum tide_status
import_map(struct vmm *self, struct vmm_block *block)
{
    const char *function;
    enum tide_status status = tidei_vmm_block_place(self, block, 0);
    CUresult result;

    if (status != TIDE_OK) {
        (void)tidei_vmm_imported_release(self, block);
        tidei_vmm_block_destroy(block);
        return status;
    }
    result = tidei_vmm_map(self, block, &function);
    if (result == CUDA_SUCCESS)
        return TIDE_OK;
    status = tidei_device_error(&self->device, result, function);
    tidei_vmm_block_leave(self, block);
    return status;
}

/* On failure there is no block. */
static enum tide_status
import_handle(struct vmm *self, int fd, uint64_t bytes, struct vmm_block *block)
{
    const struct tidei_driver *cuda = self->device.cuda;
    struct vmm_piece piece = { .bytes = block->bytes };
    size_t capacity = 0;
    enum tide_status status;

    if (!tidei_grow(&block->pieces, &capacity, 0, 1)) {
        tidei_vmm_block_destroy(block);
        return tide_error_set(TIDE_ENOMEM, "vmm: no host memory to know a block by");
    }
    status = tidei_device_error(&self->device,
                                TIDEI_DRIVER_CALL(cuda, self->device.context,
                                                  cuda->mem_import_handle(&piece.handle, (void *)(intptr_t)fd,
                                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)),
                                "cuMemImportFromShareableHandle");
    if (status != TIDE_OK) {
        tidei_vmm_block_destroy(block);
        return status;
    }
    block->pieces[0] = piece;
    block->piece_count = 1;
    block->imported = true;
    status = import_map(self, block);
    if (status == TIDE_OK)
        tidei_vmm_hand_out(self, block, (size_t)bytes, TIDE_DEFAULT_ALIGNMENT);
    return status;
}

enum tide_status
tide_vmm_import(struct tide_resource *vmm, int fd, uint64_t bytes, void **out)
{
    TIDEI_INSIDE(vmm);
    struct vmm *self = tidei_vmm_of(vmm);
    struct vmm_block *block;
    enum tide_status status;
    uint64_t rounded_bytes;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "vmm: NULL in place of an address for the block");
    *out = NULL;
    if (self == NULL)
        return TIDE_EINVAL;
    if (bytes == 0 || !tidei_round_up(bytes, self->page_bytes, &rounded_bytes) ||
        rounded_bytes > self->space.arena_bytes)
        return tide_error_set(TIDE_EINVAL, "vmm: no block has %s", tidei_size_text(bytes));
    status = tidei_vmm_usable(self);
    if (status != TIDE_OK)
        return status;
    if (self->device.cuda->mem_import_handle == NULL)
        return tidei_device_lacks(&self->device, "cuMemImportFromShareableHandle");
    block = tidei_vmm_block_new(rounded_bytes);
    if (block == NULL)
        return tide_error_set(TIDE_ENOMEM, "vmm: no host memory to know a block by");
    tidei_lock_acquire(&self->lock);
    status = import_handle(self, fd, bytes, block);
    if (status == TIDE_OK)
        *out = (void *)block->address;
    tidei_lock_release(&self->lock);
    return status;
}

#endif
