/* Allocates and frees through the stacks of the bridge. */
#include "config.h"

#include <stdlib.h>

#include "src/bridge/allocate.h"
#include "src/bridge/blocks.h"
#include "src/bridge/capture.h"
#include "src/bridge/uses.h"
#include "src/context/tag.h"
#include "src/sync/inside.h"
#include "src/tables/grow.h"

/* What frameworks expect of memory of a device, as cudaMalloc gives it. */
#define BRIDGE_ALIGNMENT TIDE_DEFAULT_ALIGNMENT

_Atomic(void (*)(struct tidei_bridge_device *device)) tidei_bridge_settle;

static enum tide_status
bridge_forked(void)
{
    return tide_error_set(TIDE_EUNSUPPORTED, "bridge: CUDA does not work after fork(): the parent process had made "
                                             "the stack");
}

/* Enter a new block; without host memory it goes back. */
static inline enum tide_status
bridge_note(struct tidei_bridge_device *device, const struct tidei_bridge_entry *entry, void **out)
{
    struct tidei_ledger_answer answer;

    if (__builtin_expect(!tidei_bridge_blocks_put(*out, entry), 0)) {
        tidei_deallocate_quietly(entry->stack->top, *out, entry->bytes, BRIDGE_ALIGNMENT, entry->stream);
        *out = NULL;
        return tide_error_set(TIDE_ENOMEM, "bridge: no host memory to note a block");
    }
    tidei_ledger_add(&device->ledger, entry->bytes, &answer);
    return TIDE_OK;
}

static inline enum tide_status
bridge_get(struct tidei_bridge_device *device, struct tidei_bridge_entry *entry, void **out)
{
    enum tide_status status = tidei_allocate(entry->stack->top, entry->bytes, BRIDGE_ALIGNMENT, entry->stream, out);

    return __builtin_expect(status == TIDE_OK, 1) ? bridge_note(device, entry, out) : status;
}

/* Allocate memory that is there at once, on a stream that no capture knows. */
static enum tide_status
bridge_get_apart(struct tidei_bridge_device *device, struct tidei_bridge_entry *entry, void **out)
{
    tide_stream apart = tidei_capture_stream(device);
    enum tide_status status = tidei_allocate(entry->stack->top, entry->bytes, BRIDGE_ALIGNMENT, apart, out);

    if (status != TIDE_OK)
        return status;
    status = tidei_capture_wait(device);
    if (status == TIDE_OK)
        return bridge_note(device, entry, out);
    tidei_deallocate_quietly(entry->stack->top, *out, entry->bytes, BRIDGE_ALIGNMENT, apart);
    *out = NULL;
    return status;
}

/* The program has the block again, under another tag. */
static void
bridge_again(uintptr_t address, struct tidei_bridge_entry *entry, void *tag)
{
    (void)address;
    entry->flags &= ~(uint32_t)TIDEI_BRIDGE_FREED;
    entry->tag = *(const uint32_t *)tag;
}

/* Hand out a block of the pool once more. It has been outstanding for the stack all along. */
static bool
bridge_reuse(struct tidei_bridge_entry *entry, void **out)
{
    *out = tidei_capture_reuse(entry->pool, entry->bytes, entry->stream);
    if (*out != NULL && tidei_bridge_blocks_with(*out, bridge_again, &entry->tag))
        return true;
    *out = NULL;
    return false;
}

/* Allocate while a graph may be captured; `state` is the stream's. */
static enum tide_status
bridge_get_relaxed(struct tidei_bridge_device *device, struct tidei_bridge_entry *entry, enum tidei_capture_state state,
                   void **out)
{
    int mode = tidei_capture_relax();
    enum tide_status status =
        state == TIDEI_CAPTURE_NONE ? bridge_get(device, entry, out) : bridge_get_apart(device, entry, out);

    tidei_capture_restore(mode);
    return status;
}

