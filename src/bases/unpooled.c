/* The common part of the bases `cuda`, `managed` and `pinned`. */
#include "src/bases/unpooled.h"

#ifdef HAVE_CUDA_H

/* The minimal alignment of the three driver functions: CUDA Programming Guide, device memory accesses. */
#define PLAIN_ALIGNMENT ((size_t)256)

enum tide_status
tidei_unpooled_open(struct tidei_unpooled *self, const struct tidei_unpooled_calls *calls, int ordinal, size_t *fault)
{
    enum tide_status status = tidei_device_open(&self->device, self->base.ops->name, ordinal);

    if (status == TIDE_EINVAL)
        *fault = 0;
    if (status != TIDE_OK)
        return status;
    tidei_lock_init(&self->lock);
    tidei_blocks_init(&self->blocks);
    self->calls = calls;
    self->largest_bytes = TIDEI_PLAIN_LARGEST;
    return TIDE_OK;
}

/*
 * Memory is allocated in the current context. There may be none, and one of another device must not be used. True where
 * the primary context was made current, and the caller must leave it.
 */
static bool
unpooled_enter(struct tidei_unpooled *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUdevice current = 0;

    if (cuda->context_get_device(&current) == CUDA_SUCCESS && current == self->device.handle)
        return false;
    return cuda->context_push(self->device.context) == CUDA_SUCCESS;
}

static enum tide_status
unpooled_refuse(struct tidei_unpooled *self, size_t bytes)
{
    enum tide_status status;
    uint64_t free_bytes;

    (void)tidei_device_query(&self->device, TIDE_QUERY_DEVICE_FREE, &free_bytes, &status);
    status = tide_error_set(TIDE_ECAPACITY,
                            "%s: %s request finds no room: CUDA_ERROR_OUT_OF_MEMORY (device %d: %s of %s free)",
                            self->device.subject, tidei_size_text(bytes), self->device.ordinal,
                            tidei_size_text(free_bytes), tidei_size_text(self->device.total_bytes));
    tidei_error_driver_set(CUDA_ERROR_OUT_OF_MEMORY);
    return status;
}

/* Relaxed: figures, which order nothing. */
static void
unpooled_count(struct tidei_unpooled *self, size_t bytes)
{
    uint64_t used = atomic_fetch_add_explicit(&self->used, bytes, memory_order_relaxed) + bytes;
    uint64_t high = atomic_load_explicit(&self->used_high, memory_order_relaxed);

    while (used > high && !atomic_compare_exchange_weak_explicit(&self->used_high, &high, used, memory_order_relaxed,
                                                                 memory_order_relaxed))
        continue;
}

/* The caller holds the lock, and has reserved room. */
static void
unpooled_put(struct tidei_unpooled *self, void *pointer, size_t bytes, size_t alignment)
{
    struct tidei_block *block = &self->blocks.blocks[tidei_blocks_add(&self->blocks, pointer, 0)];

    block->bytes = bytes;
    block->alignment = alignment;
}

/*
 * Enter a block; false where host memory is short. A live block at that address is stale: the application has destroyed
 * its context, or reset the device.
 */
static bool
unpooled_know(struct tidei_unpooled *self, void *pointer, size_t bytes, size_t alignment)
{
    size_t gone_bytes = 0;
    uint32_t gone;
    bool room;

    tidei_lock_acquire(&self->lock);
    gone = tidei_blocks_find(&self->blocks, pointer);
    if (gone != TIDEI_BLOCK_NONE) {
        gone_bytes = self->blocks.blocks[gone].bytes;
        tidei_blocks_remove(&self->blocks, gone);
    }
    room = tidei_blocks_reserve(&self->blocks, (uint64_t)self->blocks.count + self->freeing + 1);
    if (room)
        unpooled_put(self, pointer, bytes, alignment);
    tidei_lock_release(&self->lock);
    atomic_fetch_sub_explicit(&self->used, gone_bytes, memory_order_relaxed); /* as in unpooled_count */
    if (room)
        unpooled_count(self, bytes);
    return room;
}

/*
 * Remove a block before the driver frees it, because another thread may get the address at once. Unknown pointers are
 * refused here, since the driver would free memory of any other allocator of the process.
 */
static enum tide_status
unpooled_forget(struct tidei_unpooled *self, void *pointer, size_t bytes, size_t alignment)
{
    struct tidei_block known = { .used = false };
    enum tide_status status;
    uint32_t number;

    tidei_lock_acquire(&self->lock);
    number = tidei_blocks_find(&self->blocks, pointer);
    if (number != TIDEI_BLOCK_NONE) {
        known = self->blocks.blocks[number];
        if (known.bytes == bytes && known.alignment == alignment) {
            tidei_blocks_remove(&self->blocks, number);
            self->freeing++;
        }
    }
    tidei_lock_release(&self->lock);
    if (!known.used) {
        status = tide_error_set(TIDE_EPOINTER,
                                "%s: %p is no live allocation of this base (CUDA_ERROR_INVALID_VALUE, without "
                                "asking the driver)",
                                self->device.subject, pointer);
        tidei_error_driver_set(CUDA_ERROR_INVALID_VALUE);
        return status;
    }
    if (known.bytes == bytes && known.alignment == alignment)
        return TIDE_OK;
    return tide_error_set(TIDE_EMISMATCH,
                          "%s: %p given back with %zu B at a multiple of %zu, allocated with %zu B at %zu",
                          self->device.subject, pointer, bytes, alignment, known.bytes, known.alignment);
}

