/*
 * The bases `cuda`, `managed` and `pinned`: one call of the CUDA driver for each allocation.
 *
 * Usage: cuda(device=ORDINAL)
 *     Plain memory of a CUDA device.
 *     device  0 unless given
 *
 * Usage: managed(device=ORDINAL, attach=global|host, preferred=none|device|host, read_mostly=BOOL)
 *     Memory that moves between the host and CUDA devices, to where it is used.
 *     device     0 unless given
 *     attach     global unless given
 *     preferred  none unless given
 *
 * Usage: pinned(device=ORDINAL, portable=BOOL, mapped=BOOL, write_combined=BOOL)
 *     Page-locked host memory that CUDA devices can access.
 *     device  the device whose context owns the memory; 0 unless given
 *
 * Examples:
 *     statistics | pool(maximum=25%) | cuda
 *     log(trace.db) | managed(preferred=device)
 *     log(trace.db) | fixed(16MiB) | pinned(write_combined=true)
 *
 * LIMITATIONS
 *  - Each call takes tens of microseconds, and a deallocation blocks the host.
 *  - While a stream is captured into a graph, both calls fail and invalidate the capture, as cuMemAlloc does.
 *  - When the application destroys the context or resets the device, its memory is gone. It counts as used until its
 *    address is handed out again.
 *  - `managed` gives its advice for each allocation, and only for the device of the arguments.
 *  - `pinned` reduces the host memory that is left for everything else.
 */
#include <limits.h>

#include <tidemark/base.h>

#include "src/bases/figures.h"
#include "src/cuda/device.h"
#include "src/resource/kind.h"
#include "src/tables/blocks.h"

#ifdef HAVE_CUDA_H

/* The minimal alignment of the three driver functions: CUDA Programming Guide, device memory accesses. */
#define UNPOOLED_ALIGNMENT ((size_t)256)

/* Larger than any address space. The driver must not see sizes near SIZE_MAX, which it would round up. */
#define UNPOOLED_LARGEST ((size_t)1 << 47)

struct unpooled;

/* What distinguishes the three kinds. */
struct unpooled_memory {
    const struct tidei_kind *kind;
    bool on_device, on_host; /* neither: it moves between them */
    /* Check that driver and device support the options. */
    enum tide_status (*possible)(const struct unpooled *self);
    /* The driver's allocation, with the context current. *function is the name of the call that failed. */
    CUresult (*allocate)(struct unpooled *self, size_t bytes, void **out, const char **function);
};

struct unpooled {
    struct tide_resource base;
    union {
        struct tide_cuda_options cuda; /* `device` stands at the same place in all three */
        struct tide_managed_options managed;
        struct tide_pinned_options pinned;
    } options;
    struct tidei_device device;
    const struct unpooled_memory *memory; /* static */
    size_t largest_bytes;                 /* larger requests never reach the driver */
    _Atomic uint64_t used;                /* bytes outstanding */
    _Atomic uint64_t used_high;
    struct tidei_lock lock;     /* guards the fields below; nothing is called while it is held */
    struct tidei_blocks blocks; /* live blocks */
    uint32_t freeing;           /* removed from `blocks`, but may be put back: the driver has not answered */
};

_Static_assert(offsetof(struct tide_cuda_options, device) == offsetof(struct tide_managed_options, device) &&
                   offsetof(struct tide_cuda_options, device) == offsetof(struct tide_pinned_options, device),
               "one union has the options of three kinds");

/* The three kinds of memory. */

static enum tide_status
cuda_possible(const struct unpooled *self)
{
    const struct tidei_driver *cuda = self->device.cuda;

    return cuda->mem_alloc != NULL && cuda->mem_free != NULL ? TIDE_OK
                                                             : tidei_device_lacks(&self->device, "cuMemAlloc");
}

static CUresult
cuda_allocate(struct unpooled *self, size_t bytes, void **out, const char **function)
{
    CUdeviceptr address = 0;
    CUresult result = self->device.cuda->mem_alloc(&address, bytes);

    *function = "cuMemAlloc";
    *out = (void *)(uintptr_t)address;
    return result;
}

