/*
 * Says which threads are within a call of some kind, so that one can wait until all calls that are under way have
 * ended: after that no thread uses what was exchanged before. (Read-copy-update calls this a grace period.)
 *
 * A thread writes only its own slot (src/sync/slots.h). It may stay inside for as long as the stack takes, unlike
 * between tidei_slot_enter and tidei_slot_leave.
 */
#ifndef TIDEI_SYNC_PRESENCE_H
#define TIDEI_SYNC_PRESENCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "src/sync/slots.h"

struct tidei_presence_slot {
    struct tidei_slot slot;
    _Atomic uint64_t calls;       /* odd while the thread is inside; written by it */
    uint64_t depth;               /* of calls within calls */
    _Atomic(const void *) within; /* what the call uses of several things; NULL: any of them; written by the thread */
};

struct tidei_presence {
    struct tidei_slots slots;
    _Atomic uint64_t others; /* threads inside that could not enter their slots */
};

/* Begin without a thread inside. It is never torn down. */
void tidei_presence_init(struct tidei_presence *presence);

/* Begin a call; pass the result to leave. What another thread exchanged before its wait began is seen after it. */
static inline struct tidei_presence_slot *
tidei_presence_enter(struct tidei_presence *presence)
{
    struct tidei_presence_slot *mine = (struct tidei_presence_slot *)tidei_slot_enter(&presence->slots);

    if (__builtin_expect(mine != NULL, 1)) {
        if (mine->depth++ == 0) /* relaxed: leaving the slot, with release, shows it to the waiting thread */
            atomic_store_explicit(&mine->calls, atomic_load_explicit(&mine->calls, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
        tidei_slot_leave(&mine->slot);
        return mine;
    }
    /* Sequentially consistent, as the exchanges are: either the waiting thread sees this, or this thread those. */
    atomic_fetch_add_explicit(&presence->others, 1, memory_order_seq_cst);
    return NULL;
}

static inline void
tidei_presence_leave(struct tidei_presence *presence, struct tidei_presence_slot *mine)
{
    /* Release, both: pairs with the acquire in tidei_presence_wait, which then sees what the call has done. */
    if (__builtin_expect(mine == NULL, 0)) {
        atomic_fetch_sub_explicit(&presence->others, 1, memory_order_release);
    } else if (--mine->depth == 0) {
        atomic_store_explicit(&mine->within, NULL, memory_order_relaxed);
        atomic_store_explicit(&mine->calls, atomic_load_explicit(&mine->calls, memory_order_relaxed) + 1,
                              memory_order_release);
    }
}

/*
 * Say which of several things the call uses from here on, so that who waits for another one does not wait for it; NULL:
 * any, as from its begin. A thread says NULL before it looks for another thing, in what the waiting thread changes
 * under a lock. `mine` may be NULL. Calls within calls may use any.
 */
static inline void
tidei_presence_within(struct tidei_presence_slot *mine, const void *what)
{
    /* Release: what was done with the thing before has been done. */
    if (mine != NULL)
        atomic_store_explicit(&mine->within, mine->depth == 1 ? what : NULL, memory_order_release);
}

/* Whether this thread is within a call. */
bool tidei_presence_here(struct tidei_presence *presence);

/* Return when all calls of other threads that were under way have ended. This thread is in none, and holds no lock. */
void tidei_presence_wait(struct tidei_presence *presence);

/* The same for those calls that may use `what`. */
void tidei_presence_wait_within(struct tidei_presence *presence, const void *what);

#endif