/* Handle the driver's result for a removed block; a block that was not freed is entered again. */
static void
unpooled_forgotten(struct tidei_unpooled *self, void *pointer, size_t bytes, size_t alignment, bool freed)
{
    tidei_lock_acquire(&self->lock);
    self->freeing--;
    if (!freed)
        unpooled_put(self, pointer, bytes, alignment); /* its room was kept */
    tidei_lock_release(&self->lock);
    if (freed)
        atomic_fetch_sub_explicit(&self->used, bytes, memory_order_relaxed); /* as in unpooled_count */
}

/* Call the kind's allocation in a suitable context. */
static CUresult
unpooled_get(struct tidei_unpooled *self, size_t bytes, void **out, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    bool pushed = unpooled_enter(self);
    CUresult result = self->calls->allocate(self, bytes, out, function);

    if (!pushed && tidei_driver_enter(cuda, result, self->device.context)) {
        pushed = true;
        result = self->calls->allocate(self, bytes, out, function);
    }
    if (pushed)
        tidei_driver_leave(cuda);
    return result;
}

/*
 * The driver's documentation says that its functions may wait for users of the memory, not that they do. So wait here
 * for the stream's work. The free reports the error of failed work, where it matters.
 */
static CUresult
unpooled_free(struct tidei_unpooled *self, void *pointer, tide_stream stream, const char **function)
{
    if (self->device.cuda->stream_synchronize != NULL)
        (void)self->device.cuda->stream_synchronize((CUstream)stream);
    return self->calls->deallocate(self, pointer, function);
}

/* The same in a suitable context. */
static CUresult
unpooled_give(struct tidei_unpooled *self, void *pointer, tide_stream stream, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    bool pushed = unpooled_enter(self);
    CUresult result = unpooled_free(self, pointer, stream, function);

    if (!pushed && tidei_driver_enter(cuda, result, self->device.context)) {
        pushed = true;
        result = unpooled_free(self, pointer, stream, function);
    }
    if (pushed)
        tidei_driver_leave(cuda);
    return result;
}

enum tide_status
tidei_unpooled_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct tidei_unpooled *self = (struct tidei_unpooled *)resource;
    const char *function = "";
    CUresult result;

    (void)stream;
    *out = NULL;
    if (alignment > PLAIN_ALIGNMENT)
        return tide_error_set(TIDE_EINVAL, "%s: alignment %zu exceeds the 256 bytes that the driver gives",
                              self->device.subject, alignment);
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > self->largest_bytes)
        return unpooled_refuse(self, bytes);
    result = unpooled_get(self, bytes, out, &function);
    if (result == CUDA_SUCCESS && unpooled_know(self, *out, bytes, alignment))
        return TIDE_OK;
    if (result == CUDA_SUCCESS)
        (void)unpooled_give(self, *out, stream, &function);
    *out = NULL;
    if (result == CUDA_SUCCESS)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory to know a block by", self->device.subject);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? unpooled_refuse(self, bytes)
                                              : tidei_device_error(&self->device, result, function);
}

enum tide_status
tidei_unpooled_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment,
                          tide_stream stream)
{
    struct tidei_unpooled *self = (struct tidei_unpooled *)resource;
    const char *function = "";
    enum tide_status status;
    CUresult result;

    if (pointer == NULL)
        return bytes == 0 ? TIDE_OK
                          : tide_error_set(TIDE_EPOINTER, "%s: NULL is no allocation of %zu bytes",
                                           self->device.subject, bytes);
    status = unpooled_forget(self, pointer, bytes, alignment);
    if (status != TIDE_OK)
        return status;
    result = unpooled_give(self, pointer, stream, &function);
    status = result == CUDA_SUCCESS ? TIDE_OK : tidei_device_free_error(&self->device, result, pointer, function);
    unpooled_forgotten(self, pointer, bytes, alignment, status == TIDE_OK);
    return status;
}

enum tide_status
tidei_unpooled_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    return tidei_device_order(&((struct tidei_unpooled *)resource)->device, earlier, later);
}

enum tide_status
tidei_unpooled_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct tidei_unpooled *self = (struct tidei_unpooled *)resource;
    enum tide_status status = TIDE_OK;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
        *out = atomic_load_explicit(&self->used, memory_order_relaxed); /* as in unpooled_count */
        return TIDE_OK;
    case TIDE_QUERY_BYTES_USED_HIGH:
    case TIDE_QUERY_BYTES_RESERVED_HIGH:
        *out = atomic_load_explicit(&self->used_high, memory_order_relaxed); /* the same */
        return TIDE_OK;
    case TIDE_QUERY_STREAM_ORDERED:
        *out = 0;
        return TIDE_OK;
    case TIDE_QUERY_ALIGNMENT:
        *out = PLAIN_ALIGNMENT;
        return TIDE_OK;
    default:
        return tidei_device_query(&self->device, what, out, &status) ? status : tide_base_query(resource, what, out);
    }
}

void
tidei_unpooled_close(struct tide_resource *resource)
{
    struct tidei_unpooled *self = (struct tidei_unpooled *)resource;

    tidei_device_close(&self->device);
    tidei_blocks_fini(&self->blocks);
    tidei_lock_fini(&self->lock);
}

#endif
