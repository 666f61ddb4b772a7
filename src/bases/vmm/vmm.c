/*
 * The base `vmm`: physical pages of a CUDA device, mapped where they are needed.
 *
 * Usage: vmm(device=ORDINAL, maximum=SIZE, granularity=SIZE, access=all|ORDINAL+..., decay=MILLISECONDS,
 *            shareable=BOOL, stress=BOOL, fallback=none|driver|cuda)
 *     device       0 unless given
 *     maximum      the most bytes of pages in use
 *     granularity  the size of a page; the device's unless given
 *     access       other devices that reach the memory
 *     decay        how long memory that is no longer in use is kept; 10000 unless given
 *
 * Example: statistics | pool | vmm
 *
 * LIMITATIONS
 *  - Each allocation takes whole pages: put a `pool` or an `arena` above.
 *  - Memory that is freed on a stream that is being captured is handed out again on that stream alone.
 *  - In a child of fork() nothing works, as in CUDA itself. A release there does not call the driver.
 *  - After a reset of the device's primary context all calls fail with CUDA_ERROR_CONTEXT_IS_DESTROYED, until the
 *    context is retained again.
 *
 * Streams and contexts are as for the base `driver`.
 */
#include "src/bases/vmm/base.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/base.h>
#include <tidemark/driver.h>
#include <tidemark/vmm.h>

#include "src/bases/figures.h"
#include "src/resource/kind.h"
#include "src/resource/place.h"
#include "src/sync/fork.h"
#include "src/sync/inside.h"

extern const struct tidei_kind tidei_vmm_kind;

/* The indices of the arguments below. */
enum vmm_argument {
    VMM_DEVICE,
    VMM_MAXIMUM,
    VMM_GRANULARITY,
    VMM_ACCESS,
    VMM_DECAY,
    VMM_SHAREABLE,
    VMM_STRESS,
    VMM_FALLBACK,
};

#ifdef HAVE_CUDA_H

/* How many blocks each free asks whether their work is done: more than it adds, so that none is left for long. */
#define VMM_ASK ((size_t)2)

/* The part of what is held in excess that each free releases. */
#define VMM_DECAY_PART 16

struct vmm *
tidei_vmm_of(struct tide_resource *resource)
{
    if (resource != NULL && resource->ops == &tidei_vmm_kind.ops)
        return (struct vmm *)resource;
    tide_error_set(TIDE_EINVAL, "vmm: '%s' is none; tide_stack_find finds the one that a stack ends in",
                   resource != NULL ? tide_resource_name(resource) : "NULL");
    return NULL;
}

enum tide_status
tidei_vmm_usable(const struct vmm *self)
{
    if (self->generation == tidei_fork_generation())
        return TIDE_OK;
    return tide_error_set(TIDE_EUNSUPPORTED, "vmm: CUDA does not work after fork(): the parent process had started it");
}

/* The operations. */

/* Note a refusal; one for want of memory gets the request's size and what is free. */
static enum tide_status
vmm_refuse(struct vmm *self, uint64_t bytes, enum tide_status status)
{
    struct tidei_error error;
    uint64_t free_bytes;
    enum tide_status asked;

    if (status != TIDE_ECAPACITY)
        return tidei_refused(&self->base, status);
    tidei_error_save(&error);
    (void)tidei_device_query(&self->device, TIDE_QUERY_DEVICE_FREE, &free_bytes, &asked);
    return tidei_refused(&self->base,
                         tidei_error_pass_on(&error, status,
                                             "vmm: %s request finds no room on device %d: %s; %s of %s free)",
                                             tidei_size_text(bytes), self->device.ordinal, error.text,
                                             tidei_size_text(free_bytes), tidei_size_text(self->device.total_bytes)));
}

