/* Tags: the names that threads give to their allocations. */
#ifndef TIDEI_CONTEXT_TAG_H
#define TIDEI_CONTEXT_TAG_H

#include <stdatomic.h>
#include <stdint.h>

#include "src/context/listener.h"
#include "src/sync/thread.h"

/* Call `listener` for every tag so far; between tidei_tags_lock and tidei_tags_unlock. */
void tidei_tags_notify_locked(const struct tidei_context_listener *listener, void *context);

/* Changes with the ambient tag; 0: there was none yet. */
extern _Atomic uint32_t tidei_tag_ambient_changes;

/* Have this thread follow the ambient tag: it carries it where it has no tag of its own. */
void tidei_tag_notice(void);

/* The tag of what this thread allocates now; 0: none. */
static inline uint32_t
tidei_tag_now(void)
{
    /* Relaxed: tidei_tag_notice reads it again. */
    if (__builtin_expect(
            tidei_thread->ambient != atomic_load_explicit(&tidei_tag_ambient_changes, memory_order_relaxed), 0))
        tidei_tag_notice();
    return tidei_thread->tag;
}

/* The parent of `tag`; 0 if it has none. */
uint32_t tidei_tag_parent(uint32_t tag);

/* The names from the outermost tag down, as in "train/forward"; "" for 0. Caller frees it. NULL without host memory. */
char *tidei_tag_path(uint32_t tag);

/* Held around fork(), and while a forked process begins its own trace. */
void tidei_tags_handle_forks(void); /* from now on fork() takes the lock */
void tidei_tags_lock(void);
void tidei_tags_unlock(void);

#endif
