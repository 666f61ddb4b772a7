/* Waits for the threads that are within calls. */
#include "config.h"

#include <stdlib.h>

#include "src/sync/presence.h"
#include "src/sync/lock.h"
#include "src/sync/testpoint.h"

/* A thread has ended, or does not exist in a child of fork(): it is inside no more. */
static void
presence_thread_left(struct tidei_slots *slots, struct tidei_slot *slot)
{
    struct tidei_presence_slot *left = (struct tidei_presence_slot *)slot;
    uint64_t calls = atomic_load_explicit(&left->calls, memory_order_relaxed);

    (void)slots;
    left->depth = 0;
    /* A thread that has ended within a call leaves nothing that the next one with this slot would be said to use. */
    atomic_store_explicit(&left->within, NULL, memory_order_relaxed);
    atomic_store_explicit(&left->calls, (calls + 1) & ~UINT64_C(1), memory_order_release);
}

void
tidei_presence_init(struct tidei_presence *presence)
{
    tidei_slots_init(&presence->slots, sizeof(struct tidei_presence_slot), presence_thread_left);
}

bool
tidei_presence_here(struct tidei_presence *presence)
{
    const struct tidei_presence_slot *mine = (const struct tidei_presence_slot *)tidei_slot_find(&presence->slots);

    return mine != NULL && mine->depth != 0;
}

/* Whether the call may use the thing; `what` NULL: it does. */
static bool
presence_may_use(const struct tidei_presence_slot *slot, const void *what)
{
    const void *within = atomic_load_explicit(&slot->within, memory_order_acquire);

    return what == NULL || within == NULL || within == what;
}

/* A slot that was odd has been left when its number is another: the thread may be inside again, in a later call. */
static void
presence_wait_for(const struct tidei_presence_slot *slot, uint64_t calls, const void *what)
{
    unsigned looks = 0;

    while (calls % 2 != 0 && atomic_load_explicit(&slot->calls, memory_order_acquire) == calls &&
           presence_may_use(slot, what)) {
        TIDEI_TEST_POINT("presence.waits");
        tidei_lock_pause(&looks);
    }
}

void
tidei_presence_wait(struct tidei_presence *presence)
{
    tidei_presence_wait_within(presence, NULL);
}

void
tidei_presence_wait_within(struct tidei_presence *presence, const void *what)
{
    struct tidei_presence_slot *first;
    unsigned looks = 0;

    /*
     * After that, what a thread does in a call begun later follows what this one has exchanged before. Slots are never
     * freed, and new ones come before the first.
     */
    tidei_slots_quiesce(&presence->slots);
    first = (struct tidei_presence_slot *)presence->slots.first;
    tidei_slots_resume(&presence->slots);
    while (first != NULL) {
        presence_wait_for(first, atomic_load_explicit(&first->calls, memory_order_acquire), what);
        first = (struct tidei_presence_slot *)first->slot.next;
    }
    while (atomic_load_explicit(&presence->others, memory_order_seq_cst) != 0)
        tidei_lock_pause(&looks);
}