static enum tide_status
managed_possible(const struct unpooled *self)
{
    const struct tide_managed_options *options = &self->options.managed;
    const struct tidei_device *device = &self->device;

    if (device->cuda->mem_alloc_managed == NULL || device->cuda->mem_free == NULL)
        return tidei_device_lacks(device, "cuMemAllocManaged");
    if (tidei_device_attribute(device->cuda, device->handle, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "managed: device %d has no managed memory", device->ordinal);
    if (options->preferred == TIDE_MANAGED_ANYWHERE && !options->read_mostly)
        return TIDE_OK;
    if (device->cuda->mem_advise == NULL)
        return tidei_device_lacks(device, "cuMemAdvise");
    if (tidei_device_attribute(device->cuda, device->handle, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "managed: device %d takes no advice: it has no concurrent managed access",
                              device->ordinal);
    return TIDE_OK;
}

static CUresult
managed_advise(struct unpooled *self, CUdeviceptr address, size_t bytes)
{
    const struct tide_managed_options *options = &self->options.managed;
    const struct tidei_device *device = &self->device;
    CUresult result = CUDA_SUCCESS;

    if (options->preferred != TIDE_MANAGED_ANYWHERE)
        result = device->cuda->mem_advise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                                          options->preferred == TIDE_MANAGED_HOST ? CU_DEVICE_CPU : device->handle);
    if (result == CUDA_SUCCESS && options->read_mostly)
        result = device->cuda->mem_advise(address, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device->handle);
    return result;
}

static CUresult
managed_allocate(struct unpooled *self, size_t bytes, void **out, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    unsigned attach = self->options.managed.attach_host ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_GLOBAL;
    CUdeviceptr address = 0;
    CUresult result = cuda->mem_alloc_managed(&address, bytes, attach);

    *function = "cuMemAllocManaged";
    if (result != CUDA_SUCCESS)
        return result;
    *function = "cuMemAdvise";
    result = managed_advise(self, address, bytes);
    if (result != CUDA_SUCCESS)
        cuda->mem_free(address);
    *out = (void *)(uintptr_t)address;
    return result;
}

static enum tide_status
pinned_possible(const struct unpooled *self)
{
    const struct tidei_driver *cuda = self->device.cuda;

    return cuda->mem_host_alloc != NULL && cuda->mem_free_host != NULL
               ? TIDE_OK
               : tidei_device_lacks(&self->device, "cuMemHostAlloc");
}

static CUresult
pinned_allocate(struct unpooled *self, size_t bytes, void **out, const char **function)
{
    const struct tide_pinned_options *options = &self->options.pinned;
    unsigned flags = 0;

    if (options->portable)
        flags |= CU_MEMHOSTALLOC_PORTABLE;
    if (options->mapped)
        flags |= CU_MEMHOSTALLOC_DEVICEMAP;
    if (options->write_combined)
        flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
    *function = "cuMemHostAlloc";
    return self->device.cuda->mem_host_alloc(out, bytes, flags);
}

extern const struct tidei_kind tidei_cuda_kind, tidei_managed_kind, tidei_pinned_kind;

static const struct unpooled_memory unpooled_memories[] = {
    { .kind = &tidei_cuda_kind, .on_device = true, .possible = cuda_possible, .allocate = cuda_allocate },
    { .kind = &tidei_managed_kind, .possible = managed_possible, .allocate = managed_allocate },
    { .kind = &tidei_pinned_kind, .on_host = true, .possible = pinned_possible, .allocate = pinned_allocate },
};

/* The operations. */

/*
 * Memory is allocated in the current context. There may be none, and one of another device must not be used. True where
 * the primary context was made current, and the caller must leave it.
 */
static bool
unpooled_enter(struct unpooled *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUdevice current = 0;

    if (cuda->context_get_device(&current) == CUDA_SUCCESS && current == self->device.handle)
        return false;
    return cuda->context_push(self->device.context) == CUDA_SUCCESS;
}

static enum tide_status
unpooled_refuse(struct unpooled *self, size_t bytes)
{
    enum tide_status status;
    uint64_t free_bytes;

    (void)tidei_device_query(&self->device, TIDE_QUERY_DEVICE_FREE, &free_bytes, &status);
    status = tide_error_set(TIDE_ECAPACITY,
                            "%s: %s request finds no room: CUDA_ERROR_OUT_OF_MEMORY (device %d: %s of %s free)",
                            self->device.subject, tidei_size_text(bytes), self->device.ordinal,
                            tidei_size_text(free_bytes), tidei_size_text(self->device.total_bytes));
    tidei_error_driver_set(CUDA_ERROR_OUT_OF_MEMORY);
    return tidei_refused(&self->base, status);
}

/* Relaxed: figures, which order nothing. */
static void
unpooled_count(struct unpooled *self, size_t bytes)
{
    uint64_t used = atomic_fetch_add_explicit(&self->used, bytes, memory_order_relaxed) + bytes;
    uint64_t high = atomic_load_explicit(&self->used_high, memory_order_relaxed);

    while (used > high && !atomic_compare_exchange_weak_explicit(&self->used_high, &high, used, memory_order_relaxed,
                                                                 memory_order_relaxed))
        continue;
}

/* The caller holds the lock, and has reserved room. */
static void
unpooled_put(struct unpooled *self, void *pointer, size_t bytes, size_t alignment)
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
unpooled_register(struct unpooled *self, void *pointer, size_t bytes, size_t alignment)
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
unpooled_unregister(struct unpooled *self, void *pointer, size_t bytes, size_t alignment)
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
unpooled_unregistered(struct unpooled *self, void *pointer, size_t bytes, size_t alignment, bool freed)
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
unpooled_get(struct unpooled *self, size_t bytes, void **out, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    bool pushed = unpooled_enter(self);
    CUresult result = TIDEI_DRIVER_CALL(cuda, self->device.context, self->memory->allocate(self, bytes, out, function));

    if (pushed)
        tidei_driver_leave(cuda);
    return result;
}

/*
 * The driver's documentation says that its functions may wait for users of the memory, not that they do. So wait here
 * for the stream's work. The free reports the error of failed work, where it matters.
 */
static CUresult
unpooled_free(struct unpooled *self, void *pointer, tide_stream stream, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;

    if (cuda->stream_synchronize != NULL)
        (void)cuda->stream_synchronize((CUstream)tidei_device_stream(&self->device, stream));
    *function = self->memory->on_host ? "cuMemFreeHost" : "cuMemFree";
    return self->memory->on_host ? cuda->mem_free_host(pointer) : cuda->mem_free((CUdeviceptr)(uintptr_t)pointer);
}

/* The same in a suitable context. */
static CUresult
unpooled_give(struct unpooled *self, void *pointer, tide_stream stream, const char **function)
{
    const struct tidei_driver *cuda = self->device.cuda;
    bool pushed = unpooled_enter(self);
    CUresult result = TIDEI_DRIVER_CALL(cuda, self->device.context, unpooled_free(self, pointer, stream, function));

    if (pushed)
        tidei_driver_leave(cuda);
    return result;
}

static enum tide_status
unpooled_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct unpooled *self = (struct unpooled *)resource;
    const char *function = "";
    CUresult result;

    (void)stream;
    *out = NULL;
    if (alignment > UNPOOLED_ALIGNMENT)
        return tidei_refused(resource, tide_error_set(TIDE_EINVAL,
                                                      "%s: alignment %zu exceeds the 256 bytes that the driver gives",
                                                      self->device.subject, alignment));
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > self->largest_bytes)
        return unpooled_refuse(self, bytes);
    result = unpooled_get(self, bytes, out, &function);
    if (result == CUDA_SUCCESS && unpooled_register(self, *out, bytes, alignment))
        return TIDE_OK;
    if (result == CUDA_SUCCESS)
        (void)unpooled_give(self, *out, stream, &function);
    *out = NULL;
    if (result == CUDA_SUCCESS)
        return tidei_refused(
            resource, tide_error_set(TIDE_ENOMEM, "%s: no host memory to know a block by", self->device.subject));
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return unpooled_refuse(self, bytes);
    return tidei_refused(resource, tidei_device_error(&self->device, result, function));
}