/* The same where something holds for the device or the stack that seldom does. */
static __attribute__((noinline)) enum tide_status
bridge_get_specially(struct tidei_bridge_device *device, struct tidei_bridge_entry *entry, void **out)
{
    enum tidei_capture_state state = TIDEI_CAPTURE_NONE;
    enum tide_status status = TIDE_OK;
    bool counted = false, captures;

    *out = NULL;
    if (atomic_load_explicit(&entry->stack->forked, memory_order_relaxed))
        return bridge_forked();
    /* Acquire: pairs with the release in capture.c. */
    captures = atomic_load_explicit(&device->captures, memory_order_acquire) != 0;
    if (captures)
        state = tidei_capture_state(device, entry->stream, &entry->pool);
    if (entry->pool != NULL && bridge_reuse(entry, out))
        return TIDE_OK;
    if (atomic_load_explicit(&device->limited, memory_order_acquire))
        status = tidei_bridge_limit_take(device, entry->bytes, &counted);
    if (counted)
        entry->flags |= TIDEI_BRIDGE_LIMITED;
    if (status == TIDE_OK)
        status = captures ? bridge_get_relaxed(device, entry, state, out) : bridge_get(device, entry, out);
    if (status != TIDE_OK && counted)
        tidei_bridge_limit_return(device, entry->bytes);
    return status;
}

/* Whether something seldom holds. Relaxed: who begins it waits for the calls that have not seen it. */
static inline bool
bridge_is_special(const struct tidei_bridge_device *device, const struct tidei_bridge_stack *stack)
{
    return atomic_load_explicit(&device->limited, memory_order_relaxed) ||
           atomic_load_explicit(&device->captures, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&stack->forked, memory_order_relaxed);
}

static __attribute__((noinline, cold)) enum tide_status
bridge_refused(struct tidei_bridge_device *device, enum tide_status status)
{
    atomic_fetch_add_explicit(&device->failures, 1, memory_order_relaxed); /* relaxed: a figure */
    return status;
}

/* Allocate from the device's stack, unless it has to be made first: then *retry is set. */
static inline enum tide_status
bridge_try(struct tidei_bridge_device *device, enum tidei_bridge_asker asker, size_t bytes, tide_stream stream,
           void **out, bool *retry)
{
    struct tidei_presence_slot *presence = tidei_presence_enter(&tidei_bridge_presence);
    /* Acquire: pairs with the release in tidei_bridge_stack_make. */
    struct tidei_bridge_stack *stack = atomic_load_explicit(&device->current[asker], memory_order_acquire);
    struct tidei_bridge_entry entry = { .bytes = bytes, .stream = stream, .stack = stack, .tag = tidei_tag_now() };
    enum tide_status status = TIDE_OK;

    *retry = stack == NULL;
    if (__builtin_expect(*retry, 0))
        *out = NULL;
    else if (__builtin_expect(bridge_is_special(device, stack), 0))
        status = bridge_get_specially(device, &entry, out);
    else
        status = bridge_get(device, &entry, out);
    tidei_presence_leave(&tidei_bridge_presence, presence);
    return status;
}

/* The device's stack has to be made first, maybe while a graph is captured. */
static __attribute__((noinline, cold)) enum tide_status
bridge_make(struct tidei_bridge_device *device, enum tidei_bridge_asker asker)
{
    int mode = atomic_load_explicit(&device->captures, memory_order_acquire) != 0 ? tidei_capture_relax() : -1;
    enum tide_status status = tidei_bridge_stack_make(device, asker);

    tidei_capture_restore(mode);
    return status;
}

/* Frees may have come to wait for a capture of which the end was told before. The call's error stays. */
static __attribute__((noinline, cold)) void
bridge_settle(struct tidei_bridge_device *device)
{
    struct tidei_error error;

    if (!tidei_capture_is_over(device) || tidei_presence_here(&tidei_bridge_presence))
        return;
    tidei_error_save(&error);
    /* Acquire: pairs with the release in tide_torch_begin. */
    atomic_load_explicit(&tidei_bridge_settle, memory_order_acquire)(device);
    tidei_error_restore(&error);
}

