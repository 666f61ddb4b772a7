/*
 * The base `driver_import`: memory that another process has allocated from a pool of the base `driver`.
 *
 * Usage: only in C, because it needs a descriptor: tide_driver_import.
 *
 * Example: examples/share.c
 *
 * LIMITATIONS
 *  - Import an allocation only once at a time: the driver gives a second import the same address, and frees both with
 *    the first.
 *  - The figures count the imports of this base, because the driver has none for an imported pool.
 *
 * An import passes through the stack like an allocation, so that every layer sees it. tide_driver_pointer_import stores
 * the description where the thread's next allocation from this base finds it.
 */
#include "src/bases/driver/pool.h"

#ifdef HAVE_CUDA_H

#include <stdlib.h>
#include <string.h>

#include <tidemark/driver.h>

#include "src/bases/figures.h"
#include "src/stack/stack.h"
#include "src/sync/inside.h"
#include "src/sync/thread.h"

struct import {
    struct tide_resource base;
    struct tidei_device device;
    CUmemoryPool pool;     /* owns this process's handle of it */
    _Atomic uint64_t used; /* bytes imported and not freed */
    _Atomic uint64_t high; /* the most that this was */
};

/* A thread's part: the import in progress. `from` is NULL where there is none, or the base has taken it. */
struct import_wanted {
    struct tide_resource *base;
    const struct tide_driver_pointer *from;
};

TIDEI_THREAD_PART(import_wanted, import, struct import_wanted);

static enum tide_status
import_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct import *self = (struct import *)resource;
    const struct tidei_driver *cuda = self->device.cuda;
    const struct tide_driver_pointer *from =
        import_wanted(tidei_thread)->base == resource ? import_wanted(tidei_thread)->from : NULL;
    CUmemPoolPtrExportData data;
    CUdeviceptr address = 0;
    CUresult result;

    (void)stream;
    *out = NULL;
    if (from == NULL || from->bytes != bytes)
        return tidei_refused(
            resource,
            tide_error_set(TIDE_EUNSUPPORTED,
                           "driver_import: no %s request: only the process that made a pool allocates from it",
                           tidei_size_text(bytes)));
    if (alignment > TIDEI_POOL_ALIGNMENT)
        return tidei_refused(
            resource,
            tide_error_set(TIDE_EINVAL, "driver_import: alignment %zu exceeds the 256 bytes of a pool", alignment));
    memcpy(&data, from->data, sizeof(data));
    result = TIDEI_DRIVER_CALL(cuda, self->device.context, cuda->mem_pool_import_pointer(&address, self->pool, &data));
    if (result != CUDA_SUCCESS)
        return tidei_refused(resource, tidei_device_error(&self->device, result, "cuMemPoolImportPointer"));
    import_wanted(tidei_thread)->from = NULL;
    /* Relaxed: a figure of its own, orders nothing. */
    tidei_figure_raise(&self->high, bytes + atomic_fetch_add_explicit(&self->used, bytes, memory_order_relaxed));
    *out = (void *)(uintptr_t)address;
    return TIDE_OK;
}

/* Subtract bytes; false where fewer are outstanding: the block is then not this base's. */
static bool
import_take_off(struct import *self, size_t bytes)
{
    uint64_t used = atomic_load_explicit(&self->used, memory_order_relaxed); /* as in import_allocate */

    do {
        if (bytes > used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&self->used, &used, used - bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static enum tide_status
import_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct import *self = (struct import *)resource;
    enum tide_status status;

    (void)alignment;
    if (pointer != NULL && !import_take_off(self, bytes))
        return tide_error_set(TIDE_EPOINTER, "driver_import: %p of %s was not imported: less is out", pointer,
                              tidei_size_text(bytes));
    status = tidei_device_free_async(&self->device, pointer, bytes, stream);
    if (pointer != NULL && status != TIDE_OK)
        atomic_fetch_add_explicit(&self->used, bytes, memory_order_relaxed); /* as in import_allocate */
    return status;
}

static enum tide_status
import_order(struct tide_resource *resource, tide_stream earlier, tide_stream later)
{
    return tidei_device_order(&((struct import *)resource)->device, earlier, later);
}

static enum tide_status
import_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct import *self = (struct import *)resource;
    uint64_t used = atomic_load_explicit(&self->used, memory_order_relaxed); /* as in import_allocate */
    const struct tidei_figure figures[] = {
        { TIDE_QUERY_BYTES_USED, used },
        { TIDE_QUERY_BYTES_RESERVED, used },
        { TIDE_QUERY_BYTES_RESERVED_HIGH, tidei_figure_get(&self->high) },
        { TIDE_QUERY_DEVICE, (uint64_t)self->device.ordinal },
        { TIDE_QUERY_HOST_ACCESS, 0 },
        { TIDE_QUERY_STREAM_ORDERED, 1 },
        { TIDE_QUERY_ALIGNMENT, TIDEI_POOL_ALIGNMENT },
    };
    enum tide_status status = TIDE_OK;

    if (tidei_figures_find(figures, sizeof(figures) / sizeof(figures[0]), what, out))
        return TIDE_OK;
    return tidei_device_query(&self->device, what, out, &status) ? status : tide_base_query(resource, what, out);
}

static void
import_describe(struct tide_resource *resource, struct tide_text *text)
{
    struct import *self = (struct import *)resource;

    if (self->device.ordinal != 0)
        tide_text_format(text, "device=%d", self->device.ordinal);
}

static void
import_destroy(struct tide_resource *resource)
{
    struct import *self = (struct import *)resource;

    if (tidei_driver_usable())
        self->device.cuda->mem_pool_destroy(self->pool);
    tidei_device_close(&self->device);
    tide_resource_fini(resource);
    free(self);
}

static const struct tide_resource_ops import_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "driver_import",
    .allocate = import_allocate,
    .deallocate = import_deallocate,
    .order = import_order,
    .trim = tide_base_trim,
    .query = import_query,
    .describe = import_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = import_destroy,
};