static enum tide_status
unpooled_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct unpooled *self = (struct unpooled *)resource;
    const char *function = "";
    enum tide_status status;
    CUresult result;

    if (pointer == NULL)
        return bytes == 0 ? TIDE_OK
                          : tide_error_set(TIDE_EPOINTER, "%s: NULL is no allocation of %zu bytes",
                                           self->device.subject, bytes);
    status = unpooled_unregister(self, pointer, bytes, alignment);
    if (status != TIDE_OK)
        return status;
    result = unpooled_give(self, pointer, stream, &function);
    status = result == CUDA_SUCCESS ? TIDE_OK : tidei_device_free_error(&self->device, result, pointer, function);
    unpooled_unregistered(self, pointer, bytes, alignment, status == TIDE_OK);
    return status;
}

static enum tide_status
unpooled_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    return tidei_device_order(&((struct unpooled *)resource)->device, earlier, later);
}

static enum tide_status
unpooled_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct unpooled *self = (struct unpooled *)resource;
    const struct unpooled_memory *memory = self->memory;
    /* Relaxed: as in unpooled_count. */
    uint64_t used = atomic_load_explicit(&self->used, memory_order_relaxed);
    uint64_t used_high = atomic_load_explicit(&self->used_high, memory_order_relaxed);
    const struct tidei_figure figures[] = {
        { TIDE_QUERY_BYTES_USED, used },
        { TIDE_QUERY_BYTES_RESERVED, used },
        { TIDE_QUERY_BYTES_USED_HIGH, used_high },
        { TIDE_QUERY_BYTES_RESERVED_HIGH, used_high },
        { TIDE_QUERY_CAPACITY, memory->on_device ? self->device.total_bytes : UINT64_MAX },
        { TIDE_QUERY_DEVICE, memory->on_host ? UINT64_MAX : (uint64_t)self->device.ordinal },
        { TIDE_QUERY_HOST_ACCESS, !memory->on_device },
        { TIDE_QUERY_STREAM_ORDERED, 0 },
        { TIDE_QUERY_ALIGNMENT, UNPOOLED_ALIGNMENT },
    };
    enum tide_status status = TIDE_OK;

    if (tidei_figures_find(figures, TIDEI_COUNT_OF(figures), what, out))
        return TIDE_OK;
    return tidei_device_query(&self->device, what, out, &status) ? status : tide_base_query(resource, what, out);
}

