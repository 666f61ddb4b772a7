/*
 * The lock of those that change or follow which layers lie below which, and who is told of a change. Most stacks never
 * change once they are made; `binning` can get another bin later. A trace that is recorded over such a layer follows.
 */
#ifndef TIDEI_RESOURCE_UPSTREAMS_H
#define TIDEI_RESOURCE_UPSTREAMS_H

#include <tidemark/resource.h>

/*
 * Held while a layer gets an upstream, and while a trace begins or ends over a stack. No allocation takes it. Its
 * holder is not cancelled. A fork() does not wait for it: the child has the lock free, and what its holder did may be
 * half done there. Blocks.
 */
void tidei_upstreams_lock(void);
void tidei_upstreams_unlock(void);

/* The functions are called with the lock. The layer has the upstream only when the second one is called. */
struct tidei_upstreams_listener {
    void (*begins)(struct tide_resource *layer, const struct tide_upstream *added);
    void (*ended)(struct tide_resource *layer);
};

/* Tell `listener` of all changes from now on. A process has one listener, which never changes. Called with the lock. */
void tidei_upstreams_listen(const struct tidei_upstreams_listener *listener);

/* A layer is about to get an upstream, or has it now. Called with the lock. Both keep the thread's error. */
void tidei_upstreams_begin(struct tide_resource *layer, const struct tide_upstream *added);
void tidei_upstreams_end(struct tide_resource *layer);

#endif