/* The device's memory bounds every base; only a lower bound is a maximum in the text. */
static enum tide_status
vmm_refuse_above(struct vmm *self, uint64_t bytes)
{
    uint64_t mapped_bytes;

    tidei_lock_acquire(&self->lock);
    mapped_bytes = self->mapped_bytes;
    tidei_lock_release(&self->lock);
    return tidei_refused(&self->base,
                         tide_error_set(TIDE_ECAPACITY, "vmm: %s request exceeds %s of %s (%s of pages in use)",
                                        tidei_size_text(bytes),
                                        self->options.maximum_bytes != 0 ? "maximum" : "device memory",
                                        tidei_size_text(self->capacity_bytes), tidei_size_text(mapped_bytes)));
}

void
tidei_vmm_hand_out(struct vmm *self, struct vmm_block *block, size_t bytes, size_t alignment)
{
    block->state = VMM_LIVE;
    block->requested_bytes = bytes;
    block->alignment = alignment;
    if (!block->imported)
        self->mapped_bytes += block->bytes;
    if (self->mapped_bytes > self->period_high_bytes)
        self->period_high_bytes = self->mapped_bytes;
    if (self->mapped_bytes > self->mapped_high_bytes)
        self->mapped_high_bytes = self->mapped_bytes;
    tidei_figure_add(&self->used, bytes);
    tidei_figure_raise(&self->used_high, tidei_figure_get(&self->used));
}

/* Take a block, with waits where there is no other way. False where the request exceeds the maximum. */
static bool
vmm_take(struct vmm *self, const struct vmm_request *request, size_t bytes, size_t alignment, void **out,
         enum tide_status *status)
{
    struct vmm_block *wait_for = NULL;
    struct vmm_block *block = NULL;
    CUstreamCaptureMode mode = tidei_vmm_captures_begin(self);
    bool within;

    tidei_lock_acquire(&self->lock);
    for (;;) {
        within = request->bytes <= self->capacity_bytes && self->mapped_bytes <= self->capacity_bytes - request->bytes;
        if (!within)
            break;
        *status = tidei_vmm_block_take(self, request, &block, &wait_for);
        if (wait_for == NULL)
            break;
        *status = tidei_vmm_wait(self, wait_for);
        if (*status != TIDE_OK)
            break;
    }
    if (within && *status == TIDE_OK) {
        tidei_vmm_hand_out(self, block, bytes, alignment);
        *out = (void *)block->address;
    }
    tidei_lock_release(&self->lock);
    tidei_vmm_captures_end(self, mode);
    return within;
}

static enum tide_status
vmm_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct vmm *self = (struct vmm *)resource;
    struct vmm_request request = { .wish = tidei_place_take() };
    enum tide_status status = tidei_vmm_usable(self);

    *out = NULL;
    if (status != TIDE_OK)
        return tidei_refused(resource, status);
    if (alignment > self->page_bytes)
        return tidei_refused(resource, tide_error_set(TIDE_EINVAL, "vmm: alignment %zu exceeds the page of %s",
                                                      alignment, tidei_size_text(self->page_bytes)));
    if (bytes == 0)
        return TIDE_OK;
    if (!tidei_round_up(bytes, self->page_bytes, &request.bytes) || request.bytes > self->capacity_bytes)
        return vmm_refuse_above(self, bytes);
    request.queue = tidei_vmm_queue(self, stream);
    if (!vmm_take(self, &request, bytes, alignment, out, &status))
        return vmm_refuse_above(self, bytes);
    return status == TIDE_OK ? TIDE_OK : vmm_refuse(self, bytes, status);
}

/* Take the block out for its free, before its event is recorded without the lock. NULL where it is no live block. */
static struct vmm_block *
vmm_free_begin(struct vmm *self, void *pointer, size_t bytes, size_t alignment, struct vmm_block *known)
{
    struct vmm_block *block;

    tidei_lock_acquire(&self->lock);
    block = tidei_vmm_space_find(&self->space, (uintptr_t)pointer);
    if (block != NULL && block->state != VMM_LIVE)
        block = NULL;
    if (block != NULL)
        *known = *block;
    if (block != NULL && block->requested_bytes == bytes && block->alignment == alignment)
        block->state = VMM_FREEING;
    tidei_lock_release(&self->lock);
    return block;
}

