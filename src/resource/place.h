/*
 * Where a layer wishes its next chunk to lie: behind the chunk that it has, or in the gap between two, so that they can
 * be used as one.
 *
 * The layer leaves the wish for the base below it, and asks its upstream for the chunk on the same thread. A base that
 * can choose addresses takes the wish with its next allocation; all others, and the layers between, know nothing of it.
 * It is a wish: the layer looks at the address that it got, and takes back a wish that nobody took.
 */
#ifndef TIDEI_RESOURCE_PLACE_H
#define TIDEI_RESOURCE_PLACE_H

#include <stdint.h>

#include "src/sync/thread.h"

/* Wish that this thread's next allocation of a base begins at `address`; 0: no wish. Nothing without host memory. */
static inline void
tidei_place_wish(uintptr_t address)
{
    struct tidei_thread *thread = address != 0 ? tidei_thread_get() : tidei_thread;

    if (thread != NULL && thread->number != 0)
        thread->place = address;
}

/* The wish of this thread, which is then gone; 0: none. */
static inline uintptr_t
tidei_place_take(void)
{
    uintptr_t address = tidei_thread->place;

    if (address != 0)
        tidei_thread->place = 0;
    return address;
}

#endif
