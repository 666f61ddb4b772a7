/*
 * Survives faults in mapped files: SIGBUS, where a file was cut off, or the disk has no room for a page.
 *
 * A handler for SIGBUS puts private memory under the page of a fault, if that lies in a range that was added here, and
 * the instruction runs again. All other faults go to the action that was there before, as if this one did not exist:
 * the program's own handler gets them with its signal mask, and without one the program dies of the same signal at the
 * same place. A thread that accesses such memory costs nothing until it faults.
 *
 * A program may install a handler of its own later, which then comes first: tidei_fault_look puts this one before it
 * again. What is not covered: a thread that blocks SIGBUS (the kernel ends the process), and the time until the next
 * look.
 *
 * The handler takes no lock that a thread outside of it may hold, and allocates nothing from the heap.
 */
#ifndef TIDEI_SYNC_FAULT_H
#define TIDEI_SYNC_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/sync/file-id.h"

enum tidei_fault_state {
    TIDEI_FAULT_NONE = 0,
    TIDEI_FAULT_KEPT = 1, /* pages became private memory with what was in them: the file does not follow any more */
    TIDEI_FAULT_LOST = 2, /* pages became private memory full of zeros */
};

/* What owns ranges, such as a mapped file: embedded there. */
struct tidei_fault_owner {
    _Atomic int state; /* enum tidei_fault_state; only grows */
    const int *file;   /* borrowed: the open file behind the ranges, from which a page is taken over; NULL: none */
    const struct tidei_file_id *id; /* borrowed: which one that has to be */
    bool whole;                     /* a fault replaces all ranges of the owner, by zeros */
    /* Called in the handler, once the state has changed; async-signal-safe. NULL: nothing. */
    void (*found)(struct tidei_fault_owner *owner);
};

/*
 * Add a range that is mapped from `offset` of the owner's file on. The first one installs the handler. Lock-free.
 * False: no host memory.
 */
bool tidei_fault_add(struct tidei_fault_owner *owner, const void *begin, size_t bytes, uint64_t offset);

/* Remove the owner's range that begins there, before it is unmapped; or all of them if `begin` is NULL. Lock-free. */
void tidei_fault_remove(struct tidei_fault_owner *owner, const void *begin);

/* Whether the owner has a range that begins there. Lock-free. */
bool tidei_fault_has(const struct tidei_fault_owner *owner, const void *begin);

/*
 * Install the handler again if the program has installed another one, which is called by this one from then on. Does
 * nothing before the first range was added. One system call.
 */
void tidei_fault_look(void);

/* Tell the owner of what was found without a fault: as the handler does. */
void tidei_fault_tell(struct tidei_fault_owner *owner, enum tidei_fault_state state);

static inline enum tidei_fault_state
tidei_fault_state(const struct tidei_fault_owner *owner)
{
    /* Acquire: pairs with the release in the handler. */
    return (enum tidei_fault_state)atomic_load_explicit(&owner->state, memory_order_acquire);
}

#endif