/* A few ns: the time may be some milliseconds old. */
static uint64_t
vmm_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * Forget what was in use before the last period, and release a part of what is held beyond what was in use since.
 * `bytes` were in use until now. The caller holds the lock.
 */
static void
vmm_decay(struct vmm *self, uint64_t bytes)
{
    uint64_t now_ms = vmm_now_ms();
    uint64_t passed_ms = now_ms - self->period_ms;
    uint64_t reserved, excess;
    const char *function;

    if (passed_ms >= self->options.decay_ms) {
        self->mapped_high_bytes =
            passed_ms / 2 >= self->options.decay_ms ? self->mapped_bytes + bytes : self->period_high_bytes;
        self->period_high_bytes = self->mapped_bytes;
        self->period_ms = now_ms;
    }
    reserved = tidei_figure_get(&self->reserved);
    if (reserved <= self->mapped_high_bytes)
        return;
    excess = (reserved - self->mapped_high_bytes) / VMM_DECAY_PART;
    (void)tidei_vmm_shrink(self, reserved - (excess > 0 ? excess : 1), &function);
}

/* Handle the result of the event: a block that could not be freed is live again. */
static void
vmm_free_end(struct vmm *self, struct vmm_block *block, const struct vmm_queue *queue, CUevent event,
             enum tide_status status)
{
    CUstreamCaptureMode mode = tidei_vmm_captures_begin(self);
    uint64_t bytes = block->imported ? 0 : block->bytes;

    tidei_lock_acquire(&self->lock);
    if (status == TIDE_OK) {
        tidei_figure_add(&self->used, -(uint64_t)block->requested_bytes);
        self->mapped_bytes -= bytes;
        block->queue = *queue;
        tidei_vmm_block_put(self, block, event);
        tidei_vmm_poll(self, VMM_ASK);
        vmm_decay(self, bytes);
    } else {
        block->state = VMM_LIVE;
    }
    tidei_lock_release(&self->lock);
    tidei_vmm_captures_end(self, mode);
}

/*
 * Put an event behind the stream's work. Where that fails, wait for all work of the device instead. *event is NULL
 * then.
 */
static enum tide_status
vmm_mark(struct vmm *self, tide_stream stream, CUevent *event)
{
    struct tidei_error error;
    const char *function;
    CUresult result = tidei_device_mark(&self->device, stream, event, &function);
    enum tide_status status;

    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED)
        return TIDE_OK;
    status = tidei_device_error(&self->device, result, function);
    tidei_error_save(&error);
    if (tidei_device_order(&self->device, TIDE_STREAM_ALL, 0) == TIDE_OK)
        return TIDE_OK;
    tidei_error_restore(&error);
    return status;
}

static enum tide_status
vmm_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct vmm *self = (struct vmm *)resource;
    struct vmm_queue queue;
    struct vmm_block known;
    struct vmm_block *block;
    CUevent event = NULL;
    enum tide_status status = tidei_vmm_usable(self);

    if (status != TIDE_OK)
        return status;
    if (pointer == NULL)
        return bytes == 0 ? TIDE_OK : tide_error_set(TIDE_EPOINTER, "vmm: NULL is no allocation of %zu bytes", bytes);
    block = vmm_free_begin(self, pointer, bytes, alignment, &known);
    if (block == NULL)
        return tide_error_set(TIDE_EPOINTER, "vmm: %p is no live allocation of this base", pointer);
    if (known.requested_bytes != bytes || known.alignment != alignment)
        return tide_error_set(TIDE_EMISMATCH,
                              "vmm: %p given back with %zu B at a multiple of %zu, allocated with %zu B at %zu",
                              pointer, bytes, alignment, known.requested_bytes, known.alignment);
    queue = tidei_vmm_queue(self, stream);
    status = vmm_mark(self, stream, &event);
    vmm_free_end(self, block, &queue, event, status);
    return status;
}

