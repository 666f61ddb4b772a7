/* Allocations and frees of the bridge, for all that ask. */
#ifndef TIDEI_BRIDGE_ALLOCATE_H
#define TIDEI_BRIDGE_ALLOCATE_H

#include "src/bridge/device.h"

/* tide_bridge_allocate for an asker. */
enum tide_status tidei_bridge_allocate(enum tidei_bridge_asker asker, int device, size_t bytes, tide_stream stream,
                                       void **out);

/*
 * Give a block back that the program has freed, and that waited for captures. `all`: behind the work of all streams of
 * the device. Errors: as tide_bridge_deallocate.
 */
enum tide_status tidei_bridge_give_waiting(void *pointer, tide_stream stream, bool all);

/* Gives back what has waited for the end of captures, where none is left; set before the first capture begins. */
extern _Atomic(void (*)(struct tidei_bridge_device *device)) tidei_bridge_settle;

#endif