enum tide_status
tidei_bridge_allocate(enum tidei_bridge_asker asker, int ordinal, size_t bytes, tide_stream stream, void **out)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device = tidei_bridge_device_known(ordinal);
    enum tide_status status = TIDE_OK;
    bool retry;

    *out = NULL;
    if (__builtin_expect(device == NULL, 0))
        status = tidei_bridge_device_get(ordinal, &device);
    if (status != TIDE_OK || bytes == 0)
        return status;
    if (__builtin_expect(stream == TIDE_STREAM_ALL, 0))
        return tide_error_set(TIDE_EINVAL, "bridge: TIDE_STREAM_ALL is no stream to allocate on");
    for (;;) {
        status = bridge_try(device, asker, bytes, stream, out, &retry);
        if (__builtin_expect(!retry, 1))
            break;
        status = bridge_make(device, asker);
        if (status != TIDE_OK)
            break;
    }
    /* Relaxed: what comes to wait meanwhile is settled by a later call. */
    if (__builtin_expect(atomic_load_explicit(&device->captures, memory_order_relaxed) != 0, 0))
        bridge_settle(device);
    return __builtin_expect(status == TIDE_OK, 1) ? TIDE_OK : bridge_refused(device, status);
}

enum tide_status
tide_bridge_allocate(int device, size_t bytes, tide_stream stream, void **out)
{
    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "bridge: NULL in place of an address for the block");
    return tidei_bridge_allocate(TIDEI_BRIDGE_BLOCKS, device, bytes, stream, out);
}

/* The block is outstanding, and has been all along. `count`: it was taken off the figures. */
static __attribute__((noinline, cold)) void
bridge_put_back(void *pointer, const struct tidei_bridge_entry *entry, bool count)
{
    struct tidei_error error;
    struct tidei_ledger_answer answer;

    tidei_error_save(&error);
    if (tidei_bridge_blocks_put(pointer, entry) && count) /* else it is lost */
        tidei_ledger_add(&entry->stack->device->ledger, entry->bytes, &answer);
    tidei_error_restore(&error);
}

/* Have `stream` wait for the streams that were recorded for the block. One that is gone stands for all. */
static enum tide_status
bridge_order(const struct tidei_bridge_entry *entry, tide_stream stream)
{
    enum tide_status status = TIDE_OK;

    for (size_t i = 0; status == TIDE_OK && i < entry->streams->count; i++) {
        status = entry->streams->items[i] != stream ? tide_order(entry->stack->top, entry->streams->items[i], stream)
                                                    : TIDE_OK;
        if (status != TIDE_OK)
            return tide_order(entry->stack->top, TIDE_STREAM_ALL, stream);
    }
    return status;
}

/* Give a block that was taken out back to its stack. */
static inline enum tide_status
bridge_give(void *pointer, const struct tidei_bridge_entry *entry, tide_stream stream)
{
    enum tide_status status;

    tidei_ledger_take_off(&entry->stack->device->ledger, entry->bytes);
    status = tidei_deallocate(entry->stack->top, pointer, entry->bytes, BRIDGE_ALIGNMENT, stream);
    if (__builtin_expect(status != TIDE_OK, 0))
        bridge_put_back(pointer, entry, true);
    return status;
}

static enum tide_status
bridge_unknown(const void *pointer)
{
    return tide_error_set(TIDE_EPOINTER, "bridge: %p is no live block of the bridge", pointer);
}

/*
 * Keep a block that the program has freed: for the graph that it belongs to, or since its stream is being captured.
 * False where the block may go now.
 */
