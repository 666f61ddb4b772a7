/* What the bridge knows of each device: its figures, its limit, and the stacks that blocks come from now. */
#ifndef TIDEI_BRIDGE_DEVICE_H
#define TIDEI_BRIDGE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/bridge.h>

#include "src/account/ledger.h"
#include "src/sync/presence.h"

struct tidei_bridge_stack;
struct tidei_bridge_level;
struct tidei_bridge_pool;

/* Who asks: where no use and no variable chooses a stack, segments come from another one than the rest. */
enum tidei_bridge_asker { TIDEI_BRIDGE_BLOCKS, TIDEI_BRIDGE_SEGMENTS, TIDEI_BRIDGE_ASKERS };

struct tidei_bridge_device {
    /* Read by each call, written where uses begin and end. NULL: look it up. Borrowed; see src/sync/presence.h. */
    _Atomic(struct tidei_bridge_stack *) current[TIDEI_BRIDGE_ASKERS];
    _Atomic bool limited;          /* a limit holds */
    _Atomic uint32_t captures;     /* that have begun and not ended, or whose frees wait; capture.c */
    _Atomic uint64_t limit_bytes;  /* while `limited` */
    _Atomic uint64_t limited_used; /* bytes of the blocks with TIDEI_BRIDGE_LIMITED */
    _Atomic uint64_t failures;
    int ordinal; /* constant */

    struct tidei_ledger ledger; /* of all blocks that are outstanding; its mark is the peak since the last boundary */

    /* figures.c: what was seen until that boundary. Changes only between the ledger's begin and end. */
    uint64_t peak_bytes;              /* since the reset */
    struct tidei_bridge_level *level; /* owned; the latest push */
};

/* The threads that are within a call of the bridge; one may come from a layer of the program's within another. */
extern struct tidei_presence tidei_bridge_presence;

/* The device, whose state is made at its first use. Errors: TIDE_EINVAL (no such number), TIDE_ENOMEM. */
enum tide_status tidei_bridge_device_get(int ordinal, struct tidei_bridge_device **out);

extern _Atomic(struct tidei_bridge_device *) tidei_bridge_devices[TIDE_BRIDGE_DEVICES];

/* The device; NULL where it has not been used or does not exist. */
static inline struct tidei_bridge_device *
tidei_bridge_device_known(int ordinal)
{
    if (__builtin_expect((unsigned)ordinal >= TIDE_BRIDGE_DEVICES, 0))
        return NULL;
    /* Acquire: pairs with the release in tidei_bridge_device_get. */
    return atomic_load_explicit(&tidei_bridge_devices[ordinal], memory_order_acquire);
}

/*
 * Count a request against the limit, before the stack is asked; TIDE_ELIMIT where it would pass it. *counted says
 * whether it was counted: then tidei_bridge_limit_return takes it off again.
 */
enum tide_status tidei_bridge_limit_take(struct tidei_bridge_device *device, size_t bytes, bool *counted);
void tidei_bridge_limit_return(struct tidei_bridge_device *device, size_t bytes);

#endif