/* After all streams the work of every freed block is done. */
static enum tide_status
vmm_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    struct vmm *self = (struct vmm *)resource;
    enum tide_status status = tidei_vmm_usable(self);

    if (status == TIDE_OK)
        status = tidei_device_order(&self->device, earlier, later);
    if (status == TIDE_OK && earlier == TIDE_STREAM_ALL) {
        tidei_lock_acquire(&self->lock);
        tidei_vmm_poll(self, SIZE_MAX);
        tidei_lock_release(&self->lock);
    }
    return status;
}

static enum tide_status
vmm_trim(struct tide_resource *resource, uint64_t keep_bytes)
{
    struct vmm *self = (struct vmm *)resource;
    enum tide_status status = tidei_vmm_usable(self);
    CUstreamCaptureMode mode;
    const char *function;
    CUresult result;

    if (status != TIDE_OK)
        return status;
    mode = tidei_vmm_captures_begin(self);
    tidei_lock_acquire(&self->lock);
    tidei_vmm_poll(self, SIZE_MAX);
    result = tidei_vmm_shrink(self, keep_bytes, &function);
    tidei_lock_release(&self->lock);
    tidei_vmm_captures_end(self, mode);
    return tidei_device_error(&self->device, result, function);
}

static enum tide_status
vmm_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct vmm *self = (struct vmm *)resource;
    const struct tidei_figure figures[] = {
        { TIDE_QUERY_BYTES_USED, tidei_figure_get(&self->used) },
        { TIDE_QUERY_BYTES_RESERVED, tidei_figure_get(&self->reserved) },
        { TIDE_QUERY_BYTES_USED_HIGH, tidei_figure_get(&self->used_high) },
        { TIDE_QUERY_BYTES_RESERVED_HIGH, tidei_figure_get(&self->reserved_high) },
        { TIDE_QUERY_CAPACITY, self->capacity_bytes },
        { TIDE_QUERY_LARGEST_REQUEST, self->capacity_bytes },
        { TIDE_QUERY_DEVICE, (uint64_t)self->options.device },
        { TIDE_QUERY_HOST_ACCESS, 0 },
        { TIDE_QUERY_STREAM_ORDERED, 1 },
        { TIDE_QUERY_ALIGNMENT, self->page_bytes },
        { TIDE_QUERY_PAGE, self->page_bytes },
    };
    enum tide_status status = TIDE_OK;

    if (tidei_figures_find(figures, TIDEI_COUNT_OF(figures), what, out))
        return TIDE_OK;
    return tidei_device_query(&self->device, what, out, &status) ? status : tide_base_query(resource, what, out);
}

