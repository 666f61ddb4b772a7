/*
 * callback: a resource made of two functions of the application.
 *
 * Usage: tide_callback_create with the functions; stack text has no name for them.
 *
 * Example: memory of a library that has its own allocator:
 *     struct tide_callback_options options = { TIDE_OPTIONS(options), .allocate = mine_get, .deallocate = mine_put };
 *     tide_callback_create(&options, &base);
 *
 * The layer checks the addresses that the functions return: one that is NULL, or less aligned than requested, makes the
 * request fail.
 *
 * LIMITATIONS
 *  - The layer does not detect wrong pointers; the functions may.
 */
#include <tidemark/callback.h>

#include "src/resource/kind.h"
#include "src/sync/inside.h"
#include "src/sync/slots.h"

/* The bytes that one thread has allocated less those that it has freed; negative if it frees others' blocks. */
struct callback_slot {
    struct tidei_slot slot; /* first */
    int64_t used_bytes;
};

struct callback {
    struct tide_resource base;
    struct tide_callback_options options;
    struct tidei_slots slots;
    _Atomic int64_t used_bytes; /* of threads whose slot is closed or missing */
};

/* Each thread counts for itself, so that no cache line is shared: one counter cost 16 threads a microsecond a pair. */
static void
callback_count(struct callback *callback, int64_t bytes)
{
    struct callback_slot *slot = (struct callback_slot *)tidei_slot_enter(&callback->slots);

    if (slot == NULL) {
        atomic_fetch_add_explicit(&callback->used_bytes, bytes, memory_order_relaxed); /* a figure: orders nothing */
        return;
    }
    slot->used_bytes += bytes;
    tidei_slot_leave(&slot->slot);
}

/* The sum of all threads at one moment: while their slots are closed, one counter gets all changes. */
static uint64_t
callback_used_bytes(struct callback *callback)
{
    int64_t used_bytes;

    tidei_slots_quiesce(&callback->slots);
    used_bytes = atomic_load_explicit(&callback->used_bytes, memory_order_relaxed);
    for (struct tidei_slot *slot = callback->slots.first; slot != NULL; slot = slot->next)
        used_bytes += ((struct callback_slot *)slot)->used_bytes;
    tidei_slots_resume(&callback->slots);
    return (uint64_t)used_bytes;
}

/* Answers requests of 0 bytes and impossibly large ones here, so that the functions need not handle them. */
static enum tide_status
callback_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct callback *callback = (struct callback *)self;
    enum tide_status status;

    *out = NULL;
    if (bytes == 0)
        return TIDE_OK;
    if (bytes > (size_t)PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX)
        return tidei_refused(self, tide_error_set(TIDE_EOVERFLOW, "callback: a request of %zu B at a multiple of %zu",
                                                  bytes, alignment));
    TIDEI_OUTSIDE(status = callback->options.allocate(callback->options.context, bytes, alignment, stream, out));
    if (status != TIDE_OK) {
        *out = NULL;
        return tidei_refused(self, status);
    }
    if (*out == NULL)
        return tidei_refused(self, tide_error_set(TIDE_EUPSTREAM,
                                                  "callback: the function returned NULL, and no failure, for %s",
                                                  tidei_size_text(bytes)));
    if ((uintptr_t)*out % alignment != 0) {
        status = tidei_refused(self, tide_error_set(TIDE_EUPSTREAM,
                                                    "callback: the function returned %p, expected a multiple of %zu",
                                                    *out, alignment));
        TIDEI_OUTSIDE(callback->options.deallocate(callback->options.context, *out, bytes, alignment, stream));
        *out = NULL;
        return status;
    }
    callback_count(callback, (int64_t)bytes);
    return TIDE_OK;
}

static enum tide_status
callback_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct callback *callback = (struct callback *)self;
    enum tide_status status;

    if (bytes == 0 && pointer == NULL)
        return TIDE_OK;
    if (pointer == NULL || bytes == 0)
        return tide_error_set(TIDE_EPOINTER, "callback: %p of %zu B is nothing that was given out", pointer, bytes);
    /* Before the function, after which another thread may get the memory: no sum counts it twice. */
    callback_count(callback, -(int64_t)bytes);
    TIDEI_OUTSIDE(status = callback->options.deallocate(callback->options.context, pointer, bytes, alignment, stream));
    if (status != TIDE_OK)
        callback_count(callback, (int64_t)bytes);
    return status;
}

static enum tide_status
callback_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    const struct callback *callback = (const struct callback *)self;
    enum tide_status status = TIDE_OK;

    if (callback->options.order != NULL)
        TIDEI_OUTSIDE(status = callback->options.order(callback->options.context, earlier, later));
    return status;
}

static enum tide_status
callback_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct callback *callback = (struct callback *)self;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
        *out = callback_used_bytes(callback);
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = callback->options.host_access;
        return TIDE_OK;
    case TIDE_QUERY_STREAM_ORDERED:
        *out = callback->options.stream_ordered;
        return TIDE_OK;
    case TIDE_QUERY_DEVICE:
        if (!callback->options.on_device)
            break;
        *out = (uint64_t)callback->options.device;
        return TIDE_OK;
    default:
        break;
    }
    return tide_base_query(self, what, out);
}

static void
callback_fini(struct tide_resource *self)
{
    struct callback *callback = (struct callback *)self;

    if (callback->options.destroy != NULL)
        TIDEI_OUTSIDE(callback->options.destroy(callback->options.context));
    tidei_slots_fini(&callback->slots);
}

static enum tide_status
callback_check(void *given, size_t *fault)
{
    const struct tide_callback_options *options = given;

    (void)fault;
    if (options->allocate == NULL || options->deallocate == NULL)
        return tide_error_set(TIDE_EINVAL, "callback: no function to %s",
                              options->allocate == NULL ? "allocate" : "deallocate");
    if (options->stream_ordered && options->order == NULL)
        return tide_error_set(TIDE_EINVAL, "callback: memory in stream order without a function to order streams");
    if (options->on_device && options->device < 0)
        return tide_error_set(TIDE_EINVAL, "callback: no device %d", options->device);
    return TIDE_OK;
}

static enum tide_status
callback_init(struct tide_resource *self, size_t *fault)
{
    (void)fault;
    tidei_slots_init(&((struct callback *)self)->slots, sizeof(struct callback_slot), NULL);
    return TIDE_OK;
}

/* Not in the table of kinds: an application's functions have no stack text. */
static const struct tidei_kind callback_kind = {
    .ops = {
        TIDEI_KIND_OPS("callback"),
        .allocate = callback_allocate,
        .deallocate = callback_deallocate,
        .order = callback_order,
        .trim = tide_base_trim,
        .query = callback_query,
        .describe = tide_pass_describe,
        .upstream_at = tide_base_upstream_at,
    },
    .is_base = true,
    .options_size = offsetof(struct tide_callback_options, reserved),
    TIDEI_KIND_STRUCT(struct callback),
    .check = callback_check,
    .init = callback_init,
    .fini = callback_fini,
};

enum tide_status
tide_callback_create(const struct tide_callback_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&callback_kind, NULL, options, out);
}