static bool
bridge_keep(void *pointer, struct tidei_bridge_entry *entry, tide_stream stream, enum tide_status *status)
{
    struct tidei_bridge_device *device = entry->stack->device;
    struct tidei_bridge_pool *pool = entry->pool, *ignored;
    struct tidei_bridge_entry kept = *entry;

    *status = TIDE_OK;
    if (pool == NULL && (atomic_load_explicit(&device->captures, memory_order_acquire) == 0 ||
                         tidei_capture_state(device, stream, &ignored) == TIDEI_CAPTURE_NONE))
        return false;
    kept.flags |= TIDEI_BRIDGE_FREED;
    if (!tidei_bridge_blocks_put(pointer, &kept)) /* there was room for it until now */
        *status = tide_error_set(TIDE_ENOMEM, "bridge: no host memory to keep a block for a graph");
    else if (pool == NULL)
        *status = tidei_capture_queue(device, pointer, stream);
    else if (entry->streams == NULL)
        tidei_capture_offer(pool, pointer, entry->bytes, entry->stream);
    if (pool == NULL && *status != TIDE_OK) /* not freed */
        tidei_bridge_blocks_with(pointer, bridge_again, &kept.tag);
    return true;
}

/* Give a block back behind the streams that were recorded for it. */
static enum tide_status
bridge_give_ordered(void *pointer, struct tidei_bridge_entry *entry, tide_stream stream)
{
    enum tide_status status = TIDE_OK;
    int mode = -1;

    if (atomic_load_explicit(&entry->stack->device->captures, memory_order_relaxed) != 0)
        mode = tidei_capture_relax();
    if (entry->streams != NULL)
        status = bridge_order(entry, stream);
    if (status == TIDE_OK)
        status = bridge_give(pointer, entry, stream);
    else
        bridge_put_back(pointer, entry, false);
    tidei_capture_restore(mode);
    if (status != TIDE_OK)
        return status;
    if ((entry->flags & TIDEI_BRIDGE_LIMITED) != 0)
        tidei_bridge_limit_return(entry->stack->device, entry->bytes);
    tidei_bridge_streams_free(entry->streams);
    return TIDE_OK;
}

/* The same where something holds for the block that seldom does. *left: the stack may be released by its count. */
static __attribute__((noinline)) enum tide_status
bridge_give_specially(void *pointer, struct tidei_bridge_entry *entry, tide_stream stream, bool *left)
{
    enum tide_status status = TIDE_OK;

    if ((entry->flags & TIDEI_BRIDGE_FREED) != 0) {
        bridge_put_back(pointer, entry, false);
        return bridge_unknown(pointer);
    }
    if (atomic_load_explicit(&entry->stack->forked, memory_order_relaxed)) {
        /* The memory is the parent's, which has it still. */
        tidei_ledger_take_off(&entry->stack->device->ledger, entry->bytes);
        tidei_bridge_streams_free(entry->streams);
        return TIDE_OK;
    }
    if (bridge_keep(pointer, entry, stream, &status))
        return status;
    status = bridge_give_ordered(pointer, entry, stream);
    *left = status == TIDE_OK && (entry->flags & TIDEI_BRIDGE_LEFT) != 0;
    return status;
}

enum tide_status
tidei_bridge_give_waiting(void *pointer, tide_stream stream, bool all)
{
    struct tidei_presence_slot *presence = tidei_presence_enter(&tidei_bridge_presence);
    struct tidei_bridge_entry entry;
    enum tide_status status = TIDE_OK;
    bool left = false;

    if (!tidei_bridge_blocks_take(pointer, &entry)) {
        status = bridge_unknown(pointer);
    } else {
        entry.flags &= ~(uint32_t)TIDEI_BRIDGE_FREED;
        if (all)
            status = tide_order(entry.stack->top, TIDE_STREAM_ALL, stream);
        if (status == TIDE_OK)
            status = bridge_give_ordered(pointer, &entry, stream);
        else
            bridge_put_back(pointer, &entry, false);
        left = status == TIDE_OK && (entry.flags & TIDEI_BRIDGE_LEFT) != 0;
    }
    tidei_presence_leave(&tidei_bridge_presence, presence);
    if (left)
        tidei_bridge_stack_left(entry.stack);
    return status;
}

