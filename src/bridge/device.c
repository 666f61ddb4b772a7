/* Makes the state of each device, and limits it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/bridge/device.h"
#include "src/resource/resource.h"

_Atomic(struct tidei_bridge_device *) tidei_bridge_devices[TIDE_BRIDGE_DEVICES];

static struct tidei_bridge_device *
device_new(int ordinal)
{
    struct tidei_bridge_device *device = aligned_alloc(_Alignof(struct tidei_bridge_device), sizeof(*device));

    if (device == NULL)
        return NULL;
    memset(device, 0, sizeof(*device));
    device->ordinal = ordinal;
    tidei_ledger_init(&device->ledger, true, (struct tidei_amount){ 0, 0 }, UINT64_MAX);
    return device;
}

enum tide_status
tidei_bridge_device_get(int ordinal, struct tidei_bridge_device **out)
{
    struct tidei_bridge_device *made;

    *out = tidei_bridge_device_known(ordinal);
    if (*out != NULL)
        return TIDE_OK;
    if (ordinal < 0 || ordinal >= TIDE_BRIDGE_DEVICES)
        return tide_error_set(TIDE_EINVAL, "bridge: device %d, expected a CUDA ordinal from 0 to %d", ordinal,
                              TIDE_BRIDGE_DEVICES - 1);
    made = device_new(ordinal);
    /* Release: pairs with the acquire in tidei_bridge_device_known, and with that of a thread that comes second. */
    if (made != NULL && atomic_compare_exchange_strong_explicit(&tidei_bridge_devices[ordinal], out, made,
                                                                memory_order_acq_rel, memory_order_acquire)) {
        *out = made;
    } else if (made != NULL) {
        tidei_ledger_fini(&made->ledger);
        free(made);
    }
    return *out != NULL ? TIDE_OK : tide_error_set(TIDE_ENOMEM, "bridge: no host memory for device %d", ordinal);
}

enum tide_status
tidei_bridge_limit_take(struct tidei_bridge_device *device, size_t bytes, bool *counted)
{
    uint64_t most = atomic_load_explicit(&device->limit_bytes, memory_order_relaxed), before;

    *counted = tidei_bounded_add(&device->limited_used, bytes, most, &before);
    if (*counted)
        return TIDE_OK;
    return tide_error_set(TIDE_ELIMIT, "bridge: %s request exceeds the memory fraction of device %d, %s (%s in use)",
                          tidei_size_text(bytes), device->ordinal, tidei_size_text(most), tidei_size_text(before));
}

void
tidei_bridge_limit_return(struct tidei_bridge_device *device, size_t bytes)
{
    /* Relaxed: as in tidei_bounded_add. */
    atomic_fetch_sub_explicit(&device->limited_used, bytes, memory_order_relaxed);
}
