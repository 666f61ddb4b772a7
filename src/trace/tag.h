/* The names that threads give to what they allocate. */
#ifndef TIDEI_TRACE_TAG_H
#define TIDEI_TRACE_TAG_H

#include "trace/recorder.h"

/* Tell a new trace what tags there are so far. */
void tidei_tags_define(struct tidei_recorder *recorder);
void tidei_tags_define_locked(struct tidei_recorder *recorder); /* between tidei_tags_lock and tidei_tags_unlock */

/* Around fork(), and while a forked process begins a trace of its own. */
void tidei_tags_lock(void);
void tidei_tags_unlock(void);

#endif
