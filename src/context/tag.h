/* The names that threads give to what they allocate. */
#ifndef TIDEI_CONTEXT_TAG_H
#define TIDEI_CONTEXT_TAG_H

#include <stdint.h>

#include "src/context/listener.h"

/* Tell `listener` of every tag so far; between tidei_tags_lock and tidei_tags_unlock. */
void tidei_tags_tell_locked(const struct tidei_context_listener *listener, void *context);

/* The tag around `tag`; 0 where it is in none. */
uint32_t tidei_tag_parent(uint32_t tag);

/* The names from the outermost down, with '/' between: "train/forward"; "" for 0. To be freed; NULL: no host memory. */
char *tidei_tag_path(uint32_t tag);

/* Around fork(), and while a forked process begins a trace of its own. */
void tidei_tags_handle_forks(void); /* from now on fork() waits for the lock */
void tidei_tags_lock(void);
void tidei_tags_unlock(void);

#endif
