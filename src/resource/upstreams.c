/* Keeps the lock and the listener of upstreams.h. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "src/resource/resource.h"
#include "src/resource/upstreams.h"
#include "src/sync/fork.h"
#include "src/sync/lock.h"

/* Other than 0: held; 1 more than the tidei_fork_generation of the process whose thread has it. */
static _Atomic uint64_t upstreams_held;

/* Written with the lock: how its holder was cancelled before, and the listener. */
static int upstreams_cancel;
static const struct tidei_upstreams_listener *upstreams_listener;

void
tidei_upstreams_lock(void)
{
    uint64_t mine = (uint64_t)tidei_fork_generation() + 1;
    unsigned looks = 0;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    for (;;) {
        uint64_t other = 0;

        /* Acquire: pairs with the release in tidei_upstreams_unlock. */
        if (atomic_compare_exchange_strong_explicit(&upstreams_held, &other, mine, memory_order_acquire,
                                                    memory_order_relaxed))
            break;
        /* A thread of the parent had it, which does not exist here. */
        if (other != mine && atomic_compare_exchange_strong_explicit(&upstreams_held, &other, mine,
                                                                     memory_order_acquire, memory_order_relaxed))
            break;
        tidei_lock_pause(&looks);
    }
    upstreams_cancel = cancel;
}

void
tidei_upstreams_unlock(void)
{
    int cancel = upstreams_cancel;

    atomic_store_explicit(&upstreams_held, 0, memory_order_release);
    pthread_setcancelstate(cancel, NULL);
}

void
tidei_upstreams_listen(const struct tidei_upstreams_listener *listener)
{
    upstreams_listener = listener;
}

void
tidei_upstreams_begin(struct tide_resource *layer, const struct tide_upstream *added)
{
    struct tidei_error error;

    if (upstreams_listener == NULL)
        return;
    tidei_error_save(&error);
    upstreams_listener->begins(layer, added);
    tidei_error_restore(&error);
}

void
tidei_upstreams_end(struct tide_resource *layer)
{
    struct tidei_error error;

    if (upstreams_listener == NULL)
        return;
    tidei_error_save(&error);
    upstreams_listener->ended(layer);
    tidei_error_restore(&error);
}
