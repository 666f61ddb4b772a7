/*
 * process: the base that makes the calls of the driver which the program itself has made.
 *
 * Usage: none; src/process/stacks.c puts it under the layers of each device and each kind of memory.
 *     kind    what memory it is: plain, async, pool, virtual, array, managed, pinned, graph, imported
 *     device  CUDA ordinal
 *
 * LIMITATIONS
 *  - Layers above must pass requests on as they are: the program's call allocates what the program has asked for.
 *  - It allocates and frees only within a call of the program's that a wrapper has announced (src/process/call.h).
 */
#include <limits.h>

#include "src/process/base.h"
#include "src/process/call.h"
#include "src/process/devices.h"

#ifdef HAVE_CUDA_H

struct process_options {
    size_t struct_size;
    uint32_t kind; /* enum tidei_process_kind */
    int32_t device;
};

struct process {
    struct tide_resource base;
    struct process_options options;
    _Atomic uint64_t used;
    _Atomic uint64_t used_high;
    _Atomic uint64_t found_bytes; /* in use on the device before the first allocation: contexts, other processes */
};

/* The words for a call that has failed. */
static enum tide_status
process_failed(struct process *self, const struct tidei_process_call *call)
{
    enum tide_status status;

    if (call->result != CUDA_ERROR_OUT_OF_MEMORY)
        status = tidei_driver_error(tidei_process_driver(), "process", call->result, call->function);
    else
        status = tide_error_set(TIDE_ECAPACITY, "process: %s request finds no room: %s: CUDA_ERROR_OUT_OF_MEMORY",
                                tidei_size_text(call->bytes), call->function);
    tidei_error_driver_set((int)call->result);
    return tidei_refused(&self->base, status);
}

/* The call that the thread has announced, for a request of as many bytes. */
static struct tidei_process_call *
process_call(const struct process *self, size_t bytes)
{
    struct tidei_process_call *call = tidei_process_thread(tidei_thread)->call;

    if (call == NULL)
        tidei_refused(&self->base, tide_error_set(TIDE_EUNSUPPORTED, "process: only calls of the program allocate"));
    else if (call->bytes != bytes)
        tidei_refused(&self->base,
                      tide_error_set(TIDE_EUNSUPPORTED,
                                     "process: a request of %zu B for a call of the program of %zu B: a layer above "
                                     "changes requests",
                                     bytes, call->bytes));
    else
        return call;
    return NULL;
}

static enum tide_status
process_allocate(struct tide_resource *resource, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct process *self = (struct process *)resource;
    struct tidei_process_call *call = process_call(self, bytes);
    uint64_t key = 0;

    (void)alignment;
    (void)stream;
    *out = NULL;
    if (call == NULL)
        return TIDE_EUNSUPPORTED;
    call->result = call->make(call, &key);
    if (call->result != CUDA_SUCCESS)
        return process_failed(self, call);
    *out = (void *)(uintptr_t)key;
    tidei_figure_raise(&self->used_high, atomic_fetch_add_explicit(&self->used, bytes, memory_order_relaxed) + bytes);
    return TIDE_OK;
}

static enum tide_status
process_deallocate(struct tide_resource *resource, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct process *self = (struct process *)resource;
    struct tidei_process_call *call = tidei_process_thread(tidei_thread)->call;

    (void)alignment;
    (void)stream;
    if (call == NULL)
        return tide_error_set(TIDE_EUNSUPPORTED, "process: only calls of the program free");
    call->result = call->give(call, (uint64_t)(uintptr_t)pointer);
    if (call->result != CUDA_SUCCESS)
        return tidei_driver_error(tidei_process_driver(), "process", call->result, call->function);
    /* Relaxed: a figure, which orders nothing. */
    atomic_fetch_sub_explicit(&self->used, bytes, memory_order_relaxed);
    return TIDE_OK;
}

/* The samples: what pools and graphs have reserved is asked of the driver. */
static void
process_figures(struct tide_resource *resource, struct tidei_layer_figures *out)
{
    struct process *self = (struct process *)resource;
    uint64_t used = tidei_figure_get(&self->used);

    *out = (struct tidei_layer_figures){ used, used, tidei_figure_get(&self->used_high) };
    tidei_process_poll((enum tidei_process_kind)self->options.kind, self->options.device, out);
}

