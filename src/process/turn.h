/*
 * Lets one thread at a time do what takes several calls of layers or of the driver. It holds no lock meanwhile: the
 * layers' locks are newer, and fork() takes the newer ones first.
 */
#ifndef TIDEI_PROCESS_TURN_H
#define TIDEI_PROCESS_TURN_H

#include <stdbool.h>

#include "src/sync/lock.h"

struct tidei_turn {
    struct tidei_lock lock; /* guards the next one; nothing is called while it is held */
    bool taken;
};

static inline void
tidei_turn_enter(struct tidei_turn *turn)
{
    unsigned looks = 0;

    tidei_lock_acquire(&turn->lock);
    while (turn->taken) {
        tidei_lock_release(&turn->lock);
        tidei_lock_pause(&looks);
        tidei_lock_acquire(&turn->lock);
    }
    turn->taken = true;
    tidei_lock_release(&turn->lock);
}

static inline void
tidei_turn_leave(struct tidei_turn *turn)
{
    tidei_lock_acquire(&turn->lock);
    turn->taken = false;
    tidei_lock_release(&turn->lock);
}

#endif
