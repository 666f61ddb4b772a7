/* The names that threads give to what they allocate. */
#ifndef TIDEI_TRACE_TAG_H
#define TIDEI_TRACE_TAG_H

#include "trace/recorder.h"

/* Tell a new trace what tags there are so far. */
void tidei_tags_define(struct tidei_recorder *recorder);

/* Around fork(). */
void tidei_tags_lock(void);
void tidei_tags_unlock(void);

#endif