static enum tide_status
process_query(struct tide_resource *resource, enum tide_query what, uint64_t *out)
{
    struct process *self = (struct process *)resource;
    bool on_device = self->options.kind != TIDEI_PROCESS_PINNED;
    struct tidei_layer_figures figures;

    switch (what) {
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
    case TIDE_QUERY_BYTES_USED_HIGH:
        process_figures(resource, &figures);
        *out = what == TIDE_QUERY_BYTES_RESERVED ? figures.reserved_bytes : figures.used_bytes;
        if (what == TIDE_QUERY_BYTES_USED_HIGH)
            *out = tidei_figure_get(&self->used_high);
        return TIDE_OK;
    case TIDE_QUERY_STREAM_ORDERED:
        *out = self->options.kind == TIDEI_PROCESS_ASYNC || self->options.kind == TIDEI_PROCESS_POOL;
        return TIDE_OK;
    case TIDE_QUERY_HOST_ACCESS:
        *out = self->options.kind == TIDEI_PROCESS_PINNED || self->options.kind == TIDEI_PROCESS_MANAGED;
        return TIDE_OK;
    case TIDE_QUERY_DEVICE:
        *out = (uint64_t)self->options.device;
        return on_device ? TIDE_OK : tide_base_query(resource, what, out);
    case TIDE_QUERY_CAPACITY:
    case TIDE_QUERY_DEVICE_TOTAL:
        return on_device ? tidei_process_total(self->options.device, out) : tide_base_query(resource, what, out);
    case TIDE_QUERY_DEVICE_FREE:
        return on_device ? tidei_process_free_bytes(self->options.device, out) : tide_base_query(resource, what, out);
    default:
        return tide_base_query(resource, what, out);
    }
}

void
tidei_process_base_found(struct tide_resource *base, uint64_t used_bytes)
{
    atomic_store_explicit(&((struct process *)base)->found_bytes, used_bytes, memory_order_relaxed);
}

static const char *const process_kinds[] = { "plain",   "async",  "pool",  "virtual",  "array",
                                             "managed", "pinned", "graph", "imported", NULL };
_Static_assert(TIDEI_COUNT_OF(process_kinds) == TIDEI_PROCESS_KINDS + 1, "each kind of memory has a name");

const char *
tidei_process_kind_name(enum tidei_process_kind kind)
{
    return process_kinds[kind];
}

/* Both always: the trace tells the kinds of memory apart by it. */
static void
process_describe(struct tide_resource *resource, struct tide_text *text)
{
    const struct process *self = (const struct process *)resource;

    tide_text_format(text, "kind=%s, device=%d", process_kinds[self->options.kind], self->options.device);
}

static const struct tidei_argument process_arguments[] = {
    TIDEI_ARGUMENT("kind", CHOICE, struct process_options, kind, "a kind of memory such as plain",
                   .choices = process_kinds),
    TIDEI_ARGUMENT("device", COUNT, struct process_options, device, "a CUDA ordinal such as 0", .most = INT_MAX),
};

static const struct tidei_count process_counts[] = {
    TIDEI_COUNT("found_bytes", struct process, found_bytes),
};

static void
process_fini(struct tide_resource *resource)
{
    struct process *self = (struct process *)resource;

    tidei_process_polls((enum tidei_process_kind)self->options.kind, self->options.device, NULL);
}

static enum tide_status
process_init(struct tide_resource *resource, size_t *fault)
{
    struct process *self = (struct process *)resource;

    (void)fault;
    tidei_process_polls((enum tidei_process_kind)self->options.kind, self->options.device, &self->used);
    return TIDE_OK;
}

const struct tidei_kind tidei_process_kind = {
    .ops = {
        TIDEI_KIND_OPS("process"),
        .allocate = process_allocate,
        .deallocate = process_deallocate,
        .order = tide_base_order,
        .trim = tide_base_trim,
        .query = process_query,
        .describe = process_describe,
        .upstream_at = tide_base_upstream_at,
    },
    .is_base = true,
    TIDEI_KIND_ARGUMENTS(process_arguments),
    TIDEI_KIND_COUNTS(process_counts),
    TIDEI_KIND_STRUCT(struct process),
    .options_size = sizeof(struct process_options),
    .init = process_init,
    .fini = process_fini,
    .figures = process_figures,
};

#endif
