/* Keeps the listener, which is called for new tags, modules and call stacks. */
#include "config.h"

#include <stdatomic.h>
#include <stddef.h>

#include "src/context/listener.h"

static _Atomic(const struct tidei_context_listener *) listener_installed;

void
tidei_context_listen(const struct tidei_context_listener *listener)
{
    /*
     * Relaxed, as is the load: the listener is constant. A thread that misses it adds its tag or call stack under a
     * lock, and a trace that begins asks for all of them under the same lock.
     */
    atomic_store_explicit(&listener_installed, listener, memory_order_relaxed);
}

const struct tidei_context_listener *
tidei_context_listener(void)
{
    return atomic_load_explicit(&listener_installed, memory_order_relaxed);
}
