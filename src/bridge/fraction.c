/* Limits what a device gives out to a share of its memory. */
#include "config.h"

#include <tidemark/driver.h>

#include "src/bridge/blocks.h"
#include "src/bridge/uses.h"
#include "src/sync/inside.h"

/* Have the limit count a block that was outstanding before it held. */
static void
fraction_count(uintptr_t address, struct tidei_bridge_entry *entry, void *context)
{
    struct tidei_bridge_device *device = context;

    (void)address;
    if (entry->stack->device != device || (entry->flags & TIDEI_BRIDGE_LIMITED) != 0)
        return;
    entry->flags |= TIDEI_BRIDGE_LIMITED;
    atomic_fetch_add_explicit(&device->limited_used, entry->bytes, memory_order_relaxed);
}

/* The memory of the device, or what the stack can give out. */
static enum tide_status
fraction_whole(int ordinal, uint64_t *bytes)
{
    struct tide_resource *top;
    enum tide_status status = tide_bridge_stack(ordinal, &top);

    if (status != TIDE_OK)
        return status;
    if (tide_query(top, TIDE_QUERY_DEVICE_TOTAL, bytes) != TIDE_OK &&
        tide_query(top, TIDE_QUERY_CAPACITY, bytes) != TIDE_OK)
        status =
            tide_error_set(TIDE_EUNSUPPORTED,
                           "bridge: no memory fraction of device %d: no layer of its stack knows its memory", ordinal);
    tide_resource_release(top);
    return status;
}

enum tide_status
tide_bridge_fraction(int ordinal, double share)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device;
    enum tide_status status = tidei_bridge_device_get(ordinal, &device);
    uint64_t whole = 0;

    if (status != TIDE_OK)
        return status;
    if (!(share >= 0 && share <= 1))
        return tide_error_set(TIDE_EINVAL, "bridge: memory fraction %g, expected 0 to 1", share);
    if (share == 1) {
        atomic_store_explicit(&device->limited, false, memory_order_release);
        return TIDE_OK;
    }
    status = fraction_whole(ordinal, &whole);
    if (status != TIDE_OK)
        return status;
    atomic_store_explicit(&device->limit_bytes, (uint64_t)((double)whole * share), memory_order_relaxed);
    /* Release: pairs with the acquire of an allocation, which sees the limit. */
    atomic_store_explicit(&device->limited, true, memory_order_release);
    /* After that no block is on its way that has not been counted and is in no map yet. */
    if (!tidei_presence_here(&tidei_bridge_presence))
        tidei_presence_wait(&tidei_bridge_presence);
    tidei_bridge_blocks_each(false, fraction_count, device);
    return TIDE_OK;
}