static void
unpooled_fini(struct tide_resource *resource)
{
    struct unpooled *self = (struct unpooled *)resource;

    tidei_device_close(&self->device);
    tidei_blocks_fini(&self->blocks);
    tidei_lock_fini(&self->lock);
}

enum { UNPOOLED_DEVICE }; /* the first argument of all three kinds */

static enum tide_status
unpooled_init(struct tide_resource *resource, size_t *fault)
{
    struct unpooled *self = (struct unpooled *)resource;
    enum tide_status status = tidei_device_open(&self->device, resource->ops->name, self->options.cuda.device);

    if (status == TIDE_EINVAL)
        *fault = UNPOOLED_DEVICE;
    if (status != TIDE_OK)
        return status;
    tidei_lock_init(&self->lock);
    tidei_blocks_init(&self->blocks);
    self->memory = unpooled_memories;
    while (&self->memory->kind->ops != resource->ops)
        self->memory++;
    self->largest_bytes = self->memory->on_device ? self->device.total_bytes : UNPOOLED_LARGEST;
    status = self->memory->possible(self);
    if (status != TIDE_OK)
        unpooled_fini(resource);
    return status;
}

#define UNPOOLED_KIND(kind_name)                                                                                       \
    .ops = { .version = TIDE_RESOURCE_OPS_VERSION,                                                                     \
             .name = kind_name,                                                                                        \
             .allocate = unpooled_allocate,                                                                            \
             .deallocate = unpooled_deallocate,                                                                        \
             .order = unpooled_order,                                                                                  \
             .trim = tide_base_trim,                                                                                   \
             .query = unpooled_query,                                                                                  \
             .describe = tidei_kind_describe,                                                                          \
             .upstream_at = tide_base_upstream_at,                                                                     \
             .destroy = tidei_kind_destroy },                                                                          \
    TIDEI_KIND_STRUCT(struct unpooled), .init = unpooled_init, .fini = unpooled_fini

#else

#define UNPOOLED_KIND(kind_name) .ops.name = kind_name

#endif

#define UNPOOLED_ARGUMENT_DEVICE(options)                                                                              \
    {                                                                                                                  \
        .key = "device", .type = TIDEI_ARGUMENT_COUNT, .most = INT_MAX, .expected = "a CUDA ordinal such as 0",        \
        TIDEI_FIELD(options, device)                                                                                   \
    }

static const struct tidei_argument cuda_arguments[] = {
    UNPOOLED_ARGUMENT_DEVICE(struct tide_cuda_options),
};

const struct tidei_kind tidei_cuda_kind = {
    UNPOOLED_KIND("cuda"),
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(cuda_arguments),
    .options_size = offsetof(struct tide_cuda_options, reserved),
};

enum tide_status
tide_cuda_create(const struct tide_cuda_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_cuda_kind, NULL, options, out);
}

static const char *const managed_attachments[] = { "global", "host", NULL };
static const char *const managed_preferences[] = { "none", "device", "host", NULL };

static const struct tidei_argument managed_arguments[] = {
    UNPOOLED_ARGUMENT_DEVICE(struct tide_managed_options),
    TIDEI_ARGUMENT("attach", CHOICE, struct tide_managed_options, attach_host, "global or host",
                   .choices = managed_attachments),
    TIDEI_ARGUMENT("preferred", CHOICE, struct tide_managed_options, preferred, "none, device or host",
                   .choices = managed_preferences),
    TIDEI_FLAG("read_mostly", struct tide_managed_options, read_mostly),
};

const struct tidei_kind tidei_managed_kind = {
    UNPOOLED_KIND("managed"),
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(managed_arguments),
    .options_size = offsetof(struct tide_managed_options, reserved),
};

enum tide_status
tide_managed_create(const struct tide_managed_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_managed_kind, NULL, options, out);
}

static const struct tidei_argument pinned_arguments[] = {
    UNPOOLED_ARGUMENT_DEVICE(struct tide_pinned_options),
    TIDEI_FLAG("portable", struct tide_pinned_options, portable),
    TIDEI_FLAG("mapped", struct tide_pinned_options, mapped),
    TIDEI_FLAG("write_combined", struct tide_pinned_options, write_combined),
};

const struct tidei_kind tidei_pinned_kind = {
    UNPOOLED_KIND("pinned"),
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(pinned_arguments),
    .options_size = offsetof(struct tide_pinned_options, reserved),
};

enum tide_status
tide_pinned_create(const struct tide_pinned_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_pinned_kind, NULL, options, out);
}
