/*
 * The stacks behind the bridge. A use has a text and, for each device that was used meanwhile, a stack. Uses nest;
 * below all of them lie the defaults, which never end.
 *
 * When a use ends, blocks may be outstanding. They keep no references to their stack, which would cost each allocation
 * a shared counter. Instead the end of the use waits until no thread is within a call that could still allocate from
 * it, and counts its blocks then; the last of them that goes back releases the stack.
 */
#ifndef TIDEI_BRIDGE_USES_H
#define TIDEI_BRIDGE_USES_H

#include "src/bridge/device.h"
#include "src/resource/resource.h"

struct tidei_bridge_stack {
    struct tide_resource *top;                /* holds a reference */
    struct tidei_bridge_device *device;       /* borrowed; devices stay for ever */
    struct tidei_bridge_use *use;             /* only compared: it may be gone */
    bool on_device;                           /* its memory is a CUDA device's */
    _Atomic bool forked;                      /* it is the parent's, and on a device: nothing may be asked of it */
    _Atomic uint64_t left;                    /* blocks that the end of its use has left, and 1 until that has ended */
    struct tidei_bridge_stack *older, *newer; /* of all that exist; guarded by the lock of uses.c */
};

/* The slow path of an allocation: make device->current[asker] what it has to be, if that can be made. */
enum tide_status tidei_bridge_stack_make(struct tidei_bridge_device *device, enum tidei_bridge_asker asker);

/* A block that TIDEI_BRIDGE_LEFT marks has gone back to the stack. */
void tidei_bridge_stack_left(struct tidei_bridge_stack *stack);

/*
 * Call `function` for each stack of the device that exists, with a reference held and no lock. Stops at the first that
 * fails, and returns its status. Without host memory it is TIDE_ENOMEM.
 */
enum tide_status tidei_bridge_stacks_each(const struct tidei_bridge_device *device,
                                          enum tide_status (*function)(struct tide_resource *top, void *context),
                                          void *context);

#endif
