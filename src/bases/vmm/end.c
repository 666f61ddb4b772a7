/* Gives back all that a base `vmm` has, when it is released. */
#include "src/bases/vmm/base.h"

#ifdef HAVE_CUDA_H

/* What the driver has refused to take back, and how. */
struct end_left {
    uint64_t bytes;
    CUresult result;
    const char *function;
};

/* Nobody can try again later: a call that is refused is made once more. */
#define END_CALL(call)                                                                                                 \
    __extension__({                                                                                                    \
        CUresult ended_ = (call);                                                                                      \
        tidei_vmm_gone(ended_) ? CUDA_SUCCESS : (call);                                                                \
    })

static void
end_note(struct end_left *left, CUresult result, const char *function, uint64_t bytes)
{
    if (tidei_vmm_gone(result))
        return;
    left->bytes += bytes;
    left->result = result;
    left->function = function;
}

static void
end_block(struct vmm *self, struct vmm_block *block, struct end_left *left)
{
    const struct tidei_driver *cuda = self->device.cuda;

    end_note(left, END_CALL(tidei_vmm_unmap(self, block)), "cuMemUnmap", 0);
    for (size_t i = 0; i < block->piece_count; i++) {
        const struct vmm_piece *piece = &block->pieces[i];

        if (!piece->gone)
            end_note(left, END_CALL(cuda->mem_release(piece->handle)), "cuMemRelease", piece->bytes);
        else if (piece->mapped)
            left->bytes += piece->bytes;
    }
    if (block->event != NULL)
        tidei_device_mark_end(&self->device, block->event);
    tidei_vmm_block_destroy(block);
}

void
tidei_vmm_end(struct vmm *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    struct end_left left = { 0 };

    for (size_t i = 0; i < self->space.arena_count; i++) {
        struct vmm_arena *arena = &self->space.arenas[i];

        while (arena->count > 0)
            end_block(self, arena->blocks[--arena->count], &left);
    }
    for (size_t i = 0; i < self->cache_count; i++)
        end_note(&left, END_CALL(cuda->mem_release(self->cache[i].handle)), "cuMemRelease", self->cache[i].bytes);
    for (size_t i = 0; i < self->space.range_count; i++) {
        const struct vmm_range *range = &self->space.ranges[i];

        end_note(&left, END_CALL(cuda->mem_address_free((CUdeviceptr)range->address, (size_t)range->bytes)),
                 "cuMemAddressFree", 0);
    }
    if (left.function != NULL)
        tidei_message(TIDE_WARNING, "vmm: the driver takes not all back (%s: %s); %s of device %d may stay taken",
                      left.function, tidei_driver_error_name(cuda, left.result), tidei_size_text(left.bytes),
                      self->device.ordinal);
}

#endif
