/* The names that threads give to what they allocate. */
#ifndef TIDEI_CONTEXT_TAG_H
#define TIDEI_CONTEXT_TAG_H

#include "src/trace/session/recorder.h"

/* Tell a new trace what tags there are so far. */
void tidei_tags_define(struct tidei_recorder *recorder);
void tidei_tags_define_locked(struct tidei_recorder *recorder); /* between tidei_tags_lock and tidei_tags_unlock */

/* The tag around `tag`; 0 where it is in none. */
uint32_t tidei_tag_parent(uint32_t tag);

/* The names from the outermost down, with '/' between: "train/forward"; "" for 0. To be freed; NULL: no host memory. */
char *tidei_tag_path(uint32_t tag);

/* Around fork(), and while a forked process begins a trace of its own. */
void tidei_tags_lock(void);
void tidei_tags_unlock(void);

#endif
