/*
 * Work that a base shall have waited for when it is trimmed: a device keeps what its streams still use, and the driver
 * gives back only what the host has waited for.
 *
 * The layer leaves the wish for the base below it, and trims its upstream on the same thread. A base whose memory
 * follows streams takes the wish with its next trim, and waits; all others, and the layers between, know nothing of it.
 * The layer takes back a wish that nobody took.
 */
#ifndef TIDEI_RESOURCE_AWAIT_H
#define TIDEI_RESOURCE_AWAIT_H

#include <tidemark/resource.h>

#include "src/sync/thread.h"

/* Wish that this thread's next trim of a base waits for the work of *stream first; NULL: no wish. */
static inline void
tidei_await_wish(const tide_stream *stream)
{
    struct tidei_thread *thread = stream != NULL ? tidei_thread_get() : tidei_thread;

    if (thread != NULL && thread->number != 0)
        thread->awaited = stream;
}

/* The wish of this thread, which is then gone; NULL: none. */
static inline const tide_stream *
tidei_await_take(void)
{
    const tide_stream *stream = tidei_thread->awaited;

    if (stream != NULL)
        tidei_thread->awaited = NULL;
    return stream;
}

#endif
