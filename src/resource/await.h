/*
 * Work that a base shall know the end of before it is trimmed: the driver keeps what its streams still use, and gives
 * back only what the host has waited for. That the work is done does not suffice.
 *
 * A layer leaves the wish for the base below it, and trims its upstream on the same thread. A base whose memory follows
 * streams takes the wish with its next trim. It marks what was submitted to the streams so far. Where that is done, it
 * has the host wait for it, which takes no time then. Else it looks again and again, up to a bound: the work may depend
 * on the thread that waits here. What is not done by then is late, and looked at with the next wish, which waits for it
 * where no wish with a bound has yet. Other bases, and the layers between, know nothing of it. The layer takes back a
 * wish that nobody took.
 */
#ifndef TIDEI_RESOURCE_AWAIT_H
#define TIDEI_RESOURCE_AWAIT_H

#include <tidemark/resource.h>

#include "src/sync/thread.h"

struct tidei_await {
    const tide_stream *streams; /* borrowed: on which memory was freed that the base shall give back; they exist */
    size_t count;
    uint64_t most_ns; /* the base waits for so long at most; 0: it looks once */
    bool waited;      /* set by a base: it was not done at the first look */
    bool vain;        /* set by a base: nor at the last one */
    bool late;        /* set by a base: that is so of these streams, or of those of an earlier wish */
};

/* Leave a wish for this thread's next trim of a base; NULL: no wish. */
static inline void
tidei_await_wish(struct tidei_await *await)
{
    struct tidei_thread *thread = await != NULL ? tidei_thread_get() : tidei_thread;

    if (thread != NULL && thread->number != 0)
        thread->await = await;
}

/* The wish of this thread, which is then gone; NULL: none. */
static inline struct tidei_await *
tidei_await_take(void)
{
    struct tidei_await *await = tidei_thread->await;

    if (await != NULL)
        tidei_thread->await = NULL;
    return await;
}

#endif