enum tide_status
tide_bridge_deallocate(void *pointer, tide_stream stream)
{
    TIDEI_INSIDE(NULL);
    struct tidei_presence_slot *presence;
    struct tidei_bridge_device *special = NULL;
    struct tidei_bridge_entry entry;
    enum tide_status status;
    bool left = false;

    if (pointer == NULL)
        return TIDE_OK;
    if (__builtin_expect(stream == TIDE_STREAM_ALL, 0))
        return tide_error_set(TIDE_EINVAL, "bridge: TIDE_STREAM_ALL is no stream to free on");
    presence = tidei_presence_enter(&tidei_bridge_presence);
    if (__builtin_expect(!tidei_bridge_blocks_take(pointer, &entry), 0))
        status = bridge_unknown(pointer);
    else if (__builtin_expect(entry.flags != 0 || entry.streams != NULL || entry.pool != NULL ||
                                  bridge_is_special(entry.stack->device, entry.stack),
                              0)) {
        special = entry.stack->device;
        status = bridge_give_specially(pointer, &entry, stream, &left);
    } else {
        status = bridge_give(pointer, &entry, stream);
    }
    tidei_presence_leave(&tidei_bridge_presence, presence);
    if (__builtin_expect(left, 0))
        tidei_bridge_stack_left(entry.stack);
    if (__builtin_expect(special != NULL, 0))
        bridge_settle(special);
    return status;
}

struct bridge_recorded {
    tide_stream stream;
    enum tide_status status;
};

/* With the block's map locked. */
static void
bridge_record(uintptr_t address, struct tidei_bridge_entry *entry, void *context)
{
    struct bridge_recorded *recorded = context;
    struct tidei_bridge_streams *streams = entry->streams;

    (void)address;
    if (recorded->stream == entry->stream)
        return;
    for (size_t i = 0; streams != NULL && i < streams->count; i++)
        if (streams->items[i] == recorded->stream)
            return;
    if (streams == NULL)
        streams = calloc(1, sizeof(*streams));
    if (streams == NULL || !tidei_grow(&streams->items, &streams->capacity, streams->count, 1)) {
        recorded->status = TIDE_ENOMEM;
    } else {
        streams->items[streams->count++] = recorded->stream;
    }
    entry->streams = streams;
}

enum tide_status
tide_bridge_record_stream(void *pointer, tide_stream stream)
{
    TIDEI_INSIDE(NULL);
    struct bridge_recorded recorded = { stream, TIDE_OK };

    if (stream == TIDE_STREAM_ALL)
        return tide_error_set(TIDE_EINVAL, "bridge: TIDE_STREAM_ALL is no stream to record");
    if (!tidei_bridge_blocks_with(pointer, bridge_record, &recorded))
        return bridge_unknown(pointer);
    if (recorded.status != TIDE_OK)
        return tide_error_set(recorded.status, "bridge: no host memory to note a stream of %p", pointer);
    return TIDE_OK;
}

struct bridge_found {
    uintptr_t wanted;
    bool found;
    struct tide_bridge_block block;
};

static void
bridge_describe(uintptr_t address, struct tidei_bridge_entry *entry, void *context)
{
    struct bridge_found *found = context;

    if (found->found || found->wanted - address >= entry->bytes)
        return;
    found->found = true;
    found->block = (struct tide_bridge_block){
        .struct_size = sizeof(found->block),
        .base = (void *)address,
        .bytes = entry->bytes,
        .stream = entry->stream,
        .stream_count = entry->streams != NULL ? entry->streams->count : 0,
        .device = entry->stack->device->ordinal,
        .captured = entry->pool != NULL,
    };
}

enum tide_status
tide_bridge_find(const void *pointer, struct tide_bridge_block *out)
{
    TIDEI_INSIDE(NULL);
    struct bridge_found found = { .wanted = (uintptr_t)pointer };
    enum tide_status status = tidei_figures_clear("bridge", out);

    if (status != TIDE_OK)
        return status;
    tidei_bridge_blocks_with(pointer, bridge_describe, &found);
    if (!found.found)
        tidei_bridge_blocks_each(false, bridge_describe, &found);
    if (!found.found)
        return tide_error_set(TIDE_EPOINTER, "bridge: %p lies in no live block of the bridge", pointer);
    tidei_figures_copy(out, &found.block, sizeof(found.block));
    return TIDE_OK;
}