/* The driver expects the descriptor itself in place of an address. */
static enum tide_status
import_open(struct import *self, void *handle, int type)
{
    const struct tidei_driver *cuda = self->device.cuda;
    enum tide_status status;
    CUresult result;

    if (cuda->mem_pool_import == NULL || cuda->mem_free_async == NULL || cuda->mem_pool_destroy == NULL)
        return tidei_device_lacks(&self->device, "cuMemPoolImportFromShareableHandle");
    if (cuda->mem_pool_import_pointer == NULL)
        return tidei_device_lacks(&self->device, "cuMemPoolImportPointer");
    status = tidei_device_error(&self->device, cuda->context_push(self->device.context), "cuCtxPushCurrent");
    if (status != TIDE_OK)
        return status;
    result = cuda->mem_pool_import(&self->pool, handle, (CUmemAllocationHandleType)type, 0);
    tidei_driver_leave(cuda);
    if (result == CUDA_SUCCESS)
        return TIDE_OK;
    status = tide_error_set(TIDE_EDRIVER, "driver_import: the %s is none of a pool (%s: %s, %d)",
                            type == TIDEI_POOL_FABRIC ? "fabric handle" : "descriptor",
                            "cuMemPoolImportFromShareableHandle", tidei_driver_error_name(cuda, result), (int)result);
    tidei_error_driver_set((int)result);
    return status;
}

static enum tide_status
import_create(void *handle, int type, const struct tide_driver_import_options *options, struct tide_resource **out)
{
    struct tide_driver_import_options known;
    struct import *self;
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver_import: NULL in place of an address for the resource");
    *out = NULL;
    status =
        tidei_options_copy("driver_import", options, &known, offsetof(struct tide_driver_import_options, reserved));
    if (status != TIDE_OK)
        return status;
    self = calloc(1, sizeof(*self));
    if (self == NULL)
        return tide_error_set(TIDE_ENOMEM, "driver_import: no memory for a resource");
    status = tidei_device_open(&self->device, "driver_import", known.device);
    if (status != TIDE_OK) {
        free(self);
        return status;
    }
    status = tide_resource_init(&self->base, &import_ops, NULL);
    if (status == TIDE_OK)
        tidei_resource_set_own(&self->base);
    /* Last, so that no failure leaves an imported pool behind. */
    if (status == TIDE_OK)
        status = import_open(self, handle, type);
    if (status != TIDE_OK) {
        tidei_device_close(&self->device);
        free(self);
        return status;
    }
    *out = &self->base;
    return TIDE_OK;
}

enum tide_status
tide_driver_import(int fd, const struct tide_driver_import_options *options, struct tide_resource **out)
{
    TIDEI_INSIDE(NULL);

    return import_create((void *)(intptr_t)fd, TIDEI_POOL_POSIX_FD, options, out);
}

enum tide_status
tide_driver_import_fabric(const struct tide_driver_fabric *handle, const struct tide_driver_import_options *options,
                          struct tide_resource **out)
{
    TIDEI_INSIDE(NULL);
    struct tide_driver_fabric copy;

    if (handle == NULL || out == NULL)
        return tide_error_set(TIDE_EINVAL,
                              "driver_import: NULL in place of the handle or of an address for the resource");
    copy = *handle;
    return import_create(copy.data, TIDEI_POOL_FABRIC, options, out);
}

enum tide_status
tide_driver_pointer_import(struct tide_resource *stack, const struct tide_driver_pointer *from, tide_stream stream,
                           void **out)
{
    TIDEI_INSIDE(stack);
    struct tide_resource *base = tidei_stack_find(stack, import_ops.name);
    struct tidei_thread *thread = tidei_thread_get();
    enum tide_status status;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "driver_import: NULL in place of an address for the pointer");
    *out = NULL;
    if (base == NULL || base->ops != &import_ops)
        return tide_error_set(TIDE_EINVAL, "driver_import: the stack ends in no imported pool");
    if (from == NULL || from->bytes == 0 || from->bytes > SIZE_MAX)
        return tide_error_set(TIDE_EINVAL, "driver_import: the description is of no allocation");
    if (stream == TIDE_STREAM_ALL)
        return tide_error_set(TIDE_EINVAL, "driver_import: TIDE_STREAM_ALL is no stream to allocate on");
    if (thread == NULL)
        return tide_error_set(TIDE_ENOMEM, "driver_import: no host memory");
    *import_wanted(thread) = (struct import_wanted){ base, from };
    status = tidei_allocate(stack, (size_t)from->bytes, TIDEI_POOL_ALIGNMENT, stream, out);
    if (status == TIDE_OK && import_wanted(thread)->from != NULL) {
        (void)tidei_deallocate(stack, *out, (size_t)from->bytes, TIDEI_POOL_ALIGNMENT, stream);
        *out = NULL;
        status =
            tide_error_set(TIDE_EUNSUPPORTED, "driver_import: a layer above serves requests from memory of its own");
    }
    *import_wanted(thread) = (struct import_wanted){ NULL, NULL };
    return status;
}

#endif
