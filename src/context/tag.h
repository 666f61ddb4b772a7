/* Tags: the names that threads give to their allocations. */
#ifndef TIDEI_CONTEXT_TAG_H
#define TIDEI_CONTEXT_TAG_H

#include <stdint.h>

#include "src/context/listener.h"

/* Call `listener` for every tag so far; between tidei_tags_lock and tidei_tags_unlock. */
void tidei_tags_notify_locked(const struct tidei_context_listener *listener, void *context);

/* The parent of `tag`; 0 if it has none. */
uint32_t tidei_tag_parent(uint32_t tag);

/* The names from the outermost tag down, as in "train/forward"; "" for 0. Caller frees it. NULL without host memory. */
char *tidei_tag_path(uint32_t tag);

/* Held around fork(), and while a forked process begins its own trace. */
void tidei_tags_handle_forks(void); /* from now on fork() takes the lock */
void tidei_tags_lock(void);
void tidei_tags_unlock(void);

#endif