enum tide_status
tide_vmm_read(struct tide_resource *vmm, struct tide_vmm_figures *out)
{
    TIDEI_INSIDE(vmm);
    enum tide_status status = tidei_kind_check_figures(&tidei_vmm_kind, vmm, out);
    struct vmm *self = (struct vmm *)vmm;
    struct tide_vmm_figures figures = { TIDE_FIGURES(figures) };

    if (status != TIDE_OK)
        return status;
    tidei_lock_acquire(&self->lock);
    figures.page_bytes = self->page_bytes;
    figures.used_bytes = tidei_figure_get(&self->used);
    figures.mapped_bytes = self->mapped_bytes;
    figures.reserved_bytes = tidei_figure_get(&self->reserved);
    figures.cached_bytes = figures.reserved_bytes - figures.mapped_bytes;
    figures.handles = self->handles;
    figures.created = tidei_figure_get(&self->created);
    figures.released = tidei_figure_get(&self->released);
    figures.kept = tidei_figure_get(&self->kept);
    figures.remapped = tidei_figure_get(&self->remapped);
    figures.orders = tidei_figure_get(&self->orders);
    figures.waits = tidei_figure_get(&self->waits);
    tidei_lock_release(&self->lock);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

/* The constructor. */

/* What a driver or a device lacks for the base; NULL where it lacks nothing. */
static const char *
vmm_lacks(const struct tidei_driver *cuda)
{
    const struct {
        bool has;
        const char *function;
    } entries[] = {
        { cuda->mem_address_reserve != NULL, "cuMemAddressReserve" },
        { cuda->mem_address_free != NULL, "cuMemAddressFree" },
        { cuda->mem_create != NULL, "cuMemCreate" },
        { cuda->mem_release != NULL, "cuMemRelease" },
        { cuda->mem_map != NULL, "cuMemMap" },
        { cuda->mem_unmap != NULL, "cuMemUnmap" },
        { cuda->mem_set_access != NULL, "cuMemSetAccess" },
        { cuda->mem_get_allocation_granularity != NULL, "cuMemGetAllocationGranularity" },
        { cuda->event_create != NULL, "cuEventCreate" },
        { cuda->event_destroy != NULL, "cuEventDestroy" },
        { cuda->event_record != NULL, "cuEventRecord" },
        { cuda->event_query != NULL, "cuEventQuery" },
        { cuda->event_synchronize != NULL, "cuEventSynchronize" },
        { cuda->stream_wait_event != NULL, "cuStreamWaitEvent" },
    };

    for (size_t i = 0; i < TIDEI_COUNT_OF(entries); i++) {
        if (!entries[i].has)
            return entries[i].function;
    }
    return NULL;
}

static enum tide_status
vmm_possible(const struct tidei_device *device)
{
    const char *function = vmm_lacks(device->cuda);

    if (function != NULL)
        return tidei_device_lacks(device, function);
    if (tidei_device_attribute(device->cuda, device->handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ==
        0)
        return tide_error_set(TIDE_EUNSUPPORTED,
                              "vmm: device %d has no virtual memory calls; use fallback=driver, or the base driver",
                              device->ordinal);
    return TIDE_OK;
}

static enum tide_status
vmm_init_sharing(struct vmm *self)
{
    const struct tidei_driver *cuda = self->device.cuda;

    if (!self->options.shareable)
        return TIDE_OK;
    if (cuda->mem_export_handle == NULL)
        return tidei_device_lacks(&self->device, "cuMemExportToShareableHandle");
    if (tidei_device_attribute(cuda, self->device.handle,
                               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0)
        return tide_error_set(TIDE_EUNSUPPORTED, "vmm: device %d shares no memory by a file descriptor",
                              self->device.ordinal);
    self->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return TIDE_OK;
}

static enum tide_status
vmm_init_sizes(struct vmm *self)
{
    const struct tidei_driver *cuda = self->device.cuda;
    size_t least_bytes = 0;
    enum tide_status status =
        tidei_device_error(&self->device,
                           TIDEI_DRIVER_CALL(cuda, self->device.context,
                                             cuda->mem_get_allocation_granularity(&least_bytes, &self->properties,
                                                                                  CU_MEM_ALLOC_GRANULARITY_MINIMUM)),
                           "cuMemGetAllocationGranularity");

    if (status != TIDE_OK)
        return status;
    self->page_bytes = self->options.granularity_bytes != 0 ? self->options.granularity_bytes : least_bytes;
    if (self->page_bytes < least_bytes)
        return tide_error_set(TIDE_EINVAL, "vmm: a granularity of %s is below the %s of device %d",
                              tidei_size_text(self->page_bytes), tidei_size_text(least_bytes), self->device.ordinal);
    self->capacity_bytes = self->device.total_bytes;
    if (self->options.maximum_bytes > self->capacity_bytes)
        tidei_message(TIDE_WARNING, "vmm: a maximum of %s exceeds the %s of device %d, and means all of it",
                      tidei_size_text(self->options.maximum_bytes), tidei_size_text(self->capacity_bytes),
                      self->device.ordinal);
    else if (self->options.maximum_bytes != 0)
        self->capacity_bytes = self->options.maximum_bytes;
    if (self->page_bytes > self->capacity_bytes)
        return tide_error_set(
            TIDE_EINVAL, "vmm: a page of %s does not fit in the %s of %s", tidei_size_text(self->page_bytes),
            self->options.maximum_bytes != 0 ? "maximum" : "memory", tidei_size_text(self->capacity_bytes));
    /* As much as all blocks can be together, and as much again, so that a layer can move on at its end. */
    (void)tidei_round_up(2 * (uint64_t)self->device.total_bytes, self->page_bytes, &self->space.arena_bytes);
    return TIDE_OK;
}

static void
vmm_access_add(struct vmm *self, CUdevice device)
{
    self->accesses[self->access_count++] =
        (CUmemAccessDesc){ .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
}

/* Give access to one device, if it can reach the memory. */
static enum tide_status
vmm_access_one(struct vmm *self, uint64_t ordinal, bool all)
{
    const struct tidei_driver *cuda = self->device.cuda;
    CUdevice device;
    int can = 0;
    enum tide_status status = tidei_device_find(cuda, "vmm", ordinal < INT_MAX ? (int)ordinal : INT_MAX, &device);

    if (status != TIDE_OK || device == self->device.handle)
        return status;
    if (cuda->device_can_access_peer != NULL)
        status = tidei_device_error(&self->device, cuda->device_can_access_peer(&can, device, self->device.handle),
                                    "cuDeviceCanAccessPeer");
    for (size_t i = 0; i < self->access_count; i++) {
        if (self->accesses[i].location.id == device) /* an ordinal that is given twice */
            return status;
    }
    if (status == TIDE_OK && can != 0)
        vmm_access_add(self, device);
    else if (status == TIDE_OK && !all)
        return tide_error_set(TIDE_EUNSUPPORTED, "vmm: device %d cannot reach the memory of device %d", (int)ordinal,
                              self->device.ordinal);
    return status;
}

static enum tide_status
vmm_access_all(struct vmm *self)
{
    enum tide_status status;
    int count = 0;

    status = tidei_device_error(&self->device, self->device.cuda->device_get_count(&count), "cuDeviceGetCount");
    for (int i = 0; i < count && i < VMM_PEERS && status == TIDE_OK; i++)
        status = vmm_access_one(self, (uint64_t)i, true);
    return status;
}

/* Read the next ordinal of "1+3". False where there is none. The check has seen that the words are right. */
static bool
vmm_access_next(const char **words, uint64_t *ordinal)
{
    char *end;

    if (**words == '\0')
        return false;
    *ordinal = strtoull(*words, &end, 10);
    *words = *end == '+' ? end + 1 : end;
    return true;
}

/* The words of access are copied: the options are the caller's. */
static enum tide_status
vmm_init_access(struct vmm *self)
{
    const char *words = self->options.access;
    enum tide_status status = TIDE_OK;
    uint64_t ordinal;

    vmm_access_add(self, self->device.handle);
    if (words == NULL)
        return TIDE_OK;
    self->options.access = strdup(words);
    if (self->options.access == NULL)
        return tide_error_set(TIDE_ENOMEM, "vmm: no host memory for its options");
    if (strcmp(words, "all") == 0)
        return vmm_access_all(self);
    while (status == TIDE_OK && vmm_access_next(&words, &ordinal))
        status = vmm_access_one(self, ordinal, false);
    return status;
}

/* Undo vmm_init, even where it failed half-way. Work that is not done may use the memory: wait for it. */
static void
vmm_fini(struct tide_resource *resource)
{
    struct vmm *self = (struct vmm *)resource;
    struct tidei_error error;

    tidei_error_save(&error);
    if (tidei_driver_usable()) {
        bool pushed = self->device.cuda->context_push(self->device.context) == CUDA_SUCCESS;

        if (tidei_figure_get(&self->created) > 0)
            (void)tidei_device_order(&self->device, TIDE_STREAM_ALL, 0);
        tidei_vmm_end(self);
        if (pushed)
            tidei_driver_leave(self->device.cuda);
    }
    tidei_vmm_space_fini(&self->space);
    free(self->cache);
    free(self->sources);
    free((char *)(uintptr_t)self->options.access);
    tidei_device_close(&self->device);
    tidei_lock_fini(&self->lock);
    tidei_error_restore(&error);
}

static enum tide_status
vmm_init(struct tide_resource *resource, size_t *fault)
{
    struct vmm *self = (struct vmm *)resource;
    const char *access = self->options.access;
    enum tide_status status = tidei_device_open(&self->device, "vmm", self->options.device);

    if (status == TIDE_EINVAL)
        *fault = VMM_DEVICE;
    if (status != TIDE_OK)
        return status;
    tidei_lock_init(&self->lock);
    self->generation = tidei_fork_generation();
    self->period_ms = vmm_now_ms();
    self->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    self->properties.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = self->device.handle };
    status = vmm_possible(&self->device);
    self->options.access = NULL; /* borrowed until it is copied */
    if (status == TIDE_OK)
        status = vmm_init_sharing(self);
    if (status == TIDE_OK)
        status = vmm_init_sizes(self);
    if (status == TIDE_EINVAL)
        *fault = self->options.granularity_bytes != 0 ? VMM_GRANULARITY : VMM_MAXIMUM;
    if (status == TIDE_OK) {
        self->options.access = access;
        status = vmm_init_access(self);
        if (status != TIDE_OK)
            *fault = VMM_ACCESS;
        if (self->options.access == access)
            self->options.access = NULL;
    }
    if (status == TIDE_OK)
        status = tidei_vmm_range_add(self);
    if (status != TIDE_OK)
        vmm_fini(resource);
    return status;
}

/* Whether the device exists and has no virtual memory calls. */
static bool
vmm_is_missing(int device)
{
    struct tidei_device probe;
    bool possible;

    if (tidei_device_open(&probe, "vmm", device) != TIDE_OK)
        return false;
    possible = vmm_possible(&probe) == TIDE_OK;
    tidei_device_close(&probe);
    return !possible;
}

/* Fall back to another base, unless the options ask for more than it can do. */
static enum tide_status
vmm_fall_back(const struct tide_vmm_options *known, struct tide_resource **out)
{
    struct tide_driver_options driver = { TIDE_OPTIONS(driver), .device = known->device,
                                          .maximum_bytes = known->maximum_bytes };
    struct tide_cuda_options cuda = { TIDE_OPTIONS(cuda), .device = known->device };
    bool is_cuda = known->fallback == TIDE_VMM_FALLBACK_CUDA;

    if (known->access != NULL || known->shareable || (is_cuda && known->maximum_bytes != 0))
        return tide_error_set(TIDE_EUNSUPPORTED, "vmm: device %d has no virtual memory calls, and the base %s no %s",
                              known->device, is_cuda ? "cuda" : "driver",
                              known->access != NULL ? "access"
                              : known->shareable    ? "shareable"
                                                    : "maximum");
    return is_cuda ? tide_cuda_create(&cuda, out) : tide_driver_create(&driver, out);
}

enum tide_status
tide_vmm_create(const struct tide_vmm_options *options, struct tide_resource **out)
{
    enum tide_status status = tidei_kind_create(&tidei_vmm_kind, NULL, options, out);
    struct tide_vmm_options known;

    if (status != TIDE_EUNSUPPORTED || tidei_kind_options(&tidei_vmm_kind, NULL, options, &known, out) != TIDE_OK ||
        known.fallback == TIDE_VMM_NO_FALLBACK || !vmm_is_missing(known.device))
        return status;
    return vmm_fall_back(&known, out);
}

#endif

static const char *const vmm_fallbacks[] = { "none", "driver", "cuda", NULL };

static const struct tidei_argument vmm_arguments[] = {
    TIDEI_ARGUMENT("device", COUNT, struct tide_vmm_options, device, "a CUDA ordinal such as 0", .most = INT_MAX),
    TIDEI_ARGUMENT("maximum", SIZE, struct tide_vmm_options, maximum_bytes,
                   "a size such as 1GiB, or a share of the device's memory such as 25%", .share = true, .least = 1),
    TIDEI_ARGUMENT("granularity", SIZE, struct tide_vmm_options, granularity_bytes, "a power of two such as 2MiB",
                   .power_of_two = true, .least = 1),
    TIDEI_ARGUMENT("access", WORD, struct tide_vmm_options, access, "all, or CUDA ordinals such as 1 or 1+3",
                   .least = 1),
    TIDEI_ARGUMENT("decay", COUNT, struct tide_vmm_options, decay_ms, "milliseconds such as 10000", .least = 1,
                   .most = UINT32_MAX, .default_value = 10000),
    TIDEI_FLAG("shareable", struct tide_vmm_options, shareable),
    TIDEI_FLAG("stress", struct tide_vmm_options, stress),
    TIDEI_ARGUMENT("fallback", CHOICE, struct tide_vmm_options, fallback, "none, driver or cuda",
                   .choices = vmm_fallbacks),
};

/* Whether the words are ordinals joined by "+". */
static bool
vmm_are_ordinals(const char *words)
{
    for (;;) {
        size_t digits = strspn(words, "0123456789");

        if (digits == 0 || digits > 9)
            return false;
        words += digits;
        if (*words == '\0')
            return true;
        if (*words++ != '+')
            return false;
    }
}

static enum tide_status
vmm_check(void *options, size_t *fault)
{
    const struct tide_vmm_options *wanted = options;

    *fault = VMM_ACCESS;
    if (wanted->access == NULL || strcmp(wanted->access, "all") == 0 || vmm_are_ordinals(wanted->access))
        return TIDE_OK;
    return tide_error_set(TIDE_EINVAL, "vmm: access '%s' is neither all nor CUDA ordinals such as 1 or 1+3",
                          wanted->access);
}

/* Create from text: a maximum that is a share is of the device's memory, which has no resource yet. */
static enum tide_status
vmm_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    const struct tidei_value *maximum = &arguments->values[VMM_MAXIMUM];
    struct tide_vmm_options options;
    enum tide_status status = TIDE_OK;
    uint64_t total_bytes;

    *out = NULL;
    tidei_kind_read_text(&tidei_vmm_kind, arguments, &options);
    if (maximum->share_whole != 0) {
        status = tide_device_query(options.device, TIDE_QUERY_DEVICE_TOTAL, &total_bytes);
        options.maximum_bytes = (uint64_t)((unsigned __int128)total_bytes * maximum->share / maximum->share_whole);
    }
    if (status == TIDE_EINVAL && arguments->values[VMM_DEVICE].given)
        *arguments->error_column = arguments->values[VMM_DEVICE].column;
    if (status == TIDE_OK)
        status = tidei_kind_create_read(&tidei_vmm_kind, arguments, &options, upstream, out);
    /* The constructor tries again, and then falls back. */
    return status == TIDE_EUNSUPPORTED && options.fallback != 0 ? tide_vmm_create(&options, out) : status;
}

#ifdef HAVE_CUDA_H
static const struct tidei_count vmm_counts[] = {
    TIDEI_COUNT("created", struct vmm, created), TIDEI_COUNT("released", struct vmm, released),
    TIDEI_COUNT("kept", struct vmm, kept),       TIDEI_COUNT("remapped", struct vmm, remapped),
    TIDEI_COUNT("orders", struct vmm, orders),   TIDEI_COUNT("waits", struct vmm, waits),
};
#endif

const struct tidei_kind tidei_vmm_kind = {
#ifdef HAVE_CUDA_H
    .ops = {
        TIDEI_KIND_OPS("vmm"),
        .allocate = vmm_allocate,
        .deallocate = vmm_deallocate,
        .order = vmm_order,
        .trim = vmm_trim,
        .query = vmm_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_base_upstream_at,
    },
    TIDEI_KIND_STRUCT(struct vmm),
    .init = vmm_init,
    .fini = vmm_fini,
    TIDEI_KIND_COUNTS(vmm_counts),
#else
    .ops.name = "vmm",
#endif
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(vmm_arguments),
    .options_size = offsetof(struct tide_vmm_options, reserved),
    .check = vmm_check,
    .create_text = vmm_from_text,
};
