/* What PyTorch says of the graphs that it captures: begin, end and release of their pools. */
#include "config.h"

#include <stdlib.h>

#include <tidemark/bridge.h>

#include "src/bridge/allocate.h"
#include "src/bridge/blocks.h"
#include "src/bridge/capture.h"
#include "src/resource/resource.h"
#include "src/sync/inside.h"
#include "src/tables/grow.h"

/* The blocks of a pool that is no more. */
struct graphs_left {
    struct tidei_bridge_pool *pool;
    void **freed; /* owned: what the program has freed */
    size_t count, capacity;
};

/* What the program still has is a block like any other from now on. */
static void
graphs_collect(uintptr_t address, struct tidei_bridge_entry *entry, void *context)
{
    struct graphs_left *left = context;

    if (entry->pool != left->pool)
        return;
    entry->pool = NULL;
    if ((entry->flags & TIDEI_BRIDGE_FREED) == 0)
        return;
    if (tidei_grow(&left->freed, &left->capacity, left->count, 1))
        left->freed[left->count++] = (void *)address;
}

static void
graphs_warn(enum tide_status status)
{
    if (status != TIDE_OK)
        tidei_message(TIDE_ERROR, "a block that waited for a graph: %s", tide_error_text());
}

/* Take all blocks out of a pool, and free it. */
static void
graphs_empty(struct graphs_left *left)
{
    tidei_bridge_blocks_each(false, graphs_collect, left);
    if (tidei_presence_here(&tidei_bridge_presence))
        return; /* a layer's call: the pool stays, empty */
    /* A free that has found the pool before is done after that, and may have put its block back. */
    tidei_presence_wait(&tidei_bridge_presence);
    tidei_bridge_blocks_each(false, graphs_collect, left);
    tidei_capture_free_pool(left->pool);
}

/* A free that has waited. Its stream may be captured yet: PyTorch may say the pool's end before the driver's. */
static void
graphs_free(struct tidei_bridge_device *device, const struct tidei_capture_free *waited)
{
    struct tidei_bridge_pool *ignored;

    if (tidei_capture_state(device, waited->stream, &ignored) == TIDEI_CAPTURE_NONE)
        graphs_warn(tidei_bridge_give_waiting(waited->pointer, waited->stream, false));
    else
        graphs_warn(tidei_capture_queue(device, waited->pointer, waited->stream));
}

/* Give back what has waited for the end of captures, where none is left. */
static void
graphs_settle(struct tidei_bridge_device *device)
{
    struct tidei_capture_free *queue;
    size_t count = tidei_capture_take_queue(device, &queue);
    struct graphs_left left = { 0 };
    int mode = tidei_capture_relax();

    for (size_t i = 0; i < count; i++)
        graphs_free(device, &queue[i]);
    tidei_capture_restore(mode);
    free(queue);
    while ((left.pool = tidei_capture_take_released(device)) != NULL)
        graphs_empty(&left);
    for (size_t i = 0; i < left.count; i++)
        graphs_warn(tidei_bridge_give_waiting(left.freed[i], tidei_capture_stream(device), i == 0));
    free(left.freed);
}

void
tide_torch_begin(int ordinal, struct tide_torch_pool id, void *filter)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device;
    enum tide_status status = tidei_bridge_device_get(ordinal, &device);

    (void)filter;
    atomic_store_explicit(&tidei_bridge_settle, graphs_settle, memory_order_release);
    if (status == TIDE_OK)
        status = tidei_capture_begin(device, id);
    if (status != TIDE_OK) {
        tidei_message(TIDE_ERROR, "a graph is captured without its pool: %s", tide_error_text());
        return;
    }
    /* Calls that are under way do not know of the capture, and could spoil it. */
    if (!tidei_presence_here(&tidei_bridge_presence))
        tidei_presence_wait(&tidei_bridge_presence);
    tidei_capture_synchronize(device);
}

void
tide_torch_end(int ordinal, struct tide_torch_pool id)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device = tidei_bridge_device_known(ordinal);

    if (device == NULL)
        return;
    tidei_capture_end(device, id);
    /* A free that is under way may have seen the capture, and queues its block. */
    if (!tidei_presence_here(&tidei_bridge_presence))
        tidei_presence_wait(&tidei_bridge_presence);
    graphs_settle(device);
}

void
tide_torch_release(int ordinal, struct tide_torch_pool id)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device = tidei_bridge_device_known(ordinal);

    if (device != NULL && tidei_capture_release(device, id))
        graphs_settle(device);
}
