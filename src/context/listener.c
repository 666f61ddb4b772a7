/* Keeps who hears of tags, modules and call stacks. */
#include "config.h"

#include <stdatomic.h>
#include <stddef.h>

#include "src/context/listener.h"

static _Atomic(const struct tidei_context_listener *) listener_installed;

void
tidei_context_listen(const struct tidei_context_listener *listener)
{
    /* Relaxed, as is the load: it is constant. Who misses it adds to what its owner asks for under the same locks. */
    atomic_store_explicit(&listener_installed, listener, memory_order_relaxed);
}

const struct tidei_context_listener *
tidei_context_listener(void)
{
    return atomic_load_explicit(&listener_installed, memory_order_relaxed);
}
